//! The elements of one window: as they came, until the window is read.

use crate::engine::tables::PayloadTable;
use crate::engine::tables::group::{
    Arena, BackedValues, Drained, Entry, GroupSink, Location, PART_BITS, Piece, RANGES, RangeEntry,
    RangeList, RangeLists, Record, WindowContents, WindowEntries, WindowRun, is_copied_if_short,
};
use crate::model::time::Timestamp;
use crate::store::memory::group::range_reader::RangeReader;
use crate::store::overflow::Keeper;

/// A window that collects, and is then drained one hash range after the other.
#[derive(Debug, Default)]
pub(super) struct WindowBuffer {
    small: Small,
    pieces: Pieces,
    entries: RangeLists,
    /// The hash range that is being read.
    reader: Option<RangeReader>,
    /// The next hash range to be read.
    range: usize,
    /// What is left of that range, where it is read part by part.
    parts: Option<Parts>,
    /// How many keys the last range, or part of one, had.
    keys_of_range: usize,
}

/// A hash range whose parts are read one after the other.
#[derive(Debug)]
struct Parts {
    list: RangeList,
    /// The next part to be read.
    next: u32,
}

impl Parts {
    fn rest(&self) -> impl Iterator<Item = RangeEntry> {
        self.list.iter().filter(|entry| entry.part() >= self.next)
    }
}

/// All arena pieces; those that nothing points into any more are gone.
#[derive(Debug, Default)]
pub(super) struct Pieces(Vec<Option<FlooredPiece>>);

/// A piece with what its elements' timestamps must reach to count.
#[derive(Debug)]
struct FlooredPiece {
    piece: Piece,
    floor: Timestamp,
}

/// The small elements of small batches, and those of most batches where memory is short: copied together, as
/// reading them where they are would take longer.
#[derive(Debug, Default)]
struct Small {
    arena: Option<Arena>,
    entries: WindowEntries,
}

impl WindowBuffer {
    /// Adds elements. What comes while the window is being read is read in another round.
    pub(super) fn append(&mut self, run: WindowRun, floor: Timestamp) {
        if let Some(entries) = run.entries.few()
            && !run.overlapping
            && are_small(&run.pieces, entries)
        {
            self.small.append(&run.pieces, &run.entries, floor);
        } else {
            self.append_pieces(run.pieces, run.entries, floor);
        }
    }

    /// Adds elements, which go off the heap as far as there is room; they have been committed, and stay there else.
    pub(super) fn append_off_heap(
        &mut self,
        run: WindowRun,
        floor: Timestamp,
        payload: &mut Keeper,
    ) {
        if is_copied_if_short(bytes_of(&run.pieces), run.entries.len()) && !run.overlapping {
            self.small.append(&run.pieces, &run.entries, floor);
        } else {
            self.append_pieces(run.pieces, run.entries, floor);
        }
        if let Some(arena) = &mut self.small.arena
            && let Err(error) = arena.keep(payload)
        {
            tracing::debug!(%error, "elements of a group stay in memory");
        }
    }

    pub(super) fn drain(&mut self, sink: &mut impl GroupSink, payload: &Keeper) -> Drained {
        self.seal();
        loop {
            if let Some(reader) = &mut self.reader {
                if reader.read(&self.pieces, sink, payload).is_break() {
                    let more =
                        !reader.is_done() || self.parts.is_some() || !self.entries.is_empty();
                    return if more {
                        Drained::Partly
                    } else {
                        Drained::Whole
                    };
                }
                let done = reader.range();
                self.keys_of_range = reader.groups();
                self.reader = None;
                if self.parts.is_none() && self.entries.is_empty_in(done) {
                    self.pieces.free(done);
                }
            }
            self.reader = self.next_reader(sink, payload);
            if self.reader.is_none() {
                return Drained::Whole;
            }
        }
    }

    /// A reader of the next range, or of a part of it where not all is on the heap.
    fn next_reader(&mut self, sink: &impl GroupSink, payload: &Keeper) -> Option<RangeReader> {
        if self.parts.is_none() {
            if self.range == RANGES {
                if self.entries.is_empty() {
                    return None;
                }
                self.range = 0;
            }
            let list = self.entries.take(self.range);
            self.range += 1;
            if !payload.is_used() {
                return Some(self.reader_of(&list, sink));
            }
            self.parts = Some(Parts { list, next: 0 });
        }
        let parts = self.parts.as_mut()?;
        let list = parts.list.part(parts.next);
        parts.next += 1;
        if parts.next == 1 << PART_BITS {
            self.parts = None;
        }
        self.pieces.expect(&list, payload);
        Some(self.reader_of(&list, sink))
    }

    fn reader_of(&self, list: &RangeList, sink: &impl GroupSink) -> RangeReader {
        let range = self.range - 1;
        RangeReader::new(range, list, &self.pieces, sink, self.keys_of_range)
    }

    pub(super) fn contents(&mut self) -> WindowContents {
        self.seal();
        let mut contents = WindowContents::default();
        if let Some(reader) = &self.reader {
            reader.add_to(&self.pieces, &mut contents);
        }
        let parts = self.parts.iter().flat_map(Parts::rest);
        for entry in parts.chain(self.entries.iter()) {
            let (record, counts) = self.pieces.read(entry.piece, entry.offset);
            contents.add(1, record.key.len() + record.value.len());
            if counts {
                contents.see(record.timestamp);
            }
        }
        contents
    }

    /// Makes pieces of the small elements.
    fn seal(&mut self) {
        let Small { arena, entries } = std::mem::take(&mut self.small);
        if let Some(arena) = arena {
            let pieces = arena.freeze().into_iter().map(Some).collect();
            self.append_pieces(pieces, entries, SMALL_FLOOR);
        }
    }

    fn append_pieces(
        &mut self,
        pieces: Vec<Option<Piece>>,
        entries: WindowEntries,
        floor: Timestamp,
    ) {
        let first_piece = self.pieces.0.len() as u32;
        let floored = |piece| FlooredPiece { piece, floor };
        self.pieces
            .0
            .extend(pieces.into_iter().map(|piece| piece.map(floored)));
        self.entries.append(entries, first_piece);
    }
}

impl Small {
    fn append(&mut self, pieces: &[Option<Piece>], entries: &WindowEntries, floor: Timestamp) {
        for entry in entries.iter() {
            let Some(piece) = &pieces[entry.location.piece as usize] else {
                continue;
            };
            let record = piece.record(entry.location.offset);
            let counts = record.timestamp >= floor;
            let timestamp = if counts {
                record.timestamp
            } else {
                Timestamp::MIN
            };
            let arena = self
                .arena
                .get_or_insert_with(|| Arena::new(piece.has_timestamps()));
            let location = arena.push(entry.hash, timestamp, record.key, record.value);
            let hash = entry.hash;
            self.entries.push(Entry { hash, location });
        }
    }
}

fn are_small(pieces: &[Option<Piece>], entries: &[Entry]) -> bool {
    bytes_of(pieces) / entries.len().max(1) < SMALL
}

fn bytes_of(pieces: &[Option<Piece>]) -> usize {
    pieces.iter().flatten().map(Piece::len).sum()
}

impl Pieces {
    /// These elements will be read soon, and with them what else is in their pieces.
    fn expect(&self, list: &RangeList, payload: &Keeper) {
        let mut numbers: Vec<u32> = list.iter().map(|entry| entry.piece).collect();
        numbers.sort_unstable();
        numbers.dedup();
        for number in numbers {
            let piece = self.0[number as usize].as_ref();
            if let Some(bytes) = piece.and_then(|floored| floored.piece.read_together()) {
                payload.expect(bytes);
            }
        }
    }

    /// The element there, and whether its timestamp counts.
    #[inline]
    pub(super) fn read(&self, piece: u32, offset: u32) -> (Record<'_>, bool) {
        let piece = self.0[piece as usize].as_ref();
        debug_assert!(piece.is_some(), "a piece stays while entries point into it");
        match piece {
            Some(floored) => {
                let record = floored.piece.record(offset);
                let counts = floored.piece.has_timestamps() && record.timestamp >= floored.floor;
                (record, counts)
            }
            None => (Record::EMPTY, false),
        }
    }

    /// The values there, which stay as long as somebody has them, and with them all of their pieces.
    pub(super) fn back(&self, found: &[Location]) -> BackedValues {
        let mut pieces = Vec::new();
        let mut number_of = vec![None; self.0.len()];
        let mut locations = Vec::with_capacity(found.len());
        for location in found {
            let Some(floored) = &self.0[location.piece as usize] else {
                debug_assert!(false, "a piece stays while entries point into it");
                continue;
            };
            let piece = *number_of[location.piece as usize].get_or_insert_with(|| {
                pieces.push(floored.piece.clone());
                pieces.len() as u32 - 1
            });
            locations.push(Location {
                piece,
                offset: location.offset,
            });
        }
        BackedValues::of_records(pieces, locations)
    }

    /// Frees what holds nothing but a range that has been read.
    fn free(&mut self, range: usize) {
        for piece in &mut self.0 {
            if piece
                .as_ref()
                .is_some_and(|piece| piece.piece.range() == Some(range))
            {
                *piece = None;
            }
        }
    }
}

/// Elements below this size on average are copied together.
const SMALL: usize = 256;
/// Timestamps that do not count are the lowest there is, once copied.
const SMALL_FLOOR: Timestamp = Timestamp::MIN.plus(1);
