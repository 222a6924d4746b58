//! Triggers: when a key's window fires. A small state machine per file.
//!
//! The machines follow the Beam model as its Java runner library has it: a trigger becomes ready,
//! is told that it fired, and may finish; a finished root closes the window of the key. What a
//! machine remembers is a [`crate::engine::tables::group::TriggerState`], kept by the caller.

mod after_count;
mod after_end_of_window;
mod after_processing_time;
mod composite;
mod machine;
mod or_finally;
mod repeat;
mod simple;

pub use machine::{Moment, TriggerMachine};
