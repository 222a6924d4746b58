//! A multiset of timestamps that the output watermark must wait at.

use std::collections::BTreeMap;

use crate::model::time::Timestamp;

/// Invariant: no count is 0.
#[derive(Debug, Default)]
pub(super) struct Holds {
    counts: BTreeMap<Timestamp, u64>,
}

impl Holds {
    pub(super) fn add(&mut self, hold: Timestamp) {
        *self.counts.entry(hold).or_insert(0) += 1;
    }

    /// Takes back a hold that was added.
    pub(super) fn remove(&mut self, hold: Timestamp) {
        let count = self.counts.get_mut(&hold);
        debug_assert!(
            count.is_some(),
            "a hold is removed once per time it was added"
        );
        if let Some(count) = count {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&hold);
            }
        }
    }

    /// The lowest; [`Timestamp::MAX`] when there is none.
    pub(super) fn lowest(&self) -> Timestamp {
        self.counts.keys().next().copied().unwrap_or(Timestamp::MAX)
    }
}
