//! Ready when the window ends, and by its early and late triggers before and after.

use crate::engine::tables::group::TriggerState;
use crate::engine::trigger::machine::{Moment, Node};
use crate::model::time::Timestamp;

/// The value of its slot is set once the on-time pane has fired. Without a late trigger that
/// finishes it.
///
/// Early and late triggers come wrapped in a repeat.
#[derive(Debug)]
pub(super) struct AfterEndOfWindow {
    pub(super) slot: usize,
    pub(super) early: Option<Box<dyn Node>>,
    pub(super) late: Option<Box<dyn Node>>,
}

impl AfterEndOfWindow {
    fn is_late(&self, state: &TriggerState) -> bool {
        state.slot(self.slot).value.is_some()
    }

    /// The trigger that counts before or after the on-time pane.
    fn current(&self, state: &TriggerState) -> Option<&dyn Node> {
        if self.is_late(state) {
            self.late.as_deref()
        } else {
            self.early.as_deref()
        }
    }

    fn become_late(&self, state: &mut TriggerState) {
        let slot = state.slot_mut(self.slot);
        slot.value = Some(1);
        slot.finished = self.late.is_none();
    }
}

impl Node for AfterEndOfWindow {
    fn slot(&self) -> usize {
        self.slot
    }

    fn on_element(&self, state: &mut TriggerState, moment: Moment) {
        if let Some(current) = self.current(state) {
            current.on_element(state, moment);
        }
    }

    fn is_ready(&self, state: &TriggerState, moment: Moment) -> bool {
        let by_watermark = moment.window_ended && !self.is_late(state);
        by_watermark
            || self
                .current(state)
                .is_some_and(|current| current.is_ready(state, moment))
    }

    fn fire(&self, state: &mut TriggerState, moment: Moment) {
        if moment.window_ended && !self.is_late(state) {
            if let Some(early) = &self.early {
                early.clear(state);
            }
            self.become_late(state);
        } else if let Some(current) = self.current(state) {
            current.fire(state, moment);
        }
    }

    fn clear(&self, state: &mut TriggerState) {
        state.clear(self.slot);
        for child in self.early.iter().chain(&self.late) {
            child.clear(state);
        }
    }

    /// A window that has not ended, or into which one goes that has yet to fire on time, is early
    /// again.
    fn merge(&self, state: &mut TriggerState, merged: &[TriggerState], moment: Moment) {
        if moment.window_ended && merged.iter().all(|state| self.is_late(state)) {
            self.become_late(state);
            if let Some(late) = &self.late {
                late.merge(state, merged, moment);
            }
        } else if let Some(early) = &self.early {
            early.merge(state, merged, moment);
        }
    }

    fn next_processing_time(&self, state: &TriggerState, now: Timestamp) -> Option<Timestamp> {
        self.current(state)?.next_processing_time(state, now)
    }
}
