//! Triggers without state: always, never, and the default one.

use crate::engine::tables::group::TriggerState;
use crate::engine::trigger::machine::{Moment, Node};
use crate::model::time::Timestamp;

/// Ready whenever there is something to fire; never finishes.
#[derive(Debug)]
pub(super) struct Always {
    pub(super) slot: usize,
}

/// Never ready: what was collected comes out when the window expires.
#[derive(Debug)]
pub(super) struct Never {
    pub(super) slot: usize,
}

/// Beam's default trigger: ready once the window ends, and for what comes late; never finishes.
#[derive(Debug)]
pub(super) struct AtEndOfWindow {
    pub(super) slot: usize,
}

/// A node whose readiness follows from the moment alone.
macro_rules! stateless {
    ($name:ident, $moment:ident => $is_ready:expr) => {
        impl Node for $name {
            fn slot(&self) -> usize {
                self.slot
            }

            fn on_element(&self, _: &mut TriggerState, _: Moment) {}

            fn is_ready(&self, _: &TriggerState, $moment: Moment) -> bool {
                $is_ready
            }

            fn fire(&self, _: &mut TriggerState, _: Moment) {}

            fn clear(&self, _: &mut TriggerState) {}

            fn merge(&self, _: &mut TriggerState, _: &[TriggerState], _: Moment) {}

            fn next_processing_time(&self, _: &TriggerState, _: Timestamp) -> Option<Timestamp> {
                None
            }
        }
    };
}

stateless!(Always, moment => moment.fresh);
stateless!(Never, _moment => false);
stateless!(AtEndOfWindow, moment => moment.window_ended);
