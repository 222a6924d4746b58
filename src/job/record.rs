//! One job as the outside sees it: its identity, its history, its metrics, and its wishes.
//!
//! The runner writes here, from any thread; the Job API reads and follows.

use std::sync::Arc;

use parking_lot::Mutex;
use prost_types::Struct;
use tokio::sync::watch;

use crate::job::messages::{History, Importance, JobEvent, Message, MessageLimits, Position};
use crate::job::metrics::Metrics;
use crate::job::options::Settings;
use crate::model::JobState;
use crate::proto::pipeline::Pipeline;
use crate::telemetry::clock;

/// What a client submitted, and the names that it got.
#[derive(Debug)]
pub struct Submission {
    /// The id by which clients know the job once it runs.
    pub id: String,
    /// The id by which the client knew it between Prepare and Run.
    pub preparation_id: String,
    /// A readable name; several jobs may have the same.
    pub name: String,
    /// The pipeline; from Run on, its environments name artifacts that we hold.
    pub pipeline: Pipeline,
    /// The pipeline options exactly as the client sent them.
    pub options: Struct,
    /// What we understood of the options.
    pub settings: Settings,
}

/// A job that was run, or runs.
///
/// Invariant: after a terminal state nothing is added to the history.
#[derive(Debug)]
pub struct JobRecord {
    submission: Submission,
    created: i64,
    history: Mutex<History>,
    /// Bumped after every change of the history.
    changed: watch::Sender<()>,
    cancel: watch::Sender<bool>,
    drain: watch::Sender<bool>,
    metrics: Metrics,
}

impl JobRecord {
    /// A job in state STOPPED.
    pub fn new(submission: Submission) -> Self {
        let created = clock::unix_millis();
        Self {
            metrics: Metrics::new(&submission.pipeline),
            submission,
            created,
            history: Mutex::new(History::new(created, MessageLimits::RUNNING)),
            changed: watch::Sender::new(()),
            cancel: watch::Sender::new(false),
            drain: watch::Sender::new(false),
        }
    }

    /// Enters `state` if the job may, and says whether it is in that state now.
    ///
    /// Refused: what [`JobState::may_become`] forbids, so that the first terminal state wins.
    pub fn set_state(&self, state: JobState) -> bool {
        let mut history = self.history.lock();
        let taken = enter(&mut history, state);
        if !taken {
            tracing::debug!(job = %self.submission.id, from = %history.state(), to = %state,
                "refused a change of state");
            return history.state() == state;
        }
        drop(history);
        tracing::info!(job = %self.submission.id, %state, "job state changed");
        self.changed.send_replace(());
        true
    }

    /// Says something to those who follow the job.
    pub fn message(&self, importance: Importance, text: impl Into<String>) {
        self.message_about(importance, text, None);
    }

    /// As [`Self::message`], about a transform, given by its unique name.
    pub fn message_about(
        &self,
        importance: Importance,
        text: impl Into<String>,
        transform: Option<&str>,
    ) {
        let message = Message {
            importance,
            time: clock::unix_millis(),
            text: text.into(),
            transform: transform.map(str::to_owned),
        };
        if is_echo(&message.text) {
            return;
        }
        let mut history = self.history.lock();
        if history.state().is_terminal() {
            tracing::debug!(job = %self.submission.id, text = %message.text,
                "said after the job had ended");
            return;
        }
        history.push_message(message);
        drop(history);
        self.changed.send_replace(());
    }

    /// Ends the job by an error: an ERROR message, then FAILED. No effect on a job that has ended.
    pub fn fail(&self, text: impl Into<String>) {
        let text = text.into();
        let mut history = self.history.lock();
        if history.state().is_terminal() {
            return;
        }
        tracing::info!(job = %self.submission.id, error = %text, "job failed");
        history.push_message(Message {
            importance: Importance::Error,
            time: clock::unix_millis(),
            text,
            transform: None,
        });
        let taken = enter(&mut history, JobState::Failed);
        assert!(taken, "every state that is not terminal may fail");
        drop(history);
        self.changed.send_replace(());
    }

    /// Asks the runner to stop without finishing; it is told once.
    pub fn request_cancel(&self) {
        self.cancel.send_replace(true);
    }

    /// Asks the runner to stop reading and to finish what was read.
    pub fn request_drain(&self) {
        self.drain.send_replace(true);
    }

    /// Turns true when the job is to be cancelled: `cancel_requested().wait_for(|yes| *yes)`.
    pub fn cancel_requested(&self) -> watch::Receiver<bool> {
        self.cancel.subscribe()
    }

    /// Turns true when the job is to be drained.
    pub fn drain_requested(&self) -> watch::Receiver<bool> {
        self.drain.subscribe()
    }

    /// The id by which clients know the job.
    pub fn id(&self) -> &str {
        &self.submission.id
    }

    /// The id by which the client knew the job before Run.
    pub fn preparation_id(&self) -> &str {
        &self.submission.preparation_id
    }

    /// A readable name; not unique.
    pub fn name(&self) -> &str {
        &self.submission.name
    }

    /// When Run was called, in milliseconds since the Unix epoch.
    pub fn created(&self) -> i64 {
        self.created
    }

    /// The pipeline, its environments naming artifacts that we hold.
    pub fn pipeline(&self) -> &Pipeline {
        &self.submission.pipeline
    }

    /// The pipeline options exactly as the client sent them; harnesses get them so.
    pub fn options(&self) -> &Struct {
        &self.submission.options
    }

    /// What we understood of the options.
    pub fn settings(&self) -> &Settings {
        &self.submission.settings
    }

    /// The job's metrics.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// The state of the job.
    pub fn state(&self) -> JobState {
        self.history.lock().state()
    }

    /// The state of the job and when it was entered.
    pub fn state_and_time(&self) -> (JobState, i64) {
        let history = self.history.lock();
        (history.state(), history.state_time())
    }

    /// All states so far.
    pub fn states(&self) -> Vec<(JobState, i64)> {
        self.history.lock().states()
    }

    /// Resolves once the job is in a state for which `wanted` holds, or in a terminal one.
    pub async fn wait_for_state(&self, wanted: impl Fn(JobState) -> bool) -> JobState {
        let mut changed = self.changed.subscribe();
        loop {
            let state = self.state();
            if state.is_terminal() || wanted(state) {
                return state;
            }
            // The sender lives as long as `self`, so this does not fail.
            let _ = changed.changed().await;
        }
    }

    /// A reader of the whole history, from its start, that follows the job to its end.
    pub fn follow(self: &Arc<Self>) -> Follower {
        Follower {
            changed: self.changed.subscribe(),
            record: Arc::clone(self),
            position: 0,
        }
    }

    /// Up to `count_max` events at or after `from`, and the position that follows them.
    pub fn read(&self, from: Position, count_max: usize) -> (Vec<JobEvent>, Position) {
        self.history.lock().read(from, count_max)
    }

    /// Keeps less of the history, once the job has ended.
    pub(super) fn shrink(&self) {
        self.history.lock().shrink(MessageLimits::FINISHED);
        self.metrics.shrink();
    }
}

/// Reads a job's history to its end, waiting for more where there is none yet.
#[derive(Debug)]
pub struct Follower {
    record: Arc<JobRecord>,
    position: Position,
    changed: watch::Receiver<()>,
}

impl Follower {
    /// Most events returned at a time.
    const BATCH_MAX: usize = 256;

    /// The next events, or `None` once the terminal state has been returned.
    pub async fn next(&mut self) -> Option<Vec<JobEvent>> {
        loop {
            self.changed.borrow_and_update();
            let (events, ended) = {
                let history = self.record.history.lock();
                let (events, next) = history.read(self.position, Self::BATCH_MAX);
                self.position = next;
                (events, history.state().is_terminal())
            };
            if !events.is_empty() {
                return Some(events);
            }
            if ended {
                return None;
            }
            let _ = self.changed.changed().await;
        }
    }
}

/// Whether a text is a job message as Go's client prints it.
///
/// In a LOOPBACK job that client and its harness are one process with one log: what the client
/// prints of our messages comes back as a log line of the harness, and would go round for ever.
fn is_echo(text: &str) -> bool {
    text.strip_prefix("(time=")
        .and_then(|rest| rest.split_once(')'))
        .is_some_and(|(_, rest)| rest.starts_with("(id="))
}

/// Records a change of state where it is allowed.
fn enter(history: &mut History, state: JobState) -> bool {
    let allowed = history.state().may_become(state);
    if allowed {
        history.push_state(state, clock::unix_millis());
    }
    allowed
}
