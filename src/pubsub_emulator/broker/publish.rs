//! Publish, and dead letters.

use std::sync::Arc;

use googleapis_tonic_google_pubsub_v1::google::pubsub::v1 as pb;
use prost::Message as _;

use super::names;
use super::refusal::{Refusal, Result};
use super::resources::{Broker, Subscription};
use crate::pubsub_emulator::delivery::{Message, Time};

const MESSAGES_MAX: usize = 1000;
const REQUEST_BYTES_MAX: usize = 10 * 1024 * 1024;
const ATTRIBUTES_MAX: usize = 100;
const KEY_BYTES_MAX: usize = 256;
const VALUE_BYTES_MAX: usize = 1024;
const ORDERING_KEY_BYTES_MAX: usize = 1024;

impl Broker {
    /// Publish.
    pub fn publish(&mut self, now: Time, request: pb::PublishRequest) -> Result<Vec<u64>> {
        names::check(&request.topic, "topics")?;
        let topic = self.topic(&request.topic)?;
        if topic.proto.schema_settings.is_some() {
            return Err(Refusal::unsupported(
                "this emulator does not validate schemas",
            ));
        }
        check_request(&request)?;
        let mut messages = Vec::with_capacity(request.messages.len());
        for proto in request.messages {
            messages.push(Arc::new(message(self.next_message, now, proto)));
            self.next_message += 1;
        }
        self.deliver(now, &request.topic, &messages);
        Ok(messages.iter().map(|message| message.id).collect())
    }

    /// Gives messages to all subscriptions of a topic.
    fn deliver(&mut self, now: Time, topic_name: &str, messages: &[Arc<Message>]) {
        let has_snapshot = self
            .snapshots
            .values()
            .any(|snapshot| snapshot.proto.topic == topic_name);
        let Some(topic) = self.topics.get_mut(topic_name) else {
            return;
        };
        if has_snapshot || topic.proto.message_retention_duration.is_some() {
            topic.log.extend(messages.iter().map(Arc::clone));
        }
        let names: Vec<String> = topic.subscriptions.iter().cloned().collect();
        for name in names {
            if let Some(Subscription { backlog, .. }) = self.subscriptions.get_mut(&name) {
                for message in messages {
                    backlog.publish(now, message, &mut self.rng);
                }
            }
            self.settle(now, &name);
        }
    }

    /// Publishes a message that failed too often to its subscription's dead-letter topic. Where that
    /// does not exist, the message stays.
    pub(super) fn dead_letter(
        &mut self,
        now: Time,
        subscription_name: &str,
        message: &Arc<Message>,
        failures: u32,
    ) {
        let Some(subscription) = self.subscriptions.get_mut(subscription_name) else {
            return;
        };
        let policy = subscription.proto.dead_letter_policy.as_ref();
        let topic = policy.map_or_else(String::new, |policy| policy.dead_letter_topic.clone());
        if !self.topics.contains_key(&topic) {
            subscription.backlog.restore(now, message, failures);
            return;
        }
        let mut letter = Message::clone(message);
        letter.id = self.next_message;
        letter.publish_time = now;
        self.next_message += 1;
        let source = [
            ("DeliveryCount", failures.to_string()),
            ("Subscription", names::id(subscription_name).to_owned()),
            (
                "SubscriptionProject",
                names::project(subscription_name).to_owned(),
            ),
            ("TopicPublishTime", rfc3339(message.publish_time)),
        ];
        for (name, value) in source {
            letter
                .attributes
                .push((format!("CloudPubSubDeadLetterSource{name}"), value));
        }
        letter.attributes.sort();
        letter
            .attributes
            .dedup_by(|later, first| later.0 == first.0);
        self.deliver(now, &topic, &[Arc::new(letter)]);
    }
}

fn check_request(request: &pb::PublishRequest) -> Result<()> {
    let messages = &request.messages;
    if messages.is_empty() {
        return Err(Refusal::invalid("the request has no messages"));
    }
    if messages.len() > MESSAGES_MAX {
        return Err(Refusal::invalid(format!(
            "the request has {} messages, at most {MESSAGES_MAX} are allowed",
            messages.len()
        )));
    }
    let bytes = request.encoded_len();
    if bytes > REQUEST_BYTES_MAX {
        return Err(Refusal::invalid(format!(
            "the request has {bytes} bytes, at most {REQUEST_BYTES_MAX} are allowed"
        )));
    }
    let first_key = messages.first().map(|first| &first.ordering_key);
    for message in messages {
        check_message(message)?;
        if Some(&message.ordering_key) != first_key {
            return Err(Refusal::invalid(
                "all messages of a request must have the same ordering key",
            ));
        }
    }
    Ok(())
}

fn check_message(message: &pb::PubsubMessage) -> Result<()> {
    let attributes = &message.attributes;
    if message.data.is_empty() && attributes.is_empty() {
        return Err(Refusal::invalid(
            "a message must have data or at least one attribute",
        ));
    }
    if attributes.len() > ATTRIBUTES_MAX {
        return Err(Refusal::invalid(format!(
            "a message has at most {ATTRIBUTES_MAX} attributes"
        )));
    }
    if message.ordering_key.len() > ORDERING_KEY_BYTES_MAX {
        return Err(Refusal::invalid(format!(
            "an ordering key has at most {ORDERING_KEY_BYTES_MAX} bytes"
        )));
    }
    let is_bad = |(key, value): (&String, &String)| {
        key.is_empty()
            || key.len() > KEY_BYTES_MAX
            || value.len() > VALUE_BYTES_MAX
            || key.starts_with("goog")
    };
    if attributes.iter().any(is_bad) {
        return Err(Refusal::invalid(format!(
            "an attribute's key has 1 to {KEY_BYTES_MAX} bytes and does not begin with goog, its \
             value has at most {VALUE_BYTES_MAX} bytes"
        )));
    }
    Ok(())
}

/// The message as it is kept. Id and publish time of the publisher do not count.
fn message(id: u64, now: Time, proto: pb::PubsubMessage) -> Message {
    let mut attributes: Vec<(String, String)> = proto.attributes.into_iter().collect();
    attributes.sort();
    Message {
        id,
        publish_time: now,
        data: proto.data,
        attributes,
        ordering_key: proto.ordering_key,
    }
}

/// A moment as text, with milliseconds.
pub(super) fn rfc3339(time: Time) -> String {
    let timestamp = prost_types::Timestamp {
        seconds: time.nanos().div_euclid(1_000_000_000),
        nanos: i32::try_from(time.nanos().rem_euclid(1_000_000_000)).unwrap_or(0) / 1_000_000
            * 1_000_000,
    };
    timestamp.to_string()
}
