//! What the lanes of each job are made of.

use crate::engine::Settings;
use crate::store::memory::MemoryTables;
use crate::store::overflow::Overflow;

/// How many lanes each job has, and where their payload goes once memory is short.
#[derive(Clone, Debug)]
pub struct Lanes {
    pub count: u32,
    pub overflow: Overflow,
}

impl Lanes {
    /// Settings with bundles that, as many as are in flight, take a small part of the memory budget with what they
    /// put out.
    pub fn limit(&self, settings: Settings) -> Settings {
        let budget = self.overflow.budget_bytes().unwrap_or(u64::MAX);
        let share = usize::try_from(budget / BUNDLES_IN_BUDGET).unwrap_or(usize::MAX);
        let share = share.max(BUNDLE_BYTES_MAX_MIN);
        Settings {
            bundle_bytes_max: settings.bundle_bytes_max.min(share),
            ..settings
        }
    }

    /// Empty tables of one lane.
    pub fn tables(&self) -> MemoryTables {
        MemoryTables::new(self.overflow.keeper())
    }
}

const BUNDLES_IN_BUDGET: u64 = 64;
const BUNDLE_BYTES_MAX_MIN: usize = 1 << 20;
