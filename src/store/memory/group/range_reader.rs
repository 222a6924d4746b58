//! Groups the elements of one hash range by key, in the order of their hashes and so of their
//! shards.

use std::ops::ControlFlow;

use crate::engine::tables::group::{GroupHead, GroupSink, RangeEntry, RangeList};
use crate::model::time::Timestamp;
use crate::store::memory::group::window_buffer::Pieces;

/// A hash range being read.
///
/// Invariant: entries are sorted by hash, those of a key in the order in which they came; those
/// before `position` are done.
#[derive(Debug)]
pub(super) struct RangeReader {
    range: usize,
    entries: Vec<RangeEntry>,
    position: usize,
}

impl RangeReader {
    pub(super) fn new(range: usize, list: RangeList) -> Self {
        let mut entries = Vec::new();
        list.unpack_to(&mut entries);
        Self {
            range,
            entries: sort_by_hash(entries),
            position: 0,
        }
    }

    pub(super) fn range(&self) -> usize {
        self.range
    }

    pub(super) fn unread(&self) -> &[RangeEntry] {
        &self.entries[self.position..]
    }

    /// Hands groups on until the sink breaks or the range is at its end.
    pub(super) fn read(&mut self, pieces: &Pieces, sink: &mut impl GroupSink) -> ControlFlow<()> {
        while self.position < self.entries.len() {
            let rest = &mut self.entries[self.position..];
            let group = match Group::first(pieces, rest) {
                Ok(group) => group,
                Err(colliding) => {
                    gather_first_key(pieces, &mut rest[..colliding]);
                    Group::first(pieces, rest).unwrap_or_else(|_| Group::single(pieces, &rest[0]))
                }
            };
            let count = group.head.count;
            if sink.backs(&group.head) {
                let values = pieces.back(&rest[..count]);
                self.position += count;
                sink.back(group.head, values)?;
                continue;
            }
            sink.begin(group.head);
            for entry in &rest[..count] {
                sink.value(pieces.read(entry.piece, entry.offset).0.value);
            }
            self.position += count;
            sink.end()?;
        }
        ControlFlow::Continue(())
    }
}

/// The elements of one key at the front of a list.
struct Group<'a> {
    head: GroupHead<'a>,
}

impl<'a> Group<'a> {
    /// The group of the first entry. If another key with the same hash stands between its elements,
    /// an error with the number of all elements that have the hash.
    fn first(pieces: &'a Pieces, entries: &[RangeEntry]) -> Result<Self, usize> {
        let hash = entries[0].hash;
        let mut group = Self::single(pieces, &entries[0]);
        let mut same_hash = entries[1..].iter().take_while(|entry| entry.hash == hash);
        while let Some(entry) = same_hash.next() {
            if group.add(pieces, entry).is_none() {
                // A collision. It does no harm where the other key's elements come after all of
                // this one's.
                let key = group.head.key;
                let mut others = 1;
                let mut mixed = false;
                for entry in same_hash {
                    others += 1;
                    mixed |= pieces.read(entry.piece, entry.offset).0.key == key;
                }
                return if mixed {
                    Err(group.head.count + others)
                } else {
                    Ok(group)
                };
            }
        }
        Ok(group)
    }

    fn single(pieces: &'a Pieces, entry: &RangeEntry) -> Self {
        let (record, counts) = pieces.read(entry.piece, entry.offset);
        Self {
            head: GroupHead {
                key: record.key,
                count: 1,
                value_bytes: record.value.len(),
                timestamps: counts.then_some((record.timestamp, record.timestamp)),
            },
        }
    }

    /// Adds an element, if its key is the group's.
    #[inline]
    fn add(&mut self, pieces: &Pieces, entry: &RangeEntry) -> Option<()> {
        let (record, counts) = pieces.read(entry.piece, entry.offset);
        if record.key != self.head.key {
            return None;
        }
        self.head.count += 1;
        self.head.value_bytes += record.value.len();
        if counts {
            let time = record.timestamp;
            let (lowest, highest) = self.head.timestamps.unwrap_or((Timestamp::MAX, time));
            self.head.timestamps = Some((lowest.min(time), highest.max(time)));
        }
        Some(())
    }
}

/// Moves the elements that have the first one's key to the front, in order.
fn gather_first_key(pieces: &Pieces, colliding: &mut [RangeEntry]) {
    let key_of = |entry: &RangeEntry| pieces.read(entry.piece, entry.offset).0.key;
    let key = key_of(&colliding[0]);
    let (group, rest): (Vec<RangeEntry>, Vec<RangeEntry>) =
        colliding.iter().partition(|entry| key_of(entry) == key);
    for (slot, entry) in colliding.iter_mut().zip(group.iter().chain(&rest)) {
        *slot = *entry;
    }
}

/// Sorts stably: spreads entries over buckets by the hash's leading bits, about so many that each
/// key has its own.
fn sort_by_hash(entries: Vec<RangeEntry>) -> Vec<RangeEntry> {
    let by_hash = |entry: &RangeEntry| entry.hash;
    let log = entries.len().checked_ilog2().unwrap_or(0);
    let bits = log.saturating_sub(2).min(BUCKET_BITS_MAX);
    if bits < BUCKET_BITS_MIN {
        let mut entries = entries;
        entries.sort_by_key(by_hash);
        return entries;
    }
    let bucket_of = |entry: &RangeEntry| (entry.hash >> (u32::BITS - bits)) as usize;
    let mut ends = vec![0_u32; 1 << bits];
    for entry in &entries {
        ends[bucket_of(entry)] += 1;
    }
    let mut start = 0;
    for end in &mut ends {
        start += std::mem::replace(end, start);
    }
    let mut sorted = vec![RangeEntry::default(); entries.len()];
    for entry in &entries {
        let end = &mut ends[bucket_of(entry)];
        sorted[*end as usize] = *entry;
        *end += 1;
    }
    let mut start = 0;
    for end in ends {
        let bucket = &mut sorted[start..end as usize];
        if !bucket.is_sorted_by_key(by_hash) {
            bucket.sort_by_key(by_hash);
        }
        start = end as usize;
    }
    sorted
}

const BUCKET_BITS_MIN: u32 = 5;
/// As many counters as fit a processor's cache.
const BUCKET_BITS_MAX: u32 = 14;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorting_keeps_the_order_of_equals() {
        for (count, keys) in [
            (0, 1),
            (1, 1),
            (100, 7),
            (5_000, 3),
            (5_000, 4_000),
            (70_000, 50),
        ] {
            let entries: Vec<RangeEntry> = (0..count)
                .map(|n: u32| RangeEntry {
                    hash: (n * 7919 % keys).wrapping_mul(0x9e37_79b9),
                    piece: n,
                    offset: 0,
                })
                .collect();
            let mut expected = entries.clone();
            expected.sort_by_key(|entry| entry.hash);
            assert_eq!(sort_by_hash(entries), expected);
        }
    }
}
