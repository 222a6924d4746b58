//! Responses with messages, encoded straight from the shared messages.
//!
//! They are wire-compatible with `google.pubsub.v1.StreamingPullResponse` and `PullResponse`, and
//! save a copy of each message per delivery: what stands in the broker is written into the frame.

use std::fmt::Write as _;
use std::sync::Arc;

use bytes::{Buf, BufMut};
use googleapis_tonic_google_pubsub_v1::google::pubsub::v1::{
    StreamingPullRequest, streaming_pull_response as pb,
};
use prost::encoding::{self, DecodeContext, WireType};
use prost::{DecodeError, Message as ProstMessage};
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, EncodeBuf, Encoder};
use tonic_prost::ProstDecoder;

use crate::pubsub_emulator::broker::{AckReport, Batch};
use crate::pubsub_emulator::delivery::{AckId, Message};

/// `google.pubsub.v1.StreamingPullResponse`.
#[derive(Clone, PartialEq, ProstMessage)]
pub(super) struct StreamingPullResponse {
    #[prost(message, repeated, tag = "1")]
    pub(super) received_messages: Vec<Received>,
    #[prost(message, optional, tag = "3")]
    pub(super) modify_ack_deadline_confirmation: Option<pb::ModifyAckDeadlineConfirmation>,
    #[prost(message, optional, tag = "4")]
    pub(super) subscription_properties: Option<pb::SubscriptionProperties>,
    #[prost(message, optional, tag = "5")]
    pub(super) acknowledge_confirmation: Option<pb::AcknowledgeConfirmation>,
}

/// `google.pubsub.v1.PullResponse`.
#[derive(Clone, PartialEq, ProstMessage)]
pub(super) struct PullResponse {
    #[prost(message, repeated, tag = "1")]
    pub(super) received_messages: Vec<Received>,
}

/// `google.pubsub.v1.ReceivedMessage`, to be written only.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Received {
    ack_id: String,
    message: Arc<Message>,
    message_id: String,
    attempt: i32,
}

/// The codec of StreamingPull. It makes room for a whole response at once.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StreamingPullCodec;

impl Codec for StreamingPullCodec {
    type Encode = StreamingPullResponse;
    type Decode = StreamingPullRequest;
    type Encoder = StreamingPullCodec;
    type Decoder = ProstDecoder<StreamingPullRequest>;

    fn encoder(&mut self) -> Self::Encoder {
        StreamingPullCodec
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstDecoder::new(BufferSettings::default())
    }
}

impl Encoder for StreamingPullCodec {
    type Item = StreamingPullResponse;
    type Error = Status;

    fn encode(&mut self, item: Self::Item, buf: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buf.reserve(item.encoded_len());
        item.encode_raw(buf);
        Ok(())
    }
}

/// The messages of a batch, with ack ids at least `ack_id_bytes` long.
pub(super) fn received(batch: Batch, ack_id_bytes: usize) -> Vec<Received> {
    let tag = batch.tag;
    let deliveries = batch.deliveries.into_iter();
    let received = deliveries.map(|delivery| {
        let id = AckId {
            subscription: tag,
            message: delivery.message.id,
            generation: delivery.generation,
        };
        Received {
            ack_id: padded(id, ack_id_bytes),
            message_id: delivery.message.id.to_string(),
            message: delivery.message,
            attempt: i32::try_from(delivery.attempt).unwrap_or(i32::MAX),
        }
    });
    received.collect()
}

/// The confirmation of acks.
pub(super) fn acks(report: AckReport) -> pb::AcknowledgeConfirmation {
    pb::AcknowledgeConfirmation {
        ack_ids: report.done,
        invalid_ack_ids: report.invalid,
        unordered_ack_ids: report.unordered,
        temporary_failed_ack_ids: report.failed,
    }
}

/// The confirmation of nacks and extensions.
pub(super) fn changes(report: AckReport) -> pb::ModifyAckDeadlineConfirmation {
    pb::ModifyAckDeadlineConfirmation {
        ack_ids: report.done,
        invalid_ack_ids: report.invalid,
        temporary_failed_ack_ids: report.failed,
    }
}

fn padded(id: AckId, bytes: usize) -> String {
    let mut text = String::with_capacity(bytes.max(32));
    // Writing to a string does not fail.
    let _ = write!(text, "{id}");
    if text.len() < bytes {
        text.push('.');
        while text.len() < bytes {
            text.push('0');
        }
    }
    text
}

impl Received {
    fn timestamp(&self) -> prost_types::Timestamp {
        let nanos = self.message.publish_time.nanos();
        prost_types::Timestamp {
            seconds: nanos.div_euclid(1_000_000_000),
            nanos: i32::try_from(nanos.rem_euclid(1_000_000_000)).unwrap_or(0),
        }
    }

    /// The length of the inner `PubsubMessage`.
    fn message_len(&self) -> usize {
        let mut len = field_len(self.message.data.len());
        for (key, value) in &self.message.attributes {
            let pair = field_len(key.len()) + field_len(value.len());
            len += 1 + encoding::encoded_len_varint(pair as u64) + pair;
        }
        len += field_len(self.message_id.len());
        len += encoding::message::encoded_len(4, &self.timestamp());
        len + field_len(self.message.ordering_key.len())
    }

    fn encode_message(&self, buf: &mut impl BufMut) {
        put_field(1, &self.message.data, buf);
        for (key, value) in &self.message.attributes {
            let pair = field_len(key.len()) + field_len(value.len());
            encoding::encode_key(2, WireType::LengthDelimited, buf);
            encoding::encode_varint(pair as u64, buf);
            put_field(1, key.as_bytes(), buf);
            put_field(2, value.as_bytes(), buf);
        }
        put_field(3, self.message_id.as_bytes(), buf);
        encoding::message::encode(4, &self.timestamp(), buf);
        put_field(5, self.message.ordering_key.as_bytes(), buf);
    }
}

/// The length of a bytes field with a tag below 16, none if it is empty.
fn field_len(len: usize) -> usize {
    if len == 0 {
        return 0;
    }
    1 + encoding::encoded_len_varint(len as u64) + len
}

fn put_field(tag: u32, bytes: &[u8], buf: &mut impl BufMut) {
    if bytes.is_empty() {
        return;
    }
    encoding::encode_key(tag, WireType::LengthDelimited, buf);
    encoding::encode_varint(bytes.len() as u64, buf);
    buf.put_slice(bytes);
}

impl ProstMessage for Received {
    fn encode_raw(&self, buf: &mut impl BufMut) {
        put_field(1, self.ack_id.as_bytes(), buf);
        encoding::encode_key(2, WireType::LengthDelimited, buf);
        encoding::encode_varint(self.message_len() as u64, buf);
        self.encode_message(buf);
        if self.attempt != 0 {
            encoding::int32::encode(3, &self.attempt, buf);
        }
    }

    fn encoded_len(&self) -> usize {
        let message = self.message_len();
        let attempt = if self.attempt == 0 {
            0
        } else {
            encoding::int32::encoded_len(3, &self.attempt)
        };
        let prefix = 1 + encoding::encoded_len_varint(message as u64);
        field_len(self.ack_id.len()) + prefix + message + attempt
    }

    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: WireType,
        buf: &mut impl Buf,
        context: DecodeContext,
    ) -> Result<(), DecodeError> {
        encoding::skip_field(wire_type, tag, buf, context)
    }

    fn clear(&mut self) {
        *self = Received::default();
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use googleapis_tonic_google_pubsub_v1::google::pubsub::v1::PullResponse as Official;

    use super::*;
    use crate::pubsub_emulator::delivery::{Delivery, Time};

    #[test]
    fn the_official_types_read_what_is_written() {
        let attributes = [("a", "1"), ("b", ""), ("c", "3")];
        let message = Message {
            id: 77,
            publish_time: Time::from_nanos(1_700_000_000_123_456_789),
            data: Bytes::from(vec![7; 300]),
            attributes: attributes
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .to_vec(),
            ordering_key: "key".to_owned(),
        };
        let deliveries = vec![
            Delivery {
                generation: 5,
                message: Arc::new(message),
                attempt: 3,
            },
            Delivery {
                generation: 6,
                message: Arc::default(),
                attempt: 0,
            },
        ];
        let batch = Batch {
            tag: 9,
            deliveries,
            ..Batch::default()
        };
        let response = PullResponse {
            received_messages: received(batch, 40),
        };
        let encoded = response.encode_to_vec();
        assert_eq!(encoded.len(), response.encoded_len());
        let read = Official::decode(encoded.as_slice()).expect("valid");
        let [first, second] = read.received_messages.as_slice() else {
            panic!("two messages, not {read:?}");
        };
        assert_eq!((first.ack_id.len(), first.delivery_attempt), (40, 3));
        assert_eq!(AckId::parse(&first.ack_id).map(|id| id.message), Some(77));
        let message = first.message.as_ref().expect("a message");
        assert_eq!(
            (message.data.len(), message.message_id.as_str()),
            (300, "77")
        );
        assert_eq!(message.ordering_key, "key");
        let time = message.publish_time.expect("a time");
        assert_eq!((time.seconds, time.nanos), (1_700_000_000, 123_456_789));
        assert_eq!(message.attributes.len(), 3);
        assert_eq!(message.attributes["b"], "");
        let message = second.message.as_ref().expect("a message");
        assert_eq!((message.data.len(), message.message_id.as_str()), (0, "0"));
    }
}
