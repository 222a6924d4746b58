//! Messages on their way out: attributes, limits, and how they are packed into requests.
//!
//! The official emulator accepts what the service refuses and never answers to a request that is
//! too large, so we count ourselves before anything is sent.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use googleapis_tonic_google_pubsub_v1::google::pubsub::v1::{PublishRequest, PubsubMessage};
use prost::Message as _;

use crate::model::Timestamp;
use crate::source::pubsub::error::Error;
use crate::source::pubsub::path;

/// A message to be published.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// The topic's path, in any of the forms that [`path::topic`] takes.
    pub topic: String,
    /// A serialized `PubsubMessage`.
    pub message: Bytes,
    /// The stable id to write to the id attribute, fixed before the element was committed.
    pub id: Option<String>,
    /// The element's event time, for the timestamp attribute.
    pub timestamp: Timestamp,
}

/// How messages are published.
#[derive(Clone, Debug)]
pub struct PublishSettings {
    /// The attribute that takes [`Outgoing::id`].
    pub id_attribute: Option<String>,
    /// The attribute that takes the event time, in decimal epoch milliseconds as Beam's Java
    /// connector writes it.
    pub timestamp_attribute: Option<String>,
    /// Whether messages keep their ordering keys; else they are published without.
    pub ordering_keys: bool,
    /// How long a request is tried before the batch counts as failed.
    pub give_up_after: Duration,
    /// Seed of the jitter in retries.
    pub seed: u64,
}

impl Default for PublishSettings {
    fn default() -> Self {
        Self {
            id_attribute: None,
            timestamp_attribute: None,
            ordering_keys: true,
            give_up_after: Duration::from_secs(600),
            seed: 0,
        }
    }
}

/// Requests that must be sent one after the other, because they share an ordering key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sequence {
    pub(crate) topic: String,
    /// Serialized `PublishRequest`s and how many messages each has.
    pub(crate) requests: Vec<(Bytes, usize)>,
}

/// Whether Pub/Sub would take the message; `index` names it in the error.
pub(crate) fn check(
    index: usize,
    outgoing: &Outgoing,
    settings: &PublishSettings,
) -> Result<(String, PubsubMessage), Error> {
    let bad = |reason: String| Error::Element { index, reason };
    let topic = path::topic(&outgoing.topic).map_err(|error| bad(error.to_string()))?;
    let mut message = PubsubMessage::decode(outgoing.message.clone())
        .map_err(|error| bad(format!("it is no PubsubMessage: {error}")))?;
    // The server sets these.
    message.message_id = String::new();
    message.publish_time = None;
    if !settings.ordering_keys {
        message.ordering_key = String::new();
    }
    if let (Some(attribute), Some(id)) = (&settings.id_attribute, &outgoing.id) {
        message.attributes.insert(attribute.clone(), id.clone());
    }
    if let Some(attribute) = &settings.timestamp_attribute {
        let millis = outgoing.timestamp.millis().to_string();
        message.attributes.insert(attribute.clone(), millis);
    }
    match broken_limit(&message, topic.len()) {
        Some(reason) => Err(bad(reason)),
        None => Ok((topic, message)),
    }
}

/// Packs messages into as few requests as the limits allow. Messages of one topic and ordering key
/// stay in order.
pub(crate) fn pack(messages: Vec<(String, PubsubMessage)>) -> Vec<Sequence> {
    let mut by_key: BTreeMap<(String, String), Vec<PubsubMessage>> = BTreeMap::new();
    for (topic, message) in messages {
        if path::is_discard_topic(&topic) {
            continue;
        }
        let key = (topic, message.ordering_key.clone());
        by_key.entry(key).or_default().push(message);
    }
    let mut sequences = Vec::new();
    for ((topic, ordering_key), messages) in by_key {
        let requests = split(&topic, messages);
        if ordering_key.is_empty() {
            sequences.extend(requests.into_iter().map(|request| Sequence {
                topic: topic.clone(),
                requests: vec![request],
            }));
        } else {
            sequences.push(Sequence { topic, requests });
        }
    }
    sequences
}

fn split(topic: &str, messages: Vec<PubsubMessage>) -> Vec<(Bytes, usize)> {
    let mut requests = Vec::new();
    let mut request = empty_request(topic);
    let mut bytes = framed(topic.len());
    for message in messages {
        let len = framed(message.encoded_len());
        let is_full = request.messages.len() == MESSAGES_MAX || bytes + len > REQUEST_BYTES_MAX;
        if is_full && !request.messages.is_empty() {
            let full = std::mem::replace(&mut request, empty_request(topic));
            requests.push((full.encode_to_vec().into(), full.messages.len()));
            bytes = framed(topic.len());
        }
        bytes += len;
        request.messages.push(message);
    }
    if !request.messages.is_empty() {
        requests.push((request.encode_to_vec().into(), request.messages.len()));
    }
    requests
}

fn empty_request(topic: &str) -> PublishRequest {
    PublishRequest {
        topic: topic.to_owned(),
        ..PublishRequest::default()
    }
}

/// A field's length with its tag and length prefix.
fn framed(len: usize) -> usize {
    1 + prost::length_delimiter_len(len) + len
}

/// The first limit that a message breaks, in words.
fn broken_limit(message: &PubsubMessage, topic_len: usize) -> Option<String> {
    let attributes = &message.attributes;
    if message.data.is_empty() && attributes.is_empty() {
        return Some("it has neither data nor attributes".to_owned());
    }
    if attributes.len() > ATTRIBUTES_MAX {
        let count = attributes.len();
        return Some(format!(
            "it has {count} attributes, more than {ATTRIBUTES_MAX}"
        ));
    }
    let ordering_key = message.ordering_key.len();
    if ordering_key > ORDERING_KEY_BYTES_MAX {
        return Some(format!(
            "its ordering key has {ordering_key} bytes, more than {ORDERING_KEY_BYTES_MAX}"
        ));
    }
    let broken = attributes
        .iter()
        .filter_map(|(key, value)| broken_attribute(key, value))
        .min();
    if broken.is_some() {
        return broken;
    }
    let request = framed(topic_len) + framed(message.encoded_len());
    (request > REQUEST_BYTES_MAX)
        .then(|| format!("its request would have {request} bytes, more than {REQUEST_BYTES_MAX}"))
}

fn broken_attribute(key: &str, value: &str) -> Option<String> {
    if key.is_empty() {
        return Some("an attribute has an empty key".to_owned());
    }
    if key.len() > ATTRIBUTE_KEY_BYTES_MAX {
        let (len, start) = (key.len(), key.chars().take(32).collect::<String>());
        return Some(format!(
            "the key of attribute {start:?}… has {len} bytes, more than {ATTRIBUTE_KEY_BYTES_MAX}"
        ));
    }
    if key.starts_with("goog") {
        return Some(format!("attribute key {key:?} is reserved"));
    }
    let len = value.len();
    (len > ATTRIBUTE_VALUE_BYTES_MAX).then(|| {
        format!("attribute {key:?} has {len} bytes, more than {ATTRIBUTE_VALUE_BYTES_MAX}")
    })
}

const MESSAGES_MAX: usize = 1_000;
const REQUEST_BYTES_MAX: usize = 10_000_000;
const ATTRIBUTES_MAX: usize = 100;
const ATTRIBUTE_KEY_BYTES_MAX: usize = 256;
const ATTRIBUTE_VALUE_BYTES_MAX: usize = 1_024;
const ORDERING_KEY_BYTES_MAX: usize = 1_024;

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> PublishSettings {
        PublishSettings {
            id_attribute: Some("id".into()),
            timestamp_attribute: Some("ts".into()),
            ..PublishSettings::default()
        }
    }

    fn outgoing(message: &PubsubMessage) -> Outgoing {
        Outgoing {
            topic: "/topics/p/t".into(),
            message: message.encode_to_vec().into(),
            id: Some("i1".into()),
            timestamp: Timestamp::from_millis(-5),
        }
    }

    fn message(data: usize, ordering_key: &str) -> PubsubMessage {
        PubsubMessage {
            data: vec![b'x'; data].into(),
            ordering_key: ordering_key.into(),
            ..PubsubMessage::default()
        }
    }

    fn with_attribute(key: &str, value: &str) -> PubsubMessage {
        PubsubMessage {
            attributes: [(key.to_owned(), value.to_owned())].into(),
            ..PubsubMessage::default()
        }
    }

    #[test]
    fn writes_the_id_and_the_time_and_clears_what_the_server_sets() {
        let received = PubsubMessage {
            message_id: "old".into(),
            publish_time: Some(prost_types::Timestamp::default()),
            ..message(1, "k")
        };
        let (topic, sent) = check(0, &outgoing(&received), &settings()).unwrap();
        assert_eq!(topic, "projects/p/topics/t");
        assert_eq!(
            (
                sent.attributes["id"].as_str(),
                sent.attributes["ts"].as_str()
            ),
            ("i1", "-5")
        );
        assert_eq!((sent.message_id.as_str(), sent.publish_time), ("", None));
        assert_eq!(sent.ordering_key, "k");
        let settings = PublishSettings {
            ordering_keys: false,
            ..settings()
        };
        let (_, sent) = check(0, &outgoing(&received), &settings).unwrap();
        assert_eq!(sent.ordering_key, "");
    }

    #[test]
    fn a_broken_limit_names_the_element() {
        let reason = |message: &PubsubMessage| {
            check(3, &outgoing(message), &PublishSettings::default())
                .err()
                .map(|error| error.to_string())
        };
        let many = PubsubMessage {
            attributes: (0..101).map(|n| (n.to_string(), String::new())).collect(),
            ..PubsubMessage::default()
        };
        for (message, expected) in [
            (message(0, ""), "it has neither data nor attributes"),
            (with_attribute("", "x"), "an attribute has an empty key"),
            (
                with_attribute("google", "x"),
                "attribute key \"google\" is reserved",
            ),
            (
                with_attribute("k", &"v".repeat(1_025)),
                "attribute \"k\" has 1025 bytes, more than 1024",
            ),
            (
                with_attribute(&"k".repeat(257), "v"),
                "the key of attribute \"kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk\"… has 257 bytes, more than 256",
            ),
            (many, "it has 101 attributes, more than 100"),
            (
                message(1, &"k".repeat(1_025)),
                "its ordering key has 1025 bytes, more than 1024",
            ),
            (
                message(10_000_000, ""),
                "its request would have 10000031 bytes, more than 10000000",
            ),
        ] {
            let expected = format!("element 3 cannot be published: {expected}");
            assert_eq!(reason(&message), Some(expected));
        }
        assert_eq!(
            reason(&with_attribute(&"k".repeat(256), &"v".repeat(1_024))),
            None
        );
        assert_eq!(reason(&message(9_999_900, "")), None);
        let garbage = Outgoing {
            message: Bytes::from_static(b"\xff"),
            ..outgoing(&message(1, ""))
        };
        assert!(check(0, &garbage, &settings()).is_err());
    }

    /// Counts of messages per request per sequence.
    fn shape(messages: Vec<PubsubMessage>) -> Vec<Vec<usize>> {
        let topic = "projects/p/topics/t";
        let sent = messages
            .into_iter()
            .map(|message| (topic.to_owned(), message));
        let sequences = pack(sent.collect());
        for (request, _) in sequences.iter().flat_map(|sequence| &sequence.requests) {
            assert!(request.len() <= REQUEST_BYTES_MAX, "{}", request.len());
        }
        let counts =
            |sequence: &Sequence| sequence.requests.iter().map(|request| request.1).collect();
        sequences.iter().map(counts).collect()
    }

    #[test]
    fn requests_keep_below_count_and_bytes() {
        assert_eq!(shape(vec![]), [[0; 0]; 0]);
        assert_eq!(
            shape(vec![message(1, ""); 2_500]),
            [[1_000], [1_000], [500]]
        );
        assert_eq!(shape(vec![message(4_000_000, ""); 5]), [[2], [2], [1]]);
        assert_eq!(shape(vec![message(9_999_900, ""); 2]), [[1], [1]]);
        // Overhead counts: a thousand messages of 9,996 bytes would fit by their data alone.
        assert_eq!(shape(vec![message(9_996, ""); 1_000]), [[999], [1]]);
    }

    #[test]
    fn ordering_keys_are_not_mixed_and_stay_in_order() {
        let mut messages = Vec::new();
        for index in 0..1_500 {
            messages.push(message(1, if index % 2 == 0 { "a" } else { "" }));
            messages.push(message(1, "b"));
        }
        assert_eq!(shape(messages), [vec![750], vec![750], vec![1_000, 500]]);
    }

    #[test]
    fn the_discard_topic_is_discarded() {
        let sent = vec![("projects/dev/topics/null".to_owned(), message(1, ""))];
        assert_eq!(pack(sent), []);
    }
}
