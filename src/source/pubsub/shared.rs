//! What the tasks of one reader share: the messages held, and where things stand.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use crate::model::Timestamp;
use crate::source::pubsub::ack::{Leases, Receipt};
use crate::source::pubsub::error::Error;
use crate::source::pubsub::message::{Arrival, Message, Oddities, interpret};
use crate::source::pubsub::settings::ReadSettings;
use crate::source::pubsub::watermark::{Bound, Settings as WatermarkSettings, Watermark};
use crate::source::pubsub::wire::Response;
use crate::telemetry::clock;

/// Where batches and permanent errors go.
pub(crate) type BatchSender = mpsc::Sender<Result<Vec<Message>, Error>>;

/// What the tasks of one reader share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) settings: ReadSettings,
    /// The same for all streams of the reader, over reconnects.
    pub(crate) client_id: String,
    pub(crate) counters: Counters,
    /// The server answers pings, so that silence means a dead connection.
    pub(crate) heartbeats_seen: AtomicBool,
    /// Something is to be acknowledged or given back.
    pub(crate) outbox_filled: Notify,
    pub(crate) closing: CancellationToken,
    held: Mutex<Held>,
    settled: Notify,
    /// What the error reported last was, and when.
    reported: Mutex<Option<(String, i64)>>,
}

/// Ack ids on their way to the server.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// To be acknowledged.
    pub(crate) acks: Vec<Bytes>,
    /// To be given back.
    pub(crate) nacks: Vec<Bytes>,
}

/// Whether a stream can bring messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamCondition {
    /// Not connected.
    Closed,
    /// Connected, and whatever comes is read at once.
    Receptive,
    /// Connected, but not read, since too much is held.
    Full,
}

#[derive(Debug)]
struct Held {
    leases: Leases,
    watermark: Watermark,
    outbox: Outbox,
    streams: Vec<StreamCondition>,
}

impl Shared {
    pub(crate) fn new(settings: ReadSettings, client_id: String) -> Self {
        let deadline = settings.ack_deadline.as_millis() as i64;
        let first_extension = if settings.unary_pull {
            SUBSCRIPTION_DEADLINE_MIN / 2
        } else {
            deadline / 2
        };
        let mut watermark = Watermark::new(WatermarkSettings {
            by_attribute: settings.timestamp_attribute.is_some(),
            arrival_memory: settings.arrival_memory,
            lag_memory: settings.lag_memory,
            lag_min: settings.lag_min,
            idle_after: settings.idle_after,
        });
        if settings.probe_interval.is_some() {
            watermark.probed(Timestamp::MIN);
        }
        let held = Held {
            leases: Leases::new(first_extension, deadline / 2),
            watermark,
            outbox: Outbox::default(),
            streams: vec![StreamCondition::Closed; settings.streams.max(1)],
        };
        Self {
            settings,
            client_id,
            counters: Counters::default(),
            heartbeats_seen: AtomicBool::new(false),
            outbox_filled: Notify::new(),
            closing: CancellationToken::new(),
            held: Mutex::new(held),
            settled: Notify::new(),
            reported: Mutex::new(None),
        }
    }

    /// Holds the messages of a response and hands out those that were not held before.
    pub(crate) fn take_in(&self, response: Response) -> Vec<Message> {
        let now = now();
        let deliveries = response.received.len() as u64;
        let mut oddities = Oddities::default();
        let arrivals: Vec<Arrival> = response
            .received
            .into_iter()
            .filter_map(|received| interpret(received, &self.settings, &mut oddities))
            .collect();
        let mut batch = Vec::with_capacity(arrivals.len());
        let mut held = self.held.lock();
        for Arrival {
            delivery,
            mut message,
        } in arrivals
        {
            let (publish, event) = (message.publish_time, message.timestamp);
            held.watermark.arrive(now, publish, event);
            if let Some(receipt) = held.leases.deliver(now, delivery) {
                held.watermark.hold(event);
                message.receipt = receipt;
                batch.push(message);
            }
        }
        drop(held);
        let absorbed = deliveries - batch.len() as u64 - oddities.unreadable;
        add(&self.counters.delivered, batch.len() as u64);
        add(&self.counters.absorbed, absorbed);
        add(&self.counters.unreadable, oddities.unreadable);
        add(&self.counters.bad_timestamps, oddities.bad_timestamps);
        add(&self.counters.missing_ids, oddities.missing_ids);
        batch
    }

    /// Ends the holding of messages, by acknowledging them or giving them back.
    pub(crate) fn settle(&self, receipts: &[Receipt], give_back: bool) {
        let now = now();
        let mut held = self.held.lock();
        for receipt in receipts {
            let Some(settled) = held.leases.settle(*receipt) else {
                continue;
            };
            held.watermark.release(settled.timestamp);
            let outbox = &mut held.outbox;
            if give_back {
                outbox.nacks.push(settled.ack_id);
            } else {
                outbox.acks.push(settled.ack_id);
            }
        }
        if give_back {
            // They will come again, and an estimated watermark must not pass them.
            let back_by = now.plus(self.settings.ack_deadline.as_millis() as i64);
            held.watermark.stream_broke(back_by);
        }
        drop(held);
        self.outbox_filled.notify_one();
        self.settled.notify_waiters();
    }

    pub(crate) fn take_outbox(&self) -> Outbox {
        let outbox = std::mem::take(&mut self.held.lock().outbox);
        self.settled.notify_waiters();
        outbox
    }

    /// Waits until less is held than may be.
    pub(crate) async fn await_room(&self, stream: usize) {
        if self.has_room() {
            return;
        }
        self.set_condition(stream, StreamCondition::Full);
        loop {
            let settled = self.settled.notified();
            tokio::pin!(settled);
            settled.as_mut().enable();
            if self.has_room() {
                break;
            }
            settled.await;
        }
        self.set_condition(stream, StreamCondition::Receptive);
    }

    /// Hands a batch over, waiting for the one who takes it.
    pub(crate) async fn hand_over(&self, stream: usize, batch: Vec<Message>, to: &BatchSender) {
        let batch = match to.try_send(Ok(batch)) {
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => return,
            Err(mpsc::error::TrySendError::Full(batch)) => batch,
        };
        self.set_condition(stream, StreamCondition::Full);
        let _ = to.send(batch).await;
        self.set_condition(stream, StreamCondition::Receptive);
    }

    pub(crate) fn set_condition(&self, stream: usize, condition: StreamCondition) {
        let mut held = self.held.lock();
        if let Some(known) = held.streams.get_mut(stream) {
            *known = condition;
        }
        let is_receptive = held
            .streams
            .iter()
            .all(|stream| *stream == StreamCondition::Receptive);
        held.watermark.set_receptive(now(), is_receptive);
    }

    /// A stream broke off; what was on the way comes back when its leases expire.
    pub(crate) fn stream_broke(&self) {
        let until = now().plus(self.settings.ack_deadline.as_millis() as i64 + BREAK_MARGIN);
        self.held.lock().watermark.stream_broke(until);
    }

    /// What the server's oldest unacknowledged message is; `None` when it cannot be asked.
    pub(crate) fn probed(&self, oldest: Option<Timestamp>) {
        let watermark = &mut self.held.lock().watermark;
        match oldest {
            Some(oldest) => watermark.probed(oldest),
            None => watermark.probe_ended(),
        }
    }

    /// The leases that are due now, and counts them as extended.
    pub(crate) fn leases_due(&self) -> Vec<(Receipt, Bytes)> {
        let now = now();
        let mut due = Vec::new();
        self.held
            .lock()
            .leases
            .extend_due(now, |receipt, ack_id| due.push((receipt, ack_id.clone())));
        due
    }

    pub(crate) fn lose_lease(&self, receipt: Receipt, ack_id: &Bytes) {
        self.held.lock().leases.lose(receipt, ack_id);
    }

    /// Leaves only the leases that are still wanted.
    pub(crate) fn retain_current(&self, leases: &mut Vec<(Receipt, Bytes)>) {
        let held = self.held.lock();
        leases.retain(|(receipt, ack_id)| held.leases.is_current(*receipt, ack_id));
    }

    pub(crate) fn watermark(&self, now: Timestamp) -> (Timestamp, Bound) {
        let watermark = &mut self.held.lock().watermark;
        (watermark.advance(now), watermark.bound())
    }

    pub(crate) fn stats(&self) -> ReaderStats {
        let held = self.held.lock();
        let (held_messages, held_bytes) = (held.leases.len(), held.leases.bytes());
        let connected = |stream: &&StreamCondition| **stream != StreamCondition::Closed;
        let streams_open = held.streams.iter().filter(connected).count();
        drop(held);
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &self.counters;
        ReaderStats {
            held_messages,
            held_bytes,
            streams_open,
            delivered: count(&counters.delivered),
            absorbed: count(&counters.absorbed),
            unreadable: count(&counters.unreadable),
            bad_timestamps: count(&counters.bad_timestamps),
            missing_ids: count(&counters.missing_ids),
            acknowledged: count(&counters.acknowledged),
            acks_failed: count(&counters.acks_failed),
            leases_extended: count(&counters.leases_extended),
            leases_lost: count(&counters.leases_lost),
            streams_opened: count(&counters.streams_opened),
        }
    }

    /// Hands out an error, unless the same one was handed out a moment ago by another stream.
    pub(crate) async fn report(&self, error: Error, to: &BatchSender) {
        let text = match &error {
            // However long it lasts by now.
            Error::Unavailable { code, message, .. } => format!("{code:?} {message}"),
            lasting => lasting.to_string(),
        };
        let now = clock::unix_millis();
        {
            let mut reported = self.reported.lock();
            let is_known = reported
                .as_ref()
                .is_some_and(|(last, at)| *last == text && now - at < REPORT_AGAIN_AFTER);
            if is_known {
                return;
            }
            *reported = Some((text, now));
        }
        tracing::warn!(%error, "reading from Pub/Sub fails");
        let _ = to.send(Err(error)).await;
    }

    fn has_room(&self) -> bool {
        let held = self.held.lock();
        held.leases.len() + held.outbox.acks.len() < self.settings.held_messages_max
            && held.leases.bytes() < self.settings.held_bytes_max
    }
}

/// What a reader has done so far.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) delivered: AtomicU64,
    pub(crate) absorbed: AtomicU64,
    pub(crate) unreadable: AtomicU64,
    pub(crate) bad_timestamps: AtomicU64,
    pub(crate) missing_ids: AtomicU64,
    pub(crate) acknowledged: AtomicU64,
    pub(crate) acks_failed: AtomicU64,
    pub(crate) leases_extended: AtomicU64,
    pub(crate) leases_lost: AtomicU64,
    pub(crate) streams_opened: AtomicU64,
}

pub(crate) fn add(counter: &AtomicU64, count: u64) {
    if count > 0 {
        counter.fetch_add(count, Ordering::Relaxed);
    }
}

/// Where a reader stands, and what it has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReaderStats {
    /// Messages held unacknowledged.
    pub held_messages: usize,
    /// Their bytes.
    pub held_bytes: usize,
    /// Streams that are connected.
    pub streams_open: usize,
    /// Messages handed out.
    pub delivered: u64,
    /// Deliveries of messages that were held already, which were not handed out again.
    pub absorbed: u64,
    /// Deliveries that could not be read, which were skipped.
    pub unreadable: u64,
    /// Messages whose timestamp attribute was missing or no time; they got their publish time.
    pub bad_timestamps: u64,
    /// Messages without their id attribute; they were named by their message id.
    pub missing_ids: u64,
    /// Acknowledgements that the server took.
    pub acknowledged: u64,
    /// Acknowledgements that the server refused or could not be told; those messages come again.
    pub acks_failed: u64,
    /// Lease extensions that the server took.
    pub leases_extended: u64,
    /// Leases that could not be extended; those messages come again.
    pub leases_lost: u64,
    /// Times that a stream was opened.
    pub streams_opened: u64,
}

pub(crate) fn now() -> Timestamp {
    Timestamp::from_millis(clock::unix_millis())
}

/// The shortest deadline that a subscription can have, milliseconds. It is what a message pulled
/// by a unary call may have until it is first extended.
const SUBSCRIPTION_DEADLINE_MIN: i64 = 10_000;
/// How long after its deadline a lost message may take to come back, milliseconds.
const BREAK_MARGIN: i64 = 5_000;
const REPORT_AGAIN_AFTER: i64 = 25_000;
