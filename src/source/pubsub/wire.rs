//! The calls on the hot path, read and written without the generated types.
//!
//! A pulled message is never decoded into owned strings and maps and encoded again: ids, data and
//! the serialized `PubsubMessage` itself are slices of the frame they came in. (A slice keeps its
//! whole frame in memory, a few hundred messages at most, until the message is acknowledged.)

use bytes::{Buf, BufMut, Bytes};
use googleapis_tonic_google_pubsub_v1::google::pubsub::v1::streaming_pull_response::SubscriptionProperties;
use prost::Message as _;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

/// One message of a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// What the delivery is acknowledged by.
    pub ack_id: Bytes,
    /// The serialized `PubsubMessage`; `None` if the server sent none.
    pub message: Option<Bytes>,
}

/// A `StreamingPullResponse` or `PullResponse`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Response {
    /// The messages, in the order they came.
    pub received: Vec<Received>,
    /// What the stream says about its subscription.
    pub properties: Option<SubscriptionProperties>,
}

impl Response {
    /// Reads a response; what is not known is skipped.
    pub fn parse(mut frame: Bytes) -> Result<Self, WireError> {
        let mut response = Self::default();
        while frame.has_remaining() {
            match field(&mut frame)? {
                Field::Bytes(1, received) => response.received.push(parse_received(received)?),
                Field::Bytes(4, properties) => {
                    response.properties = Some(SubscriptionProperties::decode(properties)?);
                }
                Field::Bytes(..) | Field::Other => {}
            }
        }
        Ok(response)
    }
}

/// What a read needs to know of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageParts {
    /// The payload.
    pub data: Bytes,
    /// The server's name for the message.
    pub message_id: Bytes,
    /// Milliseconds since the epoch, rounded down.
    pub publish_millis: i64,
    /// The value of the timestamp attribute.
    pub timestamp_attribute: Option<Bytes>,
    /// The value of the id attribute.
    pub id_attribute: Option<Bytes>,
}

impl MessageParts {
    /// Reads a serialized `PubsubMessage`, looking for these attributes.
    pub fn parse(
        mut message: Bytes,
        timestamp_attribute: Option<&str>,
        id_attribute: Option<&str>,
    ) -> Result<Self, WireError> {
        let mut parts = Self::default();
        let wants_attributes = timestamp_attribute.is_some() || id_attribute.is_some();
        while message.has_remaining() {
            match field(&mut message)? {
                Field::Bytes(1, data) => parts.data = data,
                Field::Bytes(2, entry) if wants_attributes => {
                    let (key, value) = parse_map_entry(entry)?;
                    let key = Some(&key[..]);
                    if key == timestamp_attribute.map(str::as_bytes) {
                        parts.timestamp_attribute = Some(value.clone());
                    }
                    if key == id_attribute.map(str::as_bytes) {
                        parts.id_attribute = Some(value);
                    }
                }
                Field::Bytes(3, message_id) => parts.message_id = message_id,
                Field::Bytes(4, time) => {
                    let time = prost_types::Timestamp::decode(time)?;
                    parts.publish_millis = time
                        .seconds
                        .saturating_mul(1_000)
                        .saturating_add(i64::from(time.nanos).div_euclid(1_000_000));
                }
                Field::Bytes(..) | Field::Other => {}
            }
        }
        Ok(parts)
    }
}

/// An `AcknowledgeRequest`.
pub fn acknowledge_request(subscription: &str, ack_ids: &[Bytes]) -> Bytes {
    ids_request(subscription, ack_ids, None)
}

/// A `ModifyAckDeadlineRequest`; a deadline of zero gives the messages back.
pub fn modify_request(subscription: &str, ack_ids: &[Bytes], deadline_seconds: u32) -> Bytes {
    ids_request(subscription, ack_ids, Some(deadline_seconds))
}

/// How many bytes an ack id takes in a request.
pub const fn ack_id_bytes(ack_id: &Bytes) -> usize {
    // A tag, and a length of up to three bytes.
    ack_id.len() + 4
}

fn ids_request(subscription: &str, ack_ids: &[Bytes], deadline_seconds: Option<u32>) -> Bytes {
    let size: usize = ack_ids.iter().map(ack_id_bytes).sum();
    let mut request = Vec::with_capacity(size + subscription.len() + 16);
    put_bytes(&mut request, 1, subscription.as_bytes());
    if let Some(seconds) = deadline_seconds.filter(|seconds| *seconds > 0) {
        put_varint(&mut request, 3 << 3);
        put_varint(&mut request, u64::from(seconds));
    }
    let ids_field = if deadline_seconds.is_some() { 4 } else { 2 };
    for ack_id in ack_ids {
        put_bytes(&mut request, ids_field, ack_id);
    }
    request.into()
}

fn put_bytes(buffer: &mut Vec<u8>, number: u64, bytes: &[u8]) {
    put_varint(buffer, number << 3 | LENGTH_DELIMITED);
    put_varint(buffer, bytes.len() as u64);
    buffer.extend_from_slice(bytes);
}

fn parse_received(mut received: Bytes) -> Result<Received, WireError> {
    let mut parsed = Received::default();
    while received.has_remaining() {
        match field(&mut received)? {
            Field::Bytes(1, ack_id) => parsed.ack_id = ack_id,
            Field::Bytes(2, message) => parsed.message = Some(message),
            Field::Bytes(..) | Field::Other => {}
        }
    }
    Ok(parsed)
}

fn parse_map_entry(mut entry: Bytes) -> Result<(Bytes, Bytes), WireError> {
    let (mut key, mut value) = (Bytes::new(), Bytes::new());
    while entry.has_remaining() {
        match field(&mut entry)? {
            Field::Bytes(1, bytes) => key = bytes,
            Field::Bytes(2, bytes) => value = bytes,
            Field::Bytes(..) | Field::Other => {}
        }
    }
    Ok((key, value))
}

/// A field of a serialized message.
enum Field {
    Bytes(u64, Bytes),
    Other,
}

fn field(buffer: &mut Bytes) -> Result<Field, WireError> {
    let key = varint(buffer)?;
    let len = match key & 7 {
        LENGTH_DELIMITED => {
            let len = varint(buffer)?;
            return Ok(Field::Bytes(key >> 3, take(buffer, len)?));
        }
        VARINT => {
            varint(buffer)?;
            return Ok(Field::Other);
        }
        FIXED_32 => 4,
        FIXED_64 => 8,
        other => return Err(WireError::WireType(other)),
    };
    take(buffer, len)?;
    Ok(Field::Other)
}

fn take(buffer: &mut Bytes, len: u64) -> Result<Bytes, WireError> {
    match usize::try_from(len) {
        Ok(len) if len <= buffer.len() => Ok(buffer.split_to(len)),
        Ok(_) | Err(_) => Err(WireError::Truncated),
    }
}

fn varint(buffer: &mut Bytes) -> Result<u64, WireError> {
    let mut value = 0;
    for (index, byte) in buffer.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            buffer.advance(index + 1);
            return Ok(value);
        }
    }
    Err(WireError::Truncated)
}

fn put_varint(buffer: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        buffer.push(value as u8 | 0x80);
        value >>= 7;
    }
    buffer.push(value as u8);
}

/// Bytes that are not the message they should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// A length or number reaches beyond its message.
    #[error("a field reaches beyond its message")]
    Truncated,
    /// A kind of field that proto3 does not have.
    #[error("wire type {0} is unknown")]
    WireType(u64),
    /// A part that the generated types do not understand.
    #[error(transparent)]
    Part(#[from] prost::DecodeError),
}

/// A codec whose messages are bytes already: requests are encoded by the caller, responses are
/// parsed by it.
#[derive(Clone, Copy, Debug, Default)]
pub struct BytesCodec;

impl Codec for BytesCodec {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self::Encoder {
        Self
    }

    fn decoder(&mut self) -> Self::Decoder {
        Self
    }
}

impl Encoder for BytesCodec {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(item);
        Ok(())
    }
}

impl Decoder for BytesCodec {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining())))
    }
}

const VARINT: u64 = 0;
const FIXED_64: u64 = 1;
const LENGTH_DELIMITED: u64 = 2;
const FIXED_32: u64 = 5;

#[cfg(test)]
mod tests {
    use googleapis_tonic_google_pubsub_v1::google::pubsub::v1::{
        AcknowledgeRequest, ModifyAckDeadlineRequest, PubsubMessage, PullResponse, ReceivedMessage,
        StreamingPullResponse,
    };
    use proptest::prelude::*;
    use prost::Message;

    use super::*;

    fn message() -> PubsubMessage {
        PubsubMessage {
            data: Bytes::from_static(b"payload"),
            attributes: [("id", "7"), ("ts", "1500"), ("other", "")]
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into(),
            message_id: "m1".into(),
            publish_time: Some(prost_types::Timestamp {
                seconds: 12,
                nanos: 345_999_999,
            }),
            ordering_key: "k".into(),
        }
    }

    #[test]
    fn reads_what_the_generated_types_write() {
        let response = StreamingPullResponse {
            received_messages: vec![
                ReceivedMessage {
                    ack_id: "a1".into(),
                    message: Some(message()),
                    delivery_attempt: 3,
                },
                ReceivedMessage {
                    ack_id: "a2".into(),
                    message: None,
                    delivery_attempt: 0,
                },
            ],
            subscription_properties: Some(SubscriptionProperties {
                exactly_once_delivery_enabled: true,
                message_ordering_enabled: false,
            }),
            ..Default::default()
        };
        let parsed = Response::parse(response.encode_to_vec().into()).unwrap();
        let [first, second] = parsed.received.as_slice() else {
            panic!("two messages: {parsed:?}");
        };
        assert_eq!(
            (&first.ack_id[..], &second.ack_id[..]),
            (&b"a1"[..], &b"a2"[..])
        );
        assert_eq!(second.message, None);
        assert!(parsed.properties.unwrap().exactly_once_delivery_enabled);
        let serialized = first.message.clone().unwrap();
        assert_eq!(
            PubsubMessage::decode(serialized.clone()).unwrap(),
            message()
        );

        let parts = MessageParts::parse(serialized.clone(), Some("ts"), Some("id")).unwrap();
        let expected = MessageParts {
            data: "payload".into(),
            message_id: "m1".into(),
            publish_millis: 12_345,
            timestamp_attribute: Some("1500".into()),
            id_attribute: Some("7".into()),
        };
        assert_eq!(parts, expected);
        let same = MessageParts::parse(serialized.clone(), Some("id"), Some("id")).unwrap();
        assert_eq!(same.timestamp_attribute, same.id_attribute);
        let without = MessageParts::parse(serialized, None, Some("missing")).unwrap();
        assert_eq!(
            (without.id_attribute, without.timestamp_attribute),
            (None, None)
        );
    }

    #[test]
    fn pull_responses_have_the_same_shape() {
        let response = PullResponse {
            received_messages: vec![ReceivedMessage {
                ack_id: "a1".into(),
                message: Some(message()),
                delivery_attempt: 0,
            }],
        };
        let parsed = Response::parse(response.encode_to_vec().into()).unwrap();
        assert_eq!(parsed.received.len(), 1);
    }

    #[test]
    fn writes_what_the_generated_types_read() {
        let long = Bytes::from("x".repeat(500));
        let ids = [Bytes::from_static(b"a1"), long.clone()];
        let names = vec!["a1".to_owned(), "x".repeat(500)];
        let acknowledge = acknowledge_request("s", &ids);
        assert!(acknowledge.len() <= ids.iter().map(ack_id_bytes).sum::<usize>() + 3);
        assert_eq!(
            AcknowledgeRequest::decode(acknowledge).unwrap(),
            AcknowledgeRequest {
                subscription: "s".into(),
                ack_ids: names.clone(),
            }
        );
        for seconds in [0, 30, 600] {
            let modify = modify_request("s", &ids, seconds);
            let expected = ModifyAckDeadlineRequest {
                subscription: "s".into(),
                ack_ids: names.clone(),
                ack_deadline_seconds: seconds as i32,
            };
            assert_eq!(ModifyAckDeadlineRequest::decode(modify).unwrap(), expected);
        }
    }

    proptest! {
        #[test]
        fn garbage_is_an_error_or_nothing(garbage in prop::collection::vec(any::<u8>(), 0..64)) {
            let garbage = Bytes::from(garbage);
            let _ = Response::parse(garbage.clone());
            let _ = MessageParts::parse(garbage, Some("a"), Some("b"));
        }
    }
}
