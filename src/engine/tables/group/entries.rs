//! Lists of elements: where their records are, with as much of their keys' hashes as is needed.

use crate::engine::tables::group::arena::{Location, OFFSET_END, PART_BITS, RANGES, range_of};

/// Where one element is, with its key's hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub hash: u64,
    pub location: Location,
}

/// The elements of one window: a plain list while they are few, then one per hash range that takes
/// eight bytes for each.
#[derive(Debug, Default)]
pub struct WindowEntries {
    few: Vec<Entry>,
    ranges: RangeLists,
    count: usize,
}

/// A list of elements per hash range; empty, or [`RANGES`] long.
#[derive(Debug, Default)]
pub struct RangeLists(Vec<RangeList>);

/// Elements whose keys' hashes are in one range, in the order in which they came.
#[derive(Debug, Default)]
pub struct RangeList {
    blocks: Vec<Block>,
    count: usize,
}

/// Elements packed into the hash's bits below the range's, and the location from `first_piece` on.
#[derive(Debug)]
struct Block {
    first_piece: u32,
    packed: Vec<u64>,
}

/// An element of a range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RangeEntry {
    /// 32 bits of the hash, below those that choose the range.
    pub hash: u32,
    pub piece: u32,
    pub offset: u32,
}

impl RangeEntry {
    /// The part of the range that is read at a time, where not all is in memory.
    pub fn part(&self) -> u32 {
        self.hash >> (u32::BITS - PART_BITS)
    }

    pub fn location(&self) -> Location {
        Location {
            piece: self.piece,
            offset: self.offset,
        }
    }
}

impl WindowEntries {
    pub fn len(&self) -> usize {
        self.count
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The elements, in the order in which they came, while they are few.
    pub fn few(&self) -> Option<&[Entry]> {
        self.ranges.0.is_empty().then_some(&self.few)
    }

    /// All locations, in no order.
    pub fn locations(&self) -> impl Iterator<Item = Location> {
        self.iter().map(|entry| entry.location)
    }

    /// All elements, with as much of the hash as entries keep; those of a key in the order in which they came.
    pub fn iter(&self) -> impl Iterator<Item = Entry> {
        let ranges = (0..).zip(&self.ranges.0).flat_map(|(range, list)| {
            list.iter().map(move |entry| Entry {
                hash: range << RANGE_SHIFT | u64::from(entry.hash) << HASH_SHIFT,
                location: Location {
                    piece: entry.piece,
                    offset: entry.offset,
                },
            })
        });
        self.few.iter().copied().chain(ranges)
    }

    #[inline]
    pub fn push(&mut self, entry: Entry) {
        self.count += 1;
        if let Some(range) = self.ranges.0.get_mut(range_of(entry.hash)) {
            range.push(entry.hash, entry.location);
        } else {
            self.few.push(entry);
            if self.few.len() >= FEW {
                let few = std::mem::take(&mut self.few);
                few.iter().for_each(|entry| self.ranges.push(entry));
            }
        }
    }
}

impl RangeLists {
    /// Appends all elements of a window, whose pieces are numbered from `first_piece` on here.
    pub fn append(&mut self, entries: WindowEntries, first_piece: u32) {
        for entry in &entries.few {
            self.push(&Entry {
                hash: entry.hash,
                location: Location {
                    piece: entry.location.piece + first_piece,
                    offset: entry.location.offset,
                },
            });
        }
        if !entries.ranges.0.is_empty() {
            self.open();
            for (list, more) in self.0.iter_mut().zip(entries.ranges.0) {
                list.append(more, first_piece);
            }
        }
    }

    pub fn len(&self) -> usize {
        self.0.iter().map(|list| list.count).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn iter(&self) -> impl Iterator<Item = RangeEntry> {
        self.0.iter().flat_map(RangeList::iter)
    }

    pub fn is_empty_in(&self, range: usize) -> bool {
        self.0.get(range).is_none_or(RangeList::is_empty)
    }

    /// Takes the list of one range out.
    pub fn take(&mut self, range: usize) -> RangeList {
        self.0
            .get_mut(range)
            .map(std::mem::take)
            .unwrap_or_default()
    }

    fn open(&mut self) {
        self.0.resize_with(RANGES, RangeList::default);
    }

    fn push(&mut self, entry: &Entry) {
        self.open();
        self.0[range_of(entry.hash)].push(entry.hash, entry.location);
    }
}

impl RangeList {
    pub fn len(&self) -> usize {
        self.count
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub fn iter(&self) -> impl Iterator<Item = RangeEntry> {
        self.blocks.iter().flat_map(Block::iter)
    }

    /// The elements of one part of the range.
    pub fn part(&self, number: u32) -> Self {
        let mut part = Self::default();
        for entry in self.iter().filter(|entry| entry.part() == number) {
            part.push(u64::from(entry.hash) << HASH_SHIFT, entry.location());
        }
        part
    }

    #[inline]
    fn push(&mut self, hash: u64, location: Location) {
        self.count += 1;
        if let Some(block) = self.blocks.last_mut()
            && block.packed.len() < block.packed.capacity()
            && let Some(packed) = block.pack(hash, location)
        {
            block.packed.push(packed);
        } else {
            self.push_block(hash, location);
        }
    }

    #[cold]
    fn push_block(&mut self, hash: u64, location: Location) {
        let mut block = Block {
            first_piece: location.piece,
            packed: Vec::with_capacity((self.count / 4).clamp(BLOCK_MIN, BLOCK_MAX)),
        };
        block.packed.extend(block.pack(hash, location));
        debug_assert_eq!(block.packed.len(), 1, "a block takes its own first piece");
        self.blocks.push(block);
    }

    fn append(&mut self, more: Self, first_piece: u32) {
        self.count += more.count;
        self.blocks
            .extend(more.blocks.into_iter().map(|block| Block {
                first_piece: block.first_piece + first_piece,
                packed: block.packed,
            }));
    }
}

impl Block {
    /// The element, if its piece is among those the block can name.
    #[inline]
    fn pack(&self, hash: u64, location: Location) -> Option<u64> {
        let piece = location.piece.checked_sub(self.first_piece)?;
        debug_assert!(
            location.offset < OFFSET_END,
            "records start early in a piece"
        );
        (piece < PIECES).then(|| {
            let hash = (hash >> HASH_SHIFT) & u64::from(u32::MAX);
            hash << 32 | u64::from(piece * OFFSET_END + location.offset)
        })
    }

    fn iter(&self) -> impl Iterator<Item = RangeEntry> {
        self.packed.iter().map(|packed| RangeEntry {
            hash: (packed >> 32) as u32,
            piece: self.first_piece + *packed as u32 / OFFSET_END,
            offset: *packed as u32 % OFFSET_END,
        })
    }
}

/// Entries in blocks, in order, so that a long list is not copied to grow.
#[derive(Debug, Default)]
pub(super) struct EntryList {
    blocks: Vec<Vec<Entry>>,
    count: usize,
}

impl EntryList {
    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.blocks.iter().flatten()
    }

    #[inline]
    pub(super) fn push(&mut self, entry: Entry) {
        match self.blocks.last_mut() {
            Some(block) if block.len() < block.capacity() => block.push(entry),
            _ => {
                let capacity = self.count.clamp(BLOCK_MIN, BLOCK_MAX);
                let mut block = Vec::with_capacity(capacity);
                block.push(entry);
                self.blocks.push(block);
            }
        }
        self.count += 1;
    }
}

/// Where a hash's range begins, and the bits below it that entries keep.
const RANGE_SHIFT: u32 = 60;
const HASH_SHIFT: u32 = RANGE_SHIFT - u32::BITS;
/// Pieces that a block can name.
const PIECES: u32 = u32::MAX / OFFSET_END + 1;
/// Up to so many elements are one list.
const FEW: usize = 4 << 10;
const BLOCK_MIN: usize = 16;
const BLOCK_MAX: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_back_in_order() {
        let hash = |n: u32| u64::from(n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let location = |n: u32| Location {
            piece: n * 50,
            offset: n % OFFSET_END,
        };
        for count in [1, FEW as u32 - 1, FEW as u32, 5_000] {
            let mut lists = RangeLists::default();
            for part in 0..3 {
                let mut entries = WindowEntries::default();
                for n in 0..count {
                    let location = location(n);
                    entries.push(Entry {
                        hash: hash(n),
                        location,
                    });
                }
                assert_eq!(entries.len(), count as usize);
                assert_eq!(entries.locations().count(), count as usize);
                lists.append(entries, part * 7);
            }
            assert_eq!(lists.len(), 3 * count as usize);
            for range in 0..RANGES {
                let expected: Vec<RangeEntry> = (0..3)
                    .flat_map(|part| (0..count).map(move |n| (part, n)))
                    .filter(|(_, n)| range_of(hash(*n)) == range)
                    .map(|(part, n)| RangeEntry {
                        hash: (hash(n) >> 28) as u32,
                        piece: location(n).piece + part * 7,
                        offset: location(n).offset,
                    })
                    .collect();
                let found: Vec<RangeEntry> = lists.take(range).iter().collect();
                assert_eq!(found, expected);
            }
        }
    }
}
