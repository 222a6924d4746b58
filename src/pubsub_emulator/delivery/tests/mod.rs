//! Tables of the delivery: a script of what happens, and what the backlog says to it.

mod basics;
mod misbehaviour;
mod ordering;
mod properties;
mod replay;
mod retries;
mod script;
