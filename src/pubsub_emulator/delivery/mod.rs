//! One subscription's messages: a pure state machine without clock, socket or proto.
//!
//! [`Backlog`] is told what happened (`publish`, `take`, `acknowledge`, `advance` …) with `now`
//! passed in, and what it wants done is drained from [`Backlog::poll_action`]. Chance comes from a
//! seeded [`Rng`], so a run with the same calls repeats itself.

mod ack_id;
mod backlog;
mod consumer;
mod faults;
mod filter;
mod lease;
mod message;
mod ordering;
mod policy;
mod ready;
mod rewind;
mod rng;
mod stats;
#[cfg(test)]
mod tests;
mod time;
mod timetable;

pub use ack_id::AckId;
pub use backlog::{Action, Backlog, Delivery, Limit};
pub use consumer::{Consumer, ConsumerId, ConsumerKind};
pub use faults::DeliveryFaults;
pub use filter::{Filter, FilterError};
pub use lease::AckOutcome;
pub use message::Message;
pub use policy::{Policy, Retry};
pub use rng::Rng;
pub use stats::{Counters, Stats};
pub use time::Time;
