//! The runner side of the Fn API, one file per service.
//!
//! One [`FnApi`] serves all harnesses of the process. A job announces a harness with [`FnApi::expect`], starts
//! it (see [`crate::environment`]), waits for [`Expected::connected`] and then gives bundles to the
//! [`Harness`]; what comes back arrives at its [`HarnessEvents`].

mod bundle;
mod connection;
mod control;
mod data;
mod detached;
mod error;
mod events;
mod framing;
mod harness;
mod instruction;
mod logging;
mod metrics;
mod outbox;
mod overdue;
mod provision;
mod registry;
mod section;
mod server;
mod shape;
mod state;
mod streams;
mod wire;
mod worker_status;

pub use detached::DetachedHarness;
pub use error::Error;
pub use events::{
    BundleResult, Credit, HarnessEvents, LogEntry, Progress, ReportedMetric, Severity,
};
pub use harness::{CacheToken, Harness, StartBundle, TimerInput};
pub use server::{Expected, FnApi, HarnessSpec, RUNNER_CAPABILITIES, Settings, server_builder};
