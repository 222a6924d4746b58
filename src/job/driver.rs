//! Runs jobs: plans, starts what they need, waits for the end, stops everything.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};

use crate::engine::{self, Event, Lane};
use crate::job::execution::{Execution, Outcome, Parts};
use crate::job::harnesses::{Harnesses, Hosting};
use crate::job::lane_thread::LaneThread;
use crate::job::lanes::Lanes;
use crate::job::messages::Importance;
use crate::job::options::Settings;
use crate::job::planning;
use crate::job::record::JobRecord;
use crate::job::room;
use crate::job::runner::{BoxFuture, PrepareError, Runner};
use crate::job::shared_lane::{LaneInput, SharedLane};
use crate::job::sources::{PubsubHosting, Sources};
use crate::model::stage::{StageGraph, StageKind};
use crate::model::{EnvironmentId, JobState, LaneId};
use crate::plan::Plan;
use crate::proto::pipeline::Pipeline;

/// How long the last metrics of a job may take.
const METRICS_WITHIN: Duration = Duration::from_secs(10);

/// How long harnesses and sources may take to stop.
const STOP_WITHIN: Duration = Duration::from_secs(4);

/// Runs jobs in this process.
pub struct Driver {
    hosting: Hosting,
    pubsub: PubsubHosting,
    lanes: Lanes,
}

impl Driver {
    /// A driver whose jobs have these lanes.
    pub fn new(hosting: Hosting, pubsub: PubsubHosting, lanes: Lanes) -> Self {
        Self {
            hosting,
            pubsub,
            lanes,
        }
    }

    fn plan(&self, pipeline: &Pipeline, settings: &Settings) -> Result<Plan, PrepareError> {
        let Hosting {
            address, policy, ..
        } = &self.hosting;
        planning::plan(pipeline, settings, address, policy)
    }
}

impl Runner for Driver {
    fn check(&self, pipeline: &Pipeline, settings: &Settings) -> Result<(), PrepareError> {
        self.plan(pipeline, settings).map(drop)
    }

    fn run(&self, job: Arc<JobRecord>) -> BoxFuture {
        let planned = self.plan(job.pipeline(), job.settings());
        let hosting = self.hosting.clone();
        let pubsub = self.pubsub.clone();
        let lanes = self.lanes.clone();
        Box::pin(async move {
            match planned {
                Ok(plan) => run(job, plan, hosting, pubsub, lanes).await,
                Err(error) => job.fail(error.to_string()),
            }
        })
    }
}

/// Runs one job to its end.
async fn run(
    job: Arc<JobRecord>,
    plan: Plan,
    hosting: Hosting,
    pubsub: PubsubHosting,
    lanes: Lanes,
) {
    let mut cancel = job.cancel_requested();
    let mut sources = Sources::new(&job, pubsub);
    let hindered = tokio::select! {
        opened = sources.open(&plan.graph) => opened.err().map(Ended::Failed),
        () = told(&mut cancel) => Some(Ended::Cancelled),
    };
    let ended = match hindered {
        None => execute(&job, plan, hosting, sources, lanes).await,
        Some(ended) => {
            if tokio::time::timeout(STOP_WITHIN, sources.close())
                .await
                .is_err()
            {
                tracing::warn!(job = %job.id(), "sources did not stop in time");
            }
            ended
        }
    };
    match ended {
        Ended::Done => {
            job.set_state(JobState::Done);
        }
        Ended::Failed(reason) => job.fail(reason),
        Ended::Cancelled => {
            job.set_state(JobState::Cancelled);
        }
    }
}

/// Resolves when the answer turns to yes; never, when nobody can say so any more.
async fn told(wish: &mut watch::Receiver<bool>) {
    if wish.wait_for(|yes| *yes).await.is_err() {
        std::future::pending().await
    }
}

enum Ended {
    Done,
    Failed(String),
    Cancelled,
}

async fn execute(
    job: &Arc<JobRecord>,
    plan: Plan,
    hosting: Hosting,
    sources: Sources,
    lanes: Lanes,
) -> Ended {
    let scripted = plan.graph.script.is_some();
    let count = if scripted { 1 } else { lanes.count.max(1) };
    // A TestStream is a test: it has to end, also where user code keeps failing.
    let streaming = is_streaming(&plan.graph) && !scripted;
    let parallelism = parallelism(&plan, job.settings(), hosting.cores);
    let settings = engine_settings(job.settings(), streaming, &parallelism, count);
    let settings = lanes.limit(settings);
    let (outcome_sender, mut outcome) = mpsc::unbounded_channel();
    let graph = Arc::new(plan.graph.clone());
    let lane = |id| Lane::new(id, Arc::clone(&graph), settings.clone());
    let fresh = |id| SharedLane::new(lane(id), lanes.tables());
    let (lanes, inputs): (Vec<_>, Vec<_>) = (0..count).map(LaneId).map(fresh).unzip();
    let execution = Arc::new(Execution::new(Parts {
        record: Arc::clone(job),
        plan,
        graph,
        lanes,
        parallelism,
        readers: sources.readers(),
        publishers: sources.publishers(),
        outcome: outcome_sender,
    }));
    // Dropped on every way out, a cancelled future included: the lanes' threads end.
    let _stop = StopLanes(Arc::clone(&execution));
    for (id, input) in (0..).map(LaneId).zip(inputs) {
        let thread = LaneThread::spawn(id, Arc::clone(&execution), input);
        if let Err(error) = thread {
            return Ended::Failed(format!("no thread for {id}: {error}"));
        }
    }
    let (harnesses, lost) = Harnesses::new(hosting, Arc::clone(&execution));
    job.set_state(JobState::Running);
    let mut cancel = job.cancel_requested();
    let ended = tokio::select! {
        never = execution.report_stalls() => match never {},
        ended = drive(&execution, &harnesses, &sources, &mut outcome) => ended,
        reason = harnesses.replace_lost(lost) => Ended::Failed(reason),
        () = told(&mut cancel) => {
            job.set_state(JobState::Cancelling);
            Ended::Cancelled
        }
    };
    let stopped = async { tokio::join!(sources.close(), harnesses.stop()) };
    if tokio::time::timeout(STOP_WITHIN, stopped).await.is_err() {
        tracing::warn!(job = %job.id(), "harnesses or sources did not stop in time");
    }
    ended
}

/// Starts harnesses and lanes, and waits for what comes of it.
async fn drive(
    execution: &Arc<Execution>,
    harnesses: &Arc<Harnesses>,
    sources: &Sources,
    outcome: &mut mpsc::UnboundedReceiver<Outcome>,
) -> Ended {
    let starts = used_environments(&execution.graph)
        .into_iter()
        .flat_map(|environment| {
            let count = execution.record.settings().workers();
            (0..count).map(move |_| harnesses.start(environment))
        });
    if let Err(error) = futures_util::future::try_join_all(starts).await {
        return Ended::Failed(error);
    }
    execution.broadcast(|| Event::Start);
    sources.start(execution);
    // No lane has a word to say on a pipeline without steps, or whose only steps flatten nothing.
    execution.report_watermarks(LaneId(0), &[]);
    let mut drain = execution.record.drain_requested();
    let outcome = tokio::select! {
        outcome = outcome.recv() => outcome,
        () = told(&mut drain) => {
            execution.record.set_state(JobState::Draining);
            execution.broadcast(|| Event::Drain);
            outcome.recv().await
        }
    };
    match outcome {
        Some(Outcome::Done) | None => {
            await_metrics(execution).await;
            Ended::Done
        }
        Some(Outcome::Failed(reason)) => Ended::Failed(reason),
    }
}

/// Waits for what harnesses measured outside of bundles, and for metrics of committed bundles that they
/// have still to explain.
async fn await_metrics(execution: &Execution) {
    execution.ask_harness_metrics();
    let settled = async {
        while execution.awaits_metrics() {
            execution.metrics_came.notified().await;
        }
    };
    if tokio::time::timeout(METRICS_WITHIN, settled).await.is_err() {
        let text = "the last metrics did not come in time; counters may be too low";
        execution.record.message(Importance::Warning, text);
    }
}

struct StopLanes(Arc<Execution>);

impl Drop for StopLanes {
    fn drop(&mut self) {
        for lane in &self.0.lanes {
            lane.send(LaneInput::Stop);
        }
    }
}

/// A job is a streaming one when some PCollection has no end.
fn is_streaming(graph: &StageGraph) -> bool {
    graph
        .pcollections
        .iter()
        .any(|pcollection| !pcollection.bounded)
}

fn used_environments(graph: &StageGraph) -> Vec<EnvironmentId> {
    let mut used: Vec<EnvironmentId> = graph
        .stages
        .iter()
        .filter_map(|stage| match &stage.kind {
            StageKind::Executable(executable) => Some(executable.environment),
            _ => None,
        })
        .collect();
    used.sort_unstable();
    used.dedup();
    used
}

fn parallelism(plan: &Plan, settings: &Settings, cores: u32) -> Vec<u32> {
    plan.environments
        .iter()
        .map(|(_, environment)| settings.workers() * room::useful_bundles(environment, cores))
        .collect()
}

fn engine_settings(
    settings: &Settings,
    streaming: bool,
    parallelism: &[u32],
    lanes: u32,
) -> engine::Settings {
    let defaults = engine::Settings::default();
    let attempts_max = match settings.max_bundle_retries {
        Some(retries) => Some(retries.saturating_add(1)),
        None if streaming => None,
        None => defaults.attempts_max,
    };
    engine::Settings {
        attempts_max,
        parallelism: parallelism.to_vec(),
        lanes,
        at_least_once: settings.streaming_mode_at_least_once,
        ..defaults
    }
}
