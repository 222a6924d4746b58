//! All, any, or each of several triggers.

use crate::engine::tables::group::TriggerState;
use crate::engine::trigger::machine::{Moment, Node, finished_in_any};
use crate::model::time::Timestamp;

/// Fires once, when all its parts are ready.
#[derive(Debug)]
pub(super) struct AfterAll {
    slot: usize,
    parts: Parts,
}

/// Fires once, when one of its parts is ready.
#[derive(Debug)]
pub(super) struct AfterAny {
    slot: usize,
    parts: Parts,
}

/// Runs one part after the other, each until it finishes.
#[derive(Debug)]
pub(super) struct AfterEach {
    slot: usize,
    parts: Parts,
}

#[derive(Debug)]
struct Parts(Vec<Box<dyn Node>>);

impl AfterAll {
    pub(super) fn new(slot: usize, parts: Vec<Box<dyn Node>>) -> Self {
        Self {
            slot,
            parts: Parts(parts),
        }
    }
}

impl AfterAny {
    pub(super) fn new(slot: usize, parts: Vec<Box<dyn Node>>) -> Self {
        Self {
            slot,
            parts: Parts(parts),
        }
    }
}

impl AfterEach {
    pub(super) fn new(slot: usize, parts: Vec<Box<dyn Node>>) -> Self {
        Self {
            slot,
            parts: Parts(parts),
        }
    }

    fn current(&self, state: &TriggerState) -> Option<&dyn Node> {
        let mut parts = self.parts.0.iter();
        parts
            .find(|part| !state.slot(part.slot()).finished)
            .map(AsRef::as_ref)
    }
}

impl Parts {
    fn unfinished<'a>(&'a self, state: &'a TriggerState) -> impl Iterator<Item = &'a dyn Node> {
        self.0
            .iter()
            .map(AsRef::as_ref)
            .filter(|part| !state.slot(part.slot()).finished)
    }

    fn on_element(&self, state: &mut TriggerState, moment: Moment) {
        for part in &self.0 {
            if !state.slot(part.slot()).finished {
                part.on_element(state, moment);
            }
        }
    }

    fn clear(&self, state: &mut TriggerState) {
        for part in &self.0 {
            part.clear(state);
        }
    }

    fn merge(&self, state: &mut TriggerState, merged: &[TriggerState], moment: Moment) {
        for part in &self.0 {
            part.merge(state, merged, moment);
        }
    }

    fn all_finished(&self, state: &TriggerState) -> bool {
        self.unfinished(state).next().is_none()
    }

    fn next_processing_time(&self, state: &TriggerState, now: Timestamp) -> Option<Timestamp> {
        self.unfinished(state)
            .filter_map(|part| part.next_processing_time(state, now))
            .min()
    }
}

impl Node for AfterAll {
    fn slot(&self) -> usize {
        self.slot
    }

    fn on_element(&self, state: &mut TriggerState, moment: Moment) {
        self.parts.on_element(state, moment);
    }

    fn is_ready(&self, state: &TriggerState, moment: Moment) -> bool {
        let all =
            |mut parts: Vec<&dyn Node>| parts.drain(..).all(|part| part.is_ready(state, moment));
        !state.slot(self.slot).finished && all(self.parts.unfinished(state).collect())
    }

    fn fire(&self, state: &mut TriggerState, moment: Moment) {
        for part in &self.parts.0 {
            if part.is_ready(state, moment) {
                part.fire(state, moment);
            }
        }
        state.finish(self.slot);
    }

    fn clear(&self, state: &mut TriggerState) {
        state.clear(self.slot);
        self.parts.clear(state);
    }

    fn merge(&self, state: &mut TriggerState, merged: &[TriggerState], moment: Moment) {
        self.parts.merge(state, merged, moment);
        if finished_in_any(merged, self.slot) || self.parts.all_finished(state) {
            state.finish(self.slot);
        }
    }

    fn next_processing_time(&self, state: &TriggerState, now: Timestamp) -> Option<Timestamp> {
        self.parts.next_processing_time(state, now)
    }
}

impl Node for AfterAny {
    fn slot(&self) -> usize {
        self.slot
    }

    fn on_element(&self, state: &mut TriggerState, moment: Moment) {
        self.parts.on_element(state, moment);
    }

    fn is_ready(&self, state: &TriggerState, moment: Moment) -> bool {
        !state.slot(self.slot).finished
            && self
                .parts
                .unfinished(state)
                .any(|part| part.is_ready(state, moment))
    }

    fn fire(&self, state: &mut TriggerState, moment: Moment) {
        for part in &self.parts.0 {
            if part.is_ready(state, moment) {
                part.fire(state, moment);
            } else {
                // The pane that it was following has gone.
                part.clear(state);
            }
        }
        state.finish(self.slot);
    }

    fn clear(&self, state: &mut TriggerState) {
        state.clear(self.slot);
        self.parts.clear(state);
    }

    fn merge(&self, state: &mut TriggerState, merged: &[TriggerState], moment: Moment) {
        self.parts.merge(state, merged, moment);
        let mut parts = self.parts.0.iter();
        if finished_in_any(merged, self.slot) || parts.any(|part| state.slot(part.slot()).finished)
        {
            state.finish(self.slot);
        }
    }

    fn next_processing_time(&self, state: &TriggerState, now: Timestamp) -> Option<Timestamp> {
        self.parts.next_processing_time(state, now)
    }
}

impl Node for AfterEach {
    fn slot(&self) -> usize {
        self.slot
    }

    fn on_element(&self, state: &mut TriggerState, moment: Moment) {
        if let Some(current) = self.current(state) {
            current.on_element(state, moment);
        }
    }

    fn is_ready(&self, state: &TriggerState, moment: Moment) -> bool {
        self.current(state)
            .is_some_and(|current| current.is_ready(state, moment))
    }

    fn fire(&self, state: &mut TriggerState, moment: Moment) {
        if let Some(current) = self.current(state) {
            current.fire(state, moment);
        }
        if self.parts.all_finished(state) {
            state.finish(self.slot);
        }
    }

    fn clear(&self, state: &mut TriggerState) {
        state.clear(self.slot);
        self.parts.clear(state);
    }

    /// Goes on with the first part that has not finished everywhere; those after it have not begun.
    fn merge(&self, state: &mut TriggerState, merged: &[TriggerState], moment: Moment) {
        for part in &self.parts.0 {
            part.merge(state, merged, moment);
            if !state.slot(part.slot()).finished {
                return;
            }
        }
        state.finish(self.slot);
    }

    fn next_processing_time(&self, state: &TriggerState, now: Timestamp) -> Option<Timestamp> {
        self.current(state)?.next_processing_time(state, now)
    }
}
