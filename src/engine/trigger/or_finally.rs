//! One trigger until it finishes or another is ready.

use crate::engine::tables::group::TriggerState;
use crate::engine::trigger::machine::{Moment, Node, finished_in_any};
use crate::model::time::Timestamp;

/// Ready with `main`; finishes with it or when `finally` fires, which follows all elements, not the
/// pane's only.
#[derive(Debug)]
pub(super) struct OrFinally {
    pub(super) slot: usize,
    pub(super) main: Box<dyn Node>,
    pub(super) finally: Box<dyn Node>,
}

impl OrFinally {
    fn update_finished(&self, state: &mut TriggerState) {
        let mut parts = [&self.main, &self.finally].into_iter();
        if parts.any(|part| state.slot(part.slot()).finished) {
            state.finish(self.slot);
        }
    }
}

impl Node for OrFinally {
    fn slot(&self) -> usize {
        self.slot
    }

    fn on_element(&self, state: &mut TriggerState, moment: Moment) {
        self.main.on_element(state, moment);
        self.finally.on_element(state, moment);
    }

    fn is_ready(&self, state: &TriggerState, moment: Moment) -> bool {
        !state.slot(self.slot).finished
            && (self.main.is_ready(state, moment) || self.finally.is_ready(state, moment))
    }

    fn fire(&self, state: &mut TriggerState, moment: Moment) {
        if self.finally.is_ready(state, moment) {
            self.finally.fire(state, moment);
            self.main.clear(state);
            state.finish(self.slot);
        } else {
            self.main.fire(state, moment);
        }
        self.update_finished(state);
    }

    fn clear(&self, state: &mut TriggerState) {
        state.clear(self.slot);
        self.main.clear(state);
        self.finally.clear(state);
    }

    fn merge(&self, state: &mut TriggerState, merged: &[TriggerState], moment: Moment) {
        self.main.merge(state, merged, moment);
        self.finally.merge(state, merged, moment);
        if finished_in_any(merged, self.slot) {
            state.finish(self.slot);
        }
        self.update_finished(state);
    }

    fn next_processing_time(&self, state: &TriggerState, now: Timestamp) -> Option<Timestamp> {
        let parts = [&self.main, &self.finally].into_iter();
        parts
            .filter_map(|part| part.next_processing_time(state, now))
            .min()
    }
}
