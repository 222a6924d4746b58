//! Native reads: messages by shuffle key, each key in one bundle at a time, duplicates dropped unless
//! the job wants them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;

use crate::coder;
use crate::engine::event::Message;
use crate::engine::queue::{Item, Limits, SourceWork};
use crate::engine::tables::DedupTable;
use crate::engine::watermark::Holds;
use crate::model::element::Chunk;
use crate::model::ids::StageId;
use crate::model::pane::PaneInfo;
use crate::model::time::Timestamp;
use crate::model::window::Window;

/// The messages of one read stage on one lane that no bundle has committed.
#[derive(Debug)]
pub struct ReadQueue {
    stage: StageId,
    waiting: BTreeMap<u32, VecDeque<Message>>,
    /// Keys with waiting messages that no bundle is processing.
    idle: VecDeque<u32>,
    busy: BTreeSet<u32>,
    /// Ids that wait or run, with the receipts of all their deliveries.
    pending: BTreeMap<Bytes, Vec<u64>>,
    holds: Holds,
    /// Every delivery counts: messages are known by their receipts.
    at_least_once: bool,
}

/// What became of arriving messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    /// Deliveries of messages that are committed already.
    pub acknowledge: Vec<u64>,
    pub duplicates: u64,
}

impl ReadQueue {
    /// An empty queue.
    pub fn new(stage: StageId) -> Self {
        Self {
            stage,
            waiting: BTreeMap::new(),
            idle: VecDeque::new(),
            busy: BTreeSet::new(),
            pending: BTreeMap::new(),
            holds: Holds::default(),
            at_least_once: false,
        }
    }

    /// An empty queue that lets duplicates through.
    pub fn at_least_once(stage: StageId) -> Self {
        Self {
            at_least_once: true,
            ..Self::new(stage)
        }
    }

    /// Takes messages from the source.
    pub fn arrive(
        &mut self,
        dedup: &mut impl DedupTable,
        now: Timestamp,
        messages: Vec<Message>,
    ) -> Arrival {
        let mut arrival = Arrival::default();
        for mut message in messages {
            if self.at_least_once {
                message.dedup_id = Bytes::copy_from_slice(&message.receipt.to_be_bytes());
                self.keep(message);
            } else if let Some(receipts) = self.pending.get_mut(&message.dedup_id) {
                receipts.push(message.receipt);
                arrival.duplicates += 1;
            } else if dedup.check(self.stage, &message.dedup_id, now) {
                arrival.acknowledge.push(message.receipt);
                arrival.duplicates += 1;
            } else {
                self.keep(message);
            }
        }
        arrival
    }

    /// Forms the input of a bundle from idle keys.
    pub fn take(&mut self, limits: Limits) -> Option<Item> {
        let mut bytes = Vec::new();
        let mut lowest = Timestamp::MAX;
        let mut work = SourceWork {
            stage: self.stage,
            keys: Vec::new(),
            ids: Vec::new(),
        };
        let mut taken = 0;
        while taken < limits.elements && bytes.len() < limits.bytes {
            let Some(key) = self.idle.pop_front() else {
                break;
            };
            for message in self.waiting.remove(&key).unwrap_or_default() {
                write_element(&mut bytes, &message);
                lowest = lowest.min(message.timestamp);
                self.holds.remove(message.timestamp);
                work.ids.push(message.dedup_id);
                taken += 1;
            }
            self.busy.insert(key);
            work.keys.push(key);
        }
        if taken == 0 {
            return None;
        }
        let chunk = Chunk {
            bytes: Bytes::from(bytes),
            count: taken as u32,
            min_timestamp: lowest,
        };
        Some(Item {
            source: Some(work),
            ..Item::new(chunk)
        })
    }

    /// The bundle with these messages is committed: returns what may be acknowledged.
    pub fn committed(
        &mut self,
        dedup: &mut impl DedupTable,
        now: Timestamp,
        work: SourceWork,
    ) -> Vec<u64> {
        let mut receipts = Vec::new();
        for id in work.ids {
            if !self.at_least_once {
                dedup.insert(self.stage, &id, now);
            }
            receipts.extend(self.pending.remove(&id).unwrap_or_default());
        }
        self.free_keys(&work.keys);
        receipts
    }

    /// Whether a bundle can be formed.
    pub fn has_ready(&self) -> bool {
        !self.idle.is_empty()
    }

    /// The lowest timestamp of what waits, or may still come.
    pub fn hold(&self) -> Timestamp {
        self.holds.lowest()
    }

    fn keep(&mut self, message: Message) {
        self.pending
            .insert(message.dedup_id.clone(), vec![message.receipt]);
        self.holds.add(message.timestamp);
        self.enqueue(message);
    }

    fn enqueue(&mut self, message: Message) {
        let key = message.key;
        let queue = self.waiting.entry(key).or_default();
        if queue.is_empty() && !self.busy.contains(&key) {
            self.idle.push_back(key);
        }
        queue.push_back(message);
    }

    fn free_keys(&mut self, keys: &[u32]) {
        for key in keys {
            let was_busy = self.busy.remove(key);
            debug_assert!(was_busy, "key {key} was freed but not busy");
            if self.waiting.contains_key(key) {
                self.idle.push_back(*key);
            }
        }
    }
}

/// A native read's element: the message's bytes in the global window.
fn write_element(out: &mut Vec<u8>, message: &Message) {
    coder::windowed_value::write_header(
        out,
        message.timestamp,
        &[Window::Global],
        PaneInfo::NO_FIRING,
    );
    coder::varint::write(out, message.element.len() as u64);
    out.extend_from_slice(&message.element);
}
