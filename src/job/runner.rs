//! What the Job API asks of the component that runs jobs; `job::driver` implements it.

use std::{future::Future, pin::Pin, sync::Arc};

use crate::job::options::Settings;
use crate::job::record::JobRecord;
use crate::proto::pipeline::Pipeline;

/// A future that owns what it needs.
pub type BoxFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs jobs.
pub trait Runner: Send + Sync + 'static {
    /// Says at Prepare whether the pipeline can be run; must not change anything.
    fn check(&self, pipeline: &Pipeline, settings: &Settings) -> Result<(), PrepareError>;

    /// Runs a job, in state STARTING, to its end.
    ///
    /// The client's Run call returns once the job is in RUNNING or has ended, so what must exist
    /// when Run returns (a topic's subscription) is made before. The future ends in a terminal
    /// state; one that does not, or that panics, makes the job FAILED. It listens to
    /// `job.cancel_requested()` and has stopped harnesses and sources when it ends; a job that is
    /// still there some seconds after a cancel is dropped, so what must be stopped is stopped by
    /// `Drop` too.
    fn run(&self, job: Arc<JobRecord>) -> BoxFuture;
}

/// Why a pipeline is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrepareError {
    /// The pipeline contradicts itself or Beam's rules.
    #[error("{0}")]
    Invalid(String),
    /// The pipeline needs something that Tidemill does not do (yet).
    #[error("{0}")]
    Unsupported(String),
    /// The operator of the server does not allow it.
    #[error("{0}")]
    Forbidden(String),
}
