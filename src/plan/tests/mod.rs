//! Tests of whole plans.

mod errors;
mod fixtures;
mod properties;
mod shapes;
mod state_backed;
mod validity;
