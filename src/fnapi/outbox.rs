//! What waits to be sent on a harness's data stream.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use futures_util::Stream;
use parking_lot::Mutex;
use tonic::Status;

use crate::fnapi::harness::StartBundle;
use crate::fnapi::instruction::Instruction;
use crate::fnapi::section::{Header, Section, elements_of};
use crate::fnapi::shape::Shape;
use crate::model::BundleId;
use crate::proto::fn_execution::{Elements, elements};

/// A message is filled up to this size with what waits.
const MESSAGE_BYTES_MIN: usize = 1 << 20;
/// Large bundles have their pieces joined up to this size.
const MESSAGE_BYTES_MAX: usize = 16 << 20;
/// Python queues five messages per bundle and then blocks the reader of all bundles: send fewer.
const MESSAGES_PER_BUNDLE: usize = 3;

/// The data of all bundles that has not been sent; bundles take turns.
///
/// Not bounded here: the engine bounds the input of bundles in flight, and what waits are slices that it holds anyway.
#[derive(Default)]
pub(crate) struct Outbox {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    bundles: VecDeque<Outgoing>,
    /// The stream ends once set, at once; with a status if there is one.
    closed: bool,
    status: Option<Status>,
    /// Whether a stream is open, and the number of the latest one; earlier ones end.
    open: bool,
    latest: u64,
    waker: Option<Waker>,
}

/// What is left to send of one bundle.
struct Outgoing {
    bundle: BundleId,
    instruction: String,
    bytes_per_message: usize,
    parts: VecDeque<Part>,
}

/// Some elements or timers, or their end: never both in one message, since Python drops data that is marked last.
enum Part {
    Data {
        transform: String,
        pieces: VecDeque<Bytes>,
    },
    DataEnd {
        transform: String,
    },
    Timers {
        transform: String,
        family: String,
        pieces: VecDeque<Bytes>,
    },
    TimersEnd {
        transform: String,
        family: String,
    },
}

impl Outbox {
    /// Queues the input of a bundle.
    pub(crate) fn push(&self, start: StartBundle, shape: &Shape) {
        let outgoing = Outgoing::new(start, shape);
        let mut inner = self.inner.lock();
        if inner.closed {
            return;
        }
        inner.bundles.push_back(outgoing);
        inner.wake();
    }

    /// Forgets what was not sent of a bundle.
    pub(crate) fn discard(&self, bundle: BundleId) {
        let mut inner = self.inner.lock();
        inner.bundles.retain(|outgoing| outgoing.bundle != bundle);
    }

    /// Ends the stream, now or when it opens.
    pub(crate) fn close(&self, status: Option<Status>) {
        let mut inner = self.inner.lock();
        if !inner.closed {
            inner.closed = true;
            inner.status = status;
        }
        inner.bundles.clear();
        inner.wake();
    }

    /// The stream of what is sent; `None` while there is another one.
    pub(crate) fn open(self: &Arc<Self>) -> Option<OutboxStream> {
        let mut inner = self.inner.lock();
        if inner.open {
            return None;
        }
        inner.open = true;
        inner.latest += 1;
        Some(OutboxStream {
            outbox: Arc::clone(self),
            number: inner.latest,
        })
    }

    /// Ends the stream that is open; another may follow.
    pub(crate) fn end_stream(&self) {
        let mut inner = self.inner.lock();
        inner.open = false;
        inner.latest += 1;
        inner.wake();
    }
}

impl Inner {
    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// The next message, with parts of as many bundles as fit; empty when nothing waits.
    fn next_message(&mut self) -> Vec<Section> {
        let mut message: Vec<Section> = Vec::new();
        let mut bytes = 0;
        while bytes < MESSAGE_BYTES_MIN
            && let Some(mut outgoing) = self.bundles.pop_front()
        {
            if outgoing.starts_timers()
                && message
                    .iter()
                    .any(|section| section.timer_family().is_none())
            {
                // Python takes the timers of a message first; the elements were to come first.
                self.bundles.push_front(outgoing);
                break;
            }
            bytes += outgoing.take(&mut message);
            if !outgoing.parts.is_empty() {
                self.bundles.push_back(outgoing);
            }
        }
        message
    }
}

impl Outgoing {
    fn new(start: StartBundle, shape: &Shape) -> Self {
        let bytes_total = start.input_bytes();
        let mut parts = VecDeque::new();
        let mut inputs = start.inputs;
        for source in &shape.sources {
            let pieces = take_where(&mut inputs, |(transform, _)| transform == source);
            let pieces = non_empty(pieces.into_iter().flat_map(|(_, pieces)| pieces));
            if !pieces.is_empty() {
                parts.push_back(Part::Data {
                    transform: source.clone(),
                    pieces,
                });
            }
            parts.push_back(Part::DataEnd {
                transform: source.clone(),
            });
        }
        debug_assert!(inputs.is_empty(), "input for a source that is not there");
        let mut timers = start.timers;
        for (transform, family) in &shape.timer_families {
            let pieces = take_where(&mut timers, |input| {
                input.transform == *transform && input.family == *family
            });
            let pieces = non_empty(pieces.into_iter().flat_map(|input| input.pieces));
            if !pieces.is_empty() {
                parts.push_back(Part::Timers {
                    transform: transform.clone(),
                    family: family.clone(),
                    pieces,
                });
            }
            parts.push_back(Part::TimersEnd {
                transform: transform.clone(),
                family: family.clone(),
            });
        }
        debug_assert!(timers.is_empty(), "timers of a family that is not there");
        Self {
            bundle: start.bundle,
            instruction: Instruction::Run(start.bundle).to_string(),
            bytes_per_message: (bytes_total / MESSAGES_PER_BUNDLE)
                .clamp(MESSAGE_BYTES_MIN, MESSAGE_BYTES_MAX),
            parts,
        }
    }

    fn starts_timers(&self) -> bool {
        matches!(self.parts.front(), Some(Part::Timers { .. }))
    }

    /// Moves one run of elements or timers, with the ends that follow it, to the message. Returns its size.
    fn take(&mut self, message: &mut Vec<Section>) -> usize {
        let mut bytes = 0;
        while let Some(part) = self.parts.front_mut() {
            match part {
                Part::Data { pieces, .. } | Part::Timers { pieces, .. } => {
                    if bytes > 0 {
                        break;
                    }
                    let taken = take_pieces(pieces, self.bytes_per_message);
                    let spent = pieces.is_empty();
                    let section = part.section(&self.instruction, taken);
                    bytes += section.payload_bytes();
                    message.push(section);
                    if !spent {
                        break;
                    }
                }
                Part::DataEnd { .. } | Part::TimersEnd { .. } => {
                    message.push(part.section(&self.instruction, Vec::new()));
                }
            }
            self.parts.pop_front();
        }
        bytes
    }
}

impl StartBundle {
    /// The size of all elements and timers.
    pub(crate) fn input_bytes(&self) -> usize {
        let data = self.inputs.iter().flat_map(|(_, pieces)| pieces);
        let timers = self.timers.iter().flat_map(|input| &input.pieces);
        data.chain(timers).map(Bytes::len).sum()
    }

    /// The whole input as one message, to go inside the bundle's request.
    pub(crate) fn take_embedded(&mut self, shape: &Shape) -> Elements {
        let start = Self {
            bundle: self.bundle,
            descriptor: String::new(),
            cache_tokens: Vec::new(),
            inputs: std::mem::take(&mut self.inputs),
            timers: std::mem::take(&mut self.timers),
        };
        let mut outgoing = Outgoing::new(start, shape);
        let mut sections = Vec::new();
        while !outgoing.parts.is_empty() {
            outgoing.take(&mut sections);
        }
        elements_of(sections)
    }
}

impl Part {
    fn section(&self, instruction: &str, pieces: Vec<Bytes>) -> Section {
        let is_last = matches!(self, Self::DataEnd { .. } | Self::TimersEnd { .. });
        let header = match self {
            Self::Data { transform, .. } | Self::DataEnd { transform } => {
                Header::Data(elements::Data {
                    instruction_id: instruction.to_owned(),
                    transform_id: transform.clone(),
                    data: Bytes::new(),
                    is_last,
                })
            }
            Self::Timers {
                transform, family, ..
            }
            | Self::TimersEnd { transform, family } => Header::Timers(elements::Timers {
                instruction_id: instruction.to_owned(),
                transform_id: transform.clone(),
                timer_family_id: family.clone(),
                timers: Bytes::new(),
                is_last,
            }),
        };
        Section { header, pieces }
    }
}

/// Takes pieces from the front up to `bytes_max`, at least one.
fn take_pieces(pieces: &mut VecDeque<Bytes>, bytes_max: usize) -> Vec<Bytes> {
    let mut bytes = 0;
    let fits = |piece: &&Bytes| {
        bytes += piece.len();
        bytes <= bytes_max
    };
    let count = pieces.iter().take_while(fits).count().max(1);
    pieces.drain(..count.min(pieces.len())).collect()
}

fn non_empty(pieces: impl Iterator<Item = Bytes>) -> VecDeque<Bytes> {
    pieces.filter(|piece| !piece.is_empty()).collect()
}

fn take_where<T>(items: &mut Vec<T>, wanted: impl Fn(&T) -> bool) -> Vec<T> {
    let (taken, left) = std::mem::take(items).into_iter().partition(wanted);
    *items = left;
    taken
}

/// The sending half of a data stream. Messages are put together when the connection has room for them.
pub(crate) struct OutboxStream {
    outbox: Arc<Outbox>,
    number: u64,
}

impl Stream for OutboxStream {
    type Item = Result<Vec<Section>, Status>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut inner = self.outbox.inner.lock();
        if inner.closed {
            return Poll::Ready(inner.status.take().map(Err));
        }
        if inner.latest != self.number {
            return Poll::Ready(None);
        }
        let message = inner.next_message();
        if message.is_empty() {
            inner.waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(Some(Ok(message)))
    }
}

impl Drop for OutboxStream {
    fn drop(&mut self) {
        let mut inner = self.outbox.inner.lock();
        if inner.latest == self.number {
            inner.open = false;
            inner.waker = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::fnapi::harness::TimerInput;

    fn start(bundle: u64, inputs: &[(&str, &[usize])], timers: &[usize]) -> StartBundle {
        let pieces = |sizes: &[usize]| sizes.iter().map(|n| Bytes::from(vec![0; *n])).collect();
        StartBundle {
            bundle: BundleId(bundle),
            descriptor: "d".into(),
            cache_tokens: Vec::new(),
            inputs: inputs
                .iter()
                .map(|(t, sizes)| ((*t).into(), pieces(sizes)))
                .collect(),
            timers: vec![TimerInput {
                transform: "pardo".into(),
                family: "f".into(),
                pieces: pieces(timers),
            }],
        }
    }

    fn shape() -> Shape {
        Shape {
            sources: vec!["in".into()],
            sinks: vec![],
            timer_families: vec![("pardo".into(), "f".into())],
        }
    }

    fn check(bundles: Vec<StartBundle>, expected: Expect) {
        let outbox = Outbox::default();
        for bundle in bundles {
            outbox.push(bundle, &shape());
        }
        let mut text = String::new();
        loop {
            let sections = outbox.inner.lock().next_message();
            if sections.is_empty() {
                break;
            }
            let message = elements_of(sections);
            let size = |data: &Bytes, last| {
                if last {
                    "end".into()
                } else {
                    data.len().to_string()
                }
            };
            for d in &message.data {
                text += &format!(
                    "{}/{}:{} ",
                    d.instruction_id,
                    d.transform_id,
                    size(&d.data, d.is_last)
                );
                assert!(d.data.is_empty() == d.is_last);
            }
            for t in &message.timers {
                text += &format!(
                    "{}/{}:{} ",
                    t.instruction_id,
                    t.timer_family_id,
                    size(&t.timers, t.is_last)
                );
                assert!(t.timers.is_empty() == t.is_last);
            }
            text.truncate(text.trim_end().len());
            text += "\n";
        }
        expected.assert_eq(&text);
    }

    #[test]
    fn small_bundles_share_a_message_and_every_stream_ends_apart_from_its_data() {
        check(
            vec![
                start(1, &[("in", &[10, 0, 20])], &[]),
                start(2, &[], &[]),
                start(3, &[("in", &[5]), ("in", &[6])], &[]),
            ],
            expect![[r#"
                b1/in:30 b1/in:end b2/in:end b3/in:11 b3/in:end b1/f:end b2/f:end b3/f:end
            "#]],
        );
    }

    #[test]
    fn timers_follow_the_elements_in_a_message_of_their_own() {
        check(
            vec![start(1, &[("in", &[10])], &[7, 8])],
            expect![[r#"
                b1/in:10 b1/in:end
                b1/f:15 b1/f:end
            "#]],
        );
    }

    #[test]
    fn large_bundles_take_turns_and_have_few_messages() {
        let mib = 1 << 20;
        check(
            vec![
                start(1, &[("in", &[mib / 2; 12])], &[]),
                start(2, &[("in", &[3 * mib])], &[]),
            ],
            expect![[r#"
                b1/in:2097152
                b2/in:3145728 b2/in:end b2/f:end
                b1/in:2097152
                b1/in:2097152 b1/in:end b1/f:end
            "#]],
        );
    }

    #[test]
    fn embedded_input_is_whole() {
        let mut start = start(1, &[("in", &[2 << 20, 1 << 20])], &[9]);
        let message = start.take_embedded(&shape());
        let data: usize = message.data.iter().map(|d| d.data.len()).sum();
        assert_eq!((data, message.timers[0].timers.len()), (3 << 20, 9));
        assert!(message.data.last().unwrap().is_last && message.timers.last().unwrap().is_last);
    }
}
