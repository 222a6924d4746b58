//! A job's metrics: what harnesses and the runner measured, merged by type, attempted and
//! committed.

mod histogram;
mod numbers;
mod table;
mod trie;
mod value;

pub use table::{Labels, Metrics};
