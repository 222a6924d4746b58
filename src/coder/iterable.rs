//! Iterables, in the three forms they travel in.
//!
//! Of known size: a 32-bit count, then the elements. Of unknown size: -1, then batches of a varint
//! count and so many elements, closed by a count of 0. State-backed: as the second, but closed by a
//! count of -1 and a length-prefixed token, under which the rest is fetched from the runner's
//! state.

use crate::coder::{Error, Result, input, length_prefix, varint};

/// How an iterable's elements follow its count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Size {
    Known(u64),
    Unknown,
}

/// What stands between batches of an iterable of unknown size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Batch<'a> {
    Elements(u64),
    End,
    /// The rest is in the runner's state, under this token.
    Continued(&'a [u8]),
}

/// Appends an iterable whose encoded elements are given; `count` is how many they are.
pub fn write_known<T: AsRef<[u8]>>(
    out: &mut Vec<u8>,
    count: i32,
    elements: impl IntoIterator<Item = T>,
) {
    write_count(out, count);
    for element in elements {
        out.extend_from_slice(element.as_ref());
    }
}

/// Appends the count of an iterable of known size; `count` encoded elements must follow.
#[inline]
pub fn write_count(out: &mut Vec<u8>, count: i32) {
    debug_assert!(count >= 0, "a known size is not negative");
    out.extend_from_slice(&count.to_be_bytes());
}

/// Opens an iterable of unknown size; batches must follow.
pub fn write_unknown(out: &mut Vec<u8>) {
    out.extend_from_slice(&UNKNOWN.to_be_bytes());
}

/// Opens a batch: `count` encoded elements must follow. A count of 0 closes the iterable.
pub fn write_batch(out: &mut Vec<u8>, count: u64) {
    varint::write(out, count);
}

/// Closes an iterable of unknown size of which all elements were written.
pub fn write_end(out: &mut Vec<u8>) {
    out.push(0);
}

/// Closes an iterable of unknown size whose rest is in the runner's state, under `token`.
pub fn write_continuation(out: &mut Vec<u8>, token: &[u8]) {
    varint::write(out, CONTINUED);
    length_prefix::write(out, token);
}

#[inline]
pub(super) fn read_size(bytes: &mut &[u8]) -> Result<Size> {
    match input::count(bytes)? {
        UNKNOWN => Ok(Size::Unknown),
        count => u64::try_from(count)
            .map(Size::Known)
            .map_err(|_| invalid(count.into())),
    }
}

/// The count of a map, which has no form of unknown size.
pub(super) fn read_known_size(bytes: &mut &[u8]) -> Result<u64> {
    let count = input::count(bytes)?;
    u64::try_from(count).map_err(|_| invalid(count.into()))
}

pub(super) fn read_batch<'a>(bytes: &mut &'a [u8], state_backed: bool) -> Result<Batch<'a>> {
    match varint::read(bytes)? {
        0 => Ok(Batch::End),
        CONTINUED if state_backed => length_prefix::read(bytes).map(Batch::Continued),
        count if i64::try_from(count).is_ok() => Ok(Batch::Elements(count)),
        count => Err(invalid(count as i64)),
    }
}

fn invalid(value: i64) -> Error {
    Error::Invalid {
        what: "number of elements",
        value,
    }
}

const UNKNOWN: i32 = -1;
const CONTINUED: u64 = u64::MAX;
