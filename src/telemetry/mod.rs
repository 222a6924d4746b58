//! Logging set-up, the clock and random names.

pub mod clock;
pub mod entropy;
pub mod logging;
