//! What a read of one subscription can be told.

use std::time::Duration;

use crate::model::Millis;

/// How one subscription is read.
#[derive(Clone, Debug)]
pub struct ReadSettings {
    /// The subscription's path, `projects/P/subscriptions/S`.
    pub subscription: String,
    /// The attribute that holds the event time (epoch milliseconds or RFC 3339); the publish time
    /// when `None`.
    pub timestamp_attribute: Option<String>,
    /// The attribute whose value names a message for deduplication; the message id when `None`.
    pub id_attribute: Option<String>,
    /// Whether elements are serialized `PubsubMessage`s rather than their data alone.
    pub with_attributes: bool,
    /// The number of keys that messages are spread over, a power of two.
    pub keys: u32,
    /// Parallel pull streams (or concurrent `Pull` calls).
    pub streams: usize,
    /// Messages that may be held unacknowledged; reading pauses beyond.
    pub held_messages_max: usize,
    /// Bytes of messages that may be held unacknowledged; reading pauses beyond.
    pub held_bytes_max: usize,
    /// The deadline asked for with every message; extended when half of it has passed.
    pub ack_deadline: Duration,
    /// Reads by unary `Pull` calls instead of streams.
    pub unary_pull: bool,
    /// How often the server is asked, by way of a snapshot's expiry, for the publish time of its
    /// oldest unacknowledged message; `None` estimates it from what arrives.
    pub probe_interval: Option<Duration>,
    /// How far behind the publish times that just arrived the estimate stays, without a probe.
    pub arrival_memory: Millis,
    /// How long the largest distance between publish time and event time is remembered.
    pub lag_memory: Millis,
    /// The least that event times of an attribute are taken to be behind publish times. Messages
    /// whose publisher needed longer, and longer than any did of late, are late; windows close
    /// later by this much.
    pub lag_min: Millis,
    /// Silence, with room to receive, after which the input counts as caught up, without a probe.
    pub idle_after: Millis,
    /// Seed of the jitter in retries.
    pub seed: u64,
}

impl ReadSettings {
    /// The defaults for a subscription.
    pub fn new(subscription: impl Into<String>) -> Self {
        Self {
            subscription: subscription.into(),
            timestamp_attribute: None,
            id_attribute: None,
            with_attributes: false,
            keys: 1024,
            streams: 4,
            held_messages_max: 200_000,
            held_bytes_max: 256 << 20,
            ack_deadline: Duration::from_secs(30),
            unary_pull: false,
            probe_interval: Some(Duration::from_millis(500)),
            arrival_memory: 2_000,
            lag_memory: 60_000,
            lag_min: 2_000,
            idle_after: 10_000,
            seed: 0,
        }
    }
}
