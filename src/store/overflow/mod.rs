//! Payload beyond the memory budget: it goes to files, and the kernel's page cache decides what of it stays in memory.
//!
//! While the heap is below the budget nothing is written and nothing counted here. Above it, what is to be kept is
//! written to the open segment and held as a slice of its mapping. A segment's part of the disk is given back when its
//! last slice is dropped. docs/decisions/0008 says why it is done like this.

mod segment;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;

use crate::engine::tables::{PayloadError, PayloadTable, Reading};
use segment::{Mapped, Segment, WriteAt};

/// When payload goes to disk, and where to.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The size of the heap above which payload goes to disk.
    pub budget_bytes: u64,
    /// Where its files are, which have no names.
    pub folder: PathBuf,
}

/// The overflow of the process. Cheap to clone.
#[derive(Clone, Default)]
pub struct Overflow(Option<Arc<Shared>>);

struct Shared {
    settings: Settings,
    /// The size of the heap now.
    heap_bytes: fn() -> u64,
    write: WriteAt,
    mapped: Arc<Mapped>,
}

impl Overflow {
    /// An overflow for a process whose heap is as large as `heap_bytes` says.
    pub fn new(settings: Settings, heap_bytes: fn() -> u64) -> Self {
        Self(Some(Arc::new(Shared {
            settings,
            heap_bytes,
            write: |file, bytes, offset| file.write_all_at(bytes, offset),
            mapped: Arc::default(),
        })))
    }

    /// The size of the heap above which payload goes to disk, if that is bounded.
    pub fn budget_bytes(&self) -> Option<u64> {
        self.0.as_ref().map(|shared| shared.settings.budget_bytes)
    }

    /// A keeper for a lane's payload; the default overflow's keeps everything in memory.
    pub fn keeper(&self) -> Keeper {
        Keeper {
            shared: self.0.clone(),
            ..Keeper::default()
        }
    }
}

impl fmt::Debug for Overflow {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let settings = self.0.as_ref().map(|shared| &shared.settings);
        formatter.debug_tuple("Overflow").field(&settings).finish()
    }
}

/// Keeps payload in segments of its own; clones share them.
#[derive(Clone, Default)]
pub struct Keeper {
    shared: Option<Arc<Shared>>,
    /// For each way of reading.
    open: Arc<Mutex<[Option<Open>; 2]>>,
    /// The last try to keep something failed.
    failed: Arc<AtomicBool>,
}

/// The segment that is written to, up to `end` so far.
struct Open {
    segment: Arc<Segment>,
    end: usize,
}

impl Keeper {
    /// Whether anything at all is off the heap.
    pub fn is_used(&self) -> bool {
        let shared = self.shared.as_ref();
        shared.is_some_and(|shared| !shared.mapped.is_empty())
    }

    fn write(&self, shared: &Shared, bytes: &[u8], reading: Reading) -> io::Result<Bytes> {
        let [in_order, anywhere] = &mut *self.open.lock();
        let open = match reading {
            Reading::InOrder => in_order,
            Reading::Anywhere => anywhere,
        };
        if let Some(open) = open
            && let Some(kept) = open.keep(bytes, shared.write)
        {
            return kept;
        }
        let folder = &shared.settings.folder;
        std::fs::create_dir_all(folder)?;
        let len = bytes.len().max(SEGMENT_BYTES);
        let fresh = open.insert(Open {
            segment: Segment::create(folder, len, reading, &shared.mapped)?,
            end: 0,
        });
        fresh
            .keep(bytes, shared.write)
            .unwrap_or_else(|| Err(ErrorKind::FileTooLarge.into()))
    }
}

impl Open {
    /// Keeps bytes if there is room for them.
    fn keep(&mut self, bytes: &[u8], write: WriteAt) -> Option<io::Result<Bytes>> {
        let start = self.end;
        let end = start.checked_add(bytes.len())?;
        if end > self.segment.len() {
            return None;
        }
        let kept = self.segment.keep(start, bytes, write);
        if kept.is_ok() {
            self.end = end;
        }
        Some(kept)
    }
}

impl PayloadTable for Keeper {
    #[inline]
    fn is_short(&self) -> bool {
        self.shared
            .as_ref()
            .is_some_and(|shared| (shared.heap_bytes)() > shared.settings.budget_bytes)
    }

    fn check(&mut self) -> Result<(), PayloadError> {
        if self.failed.load(Ordering::Relaxed) {
            self.keep(&Bytes::from_static(&[0; PROBE_BYTES]), Reading::InOrder)?;
        }
        Ok(())
    }

    fn keep(&mut self, bytes: &Bytes, reading: Reading) -> Result<Bytes, PayloadError> {
        let Some(shared) = &self.shared else {
            return Ok(bytes.clone());
        };
        if bytes.len() < KEPT_BYTES_MIN {
            return Ok(bytes.clone());
        }
        let kept = self.write(shared, bytes, reading);
        self.failed.store(kept.is_err(), Ordering::Relaxed);
        kept.map_err(|error| shared.explain(&error))
    }

    fn expect(&self, bytes: &[u8]) {
        if self.is_used()
            && let Some(shared) = &self.shared
        {
            shared.mapped.expect(bytes);
        }
    }
}

impl fmt::Debug for Keeper {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let overflow = Overflow(self.shared.clone());
        formatter.debug_tuple("Keeper").field(&overflow).finish()
    }
}

impl Shared {
    fn explain(&self, error: &io::Error) -> PayloadError {
        let folder = self.settings.folder.display();
        let hint = match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                "free space there, or start the server with --data-dir on a larger disk or a higher --memory-budget"
            }
            _ => {
                "see to the folder, or start the server with another --data-dir or a higher --memory-budget"
            }
        };
        PayloadError(format!(
            "memory is full up to its budget, and {folder} does not take more data: {error}; {hint}"
        ))
    }
}

/// A segment's size, unless a single payload is larger. It takes disk only for what is written.
const SEGMENT_BYTES: usize = 64 << 20;
/// What is smaller would save less memory than its slice takes.
const KEPT_BYTES_MIN: usize = 512;
/// What is written to see whether there is room again.
const PROBE_BYTES: usize = 64 << 10;
