//! How elements and watermarks move on: deliveries, watermarks that rise, time that passes.

use std::sync::Arc;

use bytes::Bytes;

use crate::coder;
use crate::engine::Lane;
use crate::engine::action::{Action, Release};
use crate::engine::delivery::{Delivery, Payload};
use crate::engine::delta::Delta;
use crate::engine::event::Message;
use crate::engine::group_by_key::Fired;
use crate::engine::queue::{Item, Limits};
use crate::engine::routing::{GLOBAL_LANE, Staged};
use crate::engine::side_input::{self, SideInputBatch};
use crate::engine::stages;
use crate::engine::tables::{PayloadError, PayloadTable, Reading, Tables};
use crate::model::ids::{BundleId, PCollectionId, StageId};
use crate::model::pane::PaneInfo;
use crate::model::stage::{SideInput, StageKind};
use crate::model::state::{StateKey, StateOperation, StateReply};
use crate::model::time::Timestamp;
use crate::model::window::Window;

impl Lane {
    /// The job runs: impulses fire, on the lane of what is global.
    pub(super) fn start(&mut self, now: Timestamp, tables: &mut impl Tables) {
        let graph = Arc::clone(&self.graph);
        for (id, stage) in (0..).map(StageId).zip(&graph.stages) {
            self.dirty.insert(id);
            if stage.kind == StageKind::Impulse && self.id == GLOBAL_LANE {
                for output in &stage.outputs {
                    self.emit(now, id, *output, &impulse_element(), tables);
                }
            }
        }
    }

    /// Elements that a runner-native stage makes, committed as they are.
    pub(super) fn emit(
        &mut self,
        now: Timestamp,
        stage: StageId,
        output: PCollectionId,
        bytes: &Bytes,
        tables: &mut impl Tables,
    ) {
        let mut staged = Staged::new(output, &self.routes, &self.graph, self.settings.lanes);
        if let Err(error) = staged.add(&self.graph, bytes.clone(), false, tables.payload()) {
            self.fail_job(stage, format!("its output {error}"));
            return;
        }
        let deliveries =
            staged.into_deliveries(&self.routes, self.id, self.settings.lanes, &mut self.turn);
        let delta = Delta {
            stage,
            deliveries,
            residuals: Vec::new(),
            keyed: None,
            consumed: Vec::new(),
            releases: Vec::new(),
        };
        self.apply(now, delta, tables);
    }

    /// Takes committed elements for a stage of this lane.
    pub(super) fn accept(&mut self, now: Timestamp, delivery: Delivery, tables: &mut impl Tables) {
        let Delivery { stage, payload } = delivery;
        self.dirty.insert(stage);
        match payload {
            Payload::Queue(chunks) => {
                for chunk in chunks {
                    self.admit(stage, Item::new(chunk));
                }
            }
            Payload::Keyed(elements) => self.accept_keyed(stage, elements),
            Payload::Group(batch) => {
                let watermark = self.input_watermark(stage);
                if let Some(grouper) = &mut self.stages[stage.index()].grouper {
                    grouper.absorb(tables.groups(), now, watermark, *batch);
                }
                self.push_groups(now, stage, tables);
            }
            Payload::Merged(answers) => self.accept_merged(now, stage, &answers, tables),
            Payload::SideInput { index, batch } => {
                self.accept_side_input(stage, index, batch, tables);
            }
        }
    }

    fn accept_side_input(
        &mut self,
        stage: StageId,
        index: usize,
        batch: SideInputBatch,
        tables: &mut impl Tables,
    ) {
        let graph = Arc::clone(&self.graph);
        let Some(input) = stages::side_inputs(&graph.stages[stage.index()]).get(index) else {
            debug_assert!(false, "{stage} has no side input {index}");
            return;
        };
        if let Err(error) = side_input::absorb(tables.side_inputs(), stage, index, input, batch) {
            self.fail_job(
                stage,
                format!("side input {} cannot be read: {error}", input.name),
            );
            return;
        }
        if !self.stages[stage.index()].side_input_seen[index] {
            self.stages[stage.index()].side_input_seen[index] = true;
            self.unblock(stage);
        }
    }

    /// Queues an element for an executable stage, behind its side inputs where they are not ready.
    pub(super) fn admit(&mut self, stage: StageId, item: Item) {
        let graph = Arc::clone(&self.graph);
        let node = &graph.stages[stage.index()];
        if matches!(node.kind, StageKind::PubsubWrite(_)) {
            self.stages[stage.index()].queue.push_numbered(item);
            return;
        }
        if stages::side_inputs(node).is_empty() {
            self.stages[stage.index()].queue.push(item);
            return;
        }
        match self.part_by_side_inputs(stage, item) {
            Err(error) => self.fail_job(stage, format!("its input cannot be read: {error}")),
            Ok(parts) => {
                for (needed, item) in parts {
                    self.stages[stage.index()].queue.push_blocked(needed, item);
                }
                self.unblock(stage);
            }
        }
    }

    /// What the watermarks of the stage's side inputs must reach for an element in these windows.
    pub(super) fn needed_of_side_inputs(
        &self,
        stage: StageId,
        windows: &[Window],
    ) -> Vec<Timestamp> {
        let needed = |input: &SideInput| {
            let side = &self.graph.pcollections[input.pcollection.index()];
            let each = windows
                .iter()
                .map(|window| side_input::needed_watermark(side, window));
            each.max().unwrap_or(Timestamp::MIN)
        };
        let inputs = stages::side_inputs(&self.graph.stages[stage.index()]);
        inputs.iter().map(needed).collect()
    }

    /// Where the watermarks of the stage's side inputs stand.
    fn reached_of_side_inputs(&self, stage: StageId) -> Vec<Timestamp> {
        let inputs = stages::side_inputs(&self.graph.stages[stage.index()])
            .iter()
            .enumerate();
        inputs
            .map(|(index, input)| {
                let side = &self.graph.pcollections[input.pcollection.index()];
                let seen = self.stages[stage.index()].side_input_seen[index];
                if seen && side_input::ready_on_first_pane(side) {
                    Timestamp::MAX
                } else {
                    self.watermarks[side.producer.index()]
                }
            })
            .collect()
    }

    /// The stage's side inputs, by index, that are complete for good.
    ///
    /// What is asked of them from now on is asked after the last element was sent to the lane that keeps them.
    pub(super) fn settled_side_inputs(&self, stage: StageId) -> Vec<usize> {
        let inputs = stages::side_inputs(&self.graph.stages[stage.index()]).iter();
        let settled = inputs.enumerate().filter(|(_, input)| {
            let side = &self.graph.pcollections[input.pcollection.index()];
            self.watermarks[side.producer.index()] == Timestamp::MAX
        });
        settled.map(|(index, _)| index).collect()
    }

    /// Cuts an item where the side inputs that its elements wait for change.
    fn part_by_side_inputs(
        &self,
        stage: StageId,
        item: Item,
    ) -> Result<Vec<(Vec<Timestamp>, Item)>, coder::Error> {
        let main = self.graph.stages[stage.index()].inputs[0];
        let coder = &self.graph.pcollections[main.index()].coder;
        let (_, window_coder) = coder::windowed_value::parts(coder)?;
        let mut parts: Vec<(Vec<Timestamp>, u32)> = Vec::new();
        for element in coder::windowed_value::Elements::new(coder, &item.chunk.bytes) {
            let element = element?;
            let mut header = &item.chunk.bytes[element.header.clone()];
            let header = coder::windowed_value::read_header(window_coder, &mut header)?;
            let needed = self.needed_of_side_inputs(stage, &header.windows);
            match parts.last_mut() {
                Some((last, count)) if *last == needed => *count += 1,
                _ => parts.push((needed, 1)),
            }
        }
        let mut rest = Some(item);
        let mut items = Vec::new();
        for (needed, count) in parts {
            let Some(item) = rest.take() else { break };
            let (head, tail) = item.cut(count as usize, usize::MAX, coder)?;
            items.push((needed, head));
            rest = tail;
        }
        Ok(items)
    }

    /// Makes ready what no longer waits for side inputs.
    pub(super) fn unblock(&mut self, stage: StageId) {
        let reached = self.reached_of_side_inputs(stage);
        let state = &mut self.stages[stage.index()];
        state.queue.unblock(&reached);
        if let Some(keyed) = &mut state.keyed {
            keyed.unblock(&reached);
        }
        self.dirty.insert(stage);
    }

    /// Takes watermarks that rose over all lanes.
    pub(super) fn raise_watermarks(
        &mut self,
        now: Timestamp,
        risen: &[(StageId, Timestamp)],
        tables: &mut impl Tables,
    ) {
        let graph = Arc::clone(&self.graph);
        for &(stage, watermark) in risen {
            debug_assert!(
                self.watermarks[stage.index()] <= watermark,
                "{stage} goes back"
            );
            self.watermarks[stage.index()] = watermark;
        }
        for &(stage, _) in risen {
            for output in &graph.stages[stage.index()].outputs {
                let node = &graph.pcollections[output.index()];
                for &consumer in &node.consumers {
                    self.dirty.insert(consumer);
                    self.advance_groups(now, consumer, tables);
                    self.release_sorted(consumer);
                    self.expire_windows(consumer, tables);
                }
                for side in &node.side_consumers {
                    self.unblock(side.stage);
                }
            }
        }
    }

    /// Fires what is due in a group-by-key.
    fn advance_groups(&mut self, now: Timestamp, stage: StageId, tables: &mut impl Tables) {
        let watermark = self.input_watermark(stage);
        let Some(grouper) = &mut self.stages[stage.index()].grouper else {
            return;
        };
        grouper.advance(tables.groups(), now, watermark);
        self.push_groups(now, stage, tables);
    }

    /// Hands on fired groups where no single consumer draws them, and counts what came too late.
    pub(super) fn push_groups(&mut self, now: Timestamp, stage: StageId, tables: &mut impl Tables) {
        self.dirty.insert(stage);
        self.ask_to_merge(now, stage, tables);
        let state = &mut self.stages[stage.index()];
        let Some(grouper) = &mut state.grouper else {
            return;
        };
        let dropped = grouper.dropped_late();
        if dropped > state.dropped_late {
            let count = dropped - state.dropped_late;
            state.dropped_late = dropped;
            self.actions
                .push_back(Action::Release(Release::DroppedLate { stage, count }));
        }
        if let Some(consumer) = state.drawn_by {
            self.dirty.insert(consumer);
            return;
        }
        // What nobody reads must not wait either: it would hold the watermark for ever.
        let output = self.graph.stages[stage.index()].sole_output();
        while let Some(fired) = self.draw_groups(stage, PUSH_BYTES, tables) {
            debug_assert!(
                fired.backed.is_empty(),
                "only what is drawn is backed by state"
            );
            if let Some(output) = output {
                self.emit(now, stage, output, &fired.chunk.bytes, tables);
            }
        }
    }

    /// Takes fired groups, encoded.
    pub(super) fn draw_groups(
        &mut self,
        stage: StageId,
        bytes_max: usize,
        tables: &mut impl Tables,
    ) -> Option<Fired> {
        let grouper = self.stages[stage.index()].grouper.as_mut()?;
        grouper.poll_output(tables.groups(), bytes_max, usize::MAX)
    }

    /// Takes messages of a native source.
    pub(super) fn arrive(
        &mut self,
        now: Timestamp,
        stage: StageId,
        messages: Vec<Message>,
        tables: &mut impl Tables,
    ) {
        self.dirty.insert(stage);
        let state = &mut self.stages[stage.index()];
        let Some(read) = &mut state.read else { return };
        let arrival = read.arrive(tables.dedup(), now, messages);
        let drawn_by = state.drawn_by;
        if arrival.duplicates > 0 {
            let count = arrival.duplicates;
            self.actions
                .push_back(Action::Release(Release::Duplicates { stage, count }));
        }
        if !arrival.acknowledge.is_empty() {
            let receipts = arrival.acknowledge;
            self.actions
                .push_back(Action::Release(Release::Ack { stage, receipts }));
        }
        if let Some(consumer) = drawn_by {
            self.dirty.insert(consumer);
            return;
        }
        let output = self.graph.stages[stage.index()].sole_output();
        let everything = Limits {
            bytes: usize::MAX,
            elements: usize::MAX,
        };
        while let Some(item) = self.stages[stage.index()]
            .read
            .as_mut()
            .and_then(|read| read.take(everything))
        {
            if let Some(output) = output {
                self.emit(now, stage, output, &item.chunk.bytes, tables);
            }
            let delta = Delta {
                stage,
                deliveries: Vec::new(),
                residuals: Vec::new(),
                keyed: None,
                consumed: item.source.into_iter().collect(),
                releases: Vec::new(),
            };
            self.apply(now, delta, tables);
        }
    }

    /// Takes a native source's own promise.
    pub(super) fn raise_source_watermark(&mut self, stage: StageId, watermark: Timestamp) {
        if let Some(known) = &mut self.stages[stage.index()].source_watermark
            && watermark > *known
        {
            *known = watermark;
            self.dirty.insert(stage);
        }
    }

    /// Time passed: delayed work, processing-time triggers and old bundles are looked at.
    pub(super) fn wake(&mut self, now: Timestamp, tables: &mut impl Tables) {
        while let Some(&(due, stage)) = self.wakeups.first()
            && due <= now
        {
            self.wakeups.pop_first();
            let state = &mut self.stages[stage.index()];
            state.wakes_at = None;
            state.queue.wake(now);
            self.end_rests(now, stage);
            self.advance_groups(now, stage, tables);
            self.dirty.insert(stage);
        }
        self.look_at_bundles();
    }

    /// Answers a state request of a bundle. Nothing else comes of it: no action, and nothing to settle.
    pub fn answer_state(
        &mut self,
        bundle: BundleId,
        key: StateKey,
        mut operation: StateOperation,
        tables: &mut impl Tables,
    ) -> StateReply {
        if let Some(running) = self.bundles.get_mut(&bundle) {
            running.moved = true;
        }
        let kept = keep_appended(&mut operation, tables.payload());
        let values = self.serve_values(bundle, &key, &operation, tables.payload());
        let side_inputs =
            || side_input::serve(tables.side_inputs(), &self.side_inputs, &key, &operation);
        match (kept, values.or_else(side_inputs)) {
            (Err(error), _) => StateReply::Error(format!("state cannot be held: {error}")),
            (Ok(()), Some(reply)) => reply,
            (Ok(()), None) => self.serve_user_state(bundle, key, operation, tables),
        }
    }

    /// The minimum over the stage's producers; a source's own word where it has none.
    pub(super) fn input_watermark(&self, stage: StageId) -> Timestamp {
        let node = &self.graph.stages[stage.index()];
        if let Some(watermark) = self.stages[stage.index()].source_watermark {
            return watermark;
        }
        let producers = node.inputs.iter().map(|input| {
            let producer = self.graph.pcollections[input.index()].producer;
            self.watermarks[producer.index()]
        });
        producers.min().unwrap_or(Timestamp::MAX)
    }

    /// Reports every output watermark that rose on this lane, and notes wake-ups.
    pub(super) fn report_watermarks(&mut self, now: Timestamp) {
        let mut risen = Vec::new();
        for &stage in &self.dirty {
            let due = self.stages[stage.index()].next_due(now);
            let state = &mut self.stages[stage.index()];
            if due != state.wakes_at {
                if let Some(old) = state.wakes_at {
                    self.wakeups.remove(&(old, stage));
                }
                if let Some(due) = due {
                    self.wakeups.insert((due, stage));
                }
                state.wakes_at = due;
            }
            if matches!(
                self.graph.stages[stage.index()].kind,
                StageKind::Flatten | StageKind::Reshuffle
            ) {
                continue;
            }
            let output = self
                .input_watermark(stage)
                .min(self.stages[stage.index()].hold());
            let state = &mut self.stages[stage.index()];
            if output > state.reported {
                state.reported = output;
                risen.push((stage, output));
            }
        }
        if !risen.is_empty() {
            self.actions.push_back(Action::Report(risen));
        }
    }

    /// The job cannot go on; nothing more is started.
    pub(super) fn fail_job(&mut self, stage: StageId, failure: String) {
        if !self.failed {
            self.failed = true;
            self.actions.push_back(Action::Fail { stage, failure });
        }
    }
}

/// Makes what is appended to state ready to stay: off the heap, where memory is short, and by itself, where it is so
/// small that what it came in would be held by it.
fn keep_appended(
    operation: &mut StateOperation,
    payload: &mut impl PayloadTable,
) -> Result<(), PayloadError> {
    if let StateOperation::Append { data } = operation {
        if data.len() < SMALL_STATE_BYTES {
            *data = Bytes::copy_from_slice(data);
        } else if payload.is_short() {
            *data = payload.keep(data, Reading::Anywhere)?;
        }
    }
    Ok(())
}

/// Go writes each value's length by itself; a message that such three bytes came in has kilobytes.
const SMALL_STATE_BYTES: usize = 512;

/// How much of a group-by-key's output is encoded at a time when it is pushed on.
const PUSH_BYTES: usize = 4 << 20;

/// The element of an impulse: an empty byte string.
fn impulse_element() -> Bytes {
    let mut element = Vec::new();
    coder::windowed_value::write_header(
        &mut element,
        Timestamp::MIN,
        &[Window::Global],
        PaneInfo::NO_FIRING,
    );
    coder::varint::write(&mut element, 0);
    Bytes::from(element)
}
