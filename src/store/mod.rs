//! State behind the engine's table traits.

pub mod memory;
pub mod overflow;
