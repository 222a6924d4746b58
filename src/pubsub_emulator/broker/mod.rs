//! Topics, subscriptions and snapshots, and what the API may do with them.
//!
//! Pure: `now` and chance are passed in. Requests come as google.pubsub.v1 messages, because a
//! resource keeps every field it was given and gives it back; what delivery acts on is turned into a
//! [`crate::pubsub_emulator::delivery::Policy`] once.

mod acks;
mod clock_work;
mod mask;
mod names;
mod page;
mod publish;
mod pull;
mod refusal;
mod resources;
mod seek;
mod snapshots;
mod subscription_checks;
mod subscriptions;
mod topics;

pub use acks::AckReport;
pub use pull::{Batch, StreamReply};
pub use refusal::{Refusal, Result};
pub use resources::{Broker, StreamRules};
