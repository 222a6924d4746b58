//! The traits of durable state, one per file; `store` implements them.

mod dedup;
pub mod group;
mod payload;
mod side_input;
mod timer;
mod user_state;

pub use dedup::DedupTable;
pub use group::GroupTable;
pub use payload::{PayloadError, PayloadTable, Reading};
pub use side_input::{SideInputAddress, SideInputTable, ValuesPage};
pub use timer::{TimerId, TimerTable};
pub use user_state::{StateAddress, StateEntry, UserStateTable};

/// All tables of one lane.
pub trait Tables {
    type SideInputs: SideInputTable;
    type Dedup: DedupTable;
    type Groups: GroupTable;
    type UserState: UserStateTable;
    type Timers: TimerTable;
    type Payload: PayloadTable;

    fn side_inputs(&mut self) -> &mut Self::SideInputs;
    fn dedup(&mut self) -> &mut Self::Dedup;
    fn groups(&mut self) -> &mut Self::Groups;
    fn user_state(&mut self) -> &mut Self::UserState;
    fn timers(&mut self) -> &mut Self::Timers;
    fn payload(&mut self) -> &mut Self::Payload;
}

/// About how many bytes of state go out in one reply. Python decodes each page by itself, so a page holds whole values.
pub const PAGE_BYTES: usize = 2 << 20;
