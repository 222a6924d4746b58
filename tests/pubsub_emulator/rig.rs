//! An emulator and its clients.

use std::time::Duration;

use googleapis_tonic_google_pubsub_v1::google::pubsub::v1 as pb;
use pb::publisher_client::PublisherClient;
use pb::subscriber_client::SubscriberClient;
use tidemill::pubsub_emulator::{Emulator, Settings, start};
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status, Streaming};

pub(crate) const TOPIC: &str = "projects/test/topics/orders";
pub(crate) const SUBSCRIPTION: &str = "projects/test/subscriptions/orders";

pub(crate) struct Rig {
    pub(crate) emulator: Emulator,
    pub(crate) publisher: PublisherClient<Channel>,
    pub(crate) subscriber: SubscriberClient<Channel>,
}

impl Rig {
    pub(crate) async fn start(settings: Settings) -> Rig {
        let emulator = start(settings).await.expect("starts");
        let endpoint =
            Endpoint::from_shared(format!("http://{}", emulator.addr())).expect("an address");
        let channel = endpoint.connect().await.expect("connects");
        Rig {
            emulator,
            publisher: PublisherClient::new(channel.clone()),
            subscriber: SubscriberClient::new(channel).max_decoding_message_size(64 << 20),
        }
    }

    /// An emulator with the topic and a subscription of it.
    pub(crate) async fn with(subscription: pb::Subscription) -> Rig {
        let mut rig = Rig::start(Settings::default()).await;
        rig.create(subscription).await.expect("created");
        rig
    }

    /// Creates the topic if need be, and a subscription of it.
    pub(crate) async fn create(
        &mut self,
        subscription: pb::Subscription,
    ) -> Result<pb::Subscription, Status> {
        let topic = pb::Topic {
            name: TOPIC.to_owned(),
            ..Default::default()
        };
        match self.publisher.create_topic(topic).await {
            Err(status) if status.code() != Code::AlreadyExists => return Err(status),
            _ => {}
        }
        let or = |name: String, default: &str| {
            if name.is_empty() {
                default.to_owned()
            } else {
                name
            }
        };
        let subscription = pb::Subscription {
            name: or(subscription.name.clone(), SUBSCRIPTION),
            topic: or(subscription.topic.clone(), TOPIC),
            ..subscription
        };
        Ok(self
            .subscriber
            .create_subscription(subscription)
            .await?
            .into_inner())
    }

    pub(crate) async fn publish(&mut self, payloads: &[&str]) -> Vec<String> {
        let messages = payloads.iter().map(|payload| message(payload));
        self.publish_messages(messages.collect())
            .await
            .expect("published")
    }

    pub(crate) async fn publish_messages(
        &mut self,
        messages: Vec<pb::PubsubMessage>,
    ) -> Result<Vec<String>, Status> {
        let request = pb::PublishRequest {
            topic: TOPIC.to_owned(),
            messages,
        };
        Ok(self
            .publisher
            .publish(request)
            .await?
            .into_inner()
            .message_ids)
    }

    /// Pulls what is there now.
    pub(crate) async fn pull(&mut self, max_messages: i32) -> Vec<pb::ReceivedMessage> {
        self.pull_from(SUBSCRIPTION, max_messages)
            .await
            .expect("pulled")
    }

    #[expect(deprecated, reason = "an empty answer is what some tests are about")]
    pub(crate) async fn pull_from(
        &mut self,
        subscription: &str,
        max_messages: i32,
    ) -> Result<Vec<pb::ReceivedMessage>, Status> {
        let request = pb::PullRequest {
            subscription: subscription.to_owned(),
            max_messages,
            return_immediately: true,
        };
        Ok(self
            .subscriber
            .pull(request)
            .await?
            .into_inner()
            .received_messages)
    }

    pub(crate) async fn ack(&mut self, messages: &[pb::ReceivedMessage]) -> Result<(), Status> {
        let request = pb::AcknowledgeRequest {
            subscription: SUBSCRIPTION.to_owned(),
            ack_ids: messages.iter().map(|one| one.ack_id.clone()).collect(),
        };
        self.subscriber.acknowledge(request).await.map(|_| ())
    }

    pub(crate) async fn modify(
        &mut self,
        messages: &[pb::ReceivedMessage],
        seconds: i32,
    ) -> Result<(), Status> {
        let request = pb::ModifyAckDeadlineRequest {
            subscription: SUBSCRIPTION.to_owned(),
            ack_ids: messages.iter().map(|one| one.ack_id.clone()).collect(),
            ack_deadline_seconds: seconds,
        };
        self.subscriber
            .modify_ack_deadline(request)
            .await
            .map(|_| ())
    }

    /// Lets the emulator's clock run ahead.
    pub(crate) fn advance(&self, seconds: u64) {
        self.emulator.advance_clock(Duration::from_secs(seconds));
    }

    /// Opens a stream.
    pub(crate) async fn stream(
        &mut self,
        first: pb::StreamingPullRequest,
    ) -> Result<Stream, Status> {
        let (requests, receiver) = mpsc::unbounded_channel();
        let first = pb::StreamingPullRequest {
            subscription: SUBSCRIPTION.to_owned(),
            stream_ack_deadline_seconds: first.stream_ack_deadline_seconds.max(10),
            ..first
        };
        requests.send(first).expect("queued");
        let responses = self
            .subscriber
            .streaming_pull(UnboundedReceiverStream::new(receiver))
            .await?;
        Ok(Stream {
            requests: Some(requests),
            responses: responses.into_inner(),
        })
    }
}

/// An open stream.
pub(crate) struct Stream {
    pub(crate) requests: Option<mpsc::UnboundedSender<pb::StreamingPullRequest>>,
    pub(crate) responses: Streaming<pb::StreamingPullResponse>,
}

impl Stream {
    pub(crate) fn send(&self, request: pb::StreamingPullRequest) {
        let requests = self.requests.as_ref().expect("not closed");
        requests.send(request).expect("open");
    }

    pub(crate) fn ack(&self, messages: &[pb::ReceivedMessage]) {
        self.send(pb::StreamingPullRequest {
            ack_ids: messages.iter().map(|one| one.ack_id.clone()).collect(),
            ..Default::default()
        });
    }

    /// The next response, which must come soon.
    pub(crate) async fn next(&mut self) -> Result<Option<pb::StreamingPullResponse>, Status> {
        tokio::time::timeout(Duration::from_secs(10), self.responses.message())
            .await
            .expect("a response in time")
    }

    /// The next messages, at least so many.
    pub(crate) async fn receive(&mut self, count: usize) -> Vec<pb::ReceivedMessage> {
        let mut received = Vec::new();
        while received.len() < count {
            let response = self.next().await.expect("no error").expect("not the end");
            received.extend(response.received_messages);
        }
        received
    }

    /// Whether nothing comes for a moment.
    pub(crate) async fn is_silent(&mut self) -> bool {
        let wait = Duration::from_millis(100);
        tokio::time::timeout(wait, self.responses.message())
            .await
            .is_err()
    }
}

/// A message with this payload.
pub(crate) fn message(payload: &str) -> pb::PubsubMessage {
    pb::PubsubMessage {
        data: payload.to_owned().into(),
        ..Default::default()
    }
}

/// The payloads of messages.
pub(crate) fn payloads(messages: &[pb::ReceivedMessage]) -> Vec<String> {
    let messages = messages.iter().filter_map(|one| one.message.as_ref());
    messages
        .map(|message| String::from_utf8_lossy(&message.data).into_owned())
        .collect()
}

/// Labels or attributes of pairs.
#[expect(clippy::disallowed_types, reason = "the generated types have it")]
pub(crate) fn labels(pairs: &[(&str, &str)]) -> std::collections::HashMap<String, String> {
    let pairs = pairs.iter();
    pairs
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

/// A duration of whole seconds.
pub(crate) fn seconds(seconds: i64) -> prost_types::Duration {
    prost_types::Duration { seconds, nanos: 0 }
}
