//! How fast the Pub/Sub emulator is, over loopback gRPC with the client in the same process.
//!
//! `cargo bench --bench pubsub_emulator` prints messages per second of 1 KB, and the time from the
//! call of Publish to the message's arrival on an idle stream, beside the time of a call that does
//! nothing.

use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use googleapis_tonic_google_pubsub_v1::google::pubsub::v1 as pb;
use pb::publisher_client::PublisherClient;
use pb::subscriber_client::SubscriberClient;
use tidemill::pubsub_emulator::{Settings, start};
use tidemill::telemetry::clock;
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::Streaming;
use tonic::transport::{Channel, Endpoint};

const TOPIC: &str = "projects/bench/topics/bench";
const SUBSCRIPTION: &str = "projects/bench/subscriptions/bench";
const MESSAGES: usize = 300_000;
const BATCH: usize = 1000;
const PROBES: usize = 1000;

type Failure = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let emulator = start(Settings::default()).await?;
    let endpoint = Endpoint::from_shared(format!("http://{}", emulator.addr()))?
        .tcp_nodelay(true)
        .initial_stream_window_size(8 << 20)
        .initial_connection_window_size(8 << 20);
    let mut publisher = PublisherClient::new(endpoint.connect().await?);
    let mut subscriber =
        SubscriberClient::new(endpoint.connect().await?).max_decoding_message_size(64 << 20);
    let topic = pb::Topic {
        name: TOPIC.to_owned(),
        ..Default::default()
    };
    publisher.create_topic(topic).await?;
    let subscription = pb::Subscription {
        name: SUBSCRIPTION.to_owned(),
        topic: TOPIC.to_owned(),
        ..Default::default()
    };
    subscriber.create_subscription(subscription).await?;

    let before = clock::instant();
    publish(&publisher).await?;
    report("publish", before.elapsed());

    let mut stream = Stream::open(&mut subscriber).await?;
    let before = clock::instant();
    stream.receive(MESSAGES).await?;
    report("one stream, acks on it", before.elapsed());

    let before = clock::instant();
    let both = tokio::join!(publish(&publisher), stream.receive(MESSAGES));
    both.0?;
    both.1?;
    report("publish and one stream at once", before.elapsed());

    let (mut receipts, mut calls) = (Vec::new(), Vec::new());
    for _ in 0..PROBES {
        let before = clock::instant();
        let published = publisher.publish(request(1));
        let received = stream.receive(1);
        let (published, received) = tokio::join!(published, received);
        published?;
        receipts.push(received?.saturating_duration_since(before));
        // What the machine and gRPC alone take just now.
        let before = clock::instant();
        let topic = TOPIC.to_owned();
        publisher.get_topic(pb::GetTopicRequest { topic }).await?;
        calls.push(before.elapsed());
    }
    report_times("publish to receipt", receipts);
    report_times("a call that does nothing", calls);
    emulator.shutdown().await?;
    Ok(())
}

struct Stream {
    requests: mpsc::UnboundedSender<pb::StreamingPullRequest>,
    responses: Streaming<pb::StreamingPullResponse>,
}

impl Stream {
    async fn open(subscriber: &mut SubscriberClient<Channel>) -> Result<Stream, Failure> {
        let (requests, receiver) = mpsc::unbounded_channel();
        requests.send(pb::StreamingPullRequest {
            subscription: SUBSCRIPTION.to_owned(),
            stream_ack_deadline_seconds: 60,
            ..Default::default()
        })?;
        let receiver = UnboundedReceiverStream::new(receiver);
        let responses = subscriber.streaming_pull(receiver).await?.into_inner();
        Ok(Stream {
            requests,
            responses,
        })
    }

    /// Receives and acknowledges so many messages; gives the moment the last one came.
    async fn receive(&mut self, count: usize) -> Result<Instant, Failure> {
        let mut received = 0;
        let mut last = clock::instant();
        while received < count {
            let response = self.responses.message().await?.ok_or("the stream ended")?;
            last = clock::instant();
            received += response.received_messages.len();
            let messages = response.received_messages.into_iter();
            self.requests.send(pb::StreamingPullRequest {
                ack_ids: messages.map(|message| message.ack_id).collect(),
                ..Default::default()
            })?;
        }
        Ok(last)
    }
}

/// Publishes all messages, four requests at a time.
async fn publish(publisher: &PublisherClient<Channel>) -> Result<(), Failure> {
    let batches = stream::iter(0..MESSAGES / BATCH).map(|_| {
        let mut publisher = publisher.clone();
        async move { publisher.publish(request(BATCH)).await }
    });
    let mut batches = batches.buffer_unordered(4);
    while let Some(published) = batches.next().await {
        published?;
    }
    Ok(())
}

fn request(messages: usize) -> pb::PublishRequest {
    let message = pb::PubsubMessage {
        data: Bytes::from(vec![7; 1024]),
        ..Default::default()
    };
    pb::PublishRequest {
        topic: TOPIC.to_owned(),
        messages: vec![message; messages],
    }
}

fn report_times(what: &str, mut times: Vec<Duration>) {
    times.sort();
    let at = |share: usize| times.get(times.len() * share / 1000).copied();
    let [p50, p99, p999] = [500, 990, 999].map(|share| at(share).unwrap_or_default());
    println!("{what}: p50 {p50:?}, p99 {p99:?}, p99.9 {p999:?}");
}

fn report(what: &str, took: Duration) {
    let rate = f64::from(u32::try_from(MESSAGES).unwrap_or(u32::MAX)) / took.as_secs_f64();
    println!("{what}: {rate:.0} msg/s");
}
