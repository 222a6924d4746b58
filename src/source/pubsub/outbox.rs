//! Tells the server which messages are done, given back, or still worked on.
//!
//! All of it goes by unary calls, which answer: an acknowledgement written to a stream is lost
//! without a trace when the stream breaks. Under exactly-once delivery the answer names the ack ids
//! that failed, and why. An ack id that is no longer valid needs nothing from us: its message comes
//! again, is recognised as a duplicate, and is acknowledged by its new ack id.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::{Code, Status};

use crate::source::pubsub::ack::Receipt;
use crate::source::pubsub::calls::RawCalls;
use crate::source::pubsub::error::error_metadata;
use crate::source::pubsub::retry::{Backoff, passes};
use crate::source::pubsub::shared::{Shared, add};
use crate::source::pubsub::wire::{ack_id_bytes, acknowledge_request, modify_request};

/// Sends what the readers' tasks and callers put into [`Shared`]'s outbox.
#[derive(Clone, Debug)]
pub(crate) struct Sender {
    shared: Arc<Shared>,
    calls: RawCalls,
    /// Acknowledgements that the server does not take must not keep leases from being extended.
    settling_calls: Arc<Semaphore>,
    extending_calls: Arc<Semaphore>,
    tracker: TaskTracker,
    abandoned: CancellationToken,
}

/// What a call says about its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Acknowledge,
    Extend,
    GiveBack,
}

impl Sender {
    /// Nothing more is tried once `abandoned` is cancelled.
    pub(crate) fn new(shared: Arc<Shared>, calls: RawCalls, abandoned: CancellationToken) -> Self {
        Self {
            shared,
            calls,
            settling_calls: Arc::new(Semaphore::new(CALLS_IN_FLIGHT_MAX)),
            extending_calls: Arc::new(Semaphore::new(CALLS_IN_FLIGHT_MAX)),
            tracker: TaskTracker::new(),
            abandoned,
        }
    }

    /// Sends acknowledgements as they come, until the reader closes.
    pub(crate) async fn run(self) {
        loop {
            tokio::select! {
                () = self.shared.closing.cancelled() => return,
                () = self.shared.outbox_filled.notified() => {}
            }
            tokio::time::sleep(LINGER).await;
            self.flush().await;
        }
    }

    /// Starts sending all that is waiting.
    pub(crate) async fn flush(&self) {
        let outbox = self.shared.take_outbox();
        self.send_ids(Order::Acknowledge, outbox.acks).await;
        self.send_ids(Order::GiveBack, outbox.nacks).await;
    }

    /// Extends leases when they are due, for as long as the task lives.
    pub(crate) async fn keep_leases(self) {
        loop {
            tokio::time::sleep(LEASE_TICK).await;
            let due = self.shared.leases_due();
            for chunk in chunks(due, |(_, ack_id)| ack_id_bytes(ack_id)) {
                self.start(Order::Extend, chunk).await;
            }
        }
    }

    /// Waits until nothing is on its way any more, but not for ever.
    pub(crate) async fn finish(&self) {
        self.tracker.close();
        if tokio::time::timeout(FINISH_MAX, self.tracker.wait())
            .await
            .is_err()
        {
            let calls = self.tracker.len();
            tracing::warn!(
                calls,
                "gave up on acknowledgements; their messages come again"
            );
        }
    }

    async fn send_ids(&self, order: Order, ids: Vec<Bytes>) {
        for chunk in chunks(ids, ack_id_bytes) {
            let chunk = chunk.into_iter().map(|id| (NOBODY, id)).collect();
            self.start(order, chunk).await;
        }
    }

    async fn start(&self, order: Order, ids: Vec<(Receipt, Bytes)>) {
        let calls = match order {
            Order::Acknowledge | Order::GiveBack => &self.settling_calls,
            Order::Extend => &self.extending_calls,
        };
        let Ok(permit) = calls.clone().acquire_owned().await else {
            return;
        };
        let sender = self.clone();
        self.tracker.spawn(async move {
            tokio::select! {
                () = sender.abandoned.cancelled() => {}
                () = sender.send(order, ids) => {}
            }
            drop(permit);
        });
    }

    async fn send(&self, order: Order, ids: Vec<(Receipt, Bytes)>) {
        let settings = &self.shared.settings;
        let limit = match order {
            Order::Acknowledge => ACKNOWLEDGE_FOR,
            Order::Extend | Order::GiveBack => settings.ack_deadline / 2,
        };
        let started = tokio::time::Instant::now();
        let mut backoff = Backoff::new(settings.seed ^ ids.len() as u64, BACKOFF_MAX);
        let mut parts = vec![ids];
        while let Some(mut part) = parts.pop() {
            if order == Order::Extend {
                self.shared.retain_current(&mut part);
            }
            if part.is_empty() {
                continue;
            }
            let Err(status) = self.call(order, &part).await else {
                self.count_success(order, part.len());
                backoff.succeed();
                continue;
            };
            let before = parts.len();
            self.after_failure(order, part, &status, &mut parts);
            if parts.len() == before {
                continue;
            }
            if started.elapsed() > limit {
                for part in parts.drain(..) {
                    self.give_up(order, &part, &status);
                }
            } else if passes(status.code()) {
                tokio::time::sleep(backoff.fail()).await;
            }
        }
    }

    /// Puts back into `parts` what is worth another call.
    fn after_failure(
        &self,
        order: Order,
        mut part: Vec<(Receipt, Bytes)>,
        status: &Status,
        parts: &mut Vec<Vec<(Receipt, Bytes)>>,
    ) {
        let failures: BTreeMap<String, String> = error_metadata(status)
            .filter(|(_, reason)| {
                reason.starts_with(FAILED_FOR_GOOD) || reason.starts_with(FAILED_FOR_NOW)
            })
            .collect();
        if !failures.is_empty() {
            let reason = |id: &Bytes| Some(failures.get(std::str::from_utf8(id).ok()?)?.as_str());
            let count = part.len();
            part.retain(|(_, id)| reason(id).is_some());
            self.count_success(order, count - part.len());
            let is_lost = |(_, id): &(Receipt, Bytes)| {
                reason(id).is_some_and(|reason| reason.starts_with(FAILED_FOR_GOOD))
            };
            let (lost, again) = part.into_iter().partition(is_lost);
            self.give_up(order, &lost, status);
            if !again.is_empty() {
                parts.push(again);
            }
        } else if passes(status.code()) {
            parts.push(part);
        } else if status.code() == Code::InvalidArgument && part.len() > 1 {
            // One bad id fails the whole call: find it by halves.
            let half = part.split_off(part.len() / 2);
            parts.push(part);
            parts.push(half);
        } else {
            self.give_up(order, &part, status);
        }
    }

    async fn call(&self, order: Order, part: &[(Receipt, Bytes)]) -> Result<(), Status> {
        let settings = &self.shared.settings;
        let ids: Vec<Bytes> = part.iter().map(|(_, id)| id.clone()).collect();
        let subscription = &settings.subscription;
        let (path, request) = match order {
            Order::Acknowledge => (ACKNOWLEDGE, acknowledge_request(subscription, &ids)),
            Order::GiveBack => (MODIFY, modify_request(subscription, &ids, 0)),
            Order::Extend => {
                let seconds = settings.ack_deadline.as_secs() as u32;
                (MODIFY, modify_request(subscription, &ids, seconds))
            }
        };
        self.calls.unary(path, request, CALL_MAX).await.map(|_| ())
    }

    fn count_success(&self, order: Order, count: usize) {
        let counters = &self.shared.counters;
        match order {
            Order::Acknowledge => add(&counters.acknowledged, count as u64),
            Order::Extend => add(&counters.leases_extended, count as u64),
            Order::GiveBack => {}
        }
    }

    fn give_up(&self, order: Order, part: &Vec<(Receipt, Bytes)>, status: &Status) {
        if part.is_empty() {
            return;
        }
        tracing::debug!(?order, count = part.len(), %status, "the server did not take ack ids");
        let counters = &self.shared.counters;
        match order {
            Order::Acknowledge => add(&counters.acks_failed, part.len() as u64),
            Order::GiveBack => {}
            Order::Extend => {
                add(&counters.leases_lost, part.len() as u64);
                if !passes(status.code()) {
                    for (receipt, ack_id) in part {
                        self.shared.lose_lease(*receipt, ack_id);
                    }
                }
            }
        }
    }
}

/// Cuts a list into parts that fit into one request each.
fn chunks<T>(items: Vec<T>, bytes_of: impl Fn(&T) -> usize) -> Vec<Vec<T>> {
    let mut chunks = Vec::new();
    let mut chunk = Vec::new();
    let mut bytes = 0;
    for item in items {
        bytes += bytes_of(&item);
        if !chunk.is_empty() && (bytes > REQUEST_BYTES_MAX || chunk.len() == REQUEST_IDS_MAX) {
            chunks.push(std::mem::take(&mut chunk));
            bytes = bytes_of(&item);
        }
        chunk.push(item);
    }
    if !chunk.is_empty() {
        chunks.push(chunk);
    }
    chunks
}

const ACKNOWLEDGE: &str = "/google.pubsub.v1.Subscriber/Acknowledge";
const MODIFY: &str = "/google.pubsub.v1.Subscriber/ModifyAckDeadline";
/// The service takes 512 KiB; the subscription's path needs some of it.
const REQUEST_BYTES_MAX: usize = 510 << 10;
const REQUEST_IDS_MAX: usize = 5_000;
const CALLS_IN_FLIGHT_MAX: usize = 16;
/// Acknowledgements wait this long for company.
const LINGER: Duration = Duration::from_millis(5);
const LEASE_TICK: Duration = Duration::from_millis(500);
const CALL_MAX: Duration = Duration::from_secs(15);
const BACKOFF_MAX: Duration = Duration::from_secs(10);
const ACKNOWLEDGE_FOR: Duration = Duration::from_secs(600);
const FINISH_MAX: Duration = Duration::from_secs(3);
const FAILED_FOR_GOOD: &str = "PERMANENT_FAILURE";
const FAILED_FOR_NOW: &str = "TRANSIENT_FAILURE";
/// Stands for the message of an ack id that is no longer held.
const NOBODY: Receipt = Receipt(u64::MAX);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_keep_below_the_limits() {
        let sizes = |count: usize, size: usize| -> Vec<usize> {
            let ids = vec![Bytes::from(vec![b'x'; size]); count];
            chunks(ids, ack_id_bytes).iter().map(Vec::len).collect()
        };
        assert_eq!(sizes(0, 180), [0; 0]);
        assert_eq!(sizes(3, 180), [3]);
        assert_eq!(sizes(12_000, 45), [5_000, 5_000, 2_000]);
        assert_eq!(sizes(6_000, 180), [2_838, 2_838, 324]);
        assert_eq!(
            sizes(2, 600_000),
            [1, 1],
            "too long anyway: the server will say so"
        );
        let ids = vec![Bytes::from(vec![b'x'; 180]); 2_838];
        let subscription = "s".repeat(300);
        assert!(acknowledge_request(&subscription, &ids).len() <= 512 << 10);
    }
}
