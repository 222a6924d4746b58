//! Tables in memory: nothing survives the process.

mod dedup;
pub mod group;
mod side_input;
mod timer;
mod user_state;

use crate::engine::tables::Tables;
use crate::store::overflow::Keeper;

pub use dedup::{DedupId, DedupSet, MemoryDedup};
pub use group::MemoryGroupTable;
pub use side_input::MemorySideInputs;
pub use timer::MemoryTimers;
pub use user_state::MemoryUserState;

/// All tables of one lane, in memory.
#[derive(Debug, Default)]
pub struct MemoryTables {
    side_inputs: MemorySideInputs,
    dedup: MemoryDedup,
    groups: MemoryGroupTable,
    user_state: MemoryUserState,
    timers: MemoryTimers,
    payload: Keeper,
}

impl MemoryTables {
    /// Empty tables; payload goes where `payload` keeps it, once memory is short.
    pub fn new(payload: Keeper) -> Self {
        Self {
            side_inputs: MemorySideInputs::new(payload.clone()),
            groups: MemoryGroupTable::new(payload.clone()),
            payload,
            ..Self::default()
        }
    }
}

impl Tables for MemoryTables {
    type SideInputs = MemorySideInputs;
    type Dedup = MemoryDedup;
    type Groups = MemoryGroupTable;
    type UserState = MemoryUserState;
    type Timers = MemoryTimers;
    type Payload = Keeper;

    fn side_inputs(&mut self) -> &mut MemorySideInputs {
        &mut self.side_inputs
    }

    fn dedup(&mut self) -> &mut MemoryDedup {
        &mut self.dedup
    }

    fn groups(&mut self) -> &mut MemoryGroupTable {
        &mut self.groups
    }

    fn user_state(&mut self) -> &mut MemoryUserState {
        &mut self.user_state
    }

    fn timers(&mut self) -> &mut MemoryTimers {
        &mut self.timers
    }

    fn payload(&mut self) -> &mut Keeper {
        &mut self.payload
    }
}
