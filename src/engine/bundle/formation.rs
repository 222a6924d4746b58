//! Forming bundles from what waits.

use crate::engine::Lane;
use crate::engine::action::{Action, StartBundle};
use crate::engine::bundle::{InFlight, KeyedBundle, Truncation};
use crate::engine::queue::Item;
use crate::engine::routing::Staged;
use crate::engine::tables::Tables;
use crate::model::ids::{BundleId, StageId, WorkerId};
use crate::model::time::Timestamp;

/// What a bundle works on.
pub enum Work {
    Items(Vec<Item>),
    Keys(KeyedBundle),
}

impl Lane {
    /// Starts a bundle of `stage` on `worker` if there is work for one.
    pub(in crate::engine) fn form_bundle(
        &mut self,
        now: Timestamp,
        stage: StageId,
        worker: WorkerId,
        tables: &mut impl Tables,
    ) -> bool {
        if self.stages[stage.index()].keyed.is_some() {
            return self.form_keyed_bundle(now, stage, worker, tables);
        }
        self.draw(stage, tables);
        let Some((bundle, input)) = self.begin(stage, Some(worker)) else {
            return false;
        };
        let truncates = self
            .bundles
            .get(&bundle)
            .is_some_and(|running| running.truncation.is_some());
        let input = input.into_iter().map(|item| item.chunk).collect();
        self.actions.push_back(Action::StartBundle(StartBundle {
            bundle,
            stage,
            worker,
            input,
            timers: Vec::new(),
            state_epoch: self.state_epoch,
            settled_side_inputs: self.settled_side_inputs(stage),
            truncates,
        }));
        true
    }

    /// Starts as many publishes of a native sink as are allowed at a time.
    pub(in crate::engine) fn publish_ready(&mut self, stage: StageId) {
        while self.stages[stage.index()].bundles < self.settings.publishes_max {
            let Some((bundle, input)) = self.begin(stage, None) else {
                return;
            };
            let lane = u64::from(self.id.0) << NUMBER_LANE_SHIFT;
            let number = |item: &Item| lane | item.sequence;
            let chunks = input
                .into_iter()
                .map(|item| (number(&item), item.chunk))
                .collect();
            self.actions.push_back(Action::Publish {
                bundle,
                stage,
                chunks,
            });
        }
    }

    /// Fills the stage's queue from the producer that it draws on.
    fn draw(&mut self, stage: StageId, tables: &mut impl Tables) {
        let Some(producer) = self.stages[stage.index()].draws_on else {
            return;
        };
        self.dirty.insert(producer);
        while !self.stages[stage.index()].queue.has_ready() {
            let limits = self.limits(stage);
            let read = self.stages[producer.index()].read.as_mut();
            let drawn = match read {
                Some(read) => read.take(limits),
                None => self
                    .draw_groups(producer, limits.bytes, tables)
                    .map(|fired| Item {
                        backed: fired.backed,
                        ..Item::new(fired.chunk)
                    }),
            };
            let Some(item) = drawn else { return };
            self.admit(stage, item);
        }
    }

    /// Takes a bundle's input off the queue and notes it as running.
    fn begin(&mut self, stage: StageId, worker: Option<WorkerId>) -> Option<(BundleId, Vec<Item>)> {
        let limits = self.limits(stage);
        let node = &self.graph.stages[stage.index()];
        let coder = &self.graph.pcollections[node.inputs.first()?.index()].coder;
        let state = &mut self.stages[stage.index()];
        let input = match state.queue.take(limits, coder) {
            Ok(input) => input,
            Err(error) => {
                self.fail_job(stage, format!("its input cannot be read: {error}"));
                return None;
            }
        };
        let hold = input.iter().map(|item| item.hold).min()?;
        let bundle = self.note_running(stage, worker, hold, Work::Items(input.clone()));
        Some((bundle, input))
    }

    /// Notes a bundle as running.
    pub(in crate::engine) fn note_running(
        &mut self,
        stage: StageId,
        worker: Option<WorkerId>,
        hold: Timestamp,
        work: Work,
    ) -> BundleId {
        let (input, keyed) = match work {
            Work::Items(items) => (items, None),
            Work::Keys(keys) => (Vec::new(), Some(keys)),
        };
        let truncated = input.iter().any(|item| item.truncated);
        let truncates = self.truncates(stage) && !truncated;
        let node = &self.graph.stages[stage.index()];
        let state = &mut self.stages[stage.index()];
        self.next_bundle += 1;
        let bundle = BundleId(self.next_bundle);
        state.running.add(hold);
        state.bundles += 1;
        let outputs = node.outputs.iter();
        let staged = outputs
            .map(|output| Staged::new(*output, &self.routes, &self.graph, self.settings.lanes))
            .collect();
        let running = InFlight {
            stage,
            worker,
            input,
            keyed,
            staged,
            truncated,
            truncation: truncates.then(Truncation::default),
            hold,
            started: self.processing_time.wall(),
            moved: false,
            taken: 0,
            dormant: false,
            splitting: false,
            ended: None,
            split_asked: None,
            first_residual: None,
            broken: None,
        };
        let former = self.bundles.insert(bundle, running);
        debug_assert!(former.is_none(), "{bundle} was formed twice");
        bundle
    }
}

/// Numbers of elements carry their lane above this bit.
const NUMBER_LANE_SHIFT: u32 = 48;
