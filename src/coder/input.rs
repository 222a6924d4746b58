//! Taking bytes from the front of a slice.

use crate::coder::{Error, Result};

/// The next `count` bytes.
#[inline]
pub(super) fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Result<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(count).ok_or(Error::Truncated)?;
    *bytes = rest;
    Ok(taken)
}

/// The next `N` bytes, by value.
#[inline]
pub(super) fn array<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk::<N>().ok_or(Error::Truncated)?;
    *bytes = rest;
    Ok(*taken)
}

/// The next byte.
#[inline]
pub(super) fn byte(bytes: &mut &[u8]) -> Result<u8> {
    array::<1>(bytes).map(|[byte]| byte)
}

/// A byte that must be 0 or 1.
#[inline]
pub(super) fn flag(bytes: &mut &[u8], what: &'static str) -> Result<bool> {
    match byte(bytes)? {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(Error::Invalid {
            what,
            value: other.into(),
        }),
    }
}

/// A big-endian 32-bit count.
#[inline]
pub(super) fn count(bytes: &mut &[u8]) -> Result<i32> {
    array(bytes).map(i32::from_be_bytes)
}
