//! A received message, as the job sees it.

use bytes::Bytes;

use crate::model::Timestamp;
use crate::source::pubsub::ack::{Delivery, Receipt};
use crate::source::pubsub::keys::key_of;
use crate::source::pubsub::settings::ReadSettings;
use crate::source::pubsub::time_text::parse_event_time;
use crate::source::pubsub::wire::{MessageParts, Received};

/// One message that was delivered and is held until it is acknowledged.
#[derive(Clone, Debug)]
pub struct Message {
    /// The key the message is shuffled by: a stable hash of `dedup_id`, below the number of keys.
    pub key: u32,
    /// What names the message for deduplication: the id attribute's value, or the message id.
    pub dedup_id: Bytes,
    /// Event time: the timestamp attribute, or the publish time.
    pub timestamp: Timestamp,
    /// The element: the data, or the serialized `PubsubMessage`.
    pub element: Bytes,
    /// Names this delivery in [`ack`](crate::source::pubsub::ReaderHandle::ack).
    pub receipt: Receipt,
    /// When the server accepted the message.
    pub publish_time: Timestamp,
}

/// A message that was read off the wire and is not yet held: its receipt is still to be given.
#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    pub(crate) delivery: Delivery,
    pub(crate) message: Message,
}

/// What was odd about messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Oddities {
    /// No message in the delivery, or one that cannot be read: skipped.
    pub(crate) unreadable: u64,
    /// The timestamp attribute was missing or no time: the publish time was taken.
    pub(crate) bad_timestamps: u64,
    /// The id attribute was missing or empty: the message id was taken.
    pub(crate) missing_ids: u64,
}

/// Reads one delivery as `settings` say; `None` if there is no message in it.
pub(crate) fn interpret(
    received: Received,
    settings: &ReadSettings,
    oddities: &mut Oddities,
) -> Option<Arrival> {
    let serialized = received.message.unwrap_or_default();
    let parts = MessageParts::parse(
        serialized.clone(),
        settings.timestamp_attribute.as_deref(),
        settings.id_attribute.as_deref(),
    )
    .ok()
    .filter(|parts| !parts.message_id.is_empty());
    let Some(parts) = parts else {
        oddities.unreadable += 1;
        return None;
    };
    let publish_time = Timestamp::from_millis(parts.publish_millis);
    let mut timestamp = publish_time;
    if settings.timestamp_attribute.is_some() {
        match parts
            .timestamp_attribute
            .as_deref()
            .and_then(parse_event_time)
        {
            Some(event_time) => timestamp = event_time,
            None => oddities.bad_timestamps += 1,
        }
    }
    let dedup_id = match (&settings.id_attribute, parts.id_attribute) {
        (None, _) => parts.message_id.clone(),
        (Some(_), Some(id)) if !id.is_empty() => id,
        (Some(_), _) => {
            oddities.missing_ids += 1;
            substitute_id(&parts.message_id)
        }
    };
    let bytes = serialized.len() + received.ack_id.len();
    let element = if settings.with_attributes {
        serialized
    } else {
        parts.data
    };
    let message = Message {
        key: key_of(&dedup_id, settings.keys),
        dedup_id,
        timestamp,
        element,
        receipt: Receipt(u64::MAX),
        publish_time,
    };
    let delivery = Delivery {
        message_id: parts.message_id,
        ack_id: received.ack_id,
        bytes,
        timestamp,
    };
    Some(Arrival { delivery, message })
}

/// The deduplication id of a message without its id attribute. Attribute values are text, so that
/// the zero in front keeps it apart from them.
fn substitute_id(message_id: &[u8]) -> Bytes {
    let mut id = Vec::with_capacity(message_id.len() + 1);
    id.push(0);
    id.extend_from_slice(message_id);
    id.into()
}

#[cfg(test)]
mod tests {
    use googleapis_tonic_google_pubsub_v1::google::pubsub::v1::PubsubMessage;
    use prost::Message as _;

    use super::*;

    fn received(attributes: &[(&str, &str)]) -> Received {
        let message = PubsubMessage {
            data: Bytes::from_static(b"payload"),
            attributes: attributes
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
            message_id: "17".into(),
            publish_time: Some(prost_types::Timestamp {
                seconds: 100,
                nanos: 1_999_999,
            }),
            ordering_key: "k".into(),
        };
        Received {
            ack_id: "a".into(),
            message: Some(message.encode_to_vec().into()),
        }
    }

    /// Timestamp, dedup id and oddities of a message with these attributes.
    fn check(attributes: &[(&str, &str)]) -> (i64, Bytes, Oddities) {
        let settings = ReadSettings {
            timestamp_attribute: Some("ts".into()),
            id_attribute: Some("id".into()),
            ..ReadSettings::new("s")
        };
        let mut oddities = Oddities::default();
        let arrival = interpret(received(attributes), &settings, &mut oddities).unwrap();
        let message = arrival.message;
        assert_eq!(message.publish_time.millis(), 100_001);
        assert_eq!(message.key, key_of(&message.dedup_id, settings.keys));
        (message.timestamp.millis(), message.dedup_id, oddities)
    }

    #[test]
    fn attributes_name_and_time_a_message() {
        let none = Oddities::default();
        let bad_timestamp = Oddities {
            bad_timestamps: 1,
            ..none
        };
        let missing_id = Oddities {
            missing_ids: 1,
            ..none
        };
        assert_eq!(check(&[("ts", "7"), ("id", "x")]), (7, "x".into(), none));
        assert_eq!(
            check(&[("ts", "soon"), ("id", "x")]),
            (100_001, "x".into(), bad_timestamp)
        );
        assert_eq!(check(&[("id", "x")]), (100_001, "x".into(), bad_timestamp));
        assert_eq!(
            check(&[("ts", "7"), ("id", "")]),
            (7, "\x0017".into(), missing_id)
        );
        assert_eq!(check(&[("ts", "7")]), (7, "\x0017".into(), missing_id));
    }

    #[test]
    fn the_element_is_the_data_or_the_whole_message() {
        let mut settings = ReadSettings::new("s");
        let mut oddities = Oddities::default();
        let arrival = interpret(received(&[]), &settings, &mut oddities).unwrap();
        assert_eq!(arrival.message.element, "payload");
        assert_eq!(arrival.message.dedup_id, "17");
        settings.with_attributes = true;
        let arrival = interpret(received(&[("a", "b")]), &settings, &mut oddities).unwrap();
        let whole = PubsubMessage::decode(arrival.message.element).unwrap();
        assert_eq!(
            (whole.message_id, whole.ordering_key),
            ("17".into(), "k".into())
        );
        assert_eq!(whole.attributes.len(), 1);
        assert_eq!(oddities, Oddities::default());
    }

    #[test]
    fn a_delivery_without_a_message_is_skipped() {
        let mut oddities = Oddities::default();
        for message in [None, Some(Bytes::from_static(b"\xff"))] {
            let received = Received {
                ack_id: "a".into(),
                message,
            };
            assert!(interpret(received, &ReadSettings::new("s"), &mut oddities).is_none());
        }
        assert_eq!(oddities.unreadable, 2);
    }
}
