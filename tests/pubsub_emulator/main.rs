//! The Pub/Sub emulator over gRPC, by the client that the Rust ecosystem has for it.

mod access;
mod admin;
mod checks;
mod delivery;
mod exactly_once;
mod faults;
mod policies;
mod replay;
mod resources;
mod rig;
mod streams;
