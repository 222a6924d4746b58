//! How the delivery of messages is told to misbehave.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Misbehaviour of a subscription's delivery; by default there is none.
///
/// Rates are probabilities from 0 to 1, and are drawn from the emulator's seed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DeliveryFaults {
    /// How many deliveries are followed by a second one of the same message.
    pub duplicate_rate: f64,
    /// How long after the first delivery the second one comes.
    pub duplicate_delay_seconds: f64,
    /// How many acks are answered as usual but forgotten.
    pub lost_ack_rate: f64,
    /// How many confirmed acks of an exactly-once subscription fail for the time being.
    pub failed_ack_rate: f64,
    /// How long a published message is withheld (not where order has to be kept).
    pub delivery_delay_seconds: f64,
    /// Up to how much longer still, drawn per message: messages overtake each other.
    pub delivery_jitter_seconds: f64,
    /// The next message is drawn among this many of the oldest ones.
    pub reorder_window: usize,
    /// Quota stalls: how often nothing is delivered, streams staying open, …
    pub stall_every_seconds: f64,
    /// … and for how long each time.
    pub stall_seconds: f64,
    /// How many unary pulls come back empty although there are messages.
    pub empty_pull_rate: f64,
}

impl DeliveryFaults {
    /// How long a published message is withheld, given a draw from 0 to 1.
    pub(super) fn delay(&self, draw: impl FnOnce() -> f64) -> Duration {
        if self.delivery_delay_seconds <= 0.0 && self.delivery_jitter_seconds <= 0.0 {
            return Duration::ZERO;
        }
        seconds(self.delivery_delay_seconds + self.delivery_jitter_seconds * draw())
    }

    /// How long after a delivery its duplicate comes.
    pub(super) fn duplicate_delay(&self) -> Duration {
        seconds(self.duplicate_delay_seconds)
    }

    /// How often, and for how long, delivery stalls.
    pub(super) fn stall(&self) -> Option<(Duration, Duration)> {
        let (every, lasting) = (
            seconds(self.stall_every_seconds),
            seconds(self.stall_seconds),
        );
        (!every.is_zero() && !lasting.is_zero()).then_some((every, lasting))
    }
}

/// A duration of so many seconds; nothing for what is none.
fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::ZERO)
}
