//! From a trigger to its machine: a node per trigger, each with a slot of state.

use std::fmt;

use crate::engine::tables::group::{TriggerSlot, TriggerState};
use crate::engine::trigger::after_count::AfterCount;
use crate::engine::trigger::after_end_of_window::AfterEndOfWindow;
use crate::engine::trigger::after_processing_time::AfterProcessingTime;
use crate::engine::trigger::composite::{AfterAll, AfterAny, AfterEach};
use crate::engine::trigger::or_finally::OrFinally;
use crate::engine::trigger::repeat::Repeat;
use crate::engine::trigger::simple::{Always, AtEndOfWindow, Never};
use crate::model::time::Timestamp;
use crate::model::windowing::Trigger;

/// When a trigger is asked or told something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Processing time.
    pub now: Timestamp,
    /// The input watermark has passed the end of the window.
    pub window_ended: bool,
    /// There are elements that have not been fired.
    pub fresh: bool,
}

/// The machine of a stage's trigger.
#[derive(Debug)]
pub struct TriggerMachine {
    root: Box<dyn Node>,
}

impl TriggerMachine {
    pub fn new(trigger: &Trigger) -> Self {
        Self {
            root: Compiler::default().node(trigger),
        }
    }

    /// An element came; if several came at once, for each of them.
    pub fn on_element(&self, state: &mut TriggerState, moment: Moment) {
        self.root.on_element(state, moment);
    }

    pub fn is_ready(&self, state: &TriggerState, moment: Moment) -> bool {
        self.root.is_ready(state, moment)
    }

    /// The trigger was ready and the pane fires. Tells whether it has finished.
    pub fn fire(&self, state: &mut TriggerState, moment: Moment) -> bool {
        debug_assert!(self.is_ready(state, moment), "only a ready trigger fires");
        self.root.fire(state, moment);
        state.slot(self.root.slot()).finished
    }

    /// The state of a window into which windows with these states are merged.
    pub fn merge(&self, merged: &[TriggerState], moment: Moment) -> TriggerState {
        let mut state = TriggerState::default();
        self.root.merge(&mut state, merged, moment);
        state
    }

    /// The next processing time, after `now`, at which the trigger may become ready by itself.
    pub fn next_processing_time(&self, state: &TriggerState, now: Timestamp) -> Option<Timestamp> {
        self.root.next_processing_time(state, now)
    }
}

/// One trigger of the tree.
pub(super) trait Node: fmt::Debug + Send + Sync {
    /// Where the node keeps its state.
    fn slot(&self) -> usize;
    fn on_element(&self, state: &mut TriggerState, moment: Moment);
    /// Never true for a node that has finished.
    fn is_ready(&self, state: &TriggerState, moment: Moment) -> bool;
    /// The pane fires; called when ready only.
    fn fire(&self, state: &mut TriggerState, moment: Moment);
    /// Back to the first state, with all below.
    fn clear(&self, state: &mut TriggerState);
    /// `state` is in its first state and becomes what `merged` make together.
    fn merge(&self, state: &mut TriggerState, merged: &[TriggerState], moment: Moment);
    fn next_processing_time(&self, state: &TriggerState, now: Timestamp) -> Option<Timestamp>;
}

#[derive(Default)]
struct Compiler {
    slots: usize,
}

impl Compiler {
    fn node(&mut self, trigger: &Trigger) -> Box<dyn Node> {
        let slot = self.slots;
        self.slots += 1;
        match trigger {
            Trigger::Default => Box::new(AtEndOfWindow { slot }),
            Trigger::Always => Box::new(Always { slot }),
            Trigger::Never => Box::new(Never { slot }),
            Trigger::ElementCount(count) => Box::new(AfterCount::new(slot, *count)),
            Trigger::AfterEndOfWindow { early, late } => Box::new(AfterEndOfWindow {
                slot,
                early: early.as_deref().map(|early| self.repeated(early)),
                late: late.as_deref().map(|late| self.repeated(late)),
            }),
            Trigger::AfterProcessingTime(transforms) => {
                Box::new(AfterProcessingTime::new(slot, transforms.clone()))
            }
            Trigger::AfterSynchronizedProcessingTime => {
                Box::new(AfterProcessingTime::synchronized(slot))
            }
            Trigger::AfterAll(all) => Box::new(AfterAll::new(slot, self.nodes(all))),
            Trigger::AfterAny(any) => Box::new(AfterAny::new(slot, self.nodes(any))),
            Trigger::AfterEach(each) => Box::new(AfterEach::new(slot, self.nodes(each))),
            Trigger::OrFinally { main, finally } => Box::new(OrFinally {
                slot,
                main: self.node(main),
                finally: self.node(finally),
            }),
            Trigger::Repeat(repeated) => Box::new(Repeat {
                slot,
                repeated: self.node(repeated),
            }),
        }
    }

    fn nodes(&mut self, triggers: &[Trigger]) -> Vec<Box<dyn Node>> {
        triggers.iter().map(|trigger| self.node(trigger)).collect()
    }

    fn repeated(&mut self, trigger: &Trigger) -> Box<dyn Node> {
        let slot = self.slots;
        self.slots += 1;
        Box::new(Repeat {
            slot,
            repeated: self.node(trigger),
        })
    }
}

impl TriggerState {
    pub(super) fn slot(&self, slot: usize) -> TriggerSlot {
        self.slots.get(slot).copied().unwrap_or_default()
    }

    pub(super) fn slot_mut(&mut self, slot: usize) -> &mut TriggerSlot {
        if self.slots.len() <= slot {
            self.slots.resize(slot + 1, TriggerSlot::default());
        }
        &mut self.slots[slot]
    }

    pub(super) fn clear(&mut self, slot: usize) {
        if let Some(slot) = self.slots.get_mut(slot) {
            *slot = TriggerSlot::default();
        }
    }

    pub(super) fn finish(&mut self, slot: usize) {
        self.slot_mut(slot).finished = true;
    }
}

/// Whether the node finished in any of the states.
pub(super) fn finished_in_any(merged: &[TriggerState], slot: usize) -> bool {
    merged.iter().any(|state| state.slot(slot).finished)
}
