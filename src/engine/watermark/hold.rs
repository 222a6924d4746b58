//! Holds: timestamps below which a stage's output may not pass yet.

use std::collections::BTreeMap;

use crate::model::time::Timestamp;

/// A multiset of holds that knows its lowest one.
///
/// ```
/// use tidemill::engine::watermark::Holds;
/// use tidemill::model::Timestamp;
///
/// let mut holds = Holds::default();
/// holds.add(Timestamp::from_millis(5));
/// holds.add(Timestamp::from_millis(5));
/// holds.remove(Timestamp::from_millis(5));
/// assert_eq!(holds.lowest(), Timestamp::from_millis(5));
/// holds.remove(Timestamp::from_millis(5));
/// assert_eq!(holds.lowest(), Timestamp::MAX);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holds {
    counts: BTreeMap<Timestamp, u64>,
}

impl Holds {
    /// Adds one hold at `at`.
    ///
    /// What holds at the end of time is still to come, so the watermark stays below the end.
    pub fn add(&mut self, at: Timestamp) {
        *self.counts.entry(at.min(BEFORE_END)).or_insert(0) += 1;
    }

    /// Removes one hold at `at`, which was added before.
    pub fn remove(&mut self, at: Timestamp) {
        let at = at.min(BEFORE_END);
        let count = self.counts.get_mut(&at);
        debug_assert!(
            count.is_some(),
            "a hold at {at} is removed that was never added"
        );
        if let Some(count) = count {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&at);
            }
        }
    }

    /// The lowest hold; [`Timestamp::MAX`] when there is none.
    pub fn lowest(&self) -> Timestamp {
        self.counts.keys().next().copied().unwrap_or(Timestamp::MAX)
    }
}

/// The last time that is not the end of all.
const BEFORE_END: Timestamp = Timestamp::MAX.plus(-1);
