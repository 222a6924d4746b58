//! Panes as encoded elements: `windowed_value(kv(key, iterable(value)))`.

use bytes::Bytes;

use crate::coder::{iterable, windowed_value};
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
    pub(super) fn new(bytes_max: usize, count_max: usize, expected: usize) -> Self {
        let capacity = expected.min(bytes_max).min(CAPACITY_MAX);
        Self {
            bytes: Vec::with_capacity(capacity + capacity / 16),
            count: 0,
            min_timestamp: Timestamp::MAX,
            bytes_max: bytes_max.max(1),
            count_max: u32::try_from(count_max).unwrap_or(u32::MAX).max(1),
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
        let size = header.0.len() + key.len() + COUNT_SIZE_MAX + value_bytes;
        if self.bytes.capacity() - self.bytes.len() < size {
            self.bytes.reserve(size);
        }
        self.min_timestamp = self.min_timestamp.min(timestamp);
        self.count += 1;
        self.bytes.extend_from_slice(&header.0);
        self.bytes.extend_from_slice(key);
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

    pub(super) fn is_full(&self) -> bool {
        self.count >= self.count_max || self.bytes.len() >= self.bytes_max
    }

    /// The chunk; `None` when there are no panes.
    pub(super) fn finish(self) -> Option<Chunk> {
        (self.count > 0).then(|| Chunk {
            bytes: Bytes::from(self.bytes),
            count: self.count,
            min_timestamp: self.min_timestamp,
        })
    }
}

/// Chunks larger than this grow as they must.
const CAPACITY_MAX: usize = 4 << 20;
/// A 32-bit count, or its substitute with a varint.
const COUNT_SIZE_MAX: usize = 16;
