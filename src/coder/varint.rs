//! Beam's integers of variable length: seven bits a byte, lowest first.

use crate::coder::{Error, Result};

/// Reads a varint. Signed values are the two's complement of the 64 bits: `read(..)? as i64`.
#[inline]
pub fn read(bytes: &mut &[u8]) -> Result<u64> {
    if let [first, rest @ ..] = *bytes
        && *first < 0x80
    {
        *bytes = rest;
        return Ok((*first).into());
    }
    read_long(bytes)
}

/// Appends `value` in as few bytes as it needs.
#[inline]
pub fn write(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// How many bytes [`write`] takes for `value`.
#[inline]
pub const fn len(value: u64) -> usize {
    let bits = 64 - (value | 1).leading_zeros() as usize;
    bits.div_ceil(7)
}

/// Reads a varint that counts bytes which are in memory.
#[inline]
pub(super) fn read_len(bytes: &mut &[u8]) -> Result<usize> {
    usize::try_from(read(bytes)?).map_err(|_| Error::Truncated)
}

fn read_long(bytes: &mut &[u8]) -> Result<u64> {
    let mut value = 0_u64;
    for (index, &byte) in bytes.iter().enumerate().take(10) {
        if index == 9 && byte > 1 {
            break;
        }
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            *bytes = bytes.get(index + 1..).unwrap_or_default();
            return Ok(value);
        }
    }
    Err(if bytes.len() < 10 {
        Error::Truncated
    } else {
        Error::VarIntOverflow
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn limits() {
        for (value, bytes) in [
            (0, vec![0]),
            (127, vec![0x7f]),
            (128, vec![0x80, 1]),
            (u64::MAX, [vec![0xff; 9], vec![1]].concat()),
        ] {
            let mut out = vec![];
            write(&mut out, value);
            assert_eq!(out, bytes);
            assert_eq!(len(value), bytes.len());
            assert_eq!(read(&mut &bytes[..]), Ok(value));
        }
        assert_eq!(read(&mut &[][..]), Err(Error::Truncated));
        assert_eq!(read(&mut &[0x80; 9][..]), Err(Error::Truncated));
        assert_eq!(read(&mut &[0xff; 10][..]), Err(Error::VarIntOverflow));
        assert_eq!(read(&mut &[0x80; 11][..]), Err(Error::VarIntOverflow));
    }

    proptest! {
        #[test]
        fn round_trip(value: u64, rest: Vec<u8>) {
            let mut out = vec![];
            write(&mut out, value);
            prop_assert_eq!(out.len(), len(value));
            out.extend(&rest);
            let mut bytes = &out[..];
            prop_assert_eq!(read(&mut bytes), Ok(value));
            prop_assert_eq!(bytes, &rest[..]);
        }
    }
}
