//! A google.pubsub.v1 server in memory: for development without a cloud, and as the double that
//! Tidemill's own tests run against.
//!
//! [`start`] runs one inside this process; `tidemill pubsub-emulator` runs one alone. What it does
//! and how it is told to misbehave stands in `docs/operating/pubsub-emulator.md`.
//!
//! From the inside out: [`delivery`] is one subscription's messages, [`broker`] all topics,
//! subscriptions and snapshots with the rules of the API, both pure; `server` is gRPC, HTTP and the
//! clock around them. It shares nothing with Tidemill's own Pub/Sub client, so that a wrong idea of
//! ours does not pass on both sides.

pub mod broker;
pub mod delivery;
mod rules;
mod server;
mod settings;

pub use rules::RpcRule;
pub use server::{Emulator, Error, start};
pub use settings::{Faults, Settings};
