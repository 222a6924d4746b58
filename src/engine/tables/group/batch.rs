//! KV elements on their way from the bundle that produced them to a grouping stage.

use bytes::Bytes;
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

use crate::engine::tables::group::arena::{Arena, Piece, Record};
use crate::engine::tables::group::entries::{Entry, EntryList, WindowEntries};
use crate::engine::tables::payload::{PayloadError, PayloadTable};
use crate::model::time::Timestamp;
use crate::model::window::{Window, WindowFn};
use crate::model::windowing::{OutputTime, Trigger, WindowingStrategy};

/// How the elements of a grouping stage are kept, which follows from its windowing strategy alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Whole windows that fire once, at their end, for all keys: elements are kept per window.
    Windows,
    /// Anything else: a cell per key and window; elements are kept in the order in which they came.
    Cells,
}

impl Layout {
    /// The cheapest layout that gives the strategy's semantics.
    pub fn of(strategy: &WindowingStrategy) -> Self {
        let never_late = strategy.allowed_lateness == 0 || strategy.window_fn == WindowFn::Global;
        if never_late && !strategy.needs_merge && fires_at_end_only(&strategy.trigger) {
            Self::Windows
        } else {
            Self::Cells
        }
    }
}

/// Elements of one producing bundle for one lane's share of one grouping stage.
///
/// Invariant: `min_timestamp` is the lowest of all elements, [`Timestamp::MAX`] when there are
/// none.
#[derive(Debug)]
pub struct KeyedBatch {
    layout: Layout,
    arena: Arena,
    runs: Vec<OpenRun>,
    /// Which run a window has, once there are too many to look through.
    run_of: HashMap<Window, u32, FxBuildHasher>,
    /// The run of the element before.
    last_run: usize,
    entries: EntryList,
    min_timestamp: Timestamp,
    count: usize,
    /// Some element is in more than one window.
    overlapping: bool,
}

/// An element with all that is known of it.
#[derive(Clone, Copy, Debug)]
pub struct Incoming<'a> {
    pub windows: &'a [Window],
    pub timestamp: Timestamp,
    /// [`crate::coder::key_hash`] of the key.
    pub hash: u64,
    pub key: &'a [u8],
    pub value: &'a [u8],
}

#[derive(Debug)]
struct OpenRun {
    window: Window,
    /// [`Layout::Windows`]: the window's elements.
    entries: WindowEntries,
    /// [`Layout::Cells`]: how many of the batch's elements, from the last run's on, are this
    /// window's.
    count: u32,
    min_timestamp: Timestamp,
}

impl KeyedBatch {
    /// An empty batch for a stage with this strategy.
    pub fn new(strategy: &WindowingStrategy) -> Self {
        Self {
            layout: Layout::of(strategy),
            arena: Arena::new(strategy.output_time != OutputTime::EndOfWindow),
            runs: Vec::new(),
            run_of: HashMap::default(),
            last_run: 0,
            entries: EntryList::default(),
            min_timestamp: Timestamp::MAX,
            count: 0,
            overlapping: false,
        }
    }

    /// Adds an element; `hash` is [`crate::coder::key_hash`] of `key`. The payload is kept once for
    /// all windows.
    pub fn push(
        &mut self,
        windows: &[Window],
        timestamp: Timestamp,
        hash: u64,
        key: &[u8],
        value: &[u8],
    ) {
        if !windows.is_empty() {
            let location = self.arena.push(hash, timestamp, key, value);
            self.enter(windows, timestamp, Entry { hash, location });
        }
    }

    /// Adds an element whose value is part of `buffer`. A large one is not copied, but keeps the
    /// buffer.
    pub fn push_from(&mut self, buffer: &Bytes, element: &Incoming<'_>) {
        let Incoming {
            windows,
            timestamp,
            hash,
            key,
            value,
        } = *element;
        if windows.is_empty() {
            return;
        }
        let location = if value.len() < SHARED_FROM {
            self.arena.push(hash, timestamp, key, value)
        } else {
            let value = buffer.slice_ref(value);
            self.arena.push_shared(hash, timestamp, key, value)
        };
        self.enter(windows, timestamp, Entry { hash, location });
    }

    /// Keeps records off the heap, unless the table will copy them together with others.
    ///
    /// # Errors
    ///
    /// When there is no room for some. No element is lost by that.
    pub fn keep(&mut self, payload: &mut impl PayloadTable) -> Result<(), PayloadError> {
        let joined = self.layout == Layout::Windows && !self.overlapping;
        if joined && is_copied_if_short(self.arena.bytes(), self.count) {
            return Ok(());
        }
        self.arena.keep(payload)
    }

    /// Elements, each counted once per window.
    pub fn len(&self) -> usize {
        self.count
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// About how much memory the batch holds.
    pub fn bytes(&self) -> usize {
        self.arena.bytes() + self.count * size_of::<u64>()
    }

    /// The lowest timestamp of all elements; [`Timestamp::MAX`] when there are none.
    pub fn min_timestamp(&self) -> Timestamp {
        self.min_timestamp
    }

    /// The layout the batch was made for.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// The elements of a batch of [`Layout::Windows`], by window in the order of first appearance.
    pub fn into_windows(self) -> Vec<WindowRun> {
        debug_assert_eq!(self.layout, Layout::Windows, "the batch is kept per window");
        let pieces = self.arena.freeze();
        let (alone, overlapping) = (self.runs.len() == 1, self.overlapping);
        self.runs
            .into_iter()
            .map(|run| WindowRun {
                pieces: pieces_of(&pieces, &run.entries, alone),
                window: run.window,
                entries: run.entries,
                min_timestamp: run.min_timestamp,
                overlapping,
            })
            .collect()
    }

    /// The elements of a batch of [`Layout::Cells`], in the order in which they came.
    pub fn into_elements(self) -> Elements {
        debug_assert_eq!(self.layout, Layout::Cells, "the batch is kept in order");
        Elements {
            pieces: self.arena.freeze(),
            entries: self.entries,
            runs: self
                .runs
                .into_iter()
                .map(|run| (run.window, run.count))
                .collect(),
        }
    }

    fn enter(&mut self, windows: &[Window], timestamp: Timestamp, entry: Entry) {
        self.min_timestamp = self.min_timestamp.min(timestamp);
        self.count += windows.len();
        self.overlapping |= windows.len() > 1;
        for window in windows {
            match self.layout {
                Layout::Windows => {
                    let run = self.run(window);
                    run.min_timestamp = run.min_timestamp.min(timestamp);
                    run.entries.push(entry);
                }
                Layout::Cells => {
                    let run = self.next_run(window);
                    run.min_timestamp = run.min_timestamp.min(timestamp);
                    run.count += 1;
                    self.entries.push(entry);
                }
            }
        }
    }

    fn run(&mut self, window: &Window) -> &mut OpenRun {
        let known = match self.runs.get(self.last_run) {
            Some(last) if last.window == *window => Some(self.last_run),
            _ if self.runs.len() <= RUNS_LOOKED_THROUGH => {
                self.runs.iter().position(|run| run.window == *window)
            }
            _ => self.run_of.get(window).map(|&index| index as usize),
        };
        self.last_run = known.unwrap_or_else(|| self.add_run(window));
        &mut self.runs[self.last_run]
    }

    fn next_run(&mut self, window: &Window) -> &mut OpenRun {
        if self.runs.last().is_none_or(|last| last.window != *window) {
            self.push_run(window);
        }
        let last = self.runs.len() - 1;
        &mut self.runs[last]
    }

    fn add_run(&mut self, window: &Window) -> usize {
        self.push_run(window);
        if self.runs.len() > RUNS_LOOKED_THROUGH {
            let unlisted = self.run_of.len()..self.runs.len();
            for index in unlisted {
                self.run_of
                    .insert(self.runs[index].window.clone(), index as u32);
            }
        }
        self.runs.len() - 1
    }

    fn push_run(&mut self, window: &Window) {
        self.runs.push(OpenRun {
            window: window.clone(),
            entries: WindowEntries::default(),
            count: 0,
            min_timestamp: Timestamp::MAX,
        });
    }
}

/// The elements of one window in one batch.
#[derive(Debug)]
pub struct WindowRun {
    pub window: Window,
    /// The batch's pieces; those without an element of this window are left out.
    pub pieces: Vec<Option<Piece>>,
    pub entries: WindowEntries,
    pub min_timestamp: Timestamp,
    /// Other windows share elements with this one.
    pub overlapping: bool,
}

impl WindowRun {
    /// The lowest timestamp that is not below `floor`, if the batch keeps timestamps.
    pub fn min_timestamp_from(&self, floor: Timestamp) -> Option<Timestamp> {
        if self.min_timestamp >= floor {
            return Some(self.min_timestamp);
        }
        let timestamps = self.records().map(|record| record.timestamp);
        timestamps.filter(|timestamp| *timestamp >= floor).min()
    }

    /// Bytes of all keys and values.
    pub fn payload_bytes(&self) -> usize {
        let sizes = self
            .records()
            .map(|record| record.key.len() + record.value.len());
        sizes.sum()
    }

    fn records(&self) -> impl Iterator<Item = Record<'_>> {
        self.entries.locations().filter_map(|location| {
            let piece = self.pieces.get(location.piece as usize)?.as_ref()?;
            Some(piece.record(location.offset))
        })
    }
}

/// The elements of one batch, in order.
#[derive(Debug)]
pub struct Elements {
    pieces: Vec<Piece>,
    entries: EntryList,
    runs: Vec<(Window, u32)>,
}

/// One element of [`Elements`].
#[derive(Clone, Copy, Debug)]
pub struct Element<'a> {
    pub window: &'a Window,
    pub hash: u64,
    pub key: &'a [u8],
    pub value: &'a [u8],
    /// [`Timestamp::MIN`] when the strategy does not need timestamps.
    pub timestamp: Timestamp,
    piece: &'a Piece,
}

impl Element<'_> {
    /// The value, if it is not worth a copy: it is long, and takes no memory where it is.
    pub fn kept_value(&self) -> Option<Bytes> {
        if self.value.len() < KEPT_FROM {
            return None;
        }
        self.piece.kept_value(self.value)
    }
}

impl Elements {
    /// All elements, once per window.
    pub fn iter(&self) -> impl Iterator<Item = Element<'_>> {
        let windows = self
            .runs
            .iter()
            .flat_map(|(window, count)| std::iter::repeat_n(window, *count as usize));
        self.entries.iter().zip(windows).map(|(entry, window)| {
            let piece = &self.pieces[entry.location.piece as usize];
            let record = piece.record(entry.location.offset);
            Element {
                window,
                hash: entry.hash,
                key: record.key,
                value: record.value,
                timestamp: record.timestamp,
                piece,
            }
        })
    }
}

/// Whether so many elements of so many bytes are copied together with others where memory is short. Then what is read
/// at a time, which is what belongs to few keys, lies close together on disk.
pub const fn is_copied_if_short(bytes: usize, count: usize) -> bool {
    bytes < LARGE && bytes < count * LARGE_VALUE
}

/// Whether a strategy without lateness fires each window once, with all it got, when the window
/// ends.
fn fires_at_end_only(trigger: &Trigger) -> bool {
    match trigger {
        Trigger::Default | Trigger::Never => true,
        Trigger::AfterEndOfWindow { early, .. } => early
            .as_deref()
            .is_none_or(|early| *early == Trigger::Never),
        Trigger::Repeat(repeated) => fires_at_end_only(repeated),
        Trigger::Always
        | Trigger::ElementCount(_)
        | Trigger::AfterProcessingTime(_)
        | Trigger::AfterSynchronizedProcessingTime
        | Trigger::AfterAll(_)
        | Trigger::AfterAny(_)
        | Trigger::AfterEach(_)
        | Trigger::OrFinally { .. } => false,
    }
}

fn pieces_of(pieces: &[Piece], entries: &WindowEntries, alone: bool) -> Vec<Option<Piece>> {
    if alone {
        return pieces.iter().cloned().map(Some).collect();
    }
    let mut used = vec![None; pieces.len()];
    for location in entries.locations() {
        let piece = location.piece as usize;
        if used[piece].is_none() {
            used[piece] = Some(pieces[piece].clone());
        }
    }
    used
}

const RUNS_LOOKED_THROUGH: usize = 4;
/// Batches this large keep their elements apart as well as a table does.
const LARGE: usize = 16 << 20;
/// Elements this large lie close together wherever they are.
const LARGE_VALUE: usize = 4 << 10;
/// Values at least this long are not copied, where they need not be.
const SHARED_FROM: usize = 1 << 10;
/// Values off the heap that are at least this long are not copied back.
const KEPT_FROM: usize = 256;
