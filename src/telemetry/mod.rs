//! Logging set-up, the clock, the heap's size and random names.

pub mod clock;
pub mod entropy;
pub mod heap;
pub mod logging;
