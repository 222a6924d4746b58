//! Numbers in metric payloads: integers as varints, doubles big-endian, lists with their count.

use std::cmp::Ordering;

use crate::coder::varint;

/// An integer or a double.
pub(super) trait Number: Copy + PartialOrd {
    const ZERO: Self;

    fn read(bytes: &mut &[u8]) -> Option<Self>;
    fn write(self, out: &mut Vec<u8>);
    fn plus(self, other: Self) -> Self;
}

impl Number for i64 {
    const ZERO: Self = 0;

    fn read(bytes: &mut &[u8]) -> Option<Self> {
        varint::read(bytes).ok().map(u64::cast_signed)
    }

    fn write(self, out: &mut Vec<u8>) {
        varint::write(out, self.cast_unsigned());
    }

    fn plus(self, other: Self) -> Self {
        self.saturating_add(other)
    }
}

impl Number for f64 {
    const ZERO: Self = 0.0;

    fn read(bytes: &mut &[u8]) -> Option<Self> {
        let (number, rest) = bytes.split_first_chunk()?;
        *bytes = rest;
        Some(Self::from_be_bytes(*number))
    }

    fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_be_bytes());
    }

    fn plus(self, other: Self) -> Self {
        self + other
    }
}

/// Count, sum and extremes of many values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Distribution<T> {
    pub(super) count: i64,
    pub(super) sum: T,
    pub(super) min: T,
    pub(super) max: T,
}

impl<T: Number> Distribution<T> {
    /// Reads one; where nothing was counted, the SDK may have left out the rest.
    pub(super) fn read(bytes: &mut &[u8]) -> Option<Self> {
        let count = i64::read(bytes)?;
        if count == 0 && bytes.is_empty() {
            return Some(Self {
                count,
                sum: T::ZERO,
                min: T::ZERO,
                max: T::ZERO,
            });
        }
        Some(Self {
            count,
            sum: T::read(bytes)?,
            min: T::read(bytes)?,
            max: T::read(bytes)?,
        })
    }

    /// Writes all four, since clients read all four.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        self.count.write(out);
        self.sum.write(out);
        self.min.write(out);
        self.max.write(out);
    }

    pub(super) fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        if self.count == 0 {
            *self = *other;
            return;
        }
        self.count = self.count.saturating_add(other.count);
        self.sum = self.sum.plus(other.sum);
        if other.min < self.min {
            self.min = other.min;
        }
        if other.max > self.max {
            self.max = other.max;
        }
    }
}

/// Reads a list: a count of four bytes, or -1 and then blocks with counts of their own.
pub(super) fn read_all<T>(
    bytes: &mut &[u8],
    mut read: impl FnMut(&mut &[u8]) -> Option<T>,
) -> Option<Vec<T>> {
    let (count, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    let mut all = Vec::new();
    match i32::from_be_bytes(*count) {
        -1 => loop {
            let count = varint::read(bytes).ok()?;
            if count == 0 {
                return Some(all);
            }
            for _ in 0..count {
                all.push(read(bytes)?);
            }
        },
        count => {
            for _ in 0..u32::try_from(count).ok()? {
                all.push(read(bytes)?);
            }
            Some(all)
        }
    }
}

/// Writes a list with its count.
pub(super) fn write_all<T>(
    all: impl IntoIterator<Item = T>,
    mut write: impl FnMut(T, &mut Vec<u8>),
    out: &mut Vec<u8>,
) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    let mut count = 0_i32;
    for value in all {
        write(value, out);
        count = count.saturating_add(1);
    }
    if let Some(place) = out.get_mut(start..start + 4) {
        place.copy_from_slice(&count.to_be_bytes());
    }
}

/// Of both lists, the values that come first in `order`, as many as the longer one has.
pub(super) fn keep_first<T>(
    all: &mut Vec<T>,
    more: Vec<T>,
    mut order: impl FnMut(&T, &T) -> Ordering,
) {
    let count = all.len().max(more.len());
    all.extend(more);
    all.sort_by(&mut order);
    all.truncate(count);
}

/// Adds each number to the one in the same place.
pub(super) fn add_each(all: &mut Vec<f64>, more: &[f64]) {
    if all.len() < more.len() {
        all.resize(more.len(), 0.0);
    }
    for (sum, number) in all.iter_mut().zip(more) {
        *sum += number;
    }
}
