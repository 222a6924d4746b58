//! What can go wrong before a harness is connected.

use std::time::Duration;

/// Why an announced harness is not there.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// For who runs the environment: the harness was started and never dialled back.
    #[error(
        "the SDK harness {worker} of environment {environment} did not connect within {}s; \
         look at its log, and check that it can reach the runner's control endpoint",
        .waited.as_secs()
    )]
    NotConnected {
        worker: String,
        environment: String,
        waited: Duration,
    },
    /// For who runs the environment: the harness connected and went away at once.
    #[error("the SDK harness {worker} of environment {environment} went away: {reason}")]
    Lost {
        worker: String,
        environment: String,
        reason: String,
    },
}
