//! gRPC messages of a data stream as slices of HTTP/2 frames: payload is copied neither when it comes nor when it goes.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use futures_util::Stream;
use http::HeaderMap;
use http_body::{Body, Frame};
use prost::encoding::{
    DecodeContext, WireType, decode_key, decode_varint, encode_key, encode_varint,
    encoded_len_varint, key_len, skip_field,
};
use prost::{DecodeError, Message};
use tonic::Status;

use crate::fnapi::outbox::OutboxStream;
use crate::fnapi::section::{Header, Section};
use crate::proto::fn_execution::elements::{Data, Timers};

/// A flag for compression and the length of the message.
const PREFIX_BYTES: usize = 5;
/// Pieces smaller than this are cheaper to copy than to send apart.
const COPIED_BYTES_MAX: usize = 4 << 10;

/// Frames smaller than this are joined: many small pieces would cost more than the copy.
const PIECE_BYTES_MIN: usize = 256 << 10;

/// Fields of `Elements`.
const DATA: u32 = 1;
const TIMERS: u32 = 2;
/// The payload's field in `Elements.Data` and in `Elements.Timers`.
const DATA_PAYLOAD: u32 = 3;
const TIMERS_PAYLOAD: u32 = 4;

/// The messages that come in the body of a call.
pub(crate) struct Received<B> {
    body: Pin<Box<B>>,
    rope: Rope,
}

impl<B: Body<Data = Bytes, Error = Status>> Received<B> {
    pub(crate) fn new(body: B) -> Self {
        Self {
            body: Box::pin(body),
            rope: Rope::default(),
        }
    }

    /// The next message; `None` when the stream has ended after a whole one.
    pub(crate) async fn message(&mut self) -> Result<Option<Vec<Section>>, Status> {
        loop {
            if let Some(message) = self.take_message()? {
                return Ok(Some(message));
            }
            match poll_fn(|context| self.body.as_mut().poll_frame(context)).await {
                Some(frame) => {
                    if let Ok(data) = frame?.into_data() {
                        self.rope.push(data);
                    }
                }
                None if self.rope.bytes == 0 => return Ok(None),
                None => return Err(Status::internal("the stream ended inside a message")),
            }
        }
    }

    fn take_message(&mut self) -> Result<Option<Vec<Section>>, Status> {
        let Some([compressed, length @ ..]) = self.rope.peek::<PREFIX_BYTES>() else {
            return Ok(None);
        };
        if compressed != 0 {
            return Err(Status::unimplemented("compressed messages are not taken"));
        }
        let length = u32::from_be_bytes(length) as usize;
        if self.rope.bytes - PREFIX_BYTES < length {
            return Ok(None);
        }
        self.rope.advance(PREFIX_BYTES);
        decode(self.rope.split_to(length))
            .map(Some)
            .map_err(|error| {
                let reason =
                    error.map_or_else(|| "a field is longer".to_owned(), |e| e.to_string());
                Status::internal(format!("a message cannot be read: {reason}"))
            })
    }
}

/// Reads an `Elements` message.
///
/// # Errors
///
/// `None` for a field that is longer than what it is in.
fn decode(mut message: Rope) -> Result<Vec<Section>, Option<DecodeError>> {
    let mut sections = Vec::new();
    while message.has_remaining() {
        match decode_key(&mut message)? {
            (DATA, WireType::LengthDelimited) => {
                sections.push(decode_data(take_field(&mut message)?)?);
            }
            (TIMERS, WireType::LengthDelimited) => {
                sections.push(Timers::decode(take_field(&mut message)?)?.into());
            }
            (field, kind) => skip_field(kind, field, &mut message, DecodeContext::default())?,
        }
    }
    Ok(sections)
}

fn decode_data(mut message: Rope) -> Result<Section, Option<DecodeError>> {
    let mut header = Data::default();
    let mut pieces = Vec::new();
    while message.has_remaining() {
        match decode_key(&mut message)? {
            (DATA_PAYLOAD, WireType::LengthDelimited) => {
                pieces = take_field(&mut message)?.into_pieces();
            }
            (field, kind) => {
                header.merge_field(field, kind, &mut message, DecodeContext::default())?;
            }
        }
    }
    Ok(Section {
        header: Header::Data(header),
        pieces,
    })
}

fn take_field(message: &mut Rope) -> Result<Rope, Option<DecodeError>> {
    match usize::try_from(decode_varint(message)?) {
        Ok(length) if length <= message.bytes => Ok(message.split_to(length)),
        _ => Err(None),
    }
}

/// Frames in a row. A field that lies in one frame is taken out as a slice of it.
#[derive(Default)]
struct Rope {
    /// None is empty.
    frames: VecDeque<Bytes>,
    /// Of all frames.
    bytes: usize,
}

impl Rope {
    fn push(&mut self, frame: Bytes) {
        self.bytes += frame.len();
        if !frame.is_empty() {
            self.frames.push_back(frame);
        }
    }

    fn peek<const N: usize>(&self) -> Option<[u8; N]> {
        let mut bytes = self.frames.iter().flatten();
        let mut first = [0; N];
        for byte in &mut first {
            *byte = *bytes.next()?;
        }
        Some(first)
    }

    /// Takes up to `length` bytes off the first frame.
    fn pop(&mut self, length: usize) -> Bytes {
        let Some(first) = self.frames.front_mut() else {
            return Bytes::new();
        };
        let popped = if first.len() <= length {
            self.frames.pop_front().unwrap_or_default()
        } else {
            first.split_to(length)
        };
        self.bytes -= popped.len();
        popped
    }

    fn split_to(&mut self, length: usize) -> Self {
        debug_assert!(length <= self.bytes);
        let mut front = Self::default();
        while front.bytes < length {
            front.push(self.pop(length - front.bytes));
        }
        front
    }

    /// The same bytes with runs of small frames joined.
    fn into_pieces(mut self) -> Vec<Bytes> {
        let mut pieces = Vec::new();
        while self.bytes > 0 {
            let frames = self.frames.iter();
            let small = frames.take_while(|frame| frame.len() < PIECE_BYTES_MIN);
            let run: usize = small.map(Bytes::len).sum();
            pieces.push(self.copy_to_bytes(run.max(self.chunk().len())));
        }
        pieces
    }
}

impl Buf for Rope {
    fn remaining(&self) -> usize {
        self.bytes
    }

    fn chunk(&self) -> &[u8] {
        self.frames.front().map_or(&[], |frame| frame)
    }

    fn advance(&mut self, length: usize) {
        assert!(length <= self.bytes, "advanced beyond the end");
        let end = self.bytes - length;
        while self.bytes > end {
            self.pop(self.bytes - end);
        }
    }

    fn copy_to_bytes(&mut self, length: usize) -> Bytes {
        assert!(length <= self.bytes, "read beyond the end");
        if length <= self.chunk().len() {
            return self.pop(length);
        }
        let mut joined = BytesMut::with_capacity(length);
        joined.put(self.split_to(length));
        joined.freeze()
    }
}

/// The body of a call that is all there.
pub(crate) struct Frames(pub(crate) VecDeque<Bytes>);

impl Body for Frames {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Poll::Ready(self.0.pop_front().map(|frame| Ok(Frame::data(frame))))
    }
}

/// The body of an answer: what an outbox sends.
pub(crate) struct Sent {
    stream: OutboxStream,
    /// Of the message that is being sent.
    frames: VecDeque<Bytes>,
    ended: bool,
}

impl Sent {
    pub(crate) fn new(stream: OutboxStream) -> Self {
        Self {
            stream,
            frames: VecDeque::new(),
            ended: false,
        }
    }

    fn end(&mut self, status: &Status) -> Result<Frame<Bytes>, Status> {
        self.ended = true;
        let mut trailers = HeaderMap::new();
        status.add_header(&mut trailers)?;
        Ok(Frame::trailers(trailers))
    }
}

impl Body for Sent {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        if this.frames.is_empty() {
            if this.ended {
                return Poll::Ready(None);
            }
            let end = match ready!(Pin::new(&mut this.stream).poll_next(context)) {
                Some(Ok(sections)) => encode(&sections, &mut this.frames).err(),
                Some(Err(status)) => Some(status),
                None => Some(Status::ok("")),
            };
            if let Some(status) = end {
                return Poll::Ready(Some(this.end(&status)));
            }
        }
        Poll::Ready(this.frames.pop_front().map(|frame| Ok(Frame::data(frame))))
    }

    fn is_end_stream(&self) -> bool {
        self.ended && self.frames.is_empty()
    }
}

/// Adds the frames of one message.
fn encode(sections: &[Section], frames: &mut VecDeque<Bytes>) -> Result<(), Status> {
    let length: usize = sections.iter().map(|section| section.sizes().1).sum();
    let length = u32::try_from(length).map_err(|_| {
        Status::resource_exhausted(format!("a message of {length} bytes is too long for gRPC"))
    })?;
    let mut copied = BytesMut::with_capacity(copied_bytes(sections));
    copied.put_u8(0);
    copied.put_u32(length);
    for section in sections {
        section.encode_header(&mut copied);
        for piece in &section.pieces {
            if piece.len() < COPIED_BYTES_MAX {
                copied.extend_from_slice(piece);
            } else {
                frames.push_back(copied.split().freeze());
                frames.push_back(piece.clone());
            }
        }
    }
    frames.push_back(copied.freeze());
    frames.retain(|frame| !frame.is_empty());
    Ok(())
}

/// At least as much as is copied of a message.
fn copied_bytes(sections: &[Section]) -> usize {
    let pieces = sections.iter().flat_map(|section| &section.pieces);
    let small = pieces
        .map(Bytes::len)
        .filter(|size| *size < COPIED_BYTES_MAX);
    let headers = sections.iter().map(Section::header_bytes_max);
    PREFIX_BYTES + small.sum::<usize>() + headers.sum::<usize>()
}

impl Section {
    /// The field of this section in the message, and that of the payload in the section.
    fn fields(&self) -> (u32, u32) {
        match self.header {
            Header::Data(_) => (DATA, DATA_PAYLOAD),
            Header::Timers(_) => (TIMERS, TIMERS_PAYLOAD),
        }
    }

    fn header_len(&self) -> usize {
        match &self.header {
            Header::Data(header) => header.encoded_len(),
            Header::Timers(header) => header.encoded_len(),
        }
    }

    /// Encoded sizes of the section itself, and with its key and length.
    fn sizes(&self) -> (usize, usize) {
        let (field, payload_field) = self.fields();
        let payload = self.payload_bytes();
        let mut inner = self.header_len();
        if payload > 0 {
            inner += key_len(payload_field) + encoded_len_varint(payload as u64) + payload;
        }
        (
            inner,
            key_len(field) + encoded_len_varint(inner as u64) + inner,
        )
    }

    fn header_bytes_max(&self) -> usize {
        const KEYS_AND_LENGTHS_BYTES_MAX: usize = 2 * (1 + 10);
        self.header_len() + KEYS_AND_LENGTHS_BYTES_MAX
    }

    /// Everything but the payload, which must follow.
    fn encode_header(&self, to: &mut BytesMut) {
        let (field, payload_field) = self.fields();
        encode_key(field, WireType::LengthDelimited, to);
        encode_varint(self.sizes().0 as u64, to);
        match &self.header {
            Header::Data(header) => header.encode_raw(to),
            Header::Timers(header) => header.encode_raw(to),
        }
        let payload = self.payload_bytes();
        if payload > 0 {
            encode_key(payload_field, WireType::LengthDelimited, to);
            encode_varint(payload as u64, to);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::task::Waker;

    use proptest::prelude::*;

    use super::*;
    use crate::fnapi::section::elements_of;
    use crate::proto::fn_execution::Elements;

    fn section(timers: bool, is_last: bool, sizes: &[usize]) -> Section {
        let header = if timers {
            Header::Timers(Timers {
                instruction_id: "b1".into(),
                transform_id: "pardo".into(),
                timer_family_id: "f".into(),
                is_last,
                ..Timers::default()
            })
        } else {
            Header::Data(Data {
                instruction_id: "b1".into(),
                transform_id: "in".into(),
                is_last,
                ..Data::default()
            })
        };
        let piece = |size: &usize| Bytes::from(vec![b'x'; *size]);
        Section {
            header,
            pieces: sizes.iter().map(piece).collect(),
        }
    }

    /// Everything that comes in these frames, and how it ends.
    fn receive(frames: impl IntoIterator<Item = Bytes>) -> (Vec<Elements>, Result<(), Status>) {
        let mut received = Received::new(Frames(frames.into_iter().collect()));
        let mut messages = Vec::new();
        loop {
            let message = std::pin::pin!(received.message());
            match message.poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(Ok(Some(message))) => messages.push(elements_of(message)),
                Poll::Ready(Ok(None)) => return (messages, Ok(())),
                Poll::Ready(Err(status)) => return (messages, Err(status)),
                Poll::Pending => unreachable!("these frames are always ready"),
            }
        }
    }

    proptest! {
        #[test]
        fn what_is_sent_is_received_however_it_is_cut(
            messages in prop::collection::vec(
                prop::collection::vec(
                    (any::<bool>(), any::<bool>(), prop::collection::vec(0_usize..9000, 0..4)),
                    0..4,
                ),
                0..4,
            ),
            cuts in prop::collection::vec(1_usize..6000, 1..20),
        ) {
            let mut frames = VecDeque::new();
            let mut expected = Vec::new();
            for message in &messages {
                let sections: Vec<_> = message
                    .iter()
                    .map(|(timers, is_last, sizes)| section(*timers, *is_last, sizes))
                    .collect();
                encode(&sections, &mut frames).unwrap();
                expected.push(elements_of(sections));
            }
            let mut whole = Bytes::from(frames.iter().flatten().copied().collect::<Vec<_>>());
            prop_assert_eq!(receive(frames).0, expected.clone());
            let mut recut = Vec::new();
            for size in cuts.iter().cycle() {
                if whole.is_empty() {
                    break;
                }
                recut.push(whole.split_to(whole.len().min(*size)));
            }
            let (received, end) = receive(recut);
            prop_assert!(end.is_ok());
            prop_assert_eq!(received, expected);
        }
    }

    #[test]
    fn payload_is_not_copied() {
        let sent = section(false, false, &[COPIED_BYTES_MAX, 2 * PIECE_BYTES_MIN]);
        let at: Vec<_> = sent.pieces.iter().map(|piece| piece.as_ptr()).collect();
        let mut frames = VecDeque::new();
        encode(&[sent], &mut frames).unwrap();
        assert_eq!([frames[1].as_ptr(), frames[2].as_ptr()], at[..]);

        let mut received = Received::new(Frames(frames));
        let message = std::pin::pin!(received.message());
        let Poll::Ready(Ok(Some(sections))) = message.poll(&mut Context::from_waker(Waker::noop()))
        else {
            panic!("the message is there");
        };
        assert_eq!(sections[0].pieces[1].as_ptr(), at[1]);
    }

    #[test]
    fn a_stream_that_makes_no_sense_ends_with_a_status() {
        let end = |bytes: &'static [u8]| receive([Bytes::from_static(bytes)]).1.unwrap_err();
        assert_eq!(end(b"\0\0").message(), "the stream ended inside a message");
        assert_eq!(end(b"\0\0\0\0\x09x").code(), tonic::Code::Internal);
        assert_eq!(end(b"\x01\0\0\0\0").code(), tonic::Code::Unimplemented);
        assert_eq!(end(b"\0\0\0\0\x02\x0a\x09").code(), tonic::Code::Internal);
    }
}
