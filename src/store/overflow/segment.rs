//! A file of payload, mapped to be read.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use memmap2::{Advice, MmapOptions, MmapRaw};
use parking_lot::Mutex;

use crate::engine::tables::Reading;

/// A file without a name: it is gone with its last slice, or with the process however that ends.
///
/// Written by `pwrite`, so that a full disk is an error, and read through a mapping of the same pages.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) file: File,
    map: MmapRaw,
    len: usize,
    mapped: Arc<Mapped>,
}

/// All segments by their addresses.
#[derive(Debug, Default)]
pub(super) struct Mapped {
    count: AtomicUsize,
    segments: Mutex<BTreeMap<usize, Weak<Segment>>>,
}

/// Writes all bytes at an offset of a file.
pub(super) type WriteAt = fn(&File, &[u8], u64) -> io::Result<()>;

impl Segment {
    /// A segment with room for `len` bytes, which takes as much of the disk as is written.
    pub(super) fn create(
        folder: &Path,
        len: usize,
        reading: Reading,
        mapped: &Arc<Mapped>,
    ) -> io::Result<Arc<Self>> {
        let file = tempfile::tempfile_in(folder)?;
        file.set_len(len as u64)?;
        let map = MmapOptions::new().len(len).map_raw_read_only(&file)?;
        // The kernel's own guess would read megabytes around each byte that is looked at.
        map.advise(match reading {
            Reading::InOrder => Advice::Sequential,
            Reading::Anywhere => Advice::Random,
        })?;
        let segment = Arc::new(Self {
            file,
            map,
            len,
            mapped: Arc::clone(mapped),
        });
        mapped.count.fetch_add(1, Ordering::Relaxed);
        let address = segment.map.as_ptr().addr();
        let weak = Arc::downgrade(&segment);
        mapped.segments.lock().insert(address, weak);
        Ok(segment)
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Writes `bytes` at `start`, where nothing has been kept yet.
    pub(super) fn keep(
        self: &Arc<Self>,
        start: usize,
        bytes: &[u8],
        write: WriteAt,
    ) -> io::Result<Bytes> {
        assert!(
            start + bytes.len() <= self.len,
            "a segment does not reach beyond its end"
        );
        write(&self.file, bytes, start as u64)?;
        Ok(Bytes::from_owner(Kept {
            segment: Arc::clone(self),
            start,
            len: bytes.len(),
        }))
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        self.mapped.count.fetch_sub(1, Ordering::Relaxed);
        let mut segments = self.mapped.segments.lock();
        segments.remove(&self.map.as_ptr().addr());
    }
}

impl Mapped {
    /// Whether there is no segment.
    pub(super) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Lets the kernel read these bytes ahead, if they are of a segment.
    pub(super) fn expect(&self, bytes: &[u8]) {
        let address = bytes.as_ptr().addr();
        let before = self
            .segments
            .lock()
            .range(..=address)
            .next_back()
            .and_then(|(start, segment)| Some((*start, segment.upgrade()?)));
        if let Some((start, segment)) = before
            && address - start < segment.len
        {
            // Only advice: without it, reading is slower.
            let _ = segment
                .map
                .advise_range(Advice::WillNeed, address - start, bytes.len());
        }
    }
}

/// Bytes of a segment that have been written, and will not be written again.
struct Kept {
    segment: Arc<Segment>,
    start: usize,
    len: usize,
}

impl AsRef<[u8]> for Kept {
    #[expect(
        unsafe_code,
        reason = "a mapped file is memory that others could change. Nobody else has this one: it has no name. The \
                  mapping lives as long as the segment, which this holds; the file is never cut, so reading does \
                  not fault; and these bytes were written before there was a slice of them, and are not again"
    )]
    fn as_ref(&self) -> &[u8] {
        // SAFETY: see above; `start + len` is within the mapping, as was asserted when they were written.
        unsafe { std::slice::from_raw_parts(self.segment.map.as_ptr().add(self.start), self.len) }
    }
}
