//! Keeps watch over running jobs: each ends in a terminal state, whatever its runner does, and in
//! time once it is cancelled.

use std::{sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::artifact::Repository;
use crate::job::messages::Importance;
use crate::job::record::JobRecord;
use crate::job::registry::Registry;
use crate::job::runner::Runner;
use crate::model::JobState;

/// Runs jobs by a [`Runner`].
#[derive(Clone)]
pub struct Supervisor {
    runner: Arc<dyn Runner>,
    registry: Arc<Registry>,
    repository: Repository,
    tasks: TaskTracker,
    stopping: CancellationToken,
}

impl Supervisor {
    /// How long a runner may take to stop a cancelled job before it is stopped for it.
    const CANCEL_GRACE: Duration = Duration::from_secs(4);

    /// A supervisor of the jobs in `registry`.
    pub fn new(runner: Arc<dyn Runner>, registry: Arc<Registry>, repository: Repository) -> Self {
        Self {
            runner,
            registry,
            repository,
            tasks: TaskTracker::new(),
            stopping: CancellationToken::new(),
        }
    }

    /// The runner of all jobs.
    pub(super) fn runner(&self) -> Arc<dyn Runner> {
        Arc::clone(&self.runner)
    }

    /// Whether no more jobs are taken.
    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.is_cancelled()
    }

    /// Runs a job, in state STOPPED, to its end.
    pub(super) fn start(&self, job: &Arc<JobRecord>) {
        job.set_state(JobState::Starting);
        let supervisor = self.clone();
        let job = Arc::clone(job);
        self.tasks
            .spawn(async move { supervisor.supervise(job).await });
    }

    /// Asks a job to stop; it is CANCELLED within [`Self::CANCEL_GRACE`].
    pub(super) fn cancel(job: &JobRecord) {
        job.set_state(JobState::Cancelling);
        job.request_cancel();
    }

    /// Cancels all jobs, takes no more, and returns when they have ended or `patience` is over.
    pub async fn shut_down(&self, patience: Duration) {
        self.stopping.cancel();
        for job in self.registry.jobs() {
            if !job.state().is_terminal() {
                job.message(
                    Importance::Error,
                    "cancelled because the server was told to stop",
                );
                Self::cancel(&job);
            }
        }
        self.tasks.close();
        if tokio::time::timeout(patience, self.tasks.wait())
            .await
            .is_err()
        {
            tracing::warn!("some jobs did not stop in time");
            for job in self.registry.jobs() {
                job.set_state(JobState::Cancelled);
            }
        }
    }

    async fn supervise(&self, job: Arc<JobRecord>) {
        let run = tokio::spawn(self.runner.run(Arc::clone(&job)));
        let abort = run.abort_handle();
        let mut cancelled = job.cancel_requested();
        let overdue = async {
            // The sender lives as long as the record does.
            let _ = cancelled.wait_for(|asked| *asked).await;
            tokio::time::sleep(Self::CANCEL_GRACE).await;
        };
        tokio::select! {
            ended = run => match ended {
                Ok(()) if job.state() == JobState::Cancelling => {
                    job.set_state(JobState::Cancelled);
                }
                Ok(()) => job.fail("the runner stopped before the job had ended: a fault of Tidemill"),
                Err(error) => job.fail(format!("the runner failed by a fault of Tidemill: {error}")),
            },
            () = overdue => {
                tracing::warn!(job = job.id(), "did not stop in time after it was cancelled");
                abort.abort();
                job.set_state(JobState::Cancelled);
            }
        }
        assert!(job.state().is_terminal(), "a supervised job ends");
        self.repository.forget(job.id());
        for forgotten in self.registry.finished(&job) {
            tracing::debug!(job = forgotten, "forgot a finished job");
        }
    }
}
