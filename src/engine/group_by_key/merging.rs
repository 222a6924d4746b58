//! Windows that only an SDK can merge: which keys wait for it, and what it is asked.
//!
//! An element whose window is new to its key goes into an unmerged cell of its own. The key is then
//! asked about: all its open windows go to the SDK, whose answer says which become one. Until no
//! window of the key is unmerged, the key lives at the watermark at which it began to wait, so that no
//! window ends that a newer one may still extend. Its holds keep the output watermark back meanwhile.
//!
//! What is asked bears the key itself, so nothing of this must survive: unmerged cells are found in
//! the table and asked about again.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use crate::coder::{merge_windows, windowed_value};
use crate::engine::group_by_key::rules::At;
use crate::engine::tables::group::KeyCells;
use crate::model::pane::PaneInfo;
use crate::model::time::Timestamp;
use crate::model::window::Window;

/// A key, found by its hash first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct KeyId {
    pub(super) hash: u64,
    pub(super) key: Bytes,
}

/// The keys of one stage on one lane that have unmerged windows.
#[derive(Debug, Default)]
pub(super) struct UnmergedKeys {
    waiting: BTreeMap<KeyId, Waiting>,
    /// Those with unmerged windows that are in no question.
    to_ask: BTreeSet<KeyId>,
}

/// What is known of a key that waits.
#[derive(Debug)]
struct Waiting {
    /// The input watermark that the key lives at.
    watermark: Timestamp,
    /// Not above the timestamp of any element whose window is in no question.
    lowest: Timestamp,
    /// The windows of the question that is not answered yet.
    asked: Option<Vec<Window>>,
}

impl UnmergedKeys {
    /// Notes that an element went into an unmerged cell, at this input watermark.
    pub(super) fn wait(&mut self, id: KeyId, lowest: Timestamp, input_watermark: Timestamp) {
        let waiting = self.waiting.entry(id.clone()).or_insert(Waiting {
            watermark: input_watermark,
            lowest,
            asked: None,
        });
        waiting.lowest = waiting.lowest.min(lowest);
        if waiting.asked.is_none() {
            self.to_ask.insert(id);
        }
    }

    /// The time as the key sees it.
    pub(super) fn at(&self, hash: u64, key: &Bytes, at: At) -> At {
        if self.waiting.is_empty() {
            return at;
        }
        let id = KeyId {
            hash,
            key: key.clone(),
        };
        match self.waiting.get(&id) {
            Some(waiting) => At {
                input_watermark: waiting.watermark.min(at.input_watermark),
                ..at
            },
            None => at,
        }
    }

    /// Takes a key to be asked about.
    pub(super) fn next_to_ask(&mut self) -> Option<KeyId> {
        self.to_ask.pop_first()
    }

    /// Writes the question about a key's open windows.
    pub(super) fn ask(&mut self, cells: &KeyCells, id: &KeyId, out: &mut Vec<u8>) {
        let Some(waiting) = self.waiting.get_mut(id) else {
            return;
        };
        let open = cells.rows.iter().filter(|row| !row.cell.closed);
        let windows: Vec<Window> = open.map(|row| row.window.clone()).collect();
        let (global, pane) = (&[Window::Global], PaneInfo::NO_FIRING);
        windowed_value::write_header(out, Timestamp::MIN, global, pane);
        merge_windows::write_question(out, &id.key, windows.iter());
        waiting.asked = Some(windows);
        waiting.lowest = Timestamp::MAX;
    }

    /// The windows that an answer is about; `None` when nothing was asked.
    pub(super) fn answered(&mut self, id: &KeyId) -> Option<Vec<Window>> {
        self.waiting.get_mut(id)?.asked.take()
    }

    /// Lets a key whose question was answered live on: up to what is new to it meanwhile, if anything is.
    pub(super) fn live_on(&mut self, id: &KeyId, input_watermark: Timestamp) {
        let Some(waiting) = self.waiting.get_mut(id) else {
            return;
        };
        debug_assert!(waiting.asked.is_none(), "a question is open");
        if waiting.lowest == Timestamp::MAX {
            self.waiting.remove(id);
        } else {
            let reached = input_watermark.min(waiting.lowest);
            waiting.watermark = waiting.watermark.max(reached);
            self.to_ask.insert(id.clone());
        }
    }
}
