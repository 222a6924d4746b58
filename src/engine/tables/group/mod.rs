//! What group-by-key keeps.
//!
//! A row belongs to (shard, stage, key, window). Two kinds of stages keep different rows:
//!
//! - [`Layout::Windows`]: appended values only. All keys of a window are read once, in shard order,
//!   and are gone then.
//! - [`Layout::Cells`]: one [`Cell`] per key and window, its appended values, and a queue of panes
//!   that have fired.
//!
//! A store on disk keeps appends as they come (a row per batch, shard, key and window), cells as
//! rows that are overwritten, and reads values only when a pane fires. Everything else that the
//! engine knows of a grouping stage it derives from [`GroupTable::visit`] at start.

mod arena;
mod backed;
mod batch;
mod cell;
mod entries;

pub use arena::{Arena, Location, PART_BITS, Piece, RANGES, Record};
pub use backed::{BackedValues, ValuePosition};
pub use batch::{Element, Elements, Incoming, KeyedBatch, Layout, WindowRun, is_copied_if_short};
pub use cell::{Cell, CellRow, FiredPane, KeyCells, Schedule, TriggerSlot, TriggerState, Values};
pub use entries::{Entry, RangeEntry, RangeList, RangeLists, WindowEntries};

use std::ops::ControlFlow;

use crate::model::ids::StageId;
use crate::model::time::Timestamp;
use crate::model::window::Window;

/// The durable state of grouping stages on one lane.
pub trait GroupTable {
    /// Adds the elements of one batch to a window. Those below `floor` came too late to hold the
    /// output watermark: they do not count for a group's timestamps.
    fn append(&mut self, stage: StageId, run: WindowRun, floor: Timestamp);

    /// Takes groups of a window out, in shard order, until `sink` breaks. Values of a key come in
    /// the order of arrival.
    fn drain(&mut self, stage: StageId, window: &Window, sink: &mut impl GroupSink) -> Drained;

    /// Reads the cells of a key, lets `change` change them, and keeps what is left of them.
    fn with_key<R>(
        &mut self,
        stage: StageId,
        hash: u64,
        key: &[u8],
        change: impl FnOnce(&mut KeyCells) -> R,
    ) -> R;

    /// Adds a pane to the queue of those that wait to be consumed.
    fn push_pane(&mut self, stage: StageId, pane: FiredPane);

    /// Takes the oldest pane from the queue.
    fn pop_pane(&mut self, stage: StageId) -> Option<FiredPane>;

    /// Shows everything kept for a stage.
    fn visit(&mut self, stage: StageId, visitor: &mut impl GroupVisitor);
}

/// Receives groups one after another.
pub trait GroupSink {
    /// The next group; its `count` values follow.
    fn begin(&mut self, head: GroupHead<'_>);
    /// Some of its values, one after another.
    fn values(&mut self, values: &[u8]);
    /// The group is complete; break to stop here and go on another time.
    fn end(&mut self) -> ControlFlow<()>;

    /// Whether [`Self::back`] is to be called with the group instead.
    fn backs(&self, head: &GroupHead<'_>) -> bool;
    /// A whole group whose values stay where they are; break like in [`Self::end`].
    fn back(&mut self, head: GroupHead<'_>, values: BackedValues) -> ControlFlow<()>;
}

/// What is known of a group before its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupHead<'a> {
    pub key: &'a [u8],
    pub count: usize,
    /// Bytes of all values.
    pub value_bytes: usize,
    /// Lowest and highest timestamp that count; `None` when timestamps are not kept or none counts.
    pub timestamps: Option<(Timestamp, Timestamp)>,
}

/// Whether a window has more groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drained {
    /// The sink broke; there may be more.
    Partly,
    /// The window is gone.
    Whole,
}

/// Is shown what a table keeps for a stage, to derive indexes from.
pub trait GroupVisitor {
    /// A window of [`Layout::Windows`].
    fn window(&mut self, window: &Window, contents: WindowContents);
    /// The cells of a key. The visitor may refresh what they carry of derived data.
    fn key(&mut self, cells: &mut KeyCells);
    /// A pane that waits.
    fn pane(&mut self, pane: &FiredPane);
}

/// The sum of what a window holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowContents {
    pub count: usize,
    pub bytes: usize,
    /// The lowest timestamp that counts for a group's timestamp.
    pub min_timestamp: Option<Timestamp>,
}

impl WindowContents {
    /// Adds elements with so many bytes of keys and values.
    pub fn add(&mut self, count: usize, payload_bytes: usize) {
        self.count += count;
        self.bytes += payload_bytes + count * size_of::<u64>();
    }

    /// Takes note of a timestamp that counts.
    pub fn see(&mut self, timestamp: Timestamp) {
        let lowest = self.min_timestamp.unwrap_or(Timestamp::MAX);
        self.min_timestamp = Some(lowest.min(timestamp));
    }
}
