//! The deterministic streaming engine: one lane of it is a [`Lane`].
//!
//! Events go in by [`Lane::handle`], actions come out by [`Lane::poll_action`]; [`Lane::settle`] after a
//! batch of events brings watermarks and schedules work. The engine knows no clock, socket or thread:
//! time is an argument, durable state is behind [`tables`].

pub mod action;
mod bundle;
mod delivery;
mod delta;
mod drain;
pub mod event;
pub mod group_by_key;
mod keyed;
pub mod merge_windows;
mod processing_time;
mod progress;
mod queue;
mod read;
pub mod routing;
mod schedule;
mod script;
pub mod settings;
pub mod side_input;
mod stages;
pub mod tables;
#[cfg(test)]
mod tests;
pub mod trigger;
pub mod watermark;
pub mod window;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use crate::engine::bundle::InFlight;
use crate::engine::processing_time::ProcessingTime;
use crate::engine::routing::Routes;
use crate::engine::side_input::SideInputIndex;
use crate::engine::stages::StageState;
use crate::engine::tables::{DedupTable, Tables};
use crate::model::ids::{BundleId, EnvironmentId, LaneId, StageId};
use crate::model::stage::StageGraph;
use crate::model::state::StateRequest;
use crate::model::time::Timestamp;

pub use action::{Action, Release, SplitBundle, SplitIf, StartBundle};
pub use delivery::{Delivery, Payload};
pub use event::{Event, Message};
pub use settings::Settings;

/// One lane of a job's engine: it owns a range of shards and decides what happens to them.
#[derive(Debug)]
pub struct Lane {
    id: LaneId,
    graph: Arc<StageGraph>,
    routes: Routes,
    settings: Settings,
    stages: Vec<StageState>,
    /// Output watermarks of all stages, over all lanes.
    watermarks: Vec<Timestamp>,
    bundles: BTreeMap<BundleId, InFlight>,
    next_bundle: u64,
    /// Slots asked for and not granted, by environment.
    requested: BTreeMap<EnvironmentId, u32>,
    /// Executable stages by environment, the last of the pipeline first.
    by_environment: BTreeMap<EnvironmentId, Vec<StageId>>,
    side_inputs: SideInputIndex,
    /// Stages whose output watermark or readiness may have changed.
    dirty: BTreeSet<StageId>,
    wakeups: BTreeSet<(Timestamp, StageId)>,
    actions: VecDeque<Action>,
    /// Where reshuffled chunks went last.
    turn: u32,
    processing_time: ProcessingTime,
    /// Restrictions are truncated, and nothing new is read.
    draining: bool,
    /// The job failed: nothing new starts.
    failed: bool,
    /// How many bundles have failed.
    state_epoch: u64,
}

impl Lane {
    /// A lane that has heard of nothing yet.
    pub fn new(id: LaneId, graph: Arc<StageGraph>, settings: Settings) -> Self {
        let routes = Routes::new(&graph);
        let processing_time = ProcessingTime::new(graph.script.is_some());
        let mut by_environment: BTreeMap<EnvironmentId, Vec<StageId>> = BTreeMap::new();
        let mut side_inputs = SideInputIndex::new();
        for (stage_id, stage) in (0..).map(StageId).zip(&graph.stages) {
            if let Some(environment) = stages::environment(stage) {
                by_environment
                    .entry(environment)
                    .or_default()
                    .insert(0, stage_id);
            }
            for (index, input) in stages::side_inputs(stage).iter().enumerate() {
                let names = side_inputs.entry(input.transform.clone()).or_default();
                names.insert(input.name.clone(), (stage_id, index));
            }
        }
        Self {
            id,
            stages: stages::fresh(id, &graph, &routes, &settings),
            watermarks: vec![Timestamp::MIN; graph.stages.len()],
            routes,
            graph,
            settings,
            bundles: BTreeMap::new(),
            next_bundle: u64::from(id.0) << BUNDLE_LANE_SHIFT,
            requested: BTreeMap::new(),
            by_environment,
            side_inputs,
            dirty: BTreeSet::new(),
            wakeups: BTreeSet::new(),
            actions: VecDeque::new(),
            turn: id.0,
            processing_time,
            draining: false,
            failed: false,
            state_epoch: 0,
        }
    }

    /// Takes one event; `now` is the wall clock and never goes back.
    pub fn handle(&mut self, now: Timestamp, event: Event, tables: &mut impl Tables) {
        let now = self.processing_time.show(now);
        match event {
            Event::Start => self.start(now, tables),
            Event::Data {
                bundle,
                output,
                bytes,
                cut,
            } => self.stage_output(bundle, output, bytes, cut, tables),
            Event::Timers {
                bundle,
                transform,
                family,
                bytes,
            } => {
                self.take_timers(bundle, &transform, &family, bytes);
            }
            Event::Finished {
                bundle,
                residuals,
                finalize,
            } => {
                self.finish(now, bundle, residuals, finalize, tables);
            }
            Event::Failed { bundle, failure } => self.fail_bundle(now, bundle, failure),
            Event::Split { bundle, outcome } => self.apply_split(now, bundle, outcome, tables),
            Event::Progress { bundle, taken } => self.note_progress(bundle, taken),
            Event::State {
                bundle,
                worker,
                request,
            } => {
                let StateRequest { id, key, operation } = request;
                let reply = self.answer_state(bundle, key, operation, tables);
                self.actions.push_back(Action::ReplyState {
                    bundle,
                    worker,
                    request: id,
                    reply,
                });
            }
            Event::Granted {
                environment,
                worker,
            } => {
                self.use_slot(now, environment, worker, tables);
            }
            Event::WorkerLost { worker, reason } => self.lose_worker(now, worker, &reason),
            Event::Delivered(delivery) => self.accept(now, delivery, tables),
            Event::Watermarks(risen) => self.raise_watermarks(now, &risen, tables),
            Event::Messages { stage, messages } => self.arrive(now, stage, messages, tables),
            Event::SourceWatermark { stage, watermark } => {
                self.raise_source_watermark(stage, watermark);
                // It comes steadily, while nothing else may ask to be woken.
                tables.dedup().expire(now);
            }
            Event::Script(event) => self.follow_script(now, event, tables),
            Event::ScriptEnded => self.end_script(),
            Event::Drain => self.drain(),
            Event::Tick => self.wake(now, tables),
        }
    }

    /// Ends a batch of events: reports watermarks that rose and asks for room for what is ready.
    pub fn settle(&mut self, now: Timestamp) {
        let now = self.processing_time.show(now);
        self.report_watermarks(now);
        self.schedule(now);
    }

    /// What to do next, in order.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When to send [`Event::Tick`].
    pub fn next_wakeup(&self) -> Option<Timestamp> {
        let stage = self.wakeups.first();
        let stage = stage.and_then(|(due, _)| self.processing_time.due_by_wall(*due));
        let bundle = self
            .bundles
            .values()
            .map(|bundle| self.next_look_at(bundle))
            .min();
        [stage, bundle].into_iter().flatten().min()
    }

    /// Which lane runs a bundle.
    pub fn of_bundle(bundle: BundleId) -> LaneId {
        LaneId((bundle.0 >> BUNDLE_LANE_SHIFT) as u32)
    }
}

/// Bundle ids carry their lane above this bit.
const BUNDLE_LANE_SHIFT: u32 = 48;
