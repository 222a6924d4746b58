//! What all threads of one running job share.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tokio::sync::{Notify, mpsc};

use crate::engine::routing::GLOBAL_LANE;
use crate::engine::watermark::Aggregator;
use crate::engine::{Event, Lane};
use crate::fnapi::{Credit, Harness, ReportedMetric};
use crate::job::messages::Importance;
use crate::job::record::JobRecord;
use crate::job::shared_lane::{LaneInput, SharedLane};
use crate::job::slots::{Grant, Slots};
use crate::job::stalls::Stalls;
use crate::model::stage::{StageGraph, StageKind};
use crate::model::{
    BundleId, EnvironmentId, LaneId, StageId, StateKey, StateReply, StateRequest, Timestamp,
    WorkerId,
};
use crate::plan::Plan;
use crate::proto::fn_execution::ProcessBundleDescriptor;
use crate::source::pubsub::{Publisher, ReaderHandle};
use crate::telemetry::clock;

/// How a job ends, from inside.
#[derive(Debug)]
pub enum Outcome {
    /// Every watermark is at its end.
    Done,
    /// A stage cannot go on.
    Failed(String),
}

/// One running job.
pub struct Execution {
    pub record: Arc<JobRecord>,
    pub plan: Plan,
    pub graph: Arc<StageGraph>,
    pub descriptors: Arc<BTreeMap<String, ProcessBundleDescriptor>>,
    pub lanes: Vec<Arc<SharedLane>>,
    pub slots: Slots,
    pub stalls: Mutex<Stalls>,
    /// Bundles that each environment can run at a time to some use.
    pub parallelism: Vec<u32>,
    pub harnesses: RwLock<BTreeMap<WorkerId, (EnvironmentId, Harness)>>,
    pub readers: BTreeMap<StageId, ReaderHandle>,
    pub publishers: BTreeMap<StageId, Arc<Publisher>>,
    pub outcome: mpsc::UnboundedSender<Outcome>,
    pub runtime: tokio::runtime::Handle,
    /// Data sink's transform id → which output of its stage it is.
    sinks: BTreeMap<String, usize>,
    aggregator: Mutex<Aggregator>,
    unsettled: Mutex<BTreeMap<BundleId, Unsettled>>,
    /// Harnesses that were asked for what they measure outside of bundles.
    asked: Mutex<BTreeSet<WorkerId>>,
    /// Some metrics have come.
    pub metrics_came: Notify,
}

/// Metrics of an ended bundle whose other half has not come yet.
#[derive(Debug)]
enum Unsettled {
    /// Reported, not committed.
    Reported(Vec<ReportedMetric>),
    /// Committed, not reported.
    Committed,
}

/// The parts of an [`Execution`] that are made before it.
pub struct Parts {
    pub record: Arc<JobRecord>,
    pub plan: Plan,
    pub graph: Arc<StageGraph>,
    pub lanes: Vec<Arc<SharedLane>>,
    pub parallelism: Vec<u32>,
    pub readers: BTreeMap<StageId, ReaderHandle>,
    pub publishers: BTreeMap<StageId, Arc<Publisher>>,
    pub outcome: mpsc::UnboundedSender<Outcome>,
}

impl Execution {
    /// A job whose lanes have heard of nothing yet.
    pub fn new(parts: Parts) -> Self {
        let graph = parts.graph;
        let lanes = parts.lanes.len() as u32;
        Self {
            record: parts.record,
            aggregator: Mutex::new(Aggregator::new(Arc::clone(&graph), lanes)),
            sinks: sinks(&graph),
            descriptors: Arc::new(parts.plan.descriptors.clone()),
            plan: parts.plan,
            graph,
            lanes: parts.lanes,
            slots: Slots::default(),
            stalls: Mutex::default(),
            parallelism: parts.parallelism,
            harnesses: RwLock::default(),
            readers: parts.readers,
            publishers: parts.publishers,
            outcome: parts.outcome,
            runtime: tokio::runtime::Handle::current(),
            unsettled: Mutex::default(),
            asked: Mutex::default(),
            metrics_came: Notify::new(),
        }
    }

    /// Tells a lane.
    pub fn send(&self, lane: LaneId, event: Event) {
        self.send_with_credit(lane, event, Credit::default());
    }

    /// Tells a lane; `credit` is given back once the lane has read the event.
    pub fn send_with_credit(&self, lane: LaneId, event: Event, credit: Credit) {
        let Some(shared) = self.lanes.get(lane.index()) else {
            tracing::warn!(job = %self.record.id(), %lane, "an event for a lane that is not there");
            return;
        };
        shared.send(LaneInput::Event(event, credit));
    }

    /// Answers a state request at once where its lane is idle; otherwise the answer comes from the lane.
    pub fn ask(
        &self,
        worker: WorkerId,
        bundle: BundleId,
        request: StateRequest,
    ) -> Option<StateReply> {
        let lane = if is_global(&request.key) {
            GLOBAL_LANE
        } else {
            Lane::of_bundle(bundle)
        };
        self.lanes.get(lane.index())?.ask(worker, bundle, request)
    }

    /// Tells the lane that runs a bundle.
    pub fn send_about(&self, bundle: BundleId, event: Event, credit: Credit) {
        self.send_with_credit(Lane::of_bundle(bundle), event, credit);
    }

    /// Tells every lane.
    pub fn broadcast(&self, event: impl Fn() -> Event) {
        for lane in (0..self.lanes.len() as u32).map(LaneId) {
            self.send(lane, event());
        }
    }

    /// Tells the lanes which may start bundles now.
    pub fn grant(&self, environment: EnvironmentId, grants: impl IntoIterator<Item = Grant>) {
        for (lane, worker) in grants {
            self.send(
                lane,
                Event::Granted {
                    environment,
                    worker,
                },
            );
        }
    }

    /// Takes a lane's watermarks and passes on what rose.
    pub fn report_watermarks(&self, lane: LaneId, watermarks: &[(StageId, Timestamp)]) {
        // Sent under the lock: every lane hears of watermarks in the order in which they rose.
        let mut aggregator = self.aggregator.lock();
        let risen = aggregator.report(lane, watermarks);
        if !risen.is_empty() {
            self.broadcast(|| Event::Watermarks(risen.clone()));
        }
        if aggregator.is_done() {
            let _ = self.outcome.send(Outcome::Done);
        }
    }

    /// The harness, unless it is lost.
    pub fn harness(&self, worker: WorkerId) -> Option<Harness> {
        self.harnesses
            .read()
            .get(&worker)
            .map(|(_, harness)| harness.clone())
    }

    /// A harness is gone: its room, and then its bundles.
    pub fn lose(&self, worker: WorkerId, reason: &str) -> Option<EnvironmentId> {
        let (environment, _) = self.harnesses.write().remove(&worker)?;
        self.slots.remove(environment, worker);
        self.stalls.lock().lose(worker);
        self.asked.lock().remove(&worker);
        self.metrics_came.notify_one();
        self.broadcast(|| Event::WorkerLost {
            worker,
            reason: reason.to_owned(),
        });
        Some(environment)
    }

    /// Metrics of a bundle that ended well.
    pub fn metrics_reported(&self, bundle: BundleId, metrics: Vec<ReportedMetric>) {
        let mut unsettled = self.unsettled.lock();
        if unsettled.remove(&bundle).is_some() {
            drop(unsettled);
            self.record.metrics().commit(bundle, metrics);
            self.metrics_came.notify_one();
        } else {
            unsettled.insert(bundle, Unsettled::Reported(metrics));
        }
    }

    /// A bundle is committed: its metrics count once they are there.
    pub fn metrics_committed(&self, bundle: BundleId) {
        let mut unsettled = self.unsettled.lock();
        if let Some(Unsettled::Reported(metrics)) = unsettled.remove(&bundle) {
            drop(unsettled);
            self.record.metrics().commit(bundle, metrics);
        } else {
            unsettled.insert(bundle, Unsettled::Committed);
        }
    }

    /// A try failed: what it counted is not committed.
    pub fn metrics_discarded(&self, bundle: BundleId) {
        self.unsettled.lock().remove(&bundle);
        self.record.metrics().discard(bundle);
    }

    /// Asks every harness for what it measures outside of bundles.
    pub fn ask_harness_metrics(&self) {
        let harnesses = self.harnesses.read();
        self.asked.lock().extend(harnesses.keys().copied());
        for (_, harness) in harnesses.values() {
            harness.harness_metrics();
        }
    }

    /// What a harness measures outside of bundles.
    pub fn harness_metrics_reported(&self, worker: WorkerId, metrics: Vec<ReportedMetric>) {
        self.record.metrics().harness(worker, metrics);
        self.asked.lock().remove(&worker);
        self.metrics_came.notify_one();
    }

    /// Whether metrics of committed bundles or of harnesses are still on their way.
    pub fn awaits_metrics(&self) -> bool {
        let committed = |half: &Unsettled| matches!(half, Unsettled::Committed);
        !self.asked.lock().is_empty() || self.unsettled.lock().values().any(committed)
    }

    /// Tells people of bundles that show no progress, for as long as the job runs.
    pub async fn report_stalls(&self) -> Infallible {
        loop {
            tokio::time::sleep(LOOK_FOR_STALLS_EVERY).await;
            let due = self.stalls.lock().due(clock::instant());
            for stall in due {
                let text = stall.text(self.stage_name(stall.stage));
                self.record.message(Importance::Warning, text);
            }
        }
    }

    /// A failure of a stage, told to people: SDKs name the step themselves, for others the stage is named.
    pub fn failure_text(&self, stage: StageId, failure: &str) -> String {
        if failure.contains(PYTHON_NAMES_STEP) {
            format!("the pipeline failed: {failure}")
        } else {
            format!("{} failed: {failure}", self.stage_name(stage))
        }
    }

    /// The stage's name for people.
    pub fn stage_name(&self, stage: StageId) -> &str {
        &self.graph.stages[stage.index()].name
    }

    /// Which output of its stage a data sink is.
    pub fn sink_output(&self, transform: &str) -> Option<usize> {
        self.sinks.get(transform).copied()
    }

    /// The user's name of the step that a transform is, or is part of.
    pub fn user_name(&self, transform: &str) -> Option<&str> {
        self.plan.steps.get(transform).map(String::as_str)
    }
}

/// Side inputs belong to the whole job rather than to the bundle's lane.
fn is_global(key: &StateKey) -> bool {
    matches!(
        key,
        StateKey::IterableSideInput { .. }
            | StateKey::MultimapSideInput { .. }
            | StateKey::MultimapKeysSideInput { .. }
            | StateKey::MultimapKeysValuesSideInput { .. }
    )
}

/// Every sink of a job: a PCollection has one producer, so their ids are unique.
fn sinks(graph: &StageGraph) -> BTreeMap<String, usize> {
    let executables = graph.stages.iter().filter_map(|stage| match &stage.kind {
        StageKind::Executable(executable) => Some(executable),
        _ => None,
    });
    let mut sinks = BTreeMap::new();
    for stage in executables {
        sinks.extend(
            (0..)
                .zip(&stage.sinks)
                .map(|(output, sink)| (sink.clone(), output)),
        );
        let truncate = stage
            .splittable
            .as_ref()
            .and_then(|splittable| splittable.truncate.as_ref());
        // It has one output, whatever the stage has.
        sinks.extend(truncate.map(|step| (step.sink.clone(), 0)));
    }
    sinks
}

/// Stalls are told of in minutes.
const LOOK_FOR_STALLS_EVERY: Duration = Duration::from_secs(10);

/// How the Python SDK names the step in which user code raised.
const PYTHON_NAMES_STEP: &str = "[while running '";
