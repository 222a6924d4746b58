//! A trigger that starts again when it finishes.

use crate::engine::tables::group::TriggerState;
use crate::engine::trigger::machine::{Moment, Node};
use crate::model::time::Timestamp;

/// Never finishes.
#[derive(Debug)]
pub(super) struct Repeat {
    pub(super) slot: usize,
    pub(super) repeated: Box<dyn Node>,
}

impl Repeat {
    fn start_again_if_finished(&self, state: &mut TriggerState) {
        if state.slot(self.repeated.slot()).finished {
            self.repeated.clear(state);
        }
    }
}

impl Node for Repeat {
    fn slot(&self) -> usize {
        self.slot
    }

    fn on_element(&self, state: &mut TriggerState, moment: Moment) {
        self.repeated.on_element(state, moment);
    }

    fn is_ready(&self, state: &TriggerState, moment: Moment) -> bool {
        self.repeated.is_ready(state, moment)
    }

    fn fire(&self, state: &mut TriggerState, moment: Moment) {
        self.repeated.fire(state, moment);
        self.start_again_if_finished(state);
    }

    fn clear(&self, state: &mut TriggerState) {
        self.repeated.clear(state);
    }

    fn merge(&self, state: &mut TriggerState, merged: &[TriggerState], moment: Moment) {
        self.repeated.merge(state, merged, moment);
        self.start_again_if_finished(state);
    }

    fn next_processing_time(&self, state: &TriggerState, now: Timestamp) -> Option<Timestamp> {
        self.repeated.next_processing_time(state, now)
    }
}
