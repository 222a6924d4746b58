//! The state of one key in one window, for strategies that need it.

use bytes::Bytes;

use crate::engine::tables::payload::{PayloadError, PayloadTable, Reading};
use crate::model::pane::PaneInfo;
use crate::model::time::Timestamp;
use crate::model::window::Window;

/// All cells of one key of one stage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyCells {
    pub hash: u64,
    pub key: Bytes,
    /// Invariant: ordered by window, no window twice.
    pub rows: Vec<CellRow>,
}

impl KeyCells {
    /// Where the window is, or where it would be.
    pub fn position(&self, window: &Window) -> Result<usize, usize> {
        self.rows.binary_search_by(|row| row.window.cmp(window))
    }
}

/// One cell with its window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellRow {
    pub window: Window,
    pub cell: Cell,
    /// What the engine's indexes hold for the cell. Derived, not stored.
    pub schedule: Schedule,
}

impl CellRow {
    pub fn new(window: Window) -> Self {
        Self {
            window,
            cell: Cell::default(),
            schedule: Schedule::default(),
        }
    }
}

/// The state of one key in one window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    pub trigger: TriggerState,
    /// The last pane that was emitted.
    pub pane: Option<PaneInfo>,
    /// The combined timestamps of elements since the last firing, as far as they can still hold the
    /// watermark.
    pub element_hold: Option<Timestamp>,
    /// Holds for a pane that may come although no element holds: the window's end, or its expiry.
    pub window_hold: Option<Timestamp>,
    /// Elements since the last firing.
    pub fresh: u64,
    /// What the next pane is made of.
    pub values: Values,
    /// The watermark's passing of the window's end has been dealt with.
    pub ended: bool,
    /// The trigger finished: what comes is dropped, until the window expires.
    pub closed: bool,
    /// A window new to its key, which the SDK has yet to merge with the others: it fires nothing, and the
    /// trigger has not been told of its elements.
    pub unmerged: bool,
}

impl Cell {
    /// The lowest output timestamp the cell asks to wait for.
    pub fn hold(&self) -> Option<Timestamp> {
        match (self.element_hold, self.window_hold) {
            (Some(element), Some(window)) => Some(element.min(window)),
            (element, window) => element.or(window),
        }
    }
}

/// Encoded values, back to back; clones share the memory of what was there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Values {
    sealed: Vec<Segment>,
    tail: Vec<u8>,
    count: u64,
    bytes: usize,
}

/// Some whole values.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Segment {
    bytes: Bytes,
    /// Part of something else or off the heap: a copy would take memory that it does not take now.
    fixed: bool,
}

impl Values {
    pub fn append(&mut self, value: &[u8]) {
        if self.tail.len() >= SEGMENT_MAX {
            self.seal();
        }
        self.tail.extend_from_slice(value);
        self.count += 1;
        self.bytes += value.len();
    }

    /// Appends a value that is part of something larger, which it holds.
    pub fn append_shared(&mut self, value: Bytes) {
        self.seal();
        if self.sealed.is_empty() {
            self.sealed.reserve_exact(1);
        }
        self.count += 1;
        self.bytes += value.len();
        self.sealed.push(Segment {
            bytes: value,
            fixed: true,
        });
    }

    /// Keeps off the heap what has come together since the last time, where that is worth it.
    ///
    /// # Errors
    ///
    /// When there is no room. No value is lost by that.
    pub fn keep(&mut self, payload: &mut impl PayloadTable) -> Result<(), PayloadError> {
        if self.tail.len() >= KEPT_SEGMENT_MIN {
            self.seal();
        }
        let fresh = self.sealed.iter_mut().rev();
        for segment in fresh.take_while(|segment| !segment.fixed) {
            if segment.bytes.len() >= KEPT_SEGMENT_MIN {
                segment.bytes = payload.keep(&segment.bytes, Reading::Anywhere)?;
                segment.fixed = true;
            }
        }
        Ok(())
    }

    /// All values will be read soon.
    pub fn expect(&self, payload: &impl PayloadTable) {
        for segment in self.sealed.iter().filter(|segment| segment.fixed) {
            payload.expect(&segment.bytes);
        }
    }

    /// Whole values from byte `from` on, where one starts: about `bytes_max`, more where one is longer;
    /// and where the next one starts.
    pub fn page(
        &self,
        from: usize,
        bytes_max: usize,
        payload: &impl PayloadTable,
    ) -> (Bytes, Option<usize>) {
        let segments = self.sealed.iter().map(|segment| &segment.bytes[..]);
        let (mut start, mut end) = (0, from.min(self.bytes));
        let mut page: Vec<Bytes> = Vec::new();
        for (index, segment) in segments.chain([&self.tail[..]]).enumerate() {
            let next = start + segment.len();
            if next > end {
                if !page.is_empty() && next - from > bytes_max {
                    break;
                }
                let part = &segment[end - start..];
                page.push(match self.sealed.get(index) {
                    Some(sealed) => sealed.bytes.slice_ref(part),
                    None => Bytes::copy_from_slice(part),
                });
                end = next;
            }
            start = next;
        }
        page.iter().for_each(|part| payload.expect(part));
        let bytes = match page.len() {
            1 => page.swap_remove(0),
            _ => Bytes::from(page.concat()),
        };
        (bytes, (end < self.bytes).then_some(end))
    }

    /// The values, in parts that hold whole ones.
    pub fn into_parts(mut self) -> impl Iterator<Item = Bytes> {
        self.seal();
        self.sealed.into_iter().map(|segment| segment.bytes)
    }

    /// Moves the values of `later` behind these.
    pub fn merge(&mut self, mut later: Self) {
        if self.count == 0 {
            *self = later;
        } else if later.count > 0 {
            self.seal();
            self.sealed.append(&mut later.sealed);
            self.tail = later.tail;
            self.count += later.count;
            self.bytes += later.bytes;
        }
    }

    /// The values as they are now, which stay.
    pub fn snapshot(&mut self) -> Self {
        self.seal();
        self.clone()
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// All values' bytes, in order.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        for segment in &self.sealed {
            out.extend_from_slice(&segment.bytes);
        }
        out.extend_from_slice(&self.tail);
    }

    /// Makes the tail a segment. Segments that are not longer than those after them are joined, so
    /// that a list that is read after each append has few of them.
    fn seal(&mut self) {
        let mut segment = std::mem::take(&mut self.tail);
        if segment.is_empty() {
            return;
        }
        while segment.len() < SEGMENT_MAX {
            match self.sealed.pop() {
                Some(before) if !before.fixed && before.bytes.len() <= segment.len() => {
                    let mut joined = Vec::with_capacity(before.bytes.len() + segment.len());
                    joined.extend_from_slice(&before.bytes);
                    joined.extend_from_slice(&segment);
                    segment = joined;
                }
                Some(before) => {
                    self.sealed.push(before);
                    break;
                }
                None => break,
            }
        }
        if segment.capacity() - segment.len() > SLACK_MAX {
            segment.shrink_to_fit();
        }
        self.sealed.push(Segment {
            bytes: Bytes::from(segment),
            fixed: false,
        });
    }
}

/// What the trigger machine of a stage remembers for a cell: a slot per node of the trigger, in the
/// machine's order; slots beyond the end are in their first state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TriggerState {
    pub slots: Vec<TriggerSlot>,
}

/// The state of one node of a trigger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TriggerSlot {
    pub finished: bool,
    /// A count, phase or time, as the kind of node needs.
    pub value: Option<i64>,
}

/// When a cell must be looked at again, and what it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// Once the input watermark is beyond this.
    pub event: Option<Timestamp>,
    /// Once processing time has reached this.
    pub processing: Option<Timestamp>,
    pub hold: Option<Timestamp>,
    /// About how much memory the cell takes.
    pub bytes: usize,
}

/// A pane that fired and waits to be consumed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FiredPane {
    pub hash: u64,
    pub key: Bytes,
    pub window: Window,
    pub timestamp: Timestamp,
    pub pane: PaneInfo,
    pub values: Values,
    /// What the pane asks the output watermark to wait at; beyond `timestamp` when that is late
    /// anyway.
    pub hold: Timestamp,
}

/// Values are sealed in segments of about this size, so that long lists are not copied to grow.
const SEGMENT_MAX: usize = 256 << 10;
/// Segments at least this long are worth keeping off the heap.
const KEPT_SEGMENT_MIN: usize = 16 << 10;
/// A segment may keep so much memory that it does not need.
const SLACK_MAX: usize = 4 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(values: &Values) -> Vec<u8> {
        let mut out = Vec::new();
        values.write_to(&mut out);
        assert_eq!(out.len(), values.bytes());
        out
    }

    #[test]
    fn snapshots_stay_as_they_were() {
        let mut values = Values::default();
        let mut snapshots = Vec::new();
        for n in 0..100_u8 {
            values.append(&[n]);
            snapshots.push(values.snapshot());
        }
        for (n, snapshot) in snapshots.iter().enumerate() {
            assert_eq!(bytes(snapshot), (0..=n as u8).collect::<Vec<u8>>());
            assert_eq!(snapshot.count(), n as u64 + 1);
        }
        assert!(values.sealed.len() < 8, "{} segments", values.sealed.len());
    }

    #[test]
    fn merging_appends() {
        let mut values = Values::default();
        values.merge(Values::default());
        let mut other = Values::default();
        other.append(b"ab");
        values.merge(other.clone());
        values.append(b"c");
        values.merge(other);
        values.merge(Values::default());
        assert_eq!(bytes(&values), b"abcab");
        assert_eq!(values.count(), 3);
    }
}
