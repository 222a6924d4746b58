//! Ids of committed messages in memory.

use std::collections::{BTreeMap, VecDeque};

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use crate::engine::tables::DedupTable;
use crate::model::ids::StageId;
use crate::model::time::{Millis, Timestamp};

/// How long a committed id is remembered after it was committed or seen again.
const HORIZON: Millis = 11 * 60_000;
/// Ids are forgotten a slot of this length at a time.
const SLOT: Millis = 60_000;

/// Committed ids by read stage.
#[derive(Debug, Default)]
pub struct MemoryDedup {
    stages: BTreeMap<StageId, Ids>,
}

/// Ids with the slot they were last seen in, and each slot's ids in the order in which they are forgotten.
#[derive(Debug, Default)]
struct Ids {
    last_seen: HashMap<Box<[u8]>, i64, FxBuildHasher>,
    slots: VecDeque<(i64, Vec<Box<[u8]>>)>,
}

impl Ids {
    fn note(&mut self, id: &[u8], slot: i64) {
        if self.last_seen.insert(id.into(), slot) == Some(slot) {
            return;
        }
        match self.slots.back_mut() {
            Some((last, ids)) if *last >= slot => ids.push(id.into()),
            _ => self.slots.push_back((slot, vec![id.into()])),
        }
    }

    fn expire(&mut self, slot: i64) {
        while let Some((first, _)) = self.slots.front()
            && *first < slot
        {
            let Some((first, ids)) = self.slots.pop_front() else {
                return;
            };
            for id in ids {
                // Seen again since: a later slot has it too.
                if self.last_seen.get(&id).is_some_and(|seen| *seen <= first) {
                    self.last_seen.remove(&id);
                }
            }
        }
    }
}

impl DedupTable for MemoryDedup {
    fn check(&mut self, stage: StageId, id: &[u8], now: Timestamp) -> bool {
        let Some(ids) = self.stages.get_mut(&stage) else {
            return false;
        };
        let known = ids.last_seen.contains_key(id);
        if known {
            ids.note(id, now.millis().div_euclid(SLOT));
        }
        known
    }

    fn insert(&mut self, stage: StageId, id: &[u8], now: Timestamp) {
        self.stages
            .entry(stage)
            .or_default()
            .note(id, now.millis().div_euclid(SLOT));
    }

    fn expire(&mut self, now: Timestamp) {
        let oldest = now.plus(-HORIZON).millis().div_euclid(SLOT);
        for ids in self.stages.values_mut() {
            ids.expire(oldest);
        }
    }
}
