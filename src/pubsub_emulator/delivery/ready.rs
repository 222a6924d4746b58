//! Which message goes out next.

use std::collections::{BTreeSet, VecDeque};

use super::consumer::ConsumerId;
use super::ordering::Lines;
use super::rng::Rng;

/// The messages that may go out now. A number may stand here although its message has gone; the
/// owner checks that when it pops.
#[derive(Debug, Default)]
pub(super) struct Ready {
    /// Never delivered, in publish order.
    fresh: VecDeque<u64>,
    /// To be delivered again, oldest first; they go first.
    again: BTreeSet<u64>,
    /// Messages with an ordering key, on ordered subscriptions.
    pub(super) lines: Lines,
}

impl Ready {
    /// Adds a new message.
    pub(super) fn push_fresh(&mut self, id: u64) {
        self.fresh.push_back(id);
    }

    /// Adds a message that comes again.
    pub(super) fn push_again(&mut self, id: u64) {
        self.again.insert(id);
    }

    /// The next message for `consumer`, drawn among the `window` oldest ones.
    pub(super) fn pop(
        &mut self,
        consumer: ConsumerId,
        window: usize,
        rng: &mut Rng,
    ) -> Option<u64> {
        if let Some(id) = self.again.pop_first() {
            return Some(id);
        }
        if window > 1 && self.fresh.len() > 1 {
            let drawn = rng.below(window.min(self.fresh.len()));
            self.fresh.swap(0, drawn);
        }
        self.fresh.pop_front().or_else(|| self.lines.pop(consumer))
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.fresh.clear();
        self.again.clear();
        self.lines.clear();
    }
}
