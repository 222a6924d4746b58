//! Ids of messages whose effects are committed.

use crate::model::ids::StageId;
use crate::model::time::Timestamp;

/// Remembers message ids for the dedup horizon.
pub trait DedupTable {
    /// Whether `id` was committed within the horizon; a hit keeps the id for another horizon.
    fn check(&mut self, stage: StageId, id: &[u8], now: Timestamp) -> bool;

    /// Remembers a committed id.
    fn insert(&mut self, stage: StageId, id: &[u8], now: Timestamp);

    /// Forgets what is older than the horizon.
    fn expire(&mut self, now: Timestamp);
}
