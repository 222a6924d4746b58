//! Elements that wait for a stage without keys: ready, delayed, or blocked by side inputs.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use crate::coder;
use crate::engine::group_by_key::BackedGroup;
use crate::engine::watermark::Holds;
use crate::model::coder::Coder;
use crate::model::element::Chunk;
use crate::model::ids::StageId;
use crate::model::time::Timestamp;

/// Waiting elements with the hold they put on the stage's output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    pub chunk: Chunk,
    /// What the stage may still emit for these elements is not earlier than this.
    pub hold: Timestamp,
    /// Failed tries so far.
    pub attempts: u32,
    /// The number of the first element, where elements of the stage are numbered: before a native sink.
    pub sequence: u64,
    /// The messages that the elements are, in order, when they come straight from a native source.
    pub source: Option<SourceWork>,
    /// Values of groups among the elements, in order, that harnesses read as state.
    pub backed: Vec<BackedGroup>,
    /// The restrictions were truncated by a drain, or need not be.
    pub truncated: bool,
}

/// Messages of a native source on their way through a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceWork {
    /// The read stage.
    pub stage: StageId,
    /// Shuffle keys that are busy until these messages are committed.
    pub keys: Vec<u32>,
    /// Dedup ids, one per element.
    pub ids: Vec<Bytes>,
}

impl Item {
    /// A fresh item that holds at its lowest timestamp.
    pub fn new(chunk: Chunk) -> Self {
        let hold = chunk.min_timestamp;
        Self {
            chunk,
            hold,
            attempts: 0,
            sequence: 0,
            source: None,
            backed: Vec::new(),
            truncated: false,
        }
    }

    /// Cuts after at most `elements` elements and about `bytes` bytes, but never before the first element.
    ///
    /// # Errors
    ///
    /// When the chunk is not what `coder` says.
    pub fn cut(
        mut self,
        elements: usize,
        bytes: usize,
        coder: &Coder,
    ) -> Result<(Self, Option<Self>), coder::Error> {
        let (head, tail) = cut(&self.chunk, elements, bytes, coder)?;
        let Some(tail) = tail else {
            return Ok((self, None));
        };
        let source = self.source.as_mut().map(|source| SourceWork {
            stage: source.stage,
            // The keys stay busy until the last part is committed.
            keys: std::mem::take(&mut source.keys),
            ids: source
                .ids
                .split_off((head.count as usize).min(source.ids.len())),
        });
        let first_of_tail = self
            .backed
            .partition_point(|group| group.element < head.count);
        let mut backed = self.backed.split_off(first_of_tail);
        for group in &mut backed {
            group.element -= head.count;
        }
        let sequence = self.sequence + u64::from(head.count);
        let tail = Self {
            chunk: tail,
            hold: self.hold,
            attempts: self.attempts,
            sequence,
            source,
            backed,
            truncated: self.truncated,
        };
        Ok((
            Self {
                chunk: head,
                ..self
            },
            Some(tail),
        ))
    }
}

/// How much a bundle may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub bytes: usize,
    pub elements: usize,
}

/// The queue of one stage on one lane.
#[derive(Debug, Default)]
pub struct WorkQueue {
    ready: VecDeque<Item>,
    /// By due time, then arrival.
    delayed: BTreeMap<(Timestamp, u64), Item>,
    /// By what each side input's watermark must reach.
    blocked: BTreeMap<Vec<Timestamp>, Vec<Item>>,
    holds: Holds,
    arrivals: u64,
    /// Elements numbered so far.
    numbered: u64,
    /// Of what is ready.
    elements: u64,
    bytes: u64,
}

impl WorkQueue {
    /// Adds work at the end.
    pub fn push(&mut self, item: Item) {
        self.holds.add(item.hold);
        self.count_in(&item);
        self.ready.push_back(item);
    }

    /// Adds work at the end and numbers its elements.
    pub fn push_numbered(&mut self, item: Item) {
        let sequence = self.numbered;
        self.numbered += u64::from(item.chunk.count);
        self.push(Item { sequence, ..item });
    }

    /// Puts work back at the front.
    pub fn push_front(&mut self, item: Item) {
        self.holds.add(item.hold);
        self.count_in(&item);
        self.ready.push_front(item);
    }

    /// Adds work that is not to be done before `due`.
    pub fn push_delayed(&mut self, due: Timestamp, item: Item) {
        self.holds.add(item.hold);
        self.arrivals += 1;
        self.delayed.insert((due, self.arrivals), item);
    }

    /// Adds work that waits until its side inputs' watermarks have reached `needed`, in their order.
    pub fn push_blocked(&mut self, needed: Vec<Timestamp>, item: Item) {
        self.holds.add(item.hold);
        self.blocked.entry(needed).or_default().push(item);
    }

    /// Makes ready what was delayed until `now`.
    pub fn wake(&mut self, now: Timestamp) {
        while let Some(entry) = self.delayed.first_entry()
            && entry.key().0 <= now
        {
            let item = entry.remove();
            self.count_in(&item);
            self.ready.push_back(item);
        }
    }

    /// Makes ready what waited for side inputs that now stand at `reached`.
    pub fn unblock(&mut self, reached: &[Timestamp]) {
        let ready = self.blocked.extract_if(.., |needed, _| {
            needed
                .iter()
                .zip(reached)
                .all(|(needed, reached)| needed <= reached)
        });
        for item in ready.flat_map(|(_, items)| items).collect::<Vec<_>>() {
            self.count_in(&item);
            self.ready.push_back(item);
        }
    }

    /// Takes a bundle's worth from the front; what failed together is tried together, and what is truncated
    /// does not mix with what is not.
    ///
    /// # Errors
    ///
    /// When a chunk must be cut and is not what `coder` says.
    pub fn take(&mut self, limits: Limits, coder: &Coder) -> Result<Vec<Item>, coder::Error> {
        let mut taken: Vec<Item> = Vec::new();
        let mut elements = 0;
        let mut bytes = 0;
        while let Some(mut item) = self.ready.pop_front() {
            let left = limits.elements.saturating_sub(elements);
            let room = limits.bytes.saturating_sub(bytes);
            let fits = item.chunk.count as usize <= left && item.chunk.bytes.len() <= room;
            let apart = taken.first().is_some_and(|first| {
                first.attempts != item.attempts || first.truncated != item.truncated
            });
            if apart || (!taken.is_empty() && (left == 0 || room == 0)) {
                self.ready.push_front(item);
                break;
            }
            if !fits && item.attempts == 0 {
                let (head, tail) = item.cut(left.max(1), room, coder)?;
                if let Some(tail) = tail {
                    self.holds.add(tail.hold);
                    self.ready.push_front(tail);
                }
                item = head;
            }
            elements += item.chunk.count as usize;
            bytes += item.chunk.bytes.len();
            self.count_out(&item);
            self.holds.remove(item.hold);
            taken.push(item);
        }
        Ok(taken)
    }

    /// Whether a bundle can be formed now.
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Elements ready to be taken.
    pub fn ready_elements(&self) -> u64 {
        self.elements
    }

    /// Bytes ready to be taken.
    pub fn ready_bytes(&self) -> u64 {
        self.bytes
    }

    /// The lowest hold of everything that waits.
    pub fn hold(&self) -> Timestamp {
        self.holds.lowest()
    }

    /// When delayed work is due next.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.delayed.keys().next().map(|(due, _)| *due)
    }

    fn count_in(&mut self, item: &Item) {
        self.elements += u64::from(item.chunk.count);
        self.bytes += item.chunk.bytes.len() as u64;
    }

    fn count_out(&mut self, item: &Item) {
        self.elements -= u64::from(item.chunk.count);
        self.bytes -= item.chunk.bytes.len() as u64;
    }
}

fn cut(
    chunk: &Chunk,
    elements: usize,
    bytes: usize,
    coder: &Coder,
) -> Result<(Chunk, Option<Chunk>), coder::Error> {
    let mut end = 0;
    let mut count = 0;
    let mut lowest = Timestamp::MAX;
    for element in coder::windowed_value::Elements::new(coder, &chunk.bytes) {
        let element = element?;
        if count > 0 && (count >= elements || element.value.end > bytes) {
            break;
        }
        end = element.value.end;
        count += 1;
        lowest = lowest.min(element.timestamp);
    }
    let head = Chunk {
        bytes: chunk.bytes.slice(..end),
        count: count as u32,
        min_timestamp: lowest,
    };
    let tail_bytes = chunk.bytes.slice(end..);
    if tail_bytes.is_empty() {
        return Ok((head, None));
    }
    let tail = Chunk {
        bytes: tail_bytes,
        count: chunk.count - head.count,
        // Not lower than the whole chunk's; exact enough for a hold.
        min_timestamp: chunk.min_timestamp,
    };
    Ok((head, Some(tail)))
}
