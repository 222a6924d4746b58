//! Reads one subscription: batches out, acknowledgements back.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use crate::model::Timestamp;
use crate::source::pubsub::ack::Receipt;
use crate::source::pubsub::calls::RawCalls;
use crate::source::pubsub::client::Client;
use crate::source::pubsub::error::Error;
use crate::source::pubsub::keys::hash64;
use crate::source::pubsub::message::Message;
use crate::source::pubsub::outbox::Sender;
use crate::source::pubsub::probe::Probe;
use crate::source::pubsub::pull;
use crate::source::pubsub::settings::ReadSettings;
use crate::source::pubsub::shared::{ReaderStats, Shared};
use crate::source::pubsub::stream::Stream;
use crate::source::pubsub::watermark::Bound;
use crate::telemetry::clock;

/// Messages that arrived together.
pub type Batch = Vec<Message>;

/// An open read of one subscription. Dropping it without [`Self::close`] stops it at once: what
/// was not acknowledged comes again when its leases expire.
#[derive(Debug)]
pub struct Reader {
    shared: Arc<Shared>,
    batches: mpsc::Receiver<Result<Batch, Error>>,
    streams: TaskTracker,
    sender: Sender,
    background: Vec<AbortOnDropHandle<()>>,
    /// Stops calls that are still tried when the reader is gone.
    _abandon: DropGuard,
}

/// What can be said to a reader while its batches are awaited elsewhere; cheap to clone.
#[derive(Clone, Debug)]
pub struct ReaderHandle {
    shared: Arc<Shared>,
}

impl Reader {
    /// Starts reading, on the current tokio runtime. Fails only where the endpoint cannot be used
    /// at all: what the server says comes out of [`Self::next`].
    pub fn open(client: &Client, settings: ReadSettings) -> Result<Self, Error> {
        let streams = settings.streams.max(1);
        let client_id = client_id(&settings);
        let shared = Arc::new(Shared::new(settings, client_id));
        let (batch_sender, batches) = mpsc::channel(BATCHES_WAITING_MAX);
        let abandoned = CancellationToken::new();
        let sender = Sender::new(shared.clone(), RawCalls::new(client)?, abandoned.clone());
        let background = vec![
            AbortOnDropHandle::new(tokio::spawn(sender.clone().run())),
            AbortOnDropHandle::new(tokio::spawn(sender.clone().keep_leases())),
        ];
        let tracker = TaskTracker::new();
        if let Some(interval) = shared.settings.probe_interval {
            let probe = Probe {
                shared: shared.clone(),
                subscriber: client.subscriber()?,
                interval,
            };
            tracker.spawn(probe.run());
        }
        for index in 0..streams {
            let stream = Stream {
                index,
                shared: shared.clone(),
                calls: RawCalls::new(client)?,
                batches: batch_sender.clone(),
            };
            if shared.settings.unary_pull {
                tracker.spawn(pull::run(stream));
            } else {
                tracker.spawn(stream.run());
            }
        }
        Ok(Self {
            shared,
            batches,
            streams: tracker,
            sender,
            background,
            _abandon: abandoned.drop_guard(),
        })
    }

    /// The next batch. An `Err` is a permanent error (no such subscription, no permission, …), or
    /// says that the service has not been reached for a while: the reader goes on trying, and it is
    /// for the caller to fail the job or to report and wait.
    pub async fn next(&mut self) -> Option<Result<Batch, Error>> {
        self.batches.recv().await
    }

    /// A handle for acknowledging from elsewhere.
    pub fn handle(&self) -> ReaderHandle {
        ReaderHandle {
            shared: self.shared.clone(),
        }
    }

    /// Ends the streams, gives back the batches that nobody took, and sends what is still to be
    /// acknowledged, for at most a few seconds.
    pub async fn close(mut self) {
        self.shared.closing.cancel();
        self.streams.close();
        // The channel ends with the last stream.
        while let Some(batch) = self.batches.recv().await {
            let batch = batch.unwrap_or_default();
            let receipts: Vec<Receipt> = batch.iter().map(|message| message.receipt).collect();
            self.shared.settle(&receipts, true);
        }
        // The probe removes its snapshot.
        let _ = tokio::time::timeout(PROBE_END_MAX, self.streams.wait()).await;
        self.sender.flush().await;
        self.sender.finish().await;
        self.background.clear();
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.shared.closing.cancel();
    }
}

impl ReaderHandle {
    /// Acknowledges deliveries whose effects are durable. Returns at once; the calls are batched
    /// and retried in the background. Receipts that were settled before are ignored.
    pub fn ack(&self, receipts: &[Receipt]) {
        self.shared.settle(receipts, false);
    }

    /// Gives deliveries back to the server, which delivers them again at once: on shutdown, for
    /// what no bundle has seen.
    pub fn release(&self, receipts: &[Receipt]) {
        self.shared.settle(receipts, true);
    }

    /// A lower bound on the timestamps of what is held unacknowledged or still to be delivered.
    /// Never goes back.
    pub fn watermark(&self, now: Timestamp) -> Timestamp {
        self.shared.watermark(now).0
    }

    /// The watermark and what keeps it from being higher.
    pub fn explain_watermark(&self, now: Timestamp) -> (Timestamp, Bound) {
        self.shared.watermark(now)
    }

    /// Where the reader stands and what it has done.
    pub fn stats(&self) -> ReaderStats {
        self.shared.stats()
    }
}

/// Differs between readers, also of one subscription, on one machine or on several.
fn client_id(settings: &ReadSettings) -> String {
    let place = format!(
        "{} {} {} {}",
        settings.subscription,
        settings.seed,
        std::process::id(),
        clock::unix_millis()
    );
    format!("tidemill-{:016x}", hash64(place.as_bytes()))
}

const PROBE_END_MAX: Duration = Duration::from_secs(1);
/// Batches that may wait to be taken; reading pauses beyond.
const BATCHES_WAITING_MAX: usize = 64;
