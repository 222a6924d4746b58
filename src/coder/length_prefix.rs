//! A varint length, then that many bytes: `bytes:v1`, `string_utf8:v1` and `length_prefix:v1`
//! alike.

use crate::coder::{Result, input, varint};

/// Reads what the length in front covers.
#[inline]
pub fn read<'a>(bytes: &mut &'a [u8]) -> Result<&'a [u8]> {
    let len = varint::read_len(bytes)?;
    input::take(bytes, len)
}

/// Appends the length of `value`, and `value`.
#[inline]
pub fn write(out: &mut Vec<u8>, value: &[u8]) {
    varint::write(out, value.len() as u64);
    out.extend_from_slice(value);
}
