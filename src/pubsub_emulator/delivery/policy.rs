//! What a subscription asks for.

use std::time::Duration;

use super::filter::Filter;

/// The settings of a subscription that the delivery acts on.
#[derive(Clone, Debug)]
pub struct Policy {
    /// How long a pulled message stays with its consumer.
    pub ack_deadline: Duration,
    /// How long after publishing a message is kept.
    pub retention: Duration,
    /// Whether acknowledged messages are kept that long too, for seek.
    pub retain_acked: bool,
    /// Whether messages of one ordering key come in order.
    pub ordering: bool,
    /// Whether acks are confirmed and only the newest ack id of a message counts.
    pub exactly_once: bool,
    /// Waits between deliveries of one message; none means at once.
    pub retry: Option<Retry>,
    /// After this many failed deliveries a message becomes a dead letter.
    pub attempts_max: Option<u32>,
    /// Which messages the subscription wants.
    pub filter: Filter,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            ack_deadline: Duration::from_secs(10),
            retention: Duration::from_secs(7 * 24 * 3600),
            retain_acked: false,
            ordering: false,
            exactly_once: false,
            retry: None,
            attempts_max: None,
            filter: Filter::default(),
        }
    }
}

/// Exponential backoff between two bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// The wait after the first failure.
    pub minimum: Duration,
    /// The longest wait.
    pub maximum: Duration,
}

impl Retry {
    /// The wait after the given number of failures: the minimum, then doubled each time.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidemill::pubsub_emulator::delivery::Retry;
    /// let retry = Retry { minimum: Duration::from_secs(8), maximum: Duration::from_secs(30) };
    /// assert_eq!(retry.wait(1), Duration::from_secs(8));
    /// assert_eq!(retry.wait(2), Duration::from_secs(16));
    /// assert_eq!(retry.wait(9), Duration::from_secs(30));
    /// ```
    pub fn wait(&self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1).min(20);
        self.minimum
            .saturating_mul(1 << doublings)
            .min(self.maximum)
    }
}
