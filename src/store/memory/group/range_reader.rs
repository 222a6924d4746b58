//! Groups the elements of one hash range by key, in the order of their shards.

use std::ops::ControlFlow;

use hashbrown::HashTable;

use crate::engine::tables::PayloadTable;
use crate::engine::tables::group::{
    GroupHead, GroupSink, Location, PART_BITS, RangeEntry, RangeList, WindowContents,
};
use crate::model::time::Timestamp;
use crate::store::memory::group::window_buffer::Pieces;
use crate::store::overflow::Keeper;

/// A hash range being read.
///
/// Elements are looked at in the order in which they came, and so in that of memory: once to find their
/// groups, and once to put each where its group is. Groups come by shard, and those of a shard in the order
/// in which their keys came.
#[derive(Debug)]
pub(super) struct RangeReader {
    range: usize,
    /// As their keys came.
    groups: Vec<Group>,
    /// The groups by shard.
    order: Vec<u32>,
    /// How many of [`Self::order`] are done.
    position: usize,
    values: Values,
}

/// The values of all groups, one group's after another's.
#[derive(Debug)]
enum Values {
    /// Small ones, copied.
    Copied(Vec<u8>),
    /// Where the elements are.
    Located(Vec<Location>),
}

/// The elements of one key.
#[derive(Debug)]
struct Group {
    /// An element with the key.
    first: Location,
    /// As in [`RangeEntry`].
    hash: u32,
    count: usize,
    value_bytes: usize,
    /// Lowest and highest that count; the other way round where none does.
    timestamps: (Timestamp, Timestamp),
    /// Where its values start in [`Values`], and, once they are there, end.
    at: usize,
}

impl RangeReader {
    /// Groups the elements for a sink; about `groups_expected` keys are among them.
    pub(super) fn new(
        range: usize,
        list: &RangeList,
        pieces: &Pieces,
        sink: &impl GroupSink,
        groups_expected: usize,
    ) -> Self {
        let (mut groups, group_of) = find_groups(list, pieces, groups_expected);
        let order = by_shard(&groups);
        let value_bytes: usize = groups.iter().map(|group| group.value_bytes).sum();
        let copied = value_bytes <= COPIED_BYTES_MAX.min(list.len() * COPIED_VALUE_MAX)
            && !groups.iter().any(|group| sink.backs(&group.head(pieces)));
        let mut at = 0;
        for &group in &order {
            let group = &mut groups[group as usize];
            group.at = at;
            at += if copied {
                group.value_bytes
            } else {
                group.count
            };
        }
        let elements = list.iter().zip(group_of);
        let values = if copied {
            let mut values = vec![0; at];
            for (entry, group) in elements {
                let value = pieces.read(entry.piece, entry.offset).0.value;
                let at = &mut groups[group as usize].at;
                copy(&mut values[*at..*at + value.len()], value);
                *at += value.len();
            }
            Values::Copied(values)
        } else {
            let mut locations = vec![Location::default(); at];
            for (entry, group) in elements {
                let at = &mut groups[group as usize].at;
                locations[*at] = entry.location();
                *at += 1;
            }
            Values::Located(locations)
        };
        Self {
            range,
            groups,
            order,
            position: 0,
            values,
        }
    }

    pub(super) fn range(&self) -> usize {
        self.range
    }

    /// How many keys there were.
    pub(super) fn groups(&self) -> usize {
        self.groups.len()
    }

    pub(super) fn is_done(&self) -> bool {
        self.position == self.order.len()
    }

    /// Adds up what is not read yet.
    pub(super) fn add_to(&self, pieces: &Pieces, contents: &mut WindowContents) {
        for &group in &self.order[self.position..] {
            let group = &self.groups[group as usize];
            let head = group.head(pieces);
            let bytes = head.count * head.key.len() + head.value_bytes;
            contents.add(head.count, bytes);
            if let Some((lowest, _)) = head.timestamps {
                contents.see(lowest);
            }
        }
    }

    /// Hands groups on until the sink breaks or the range is at its end.
    pub(super) fn read(
        &mut self,
        pieces: &Pieces,
        sink: &mut impl GroupSink,
        payload: &Keeper,
    ) -> ControlFlow<()> {
        while let Some(&group) = self.order.get(self.position) {
            self.position += 1;
            let group = &self.groups[group as usize];
            let head = group.head(pieces);
            match &self.values {
                Values::Copied(bytes) => {
                    sink.begin(head);
                    sink.values(&bytes[group.at - group.value_bytes..group.at]);
                }
                Values::Located(locations) => {
                    let locations = &locations[group.at - group.count..group.at];
                    if sink.backs(&head) {
                        sink.back(head, pieces.back(locations))?;
                        continue;
                    }
                    if payload.is_used() && head.value_bytes / head.count >= LARGE_VALUE {
                        for location in locations {
                            payload.expect(pieces.read(location.piece, location.offset).0.value);
                        }
                    }
                    sink.begin(head);
                    for location in locations {
                        let record = pieces.read(location.piece, location.offset).0;
                        sink.values(record.value);
                    }
                }
            }
            sink.end()?;
        }
        ControlFlow::Continue(())
    }
}

/// Finds the group of each element, by its number; groups are numbered as their keys came.
fn find_groups(
    list: &RangeList,
    pieces: &Pieces,
    groups_expected: usize,
) -> (Vec<Group>, Vec<u32>) {
    let mut groups: Vec<Group> = Vec::with_capacity(groups_expected);
    let mut keys: Vec<(u32, &[u8])> = Vec::with_capacity(groups_expected);
    let mut numbers: HashTable<u32> = HashTable::with_capacity(groups_expected);
    let mut group_of = Vec::with_capacity(list.len());
    for entry in list.iter() {
        let (record, counts) = pieces.read(entry.piece, entry.offset);
        let is_key = |&number: &u32| keys[number as usize] == (entry.hash, record.key);
        let known = numbers.find(spread(entry.hash), is_key);
        let number = match known {
            Some(&number) => number,
            None => {
                let number = groups.len() as u32;
                groups.push(Group::of(&entry));
                keys.push((entry.hash, record.key));
                let hash_of = |&number: &u32| spread(keys[number as usize].0);
                numbers.insert_unique(spread(entry.hash), number, hash_of);
                number
            }
        };
        let group = &mut groups[number as usize];
        group.count += 1;
        group.value_bytes += record.value.len();
        if counts {
            let (lowest, highest) = &mut group.timestamps;
            *lowest = record.timestamp.min(*lowest);
            *highest = record.timestamp.max(*highest);
        }
        group_of.push(number);
    }
    (groups, group_of)
}

impl Group {
    /// A group of the entry's key, with no element yet.
    fn of(entry: &RangeEntry) -> Self {
        Self {
            first: entry.location(),
            hash: entry.hash,
            count: 0,
            value_bytes: 0,
            timestamps: (Timestamp::MAX, Timestamp::MIN),
            at: 0,
        }
    }

    fn head<'a>(&self, pieces: &'a Pieces) -> GroupHead<'a> {
        let (lowest, highest) = self.timestamps;
        GroupHead {
            key: pieces.read(self.first.piece, self.first.offset).0.key,
            count: self.count,
            value_bytes: self.value_bytes,
            timestamps: (lowest <= highest).then_some((lowest, highest)),
        }
    }
}

/// The groups sorted by shard, those of a shard as they are.
fn by_shard(groups: &[Group]) -> Vec<u32> {
    let shard = |group: &Group| (group.hash >> (u32::BITS - PART_BITS)) as usize;
    let mut next = [0_usize; 1 << PART_BITS];
    for group in groups {
        next[shard(group)] += 1;
    }
    let mut start = 0;
    for count in &mut next {
        start += std::mem::replace(count, start);
    }
    let mut order = vec![0; groups.len()];
    for (number, group) in (0..).zip(groups) {
        let next = &mut next[shard(group)];
        order[*next] = number;
        *next += 1;
    }
    order
}

/// A hash for a table that looks at both ends of it.
fn spread(hash: u32) -> u64 {
    u64::from(hash) << u32::BITS | u64::from(hash)
}

/// Copies a value; most are as long as an integer, for which a call costs more than the copy.
#[inline]
fn copy(to: &mut [u8], value: &[u8]) {
    match (
        <&mut [u8; 8]>::try_from(&mut *to),
        <&[u8; 8]>::try_from(value),
    ) {
        (Ok(to), Ok(value)) => *to = *value,
        _ => to.copy_from_slice(value),
    }
}

/// Values on disk this long are read ahead one by one.
const LARGE_VALUE: usize = 4 << 10;
/// Values of this length on average are copied, so that a group's are in one place.
const COPIED_VALUE_MAX: usize = 64;
/// Up to so many bytes of values are copied: the range's pieces are still there.
const COPIED_BYTES_MAX: usize = 32 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn group(hash: u32) -> Group {
        Group::of(&RangeEntry {
            hash,
            piece: 0,
            offset: 0,
        })
    }

    #[test]
    fn groups_are_sorted_by_shard_alone() {
        let hashes = [
            0xf000_0001,
            0x1000_0003,
            0xf000_0000,
            0x1000_0002,
            0x0fff_ffff,
        ];
        let groups: Vec<Group> = hashes.into_iter().map(group).collect();
        assert_eq!(by_shard(&groups), [4, 1, 3, 0, 2]);
    }
}
