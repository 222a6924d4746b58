//! The commands of the binary.

pub mod demo;
pub mod explain;
pub mod jobs;
pub mod pubsub_emulator;
mod run;
pub mod serve;
pub mod server;
mod server_id;

pub use run::run;
