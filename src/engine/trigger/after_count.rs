//! Ready after so many elements; fires once.

use crate::engine::tables::group::TriggerState;
use crate::engine::trigger::machine::{Moment, Node, finished_in_any};
use crate::model::time::Timestamp;

/// Counts elements in its slot's value.
#[derive(Debug)]
pub(super) struct AfterCount {
    slot: usize,
    count: i64,
}

impl AfterCount {
    pub(super) fn new(slot: usize, count: u32) -> Self {
        Self {
            slot,
            count: i64::from(count.max(1)),
        }
    }
}

impl Node for AfterCount {
    fn slot(&self) -> usize {
        self.slot
    }

    fn on_element(&self, state: &mut TriggerState, _: Moment) {
        let slot = state.slot_mut(self.slot);
        if !slot.finished {
            slot.value = Some(slot.value.unwrap_or(0).saturating_add(1));
        }
    }

    fn is_ready(&self, state: &TriggerState, _: Moment) -> bool {
        let slot = state.slot(self.slot);
        !slot.finished && slot.value.unwrap_or(0) >= self.count
    }

    fn fire(&self, state: &mut TriggerState, _: Moment) {
        let slot = state.slot_mut(self.slot);
        slot.finished = true;
        slot.value = None;
    }

    fn clear(&self, state: &mut TriggerState) {
        state.clear(self.slot);
    }

    /// Counts add up; a count that has been reached in one window stays reached.
    fn merge(&self, state: &mut TriggerState, merged: &[TriggerState], _: Moment) {
        let slot = state.slot_mut(self.slot);
        slot.finished = finished_in_any(merged, self.slot);
        if !slot.finished {
            let counts = merged
                .iter()
                .filter_map(|state| state.slot(self.slot).value);
            slot.value = counts.reduce(i64::saturating_add);
        }
    }

    fn next_processing_time(&self, _: &TriggerState, _: Timestamp) -> Option<Timestamp> {
        None
    }
}
