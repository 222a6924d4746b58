//! Tidemill runs Apache Beam pipelines.
//!
//! Modules in reading order, by layer; a module imports only from layers above it in this table
//! (`tests/architecture.rs` checks it):
//!
//! | layer | modules | what they are |
//! | --- | --- | --- |
//! | L0 | [`model`] [`proto`] [`telemetry`] | Beam's nouns, wire types, clock and logging |
//! | L1 | [`coder`] | bytes ↔ model |
//! | L2, pure | [`plan`] [`engine`] | pipeline → stages; the streaming engine |
//! | L3 | [`store`] [`fnapi`] [`environment`] [`artifact`] [`source`] [`pubsub_emulator`] | IO |
//! | L4 | [`job`] | runs one job |
//! | L5 | [`job_api`] | the Job API |
//! | L6 | [`config`] | settings gathered |
//! | L7 | [`cli`] | commands |

pub mod artifact;
pub mod cli;
pub mod coder;
pub mod config;
pub mod engine;
pub mod environment;
pub mod fnapi;
pub mod job;
pub mod job_api;
pub mod model;
pub mod plan;
pub mod proto;
pub mod pubsub_emulator;
pub mod source;
pub mod store;
pub mod telemetry;
