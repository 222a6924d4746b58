//! Group-by-key: collects KVs per key and window, fires panes when the trigger says so, encodes
//! them when asked.
//!
//! Strategies that fire each window once, at its end, keep elements per window and group them as
//! they are read (`windows`). All others keep a cell per key and window (`cells`, by the `rules` of
//! the Beam model). Windows that only an SDK can merge wait for it (`merging`).

mod backed;
mod cells;
mod encode;
mod grouper;
mod holds;
mod merging;
mod pane;
mod rules;
mod windows;

pub use crate::engine::tables::group::{GroupTable, Incoming, KeyedBatch, Layout};
pub use backed::{BackedGroup, BackedId, Fired};
pub use grouper::{Evaluation, Grouper};
