//! Elements of a keyed stage that wait, by key and in the order in which they came.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;

use crate::engine::queue::Limits;
use crate::engine::tables::TimerId;
use crate::engine::watermark::Holds;
use crate::model::time::Timestamp;
use crate::model::timer::{TimeDomain, TimerFiring};
use crate::model::window::Window;

/// One element on its way to a keyed stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyedElement {
    pub key: Bytes,
    pub timestamp: Timestamp,
    pub windows: Vec<Window>,
    /// The whole encoded windowed value.
    pub encoded: Bytes,
}

/// Elements for a keyed stage, in the order in which they came.
pub type KeyedElements = Vec<KeyedElement>;

/// What one bundle does with one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakenKey {
    pub key: Bytes,
    pub work: KeyWork,
}

/// Elements, or timers that fire at one time: never both, so that each sees what the other changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyWork {
    Elements(Vec<KeyedElement>),
    Timers(Vec<(TimeDomain, TimerId, TimerFiring)>),
}

/// The queue of one keyed stage on one lane.
#[derive(Debug, Default)]
pub struct KeyedQueue {
    waiting: BTreeMap<Bytes, VecDeque<KeyedElement>>,
    /// Every idle key with waiting elements, and perhaps some that are not so any more.
    idle: VecDeque<Bytes>,
    busy: BTreeSet<Bytes>,
    holds: Holds,
    elements: u64,
}

impl KeyedQueue {
    /// Adds an element at the end of its key.
    pub fn push(&mut self, element: KeyedElement) {
        self.holds.add(element.timestamp);
        self.elements += 1;
        let waiting = self.waiting.entry(element.key.clone()).or_default();
        if waiting.is_empty() && !self.busy.contains(&element.key) {
            self.idle.push_back(element.key.clone());
        }
        waiting.push_back(element);
    }

    /// Takes elements of the idle key that waits longest, one at least, and makes the key busy.
    ///
    /// Keys for which `skip` says so stay.
    pub fn take(
        &mut self,
        limits: Limits,
        mut skip: impl FnMut(&Bytes, Timestamp) -> bool,
    ) -> Option<TakenKey> {
        let mut skipped = Vec::new();
        let key = loop {
            let Some(key) = self.idle.pop_front() else {
                self.idle.extend(skipped);
                return None;
            };
            // A key that became busy otherwise is put in line again when it is free.
            let (false, Some(lowest)) = (self.busy.contains(&key), self.lowest(&key)) else {
                continue;
            };
            if !skip(&key, lowest) {
                break key;
            }
            skipped.push(key);
        };
        self.idle.extend(skipped);
        let waiting = self.waiting.get_mut(&key)?;
        let mut bytes = 0;
        let fits = waiting.iter().take(limits.elements).take_while(|element| {
            bytes += element.encoded.len();
            bytes <= limits.bytes
        });
        let count = fits.count().max(1).min(waiting.len());
        let taken: Vec<KeyedElement> = waiting.drain(..count).collect();
        if waiting.is_empty() {
            self.waiting.remove(&key);
        }
        for element in &taken {
            self.holds.remove(element.timestamp);
        }
        self.elements -= taken.len() as u64;
        self.busy.insert(key.clone());
        Some(TakenKey {
            key,
            work: KeyWork::Elements(taken),
        })
    }

    /// Makes an idle key busy with something else than its elements.
    pub fn occupy(&mut self, key: &Bytes) {
        let was_idle = self.busy.insert(key.clone());
        debug_assert!(was_idle, "a key is in one bundle at a time");
    }

    /// The bundle with this key ended; `back` are elements that it did not process.
    pub fn free(&mut self, key: &Bytes, back: Vec<KeyedElement>) {
        let was_busy = self.busy.remove(key);
        debug_assert!(was_busy, "a key was freed that was not busy");
        if !back.is_empty() {
            let waiting = self.waiting.entry(key.clone()).or_default();
            for element in back.into_iter().rev() {
                self.holds.add(element.timestamp);
                self.elements += 1;
                waiting.push_front(element);
            }
        }
        if self.waiting.contains_key(key) {
            self.idle.push_back(key.clone());
        }
    }

    /// Whether the key is in a bundle.
    pub fn is_busy(&self, key: &Bytes) -> bool {
        self.busy.contains(key)
    }

    /// The lowest timestamp that waits under a key.
    pub fn lowest(&self, key: &Bytes) -> Option<Timestamp> {
        self.waiting
            .get(key)?
            .iter()
            .map(|element| element.timestamp)
            .min()
    }

    /// Whether a key with elements is idle.
    pub fn has_ready(&self) -> bool {
        !self.idle.is_empty()
    }

    /// Elements that wait.
    pub fn elements(&self) -> u64 {
        self.elements
    }

    /// The lowest timestamp that waits.
    pub fn hold(&self) -> Timestamp {
        self.holds.lowest()
    }
}
