//! What a lane keeps per stage.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use crate::engine::group_by_key::Grouper;
use crate::engine::keyed::{KeyedElement, KeyedQueue, LiveWindows};
use crate::engine::queue::WorkQueue;
use crate::engine::read::ReadQueue;
use crate::engine::routing::Routes;
use crate::engine::settings::Settings;
use crate::engine::watermark::Holds;
use crate::model::coder::Coder;
use crate::model::ids::{EnvironmentId, LaneId, StageId};
use crate::model::stage::{ExecutableStage, SideInput, Stage, StageGraph, StageKind};
use crate::model::time::Timestamp;

/// One stage's share on one lane.
#[derive(Debug)]
pub struct StageState {
    pub queue: WorkQueue,
    /// Of a stage with keys.
    pub keyed: Option<KeyedState>,
    /// Of a group-by-key.
    pub grouper: Option<Grouper>,
    /// Of a native read.
    pub read: Option<ReadQueue>,
    /// Of a source that tells its own watermark: what it said last.
    pub source_watermark: Option<Timestamp>,
    /// Holds of running bundles.
    pub running: Holds,
    /// Running bundles.
    pub bundles: u32,
    /// The stage whose output this one draws on when it has room.
    pub draws_on: Option<StageId>,
    /// The only consumer, when it draws on this stage's output.
    pub drawn_by: Option<StageId>,
    /// Its input may be spread over all workers.
    pub spread: bool,
    /// A pane of the side input has arrived, by side input.
    pub side_input_seen: Vec<bool>,
    /// The output watermark last reported.
    pub reported: Timestamp,
    /// When the stage wants to be woken, as the lane has noted it.
    pub wakes_at: Option<Timestamp>,
    /// Late elements already reported.
    pub dropped_late: u64,
}

/// What a stage with keys keeps besides its tables.
#[derive(Debug, Default)]
pub struct KeyedState {
    pub queue: KeyedQueue,
    /// Output timestamps of timers that are set.
    pub timer_holds: Holds,
    /// Windows to be forgotten once they have expired.
    pub windows: LiveWindows,
    /// Failed tries of keys that have not succeeded since.
    pub failures: BTreeMap<Bytes, u32>,
    /// Busy keys that rest after a failure, until when, with what they give back.
    pub resting: BTreeMap<(Timestamp, Bytes), Vec<KeyedElement>>,
    /// Elements that wait for the watermark, to be processed in the order of their timestamps.
    pub unsorted: BTreeMap<(Timestamp, u64), KeyedElement>,
    /// Elements ever put into `unsorted`.
    pub sorted_arrivals: u64,
    /// Elements that wait until their side inputs' watermarks have reached this, in their order.
    pub blocked: BTreeMap<Vec<Timestamp>, Vec<KeyedElement>>,
    /// When the next processing-time timer fires.
    pub next_timer: Option<Timestamp>,
    /// The earliest event-time timer.
    pub next_event_timer: Option<Timestamp>,
}

impl KeyedState {
    /// Keeps an element until the watermark has passed it.
    pub fn push_unsorted(&mut self, element: KeyedElement) {
        self.sorted_arrivals += 1;
        self.unsorted
            .insert((element.timestamp, self.sorted_arrivals), element);
    }

    /// Queues, in order, elements that nothing earlier can come before any more.
    pub fn release_sorted(&mut self, complete_until: Timestamp) {
        while let Some(entry) = self.unsorted.first_entry()
            && entry.key().0 <= complete_until
        {
            self.queue.push(entry.remove());
        }
    }

    /// Queues what waited for side inputs that now stand at `reached`.
    pub fn unblock(&mut self, reached: &[Timestamp]) {
        let ready = self.blocked.extract_if(.., |needed, _| {
            needed
                .iter()
                .zip(reached)
                .all(|(needed, reached)| needed <= reached)
        });
        for element in ready.flat_map(|(_, elements)| elements) {
            self.queue.push(element);
        }
    }

    /// The lowest timestamp of what waits in any way.
    fn hold(&self) -> Timestamp {
        let apart = self.blocked.values().chain(self.resting.values()).flatten();
        let lowest = apart
            .map(|element| element.timestamp)
            .min()
            .unwrap_or(Timestamp::MAX);
        let unsorted = self
            .unsorted
            .keys()
            .next()
            .map_or(Timestamp::MAX, |(at, _)| *at);
        lowest
            .min(unsorted)
            .min(self.queue.hold())
            .min(self.timer_holds.lowest())
    }
}

/// Fresh state for every stage of a job.
pub fn fresh(
    lane: LaneId,
    graph: &Arc<StageGraph>,
    routes: &Routes,
    settings: &Settings,
) -> Vec<StageState> {
    let mut states: Vec<StageState> = (0..)
        .map(StageId)
        .zip(&graph.stages)
        .map(|(id, stage)| StageState {
            queue: WorkQueue::default(),
            keyed: executable(stage)
                .is_some_and(|executable| executable.keyed)
                .then(KeyedState::default),
            grouper: match &stage.kind {
                StageKind::GroupByKey(group) => Some(Grouper::new(id, group.windowing.clone())),
                _ => None,
            },
            read: matches!(stage.kind, StageKind::PubsubRead(_)).then(|| {
                if settings.at_least_once {
                    ReadQueue::at_least_once(id)
                } else {
                    ReadQueue::new(id)
                }
            }),
            source_watermark: matches!(
                stage.kind,
                StageKind::PubsubRead(_) | StageKind::TestStream
            )
            .then_some(Timestamp::MIN),
            running: Holds::default(),
            bundles: 0,
            draws_on: None,
            drawn_by: None,
            spread: executable(stage).is_some_and(|stage| stage.splittable.is_some()),
            side_input_seen: vec![false; side_inputs(stage).len()],
            reported: Timestamp::MIN,
            wakes_at: None,
            dropped_late: 0,
        })
        .collect();
    for (index, stage) in graph.stages.iter().enumerate() {
        for output in &stage.outputs {
            for to in routes.of(*output) {
                states[to.stage.index()].spread |= to.spread;
            }
        }
        let draws = matches!(
            stage.kind,
            StageKind::GroupByKey(_) | StageKind::PubsubRead(_)
        );
        if let Some(output) = stage.sole_output()
            && draws
            && let Some(consumer) = routes.sole_queue(output)
        {
            states[index].drawn_by = Some(consumer);
            let id = StageId(index as u32);
            states[consumer.index()].draws_on = Some(id);
            let coder = &graph.pcollections[output.index()].coder;
            if let Some(grouper) = &mut states[index].grouper
                && has_values_in_state(coder)
            {
                let first = u64::from(lane.0) << NUMBER_LANE_SHIFT;
                grouper.back_by_state(id, settings.group_bytes_max, first);
            }
        }
    }
    states
}

/// Whether groups so encoded may have values that their reader reads as state.
fn has_values_in_state(coder: &Coder) -> bool {
    match coder {
        Coder::WindowedValue(group, _) => {
            matches!(&**group, Coder::Kv(_, values) if matches!(**values, Coder::StateBackedIterable(_)))
        }
        _ => false,
    }
}

/// The stage as one that runs in a harness.
pub fn executable(stage: &Stage) -> Option<&ExecutableStage> {
    match &stage.kind {
        StageKind::Executable(executable) => Some(executable),
        _ => None,
    }
}

/// The environment the stage runs in.
pub fn environment(stage: &Stage) -> Option<EnvironmentId> {
    executable(stage).map(|stage| stage.environment)
}

/// The side inputs of the stage.
pub fn side_inputs(stage: &Stage) -> &[SideInput] {
    executable(stage).map_or(&[], |stage| &stage.side_inputs)
}

impl StageState {
    /// The lowest timestamp the stage may still emit, apart from what its input brings.
    pub fn hold(&self) -> Timestamp {
        let mut hold = self.queue.hold().min(self.running.lowest());
        if let Some(keyed) = &self.keyed {
            hold = hold.min(keyed.hold());
        }
        if let Some(grouper) = &self.grouper {
            hold = hold.min(grouper.hold());
        }
        if let Some(read) = &self.read {
            hold = hold.min(read.hold());
        }
        hold
    }

    /// Whether the stage itself holds something that its consumer can draw.
    pub fn has_output(&self) -> bool {
        self.grouper.as_ref().is_some_and(Grouper::has_output)
            || self.read.as_ref().is_some_and(ReadQueue::has_ready)
    }

    /// When a timer or a trigger of processing time fires next, past ones included.
    pub fn next_firing(&self) -> Option<Timestamp> {
        let group = self
            .grouper
            .as_ref()
            .and_then(Grouper::next_processing_time);
        let timer = self.keyed.as_ref().and_then(|keyed| keyed.next_timer);
        [group, timer].into_iter().flatten().min()
    }

    /// When the stage has something to do that only time brings, after `now`.
    ///
    /// A timer that is due already waits for its key or for room, not for time.
    pub fn next_due(&self, now: Timestamp) -> Option<Timestamp> {
        let grouper = self
            .grouper
            .as_ref()
            .and_then(Grouper::next_processing_time);
        let keyed = self.keyed.as_ref();
        let timer = keyed
            .and_then(|keyed| keyed.next_timer)
            .filter(|at| *at > now);
        let rest = keyed.and_then(|keyed| keyed.resting.keys().next().map(|(until, _)| *until));
        let due = [self.queue.next_due(), grouper, timer, rest]
            .into_iter()
            .flatten()
            .min()?;
        Some(due.max(now.plus(1)))
    }
}

/// Numbers of groups carry their lane above this bit.
const NUMBER_LANE_SHIFT: u32 = 48;
