//! What happened on a subscription so far.

use serde::Serialize;

/// Running totals of a subscription.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Messages that came in from the topic and passed the filter.
    pub published: u64,
    /// Messages that the filter kept out.
    pub filtered: u64,
    /// Deliveries.
    pub delivered: u64,
    /// Deliveries of a message that had been delivered before.
    pub redelivered: u64,
    /// Messages acknowledged.
    pub acked: u64,
    /// Acks that meant nothing: of an expired lease, or of a message acked before.
    pub acks_ignored: u64,
    /// Acks lost on purpose.
    pub acks_lost: u64,
    /// Deadline extensions.
    pub extended: u64,
    /// Nacks.
    pub nacked: u64,
    /// Leases that ran out.
    pub expired: u64,
    /// Messages that came back because their stream closed.
    pub returned: u64,
    /// Messages sent to the dead-letter topic.
    pub dead_lettered: u64,
    /// Messages dropped because they were too old.
    pub dropped: u64,
}

/// Totals and present state of a subscription.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Stats {
    /// Totals.
    #[serde(flatten)]
    pub counters: Counters,
    /// Messages not acknowledged.
    pub backlog: usize,
    /// Of these, the ones a consumer holds now.
    pub outstanding: usize,
    /// Bytes of the messages not acknowledged.
    pub backlog_bytes: u64,
    /// Acknowledged messages kept for seek.
    pub retained: usize,
    /// Age of the oldest message not acknowledged.
    pub oldest_unacked_seconds: Option<f64>,
    /// Open streams.
    pub streams: usize,
}
