//! Ready some processing time after the pane's first element; fires once.

use crate::engine::tables::group::TriggerState;
use crate::engine::trigger::machine::{Moment, Node, finished_in_any};
use crate::model::time::Timestamp;
use crate::model::windowing::TimestampTransform;

/// Keeps in its slot's value when it will be ready.
///
/// The synchronized form waits until all upstream stages have reached the time of the first
/// element. On one machine that is so as soon as the clock has moved on, so that elements of one
/// instant share a pane.
#[derive(Debug)]
pub(super) struct AfterProcessingTime {
    slot: usize,
    transforms: Vec<TimestampTransform>,
}

impl AfterProcessingTime {
    pub(super) fn new(slot: usize, transforms: Vec<TimestampTransform>) -> Self {
        Self { slot, transforms }
    }

    pub(super) fn synchronized(slot: usize) -> Self {
        Self {
            slot,
            transforms: vec![TimestampTransform::Delay(1)],
        }
    }
}

impl Node for AfterProcessingTime {
    fn slot(&self) -> usize {
        self.slot
    }

    fn on_element(&self, state: &mut TriggerState, moment: Moment) {
        let slot = state.slot_mut(self.slot);
        if !slot.finished && slot.value.is_none() {
            let ready = self.transforms.iter().fold(moment.now, transform);
            slot.value = Some(ready.millis());
        }
    }

    fn is_ready(&self, state: &TriggerState, moment: Moment) -> bool {
        let slot = state.slot(self.slot);
        !slot.finished && slot.value.is_some_and(|ready| moment.now.millis() >= ready)
    }

    fn fire(&self, state: &mut TriggerState, _: Moment) {
        let slot = state.slot_mut(self.slot);
        slot.finished = true;
        slot.value = None;
    }

    fn clear(&self, state: &mut TriggerState) {
        state.clear(self.slot);
    }

    /// The earliest time counts.
    fn merge(&self, state: &mut TriggerState, merged: &[TriggerState], _: Moment) {
        let slot = state.slot_mut(self.slot);
        slot.finished = finished_in_any(merged, self.slot);
        if !slot.finished {
            let times = merged
                .iter()
                .filter_map(|state| state.slot(self.slot).value);
            slot.value = times.min();
        }
    }

    fn next_processing_time(&self, state: &TriggerState, now: Timestamp) -> Option<Timestamp> {
        let slot = state.slot(self.slot);
        let ready = Timestamp::from_millis(slot.value?);
        (!slot.finished && ready > now).then_some(ready)
    }
}

fn transform(time: Timestamp, transform: &TimestampTransform) -> Timestamp {
    match *transform {
        TimestampTransform::Delay(delay) => time.plus(delay),
        TimestampTransform::AlignTo { period, offset } => {
            let into_period = (time.millis() - offset).rem_euclid(period.max(1));
            match into_period {
                0 => time,
                into_period => time.plus(period - into_period),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aligns_to_the_next_boundary() {
        let align = TimestampTransform::AlignTo {
            period: 10,
            offset: 3,
        };
        let aligned = |millis| transform(Timestamp::from_millis(millis), &align).millis();
        assert_eq!(
            [
                aligned(3),
                aligned(4),
                aligned(12),
                aligned(13),
                aligned(-8)
            ],
            [3, 13, 13, 13, -7]
        );
    }
}
