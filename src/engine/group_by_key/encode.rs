//! Panes as encoded elements: `windowed_value(kv(key, iterable(value)))`.

use std::sync::Arc;

use bytes::Bytes;

use crate::coder::{iterable, windowed_value};
use crate::engine::group_by_key::backed::{BackedGroup, BackedId, Backing, Fired};
use crate::engine::tables::group::BackedValues;
use crate::model::element::Chunk;
use crate::model::pane::PaneInfo;
use crate::model::time::Timestamp;
use crate::model::window::Window;

/// Collects panes into a chunk, up to its limits.
#[derive(Debug)]
pub(super) struct ChunkWriter {
    bytes: Vec<u8>,
    count: u32,
    min_timestamp: Timestamp,
    bytes_max: usize,
    count_max: u32,
    backing: Option<Backing>,
    backed: Vec<BackedGroup>,
    backed_bytes: usize,
}

/// What precedes a key: timestamp, window and pane.
#[derive(Debug)]
pub(super) struct Header(Vec<u8>);

impl Header {
    pub(super) fn new(timestamp: Timestamp, window: &Window, pane: PaneInfo) -> Self {
        let mut bytes = Vec::new();
        windowed_value::write_header(&mut bytes, timestamp, std::slice::from_ref(window), pane);
        Self(bytes)
    }
}

impl ChunkWriter {
    /// `expected` is about how much there is to be written in all.
    pub(super) fn new(
        bytes_max: usize,
        count_max: usize,
        expected: usize,
        backing: Option<Backing>,
    ) -> Self {
        let capacity = expected.min(bytes_max).min(CAPACITY_MAX);
        Self {
            bytes: Vec::with_capacity(capacity + capacity / 16),
            count: 0,
            min_timestamp: Timestamp::MAX,
            bytes_max: bytes_max.max(1),
            count_max: u32::try_from(count_max).unwrap_or(u32::MAX).max(1),
            backing,
            backed: Vec::new(),
            backed_bytes: 0,
        }
    }

    /// Begins a pane; `count` encoded values of `value_bytes` in all follow through
    /// [`Self::value_bytes`].
    pub(super) fn begin(
        &mut self,
        (timestamp, header): (Timestamp, &Header),
        key: &[u8],
        count: u64,
        value_bytes: usize,
    ) {
        self.write_head((timestamp, header), key, value_bytes);
        match i32::try_from(count) {
            Ok(count) => iterable::write_count(&mut self.bytes, count),
            Err(_) => {
                iterable::write_unknown(&mut self.bytes);
                iterable::write_batch(&mut self.bytes, count);
            }
        }
    }

    /// Where values go.
    pub(super) fn value_bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Ends a pane that was begun with this count.
    pub(super) fn end(&mut self, count: u64) {
        if i32::try_from(count).is_err() {
            iterable::write_end(&mut self.bytes);
        }
    }

    /// Whether a pane with that many bytes of values is to be written by [`Self::write_backed`].
    #[inline]
    pub(super) fn backs(&self, value_bytes: usize) -> bool {
        self.backing
            .is_some_and(|backing| value_bytes > backing.bytes_max)
    }

    /// Writes a pane with its first values only; the others, up to `value_bytes` in all, are read as state.
    pub(super) fn write_backed(
        &mut self,
        header: (Timestamp, &Header),
        key: &[u8],
        value_bytes: usize,
        values: BackedValues,
    ) {
        let Some(backing) = &mut self.backing else {
            debug_assert!(false, "no values are read as state here");
            return;
        };
        let (stage, number) = (backing.stage, backing.next);
        backing.next += 1;
        let element = self.count;
        self.write_head(header, key, FIRST_VALUES_MAX);
        iterable::write_unknown(&mut self.bytes);
        let mut first = Vec::new();
        let (count, from) = values.write_first(&mut first, FIRST_VALUES_MAX);
        if count > 0 {
            iterable::write_batch(&mut self.bytes, count);
            self.bytes.extend_from_slice(&first);
        }
        let id = BackedId {
            stage,
            number,
            from,
        };
        iterable::write_continuation(&mut self.bytes, &id.to_token());
        self.backed_bytes += value_bytes;
        self.backed.push(BackedGroup {
            element,
            id,
            values: Arc::new(values),
        });
    }

    pub(super) fn is_full(&self) -> bool {
        self.count >= self.count_max || self.bytes.len() + self.backed_bytes >= self.bytes_max
    }

    /// With the number of the next group.
    pub(super) fn backing(&self) -> Option<Backing> {
        self.backing
    }

    /// The panes; `None` when there are none.
    pub(super) fn finish(self) -> Option<Fired> {
        (self.count > 0).then(|| Fired {
            chunk: Chunk {
                bytes: Bytes::from(self.bytes),
                count: self.count,
                min_timestamp: self.min_timestamp,
            },
            backed: self.backed,
        })
    }

    fn write_head(
        &mut self,
        (timestamp, header): (Timestamp, &Header),
        key: &[u8],
        value_bytes: usize,
    ) {
        let size = header.0.len() + key.len() + COUNT_SIZE_MAX + value_bytes;
        if self.bytes.capacity() - self.bytes.len() < size {
            self.bytes.reserve(size);
        }
        self.min_timestamp = self.min_timestamp.min(timestamp);
        self.count += 1;
        self.bytes.extend_from_slice(&header.0);
        self.bytes.extend_from_slice(key);
    }
}

/// Chunks larger than this grow as they must.
const CAPACITY_MAX: usize = 4 << 20;
/// A 32-bit count, or its substitute with a varint.
const COUNT_SIZE_MAX: usize = 16;
/// So many bytes of values come with a group whose others are read as state.
const FIRST_VALUES_MAX: usize = 64 << 10;
