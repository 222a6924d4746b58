//! Messages of one ordering key, in line.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use super::consumer::ConsumerId;

/// The lines of an ordered subscription, one per ordering key.
///
/// Invariants: a line with messages out belongs to the consumer that holds them, so that order is
/// kept while several are out; a message comes again only together with all later ones of its line,
/// acknowledged ones included.
#[derive(Debug, Default)]
pub(super) struct Lines {
    lines: HashMap<Arc<str>, Line, FxBuildHasher>,
    /// Lines that anybody may take from.
    free: VecDeque<Arc<str>>,
    /// Lines only one consumer may take from.
    owned: BTreeMap<ConsumerId, VecDeque<Arc<str>>>,
}

#[derive(Debug, Default)]
struct Line {
    waiting: BTreeSet<u64>,
    out: BTreeSet<u64>,
    /// Acknowledged before an earlier one was.
    behind: BTreeSet<u64>,
    owner: Option<ConsumerId>,
    /// Messages that wait for their next attempt, and all others with them.
    paused: BTreeSet<u64>,
    queued: Option<Place>,
}

/// The queue in which a line stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Free,
    Owned(ConsumerId),
}

impl Lines {
    /// Puts a message in line.
    pub(super) fn push(&mut self, key: &str, id: u64) {
        if let Some(line) = self.lines.get_mut(key) {
            line.waiting.insert(id);
        } else {
            let mut line = Line::default();
            line.waiting.insert(id);
            self.lines.insert(Arc::from(key), line);
        }
        self.enqueue(key);
    }

    /// The next message for `consumer`: of its own lines first, then of a free one.
    pub(super) fn pop(&mut self, consumer: ConsumerId) -> Option<u64> {
        if let Some(id) = self.pop_owned(consumer) {
            return Some(id);
        }
        loop {
            let key = self.free.pop_front()?;
            if let Some(id) = self.take_from(&key, Place::Free, consumer) {
                return Some(id);
            }
        }
    }

    fn pop_owned(&mut self, consumer: ConsumerId) -> Option<u64> {
        loop {
            let queue = self.owned.get_mut(&consumer)?;
            let Some(key) = queue.pop_front() else {
                self.owned.remove(&consumer);
                return None;
            };
            if let Some(id) = self.take_from(&key, Place::Owned(consumer), consumer) {
                return Some(id);
            }
        }
    }

    /// Takes the first of a line that was found in `place`, unless it is not meant to be there.
    fn take_from(&mut self, key: &Arc<str>, place: Place, consumer: ConsumerId) -> Option<u64> {
        let line = self.lines.get_mut(key)?;
        if line.queued != Some(place) {
            return None;
        }
        line.queued = None;
        if !line.paused.is_empty() {
            return None;
        }
        let id = line.waiting.pop_first()?;
        debug_assert!(
            line.out.last().is_none_or(|last| *last < id),
            "a line goes out in order"
        );
        line.out.insert(id);
        line.owner = Some(consumer);
        self.enqueue(key);
        Some(id)
    }

    /// Takes out exactly this message, which was waiting: its old lease has been renewed. False if
    /// an earlier one waits, so that order forbids it.
    pub(super) fn reclaim(&mut self, key: &str, id: u64) -> bool {
        let Some(line) = self.lines.get_mut(key) else {
            return false;
        };
        if line.waiting.first() != Some(&id) {
            return false;
        }
        line.waiting.remove(&id);
        line.out.insert(id);
        true
    }

    /// Whether no earlier message of the line is unacknowledged.
    pub(super) fn is_first(&self, key: &str, id: u64) -> bool {
        self.lines.get(key).is_none_or(|line| {
            let first = [line.out.first(), line.waiting.first()];
            first.into_iter().flatten().all(|other| *other >= id)
        })
    }

    /// Notes that a message was acknowledged before an earlier one.
    pub(super) fn leave_behind(&mut self, key: &str, id: u64) {
        if let Some(line) = self.lines.get_mut(key) {
            line.out.remove(&id);
            line.waiting.remove(&id);
            line.behind.insert(id);
        }
    }

    /// Takes a message out of its line for good. Returns those acknowledged before that only waited
    /// for it.
    pub(super) fn settle(&mut self, key: &str, id: u64) -> Vec<u64> {
        let Some(line) = self.lines.get_mut(key) else {
            return Vec::new();
        };
        line.out.remove(&id);
        line.waiting.remove(&id);
        line.behind.remove(&id);
        line.paused.remove(&id);
        let first = [line.out.first(), line.waiting.first()];
        let first = first.into_iter().flatten().min().copied();
        let kept = first.map_or_else(BTreeSet::new, |first| line.behind.split_off(&first));
        let settled = std::mem::replace(&mut line.behind, kept);
        if line.out.is_empty() {
            line.owner = None;
        }
        if line.out.is_empty() && line.waiting.is_empty() {
            self.lines.remove(key);
        } else {
            self.enqueue(key);
        }
        settled.into_iter().collect()
    }

    /// Puts a message and all later ones of its line back in line, and returns the ones that were
    /// out or acknowledged.
    pub(super) fn rewind(&mut self, key: &str, id: u64) -> Vec<u64> {
        let Some(line) = self.lines.get_mut(key) else {
            return Vec::new();
        };
        let mut again = line.out.split_off(&id);
        again.extend(line.behind.split_off(&id));
        line.waiting.extend(again.iter().copied());
        if line.out.is_empty() {
            line.owner = None;
        }
        self.enqueue(key);
        again.into_iter().collect()
    }

    /// Holds a line back until this message of it may be tried again.
    pub(super) fn pause(&mut self, key: &str, id: u64) {
        if let Some(line) = self.lines.get_mut(key) {
            line.paused.insert(id);
        }
    }

    /// Lets a line go on that was paused for this message.
    pub(super) fn resume(&mut self, key: &str, id: u64) {
        if let Some(line) = self.lines.get_mut(key) {
            line.paused.remove(&id);
            self.enqueue(key);
        }
    }

    /// Gives the line of `key` to another consumer.
    pub(super) fn adopt(&mut self, key: &str, consumer: ConsumerId) {
        if let Some(line) = self.lines.get_mut(key) {
            line.owner = Some(consumer);
            self.enqueue(key);
        }
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        *self = Lines::default();
    }

    /// Puts a line that has something to give in the right queue.
    fn enqueue(&mut self, key: &str) {
        let Some((key, line)) = self.lines.get_key_value(key) else {
            return;
        };
        if line.waiting.is_empty() || !line.paused.is_empty() {
            return;
        }
        let place = line.owner.map_or(Place::Free, Place::Owned);
        if line.queued == Some(place) {
            return;
        }
        let key = Arc::clone(key);
        match place {
            Place::Free => self.free.push_back(Arc::clone(&key)),
            Place::Owned(owner) => {
                let queue = self.owned.entry(owner).or_default();
                queue.push_back(Arc::clone(&key));
            }
        }
        if let Some(line) = self.lines.get_mut(&key) {
            line.queued = Some(place);
        }
    }
}
