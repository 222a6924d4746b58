//! Who takes messages: an open stream, or one unary pull.

use std::time::Duration;

use super::time::Time;

/// Names one stream or one pull; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConsumerId(pub u64);

impl ConsumerId {
    /// Stands for a consumer that is gone, while its messages are still out.
    pub const GONE: ConsumerId = ConsumerId(0);
}

/// What kind of call the consumer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConsumerKind {
    /// A streaming pull: closing it may return its messages.
    Stream,
    /// A unary pull: its messages stay out until their deadline.
    Pull,
}

/// A stream or a pull, with its share of the flow control.
#[derive(Clone, Debug)]
pub struct Consumer {
    /// Stream or pull.
    pub kind: ConsumerKind,
    /// The client it belongs to; streams of one client take over from each other.
    pub client: String,
    /// How long messages sent to it stay out.
    pub ack_deadline: Duration,
    /// Most messages out at a time.
    pub messages_max: Option<u64>,
    /// No more is sent while at least this many bytes are out.
    pub bytes_max: Option<u64>,
    /// Messages out now.
    pub messages: u64,
    /// Bytes out now.
    pub bytes: u64,
    /// When the server ends the stream by itself.
    pub ends_at: Time,
    /// How long the stream may stay idle; none means for ever.
    pub idle_max: Option<Duration>,
    /// When the client was last heard of, or last sent something.
    pub active_at: Time,
    /// It got nothing when it last asked, so it waits to be woken.
    pub asleep: bool,
}

impl Consumer {
    /// A stream of `client` with these limits.
    pub fn stream(client: &str, ack_deadline: Duration, messages_max: i64, bytes_max: i64) -> Self {
        let limit = |value: i64| u64::try_from(value).ok().filter(|value| *value > 0);
        Consumer {
            kind: ConsumerKind::Stream,
            client: client.to_owned(),
            ack_deadline,
            messages_max: limit(messages_max),
            bytes_max: limit(bytes_max),
            messages: 0,
            bytes: 0,
            ends_at: Time::NEVER,
            idle_max: None,
            active_at: Time::default(),
            asleep: false,
        }
    }

    /// One unary pull.
    pub fn pull(ack_deadline: Duration) -> Self {
        Consumer {
            kind: ConsumerKind::Pull,
            ..Consumer::stream("", ack_deadline, 0, 0)
        }
    }

    /// Whether flow control lets one more message out.
    pub fn has_credit(&self) -> bool {
        self.messages_max.is_none_or(|max| self.messages < max)
            && self.bytes_max.is_none_or(|max| self.bytes < max)
    }

    /// When the server ends the stream, if nothing happens until then.
    pub fn over_at(&self) -> Time {
        let idle = self.idle_max.map(|max| self.active_at.plus(max));
        idle.map_or(self.ends_at, |idle| idle.min(self.ends_at))
    }

    /// Counts a message sent.
    pub(super) fn charge(&mut self, bytes: u64) {
        self.messages += 1;
        self.bytes += bytes;
    }

    /// Counts a message acked, nacked or expired.
    pub(super) fn refund(&mut self, bytes: u64) {
        debug_assert!(self.messages > 0, "a refund answers a charge");
        self.messages = self.messages.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}
