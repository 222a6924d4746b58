//! One pull stream: opened, read, kept alive by pings, and opened again.
//!
//! The service ends every stream after about half an hour, and an idle one much earlier unless it
//! is pinged. A stream that gets old is replaced before that: the new one is open before the old one
//! is closed, so that there is no gap.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use googleapis_tonic_google_pubsub_v1::google::pubsub::v1::StreamingPullRequest;
use prost::Message as _;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::task::AbortOnDropHandle;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::metadata::MetadataValue;
use tonic::{Request, Status, Streaming};

use crate::source::pubsub::calls::RawCalls;
use crate::source::pubsub::error::{Call, Error};
use crate::source::pubsub::retry::{Backoff, passes};
use crate::source::pubsub::shared::{BatchSender, Shared, StreamCondition, add};
use crate::source::pubsub::wire::{BytesCodec, Response};

/// A stream's place among the streams of its reader.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    pub(crate) index: usize,
    pub(crate) shared: Arc<Shared>,
    pub(crate) calls: RawCalls,
    pub(crate) batches: BatchSender,
}

/// Why a stream is not read any further.
enum End {
    /// It is old; its successor is to be opened while it runs dry.
    Old,
    /// The reader closes.
    Closing,
    /// The server, the network or silence ended it.
    Broken(Status),
}

/// An open stream. Dropping the pings ends our side of it.
struct Open {
    responses: Streaming<Bytes>,
    pings: AbortOnDropHandle<()>,
}

impl Stream {
    /// Keeps a stream open until the reader closes.
    pub(crate) async fn run(self) {
        let seed = self.shared.settings.seed.wrapping_add(self.index as u64);
        let mut backoff = Backoff::new(seed, BACKOFF_MAX);
        let mut failing_since = tokio::time::Instant::now();
        loop {
            let opened_at = tokio::time::Instant::now();
            let end = match self.open().await {
                Ok(mut open) => match self.read(&mut open).await {
                    End::Old => {
                        tokio::spawn(self.clone().run_dry(open, OVERLAP));
                        continue;
                    }
                    End::Closing => {
                        self.clone().run_dry(open, Duration::ZERO).await;
                        return;
                    }
                    End::Broken(status) => {
                        // However short it lived, the service was there.
                        failing_since = tokio::time::Instant::now();
                        End::Broken(status)
                    }
                },
                Err(end) => end,
            };
            self.shared
                .set_condition(self.index, StreamCondition::Closed);
            let End::Broken(status) = end else {
                return;
            };
            let lived = opened_at.elapsed();
            if lived > backoff.last() {
                backoff.succeed();
            }
            // A server may answer an idle stream with nothing until it ends.
            if lived > REPORT_AFTER {
                failing_since = tokio::time::Instant::now();
            }
            let failing_for = failing_since.elapsed();
            let delay = self.after_break(&status, failing_for, &mut backoff).await;
            tokio::select! {
                () = self.shared.closing.cancelled() => return,
                () = tokio::time::sleep(delay) => {}
            }
        }
    }

    async fn open(&self) -> Result<Open, End> {
        let opening = async {
            let mut grpc = self.calls.ready().await?;
            let (sender, requests) = mpsc::channel(4);
            let _ = sender.try_send(self.first_request());
            // The response may come only with the first message, so pings start before it.
            let pings = AbortOnDropHandle::new(tokio::spawn(ping(sender)));
            let mut request = Request::new(ReceiverStream::new(requests));
            let routing = format!("subscription={}", self.shared.settings.subscription);
            if let Ok(routing) = MetadataValue::try_from(routing) {
                request.metadata_mut().insert(ROUTING_HEADER, routing);
            }
            self.shared
                .set_condition(self.index, StreamCondition::Receptive);
            add(&self.shared.counters.streams_opened, 1);
            let path = PathAndQuery::from_static(STREAMING_PULL);
            let responses = grpc
                .streaming(request, path, BytesCodec)
                .await?
                .into_inner();
            Ok(Open { responses, pings })
        };
        tokio::select! {
            () = self.shared.closing.cancelled() => Err(End::Closing),
            opened = opening => opened.map_err(End::Broken),
        }
    }

    async fn read(&self, open: &mut Open) -> End {
        let old = tokio::time::sleep(self.age_max());
        tokio::pin!(old);
        loop {
            let frame = tokio::select! {
                biased;
                () = self.shared.closing.cancelled() => return End::Closing,
                () = &mut old => return End::Old,
                frame = self.next_frame(&mut open.responses) => frame,
            };
            match frame {
                Ok(Some(frame)) => {
                    if let Err(status) = self.take_in(frame).await {
                        return End::Broken(status);
                    }
                }
                Ok(None) => return End::Broken(Status::ok("")),
                Err(status) => return End::Broken(status),
            }
        }
    }

    /// Reads on once there is room. Where the server answers pings, silence for longer than a ping
    /// and its answer take means that the connection is dead.
    async fn next_frame(&self, responses: &mut Streaming<Bytes>) -> Result<Option<Bytes>, Status> {
        self.shared.await_room(self.index).await;
        if !self.shared.heartbeats_seen.load(Ordering::Relaxed) {
            return responses.message().await;
        }
        match tokio::time::timeout(PING_INTERVAL + PONG_MAX, responses.message()).await {
            Ok(frame) => frame,
            Err(_) => Err(Status::unavailable("no answer to a ping")),
        }
    }

    async fn take_in(&self, frame: Bytes) -> Result<(), Status> {
        let response = Response::parse(frame)
            .map_err(|error| Status::internal(format!("unreadable response: {error}")))?;
        if response.received.is_empty() {
            if response.properties.is_none() {
                self.shared.heartbeats_seen.store(true, Ordering::Relaxed);
            }
            return Ok(());
        }
        let batch = self.shared.take_in(response);
        if !batch.is_empty() {
            self.shared
                .hand_over(self.index, batch, &self.batches)
                .await;
        }
        Ok(())
    }

    /// Reads what still comes while and after our side of a stream is closed.
    async fn run_dry(self, mut open: Open, overlap: Duration) {
        let last = async {
            let overlapping = tokio::time::timeout(overlap, async {
                while let Ok(Some(frame)) = open.responses.message().await {
                    if self.take_in(frame).await.is_err() {
                        break;
                    }
                }
            });
            if overlapping.await.is_ok() {
                return;
            }
            drop(open.pings);
            while let Ok(Some(frame)) = open.responses.message().await {
                if self.take_in(frame).await.is_err() {
                    break;
                }
            }
        };
        if tokio::time::timeout(overlap + RUN_DRY_MAX, last)
            .await
            .is_err()
        {
            self.shared.stream_broke();
        }
    }

    /// How long to wait before the next try.
    async fn after_break(
        &self,
        status: &Status,
        failing_for: Duration,
        backoff: &mut Backoff,
    ) -> Duration {
        self.shared.stream_broke();
        let call = Call {
            name: "StreamingPull",
            permission: "pubsub.subscriptions.consume",
            resource: &self.shared.settings.subscription,
        };
        if passes(status.code()) {
            let delay = backoff.fail();
            let index = self.index;
            tracing::debug!(index, code = ?status.code(), message = status.message(), ?delay, "pull stream ended");
            if failing_for > REPORT_AFTER {
                let seconds = Duration::from_secs(failing_for.as_secs());
                let error = Error::unavailable(&call, status, seconds);
                self.shared.report(error, &self.batches).await;
            }
            return delay;
        }
        self.shared
            .report(Error::permanent(&call, status), &self.batches)
            .await;
        AFTER_PERMANENT_ERROR
    }

    fn first_request(&self) -> Bytes {
        let settings = &self.shared.settings;
        let streams = settings.streams.max(1);
        let request = StreamingPullRequest {
            subscription: settings.subscription.clone(),
            stream_ack_deadline_seconds: settings.ack_deadline.as_secs() as i32,
            client_id: self.shared.client_id.clone(),
            max_outstanding_messages: (settings.held_messages_max / streams).max(1) as i64,
            max_outstanding_bytes: (settings.held_bytes_max / streams).max(1) as i64,
            protocol_version: HEARTBEAT_PROTOCOL,
            ..StreamingPullRequest::default()
        };
        request.encode_to_vec().into()
    }

    /// Streams of one reader do not get old at the same time.
    fn age_max(&self) -> Duration {
        AGE_MAX + AGE_STEP * (self.index as u32 % 8)
    }
}

/// Pings until the stream is gone. An empty request is a ping.
async fn ping(requests: mpsc::Sender<Bytes>) {
    loop {
        tokio::time::sleep(PING_INTERVAL).await;
        let ping = StreamingPullRequest::default().encode_to_vec();
        if requests.send(ping.into()).await.is_err() {
            return;
        }
    }
}

const STREAMING_PULL: &str = "/google.pubsub.v1.Subscriber/StreamingPull";
const ROUTING_HEADER: &str = "x-goog-request-params";
/// We understand the server's heartbeats.
const HEARTBEAT_PROTOCOL: i64 = 1;
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PONG_MAX: Duration = Duration::from_secs(15);
const AGE_MAX: Duration = Duration::from_secs(24 * 60);
const AGE_STEP: Duration = Duration::from_secs(20);
const OVERLAP: Duration = Duration::from_secs(2);
const RUN_DRY_MAX: Duration = Duration::from_secs(2);
const BACKOFF_MAX: Duration = Duration::from_secs(20);
/// A service that cannot be reached for so long is worth telling; a stream that lived so long was well.
const REPORT_AFTER: Duration = Duration::from_secs(10);
const AFTER_PERMANENT_ERROR: Duration = Duration::from_secs(30);
