//! Native sources and sinks.

pub mod pubsub;
