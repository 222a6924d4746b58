//! StreamingPull: one task per stream, woken by events only.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use googleapis_tonic_google_pubsub_v1::google::pubsub::v1 as pb;
use http::Response;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::body::Body;
use tonic::server::{Grpc, StreamingService};
use tonic::{Status, Streaming};

use crate::pubsub_emulator::broker::{AckReport, Batch, StreamReply};
use crate::pubsub_emulator::delivery::Limit;

use super::call::{Call, pause};
use super::shared::{Guard, Shared};
use super::status::status;
use super::wire::{self, StreamingPullCodec, StreamingPullResponse};

/// What goes into one response at most; one more message may overshoot the bytes.
const RESPONSE: Limit = Limit {
    messages: 1000,
    bytes: 1024 * 1024,
};
/// Responses that wait for the connection to take them.
const RESPONSES_QUEUED_MAX: usize = 2;

type Replies = ReceiverStream<Result<StreamingPullResponse, Status>>;

/// Answers a StreamingPull.
pub(super) async fn streaming_pull(call: Call) -> Response<Body> {
    let mut grpc = Grpc::new(StreamingPullCodec);
    grpc.streaming(Service(call.shared), call.http).await
}

struct Service(Arc<Shared>);

impl StreamingService<pb::StreamingPullRequest> for Service {
    type Response = StreamingPullResponse;
    type ResponseStream = Replies;
    type Future =
        Pin<Box<dyn Future<Output = Result<tonic::Response<Replies>, Status>> + Send + 'static>>;

    fn call(
        &mut self,
        request: tonic::Request<Streaming<pb::StreamingPullRequest>>,
    ) -> Self::Future {
        let shared = Arc::clone(&self.0);
        Box::pin(async move {
            let replies = open(shared, request.into_inner()).await?;
            Ok(tonic::Response::new(replies))
        })
    }
}

/// Reads the first request and starts the stream's task.
async fn open(
    shared: Arc<Shared>,
    mut requests: Streaming<pb::StreamingPullRequest>,
) -> Result<Replies, Status> {
    let first = requests
        .message()
        .await?
        .ok_or_else(|| Status::invalid_argument("the stream ended before its first request"))?;
    let verdict = shared.judge("StreamingPull", &first.subscription);
    pause(verdict.delay).await;
    if let Some(refusal) = verdict.refusal {
        return Err(status(refusal));
    }
    let id = shared
        .with(|broker, now| broker.open_stream(now, &first))
        .map_err(status)?;
    let guard = shared.guard(id);
    let speaks_heartbeats = first.protocol_version >= 1 && shared.settings.heartbeats;
    let reply = shared
        .with(|broker, now| broker.stream_request(now, id, true, first))
        .map_err(status)?;
    let (sender, receiver) = mpsc::channel(RESPONSES_QUEUED_MAX);
    let mut stream = Stream {
        guard,
        speaks_heartbeats,
        waiting: VecDeque::new(),
    };
    stream.queue(reply);
    tokio::spawn(stream.run(requests, sender));
    Ok(ReceiverStream::new(receiver))
}

/// An open stream.
struct Stream {
    guard: Guard,
    speaks_heartbeats: bool,
    /// Confirmations and heartbeats to be sent, one per request of the client.
    waiting: VecDeque<StreamingPullResponse>,
}

impl Stream {
    /// Serves the stream until either side ends it.
    async fn run(
        mut self,
        mut requests: Streaming<pb::StreamingPullRequest>,
        replies: mpsc::Sender<Result<StreamingPullResponse, Status>>,
    ) {
        let sleeper = Arc::clone(&self.guard.sleeper);
        let mut is_asleep = false;
        loop {
            tokio::select! {
                request = requests.message() => match request {
                    Ok(Some(request)) => {
                        if let Err(death) = self.handle(request) {
                            let _ = replies.send(Err(death)).await;
                            return;
                        }
                    }
                    // The client has closed its half, or is gone.
                    Ok(None) | Err(_) => return,
                },
                () = sleeper.notified() => is_asleep = false,
                permit = replies.reserve(), if !is_asleep || !self.waiting.is_empty() => {
                    let Ok(permit) = permit else { return };
                    if let Some(reply) = self.waiting.pop_front() {
                        permit.send(Ok(reply));
                        continue;
                    }
                    match self.take() {
                        Ok(None) => is_asleep = true,
                        Ok(Some(reply)) => permit.send(Ok(reply)),
                        Err(death) => {
                            permit.send(Err(death));
                            return;
                        }
                    }
                }
                () = replies.closed() => return,
            }
        }
    }

    /// The messages that may be sent now.
    fn take(&self) -> Result<Option<StreamingPullResponse>, Status> {
        let id = self.guard.id;
        let shared = &self.guard.shared;
        let batch = shared.with(|broker, now| broker.take(now, id, RESPONSE));
        let batch = batch.map_err(status)?;
        if batch.deliveries.is_empty() {
            return Ok(None);
        }
        let properties = properties(&batch);
        Ok(Some(StreamingPullResponse {
            received_messages: wire::received(batch, shared.settings.ack_id_bytes),
            subscription_properties: Some(properties),
            ..StreamingPullResponse::default()
        }))
    }

    fn handle(&mut self, request: pb::StreamingPullRequest) -> Result<(), Status> {
        let id = self.guard.id;
        let shared = &self.guard.shared;
        let reply = shared.with(|broker, now| broker.stream_request(now, id, false, request));
        self.queue(reply.map_err(status)?);
        Ok(())
    }

    /// Queues what a request is answered with: exactly-once confirmations, or a heartbeat.
    fn queue(&mut self, reply: StreamReply) {
        let id = self.guard.id;
        let (exactly_once, ordering) = self.guard.shared.with(|broker, _| broker.properties(id));
        let beats = reply.heartbeat && self.speaks_heartbeats;
        let confirms = exactly_once && !(reply.acks.is_empty() && reply.changes.is_empty());
        if !beats && !confirms {
            return;
        }
        let batch = Batch {
            exactly_once,
            ordering,
            ..Batch::default()
        };
        let some = |report: &AckReport| confirms && !report.is_empty();
        self.waiting.push_back(StreamingPullResponse {
            subscription_properties: Some(properties(&batch)),
            acknowledge_confirmation: some(&reply.acks).then(|| wire::acks(reply.acks)),
            modify_ack_deadline_confirmation: some(&reply.changes)
                .then(|| wire::changes(reply.changes)),
            ..StreamingPullResponse::default()
        });
    }
}

fn properties(batch: &Batch) -> pb::streaming_pull_response::SubscriptionProperties {
    pb::streaming_pull_response::SubscriptionProperties {
        exactly_once_delivery_enabled: batch.exactly_once,
        message_ordering_enabled: batch.ordering,
    }
}
