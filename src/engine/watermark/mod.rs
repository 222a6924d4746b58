//! Watermarks: holds within a lane, and the minimum over lanes and producers.

mod aggregator;
mod hold;

pub use aggregator::Aggregator;
pub use hold::Holds;
