//! The emulator as a server: gRPC, HTTP, clock and timers around the broker.

mod admin;
mod call;
mod clock;
mod iam;
mod publisher;
mod pull;
mod run;
mod shared;
mod status;
mod streaming_pull;
mod subscriber;
mod target;
mod wire;

pub use run::{Emulator, Error, start};
