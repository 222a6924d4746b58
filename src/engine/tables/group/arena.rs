//! Keys and values of many elements in few allocations.
//!
//! A record is `varint (key length × 2 + shared), varint value length, [timestamp], key, value`; a
//! [`Location`] says where it starts. A large value that is part of a buffer of its own is not
//! copied: its record has its number in the piece instead. Pieces never grow beyond their first
//! allocation, so that nothing is copied twice, and as soon as an arena is not small each piece
//! holds the keys of one hash range only, so that memory can be freed range by range.
//! Where memory is short, pieces are kept off the heap while others still fill.

use bytes::Bytes;

use crate::engine::tables::payload::{PayloadError, PayloadTable, Reading};
use crate::model::time::Timestamp;

/// How many hash ranges a large arena keeps apart.
pub const RANGES: usize = 1 << RANGE_BITS;

const RANGE_BITS: u32 = 4;
/// Bits of a hash below those of its range: they choose the part of the range that is read at a time.
pub const PART_BITS: u32 = 4;

/// The hash range of a key, below [`RANGES`].
pub const fn range_of(hash: u64) -> usize {
    (hash >> (u64::BITS - RANGE_BITS)) as usize
}

/// Where a record starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Location {
    /// Which piece of the arena.
    pub piece: u32,
    /// Where in the piece; below [`OFFSET_END`].
    pub offset: u32,
}

/// Records start below this offset of their piece.
pub const OFFSET_END: u32 = 1 << 20;

/// One element read back from its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    pub key: &'a [u8],
    pub value: &'a [u8],
    /// [`Timestamp::MIN`] when the arena keeps none.
    pub timestamp: Timestamp,
}

impl Record<'_> {
    /// What is read where nothing is.
    pub const EMPTY: Self = Self {
        key: &[],
        value: &[],
        timestamp: Timestamp::MIN,
    };
}

/// A full piece of an arena; clones share the memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    bytes: Bytes,
    shared: Vec<Bytes>,
    /// The one hash range whose keys are in it, if so.
    range: Option<u8>,
    with_timestamps: bool,
    /// The records are not on the heap.
    kept: bool,
    /// Only keys of a part of a range are in it, which are read together.
    narrow: bool,
}

impl Piece {
    /// All records, if they are not on the heap.
    pub(super) fn kept_bytes(&self) -> Option<&[u8]> {
        self.kept.then_some(&self.bytes[..])
    }

    /// What is to be read as a whole once a key of it is.
    pub fn read_together(&self) -> Option<&[u8]> {
        (self.kept && self.narrow).then_some(&self.bytes[..])
    }

    /// A value of a record of this piece, if it takes no memory to hold it.
    pub(super) fn kept_value(&self, value: &[u8]) -> Option<Bytes> {
        self.kept.then(|| self.bytes.slice_ref(value))
    }

    /// The one hash range whose keys are in this piece; `None` for any.
    pub fn range(&self) -> Option<usize> {
        self.range.map(usize::from)
    }

    /// Records have timestamps.
    pub fn has_timestamps(&self) -> bool {
        self.with_timestamps
    }

    /// Bytes of all records, without shared values.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The record at `offset`, which must come from a [`Location`] in this piece.
    #[inline]
    pub fn record(&self, offset: u32) -> Record<'_> {
        let mut bytes = &self.bytes[offset as usize..];
        let key_length_and_shared = read_length(&mut bytes);
        let value_length = read_length(&mut bytes);
        let mut timestamp = Timestamp::MIN;
        if self.with_timestamps
            && let Some((millis, rest)) = bytes.split_first_chunk()
        {
            timestamp = Timestamp::from_millis(i64::from_le_bytes(*millis));
            bytes = rest;
        }
        let (key, rest) = bytes.split_at(key_length_and_shared >> 1);
        let value = if key_length_and_shared & 1 == 0 {
            &rest[..value_length]
        } else {
            self.shared_value(rest)
        };
        Record {
            key,
            value,
            timestamp,
        }
    }

    fn shared_value(&self, number: &[u8]) -> &[u8] {
        match number.first_chunk() {
            Some(number) => &self.shared[u32::from_le_bytes(*number) as usize],
            None => &[],
        }
    }
}

/// Records being collected.
#[derive(Debug)]
pub struct Arena {
    with_timestamps: bool,
    pieces: Vec<Open>,
    /// The pieces that are on the heap.
    on_heap: Vec<u32>,
    piece_max: usize,
    /// The piece that takes the next record of each slot.
    current: Vec<Option<u32>>,
    /// The high bits of a hash that choose its slot: none while the arena is small, those of its range, or
    /// more where memory is short and the arena large, so that less needs to be read at a time.
    slot_bits: u32,
    bytes: usize,
}

#[derive(Debug)]
struct Open {
    bytes: Vec<u8>,
    /// Instead of `bytes`, once it is off the heap.
    kept: Option<Bytes>,
    shared: Vec<Bytes>,
    range: Option<u8>,
    narrow: bool,
}

impl Arena {
    pub fn new(with_timestamps: bool) -> Self {
        Self {
            with_timestamps,
            pieces: Vec::new(),
            on_heap: Vec::new(),
            piece_max: OFFSET_END as usize,
            current: vec![None],
            slot_bits: 0,
            bytes: 0,
        }
    }

    /// Adds a record with a copy of the value.
    #[inline]
    pub fn push(&mut self, hash: u64, timestamp: Timestamp, key: &[u8], value: &[u8]) -> Location {
        let lengths = (key.len() << 1, value.len());
        let size = self.head_size(lengths) + key.len() + value.len();
        let location = self.push_head(hash, timestamp, lengths, size);
        let bytes = &mut self.pieces[location.piece as usize].bytes;
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(value);
        debug_assert_eq!(
            bytes.len() - location.offset as usize,
            size,
            "a record is as long as foretold"
        );
        location
    }

    /// Adds a record that shares the value's memory.
    pub fn push_shared(
        &mut self,
        hash: u64,
        timestamp: Timestamp,
        key: &[u8],
        value: Bytes,
    ) -> Location {
        let lengths = (key.len() << 1 | 1, value.len());
        let size = self.head_size(lengths) + key.len() + size_of::<u32>();
        let location = self.push_head(hash, timestamp, lengths, size);
        let open = &mut self.pieces[location.piece as usize];
        open.bytes.extend_from_slice(key);
        open.bytes
            .extend_from_slice(&(open.shared.len() as u32).to_le_bytes());
        self.bytes += value.len();
        open.shared.push(value);
        location
    }

    /// Bytes of all records.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Keeps pieces of at least [`KEPT_PIECE_MIN`] off the heap; those that come from now on are small.
    ///
    /// # Errors
    ///
    /// When there is no room for one. No record is lost by that.
    pub fn keep(&mut self, payload: &mut impl PayloadTable) -> Result<(), PayloadError> {
        self.piece_max = SCARCE_PIECE_MAX;
        let (pieces, current) = (&mut self.pieces, &mut self.current);
        let mut result = Ok(());
        self.on_heap.retain(|&piece| {
            let open = &mut pieces[piece as usize];
            if open.bytes.len() < KEPT_PIECE_MIN || result.is_err() {
                return true;
            }
            let bytes = Bytes::from(std::mem::take(&mut open.bytes));
            for slot in current.iter_mut().filter(|slot| **slot == Some(piece)) {
                *slot = None;
            }
            match payload.keep(&bytes, Reading::Anywhere) {
                Ok(kept) => {
                    open.kept = Some(kept);
                    false
                }
                Err(error) => {
                    open.bytes = bytes.into();
                    result = Err(error);
                    true
                }
            }
        });
        result
    }

    /// Ends collecting; locations index the pieces returned.
    pub fn freeze(self) -> Vec<Piece> {
        let with_timestamps = self.with_timestamps;
        self.pieces
            .into_iter()
            .map(|mut open| {
                if open.bytes.capacity() - open.bytes.len() > open.bytes.len() / 8 {
                    open.bytes.shrink_to_fit();
                }
                Piece {
                    kept: open.kept.is_some(),
                    bytes: open.kept.unwrap_or_else(|| Bytes::from(open.bytes)),
                    shared: open.shared,
                    range: open.range,
                    with_timestamps,
                    narrow: open.narrow,
                }
            })
            .collect()
    }

    #[inline]
    fn push_head(
        &mut self,
        hash: u64,
        timestamp: Timestamp,
        lengths: (usize, usize),
        size: usize,
    ) -> Location {
        let piece = self.piece_for(hash, size);
        self.bytes += size;
        let bytes = &mut self.pieces[piece as usize].bytes;
        let offset = bytes.len() as u32;
        write_length(bytes, lengths.0);
        write_length(bytes, lengths.1);
        if self.with_timestamps {
            bytes.extend_from_slice(&timestamp.millis().to_le_bytes());
        }
        Location { piece, offset }
    }

    #[inline]
    fn head_size(&self, lengths: (usize, usize)) -> usize {
        let timestamp = if self.with_timestamps {
            size_of::<i64>()
        } else {
            0
        };
        length_size(lengths.0) + length_size(lengths.1) + timestamp
    }

    #[inline]
    fn piece_for(&mut self, hash: u64, size: usize) -> u32 {
        if let Some(piece) = self.current[self.slot_of(hash)] {
            let open = &self.pieces[piece as usize].bytes;
            if open.capacity() - open.len() >= size && open.len() < OFFSET_END as usize {
                return piece;
            }
        }
        self.open_piece(hash, size)
    }

    #[inline]
    fn slot_of(&self, hash: u64) -> usize {
        // In two steps, since no bits are left where the slot has none.
        (hash >> 1 >> (u64::BITS - 1 - self.slot_bits)) as usize
    }

    #[cold]
    fn open_piece(&mut self, hash: u64, size: usize) -> u32 {
        let scarce = self.piece_max < OFFSET_END as usize;
        let slot_bits = match self.bytes {
            ..=SPREAD_FROM => 0,
            SPREAD_WIDE_FROM.. if scarce => WIDE_BITS,
            _ => RANGE_BITS,
        };
        if slot_bits > self.slot_bits {
            self.slot_bits = slot_bits;
            self.current = vec![None; 1 << slot_bits];
        }
        // A piece is at most a quarter of what is there already: little is left empty, and pieces
        // are few.
        let room = if self.slot_bits > 0 {
            let room = self.bytes / self.current.len() / 4;
            room.clamp(RANGE_PIECE_MIN, self.piece_max)
        } else {
            self.bytes.clamp(PIECE_MIN, SPREAD_FROM)
        };
        let piece = self.pieces.len() as u32;
        self.on_heap.push(piece);
        self.pieces.push(Open {
            bytes: Vec::with_capacity(room.max(size)),
            kept: None,
            shared: Vec::new(),
            narrow: self.slot_bits == WIDE_BITS,
            range: (self.slot_bits > 0).then_some(range_of(hash) as u8),
        });
        let slot = self.slot_of(hash);
        self.current[slot] = Some(piece);
        piece
    }
}

#[inline]
fn read_length(bytes: &mut &[u8]) -> usize {
    let (mut length, mut shift) = (0, 0);
    while let Some((byte, rest)) = bytes.split_first() {
        *bytes = rest;
        length |= usize::from(byte & 0x7f) << shift;
        if *byte < 0x80 {
            break;
        }
        shift += 7;
    }
    length
}

#[inline]
fn write_length(out: &mut Vec<u8>, mut length: usize) {
    while length >= 0x80 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
}

#[inline]
const fn length_size(length: usize) -> usize {
    let bits = usize::BITS - (length | 1).leading_zeros();
    bits.div_ceil(7) as usize
}

/// Arenas above this many bytes keep hash ranges apart.
const SPREAD_FROM: usize = 64 << 10;
const PIECE_MIN: usize = 512;
const RANGE_PIECE_MIN: usize = 4 << 10;
const KEPT_PIECE_MIN: usize = 16 << 10;
/// Where memory is short: the largest pieces, and arenas that keep parts of ranges apart.
const SCARCE_PIECE_MAX: usize = 64 << 10;
const SPREAD_WIDE_FROM: usize = 16 << 20;
const WIDE_BITS: u32 = RANGE_BITS + PART_BITS;

#[cfg(test)]
mod tests {
    use super::*;

    fn check(with_timestamps: bool, value_of: impl Fn(usize) -> Vec<u8>) {
        let mut arena = Arena::new(with_timestamps);
        let hash_of = |n: usize| (n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let time_of = |n: usize| Timestamp::from_millis(-(n as i64));
        let locations: Vec<Location> = (0..400)
            .map(|n| {
                let (hash, key) = (hash_of(n), [n as u8; 3]);
                if n % 3 == 0 {
                    arena.push_shared(hash, time_of(n), &key, Bytes::from(value_of(n)))
                } else {
                    arena.push(hash, time_of(n), &key, &value_of(n))
                }
            })
            .collect();
        let pieces = arena.freeze();
        for (n, location) in locations.iter().enumerate() {
            let piece = &pieces[location.piece as usize];
            let record = piece.record(location.offset);
            assert_eq!(record.key, [n as u8; 3]);
            assert_eq!(record.value, value_of(n));
            let expected = if with_timestamps {
                time_of(n)
            } else {
                Timestamp::MIN
            };
            assert_eq!(record.timestamp, expected);
            assert!(
                piece
                    .range()
                    .is_none_or(|range| range == range_of(hash_of(n)))
            );
        }
        assert!(pieces.iter().any(|piece| piece.range().is_some()));
    }

    #[test]
    fn records_come_back() {
        check(false, |n| vec![n as u8; n * 7]);
        check(true, |n| vec![n as u8; n * 7]);
    }

    #[test]
    fn records_may_be_larger_than_pieces() {
        check(false, |n| {
            vec![n as u8; if n % 100 == 1 { 3 << 20 } else { 1_000 }]
        });
    }
}
