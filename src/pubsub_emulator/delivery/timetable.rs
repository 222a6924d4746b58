//! Which messages fall due when.

use std::collections::BTreeMap;

use super::time::Time;

/// Moments and the messages due at them.
///
/// Messages of one response share a moment, so there are few moments and many messages: adding is a
/// push, and taking one away only counts down; a moment nobody waits for any more is dropped whole.
/// A popped list may therefore name messages that were taken away. The owner tells them by asking
/// the message itself when it is due.
#[derive(Debug, Default)]
pub(super) struct Timetable {
    moments: BTreeMap<Time, Moment>,
}

#[derive(Debug, Default)]
struct Moment {
    messages: Vec<u64>,
    live: usize,
}

impl Timetable {
    /// Notes that `message` is due `at` that moment.
    pub(super) fn add(&mut self, at: Time, message: u64) {
        let moment = self.moments.entry(at).or_default();
        moment.messages.push(message);
        moment.live += 1;
    }

    /// Notes that one message is no longer due `at` that moment.
    pub(super) fn remove(&mut self, at: Time) {
        if let Some(moment) = self.moments.get_mut(&at) {
            moment.live = moment.live.saturating_sub(1);
            if moment.live == 0 {
                self.moments.remove(&at);
            }
        }
    }

    /// The earliest moment that has come, with its messages.
    pub(super) fn pop_due(&mut self, now: Time) -> Option<(Time, Vec<u64>)> {
        let first = self.moments.first_entry()?;
        if *first.key() > now {
            return None;
        }
        let (at, moment) = first.remove_entry();
        Some((at, moment.messages))
    }

    /// The earliest moment.
    pub(super) fn next(&self) -> Option<Time> {
        self.moments.first_key_value().map(|(at, _)| *at)
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.moments.clear();
    }
}
