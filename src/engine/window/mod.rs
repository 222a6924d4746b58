//! Windows: assigning standard ones, mapping them for side inputs, merging sessions, when they end
//! and expire.

mod assign;
mod expiry;
mod merge;

pub use assign::{assign, side_input_window};
pub use expiry::{end, expiry};
pub use merge::{Merge, Merger, StandardMerger};
