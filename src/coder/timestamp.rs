//! Timestamps: eight bytes, big endian, with the sign bit flipped so that byte order is time order.

use crate::coder::{Result, input};
use crate::model::time::Timestamp;

/// Reads a timestamp, clamped to Beam's bounds.
#[inline]
pub fn read(bytes: &mut &[u8]) -> Result<Timestamp> {
    read_millis(bytes).map(Timestamp::from_millis)
}

/// Appends a timestamp.
#[inline]
pub fn write(out: &mut Vec<u8>, timestamp: Timestamp) {
    write_millis(out, timestamp.millis());
}

#[inline]
pub(super) fn read_millis(bytes: &mut &[u8]) -> Result<i64> {
    input::array(bytes).map(of_bytes)
}

#[inline]
pub(super) fn of_bytes(bytes: [u8; 8]) -> i64 {
    (u64::from_be_bytes(bytes) ^ SIGN) as i64
}

#[inline]
pub(super) fn write_millis(out: &mut Vec<u8>, millis: i64) {
    out.extend_from_slice(&(millis as u64 ^ SIGN).to_be_bytes());
}

const SIGN: u64 = 1 << 63;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encode(millis: i64) -> Vec<u8> {
        let mut out = vec![];
        write(&mut out, Timestamp::from_millis(millis));
        out
    }

    proptest! {
        #[test]
        fn byte_order_is_time_order(a: i64, b: i64) {
            let (a, b) = (Timestamp::from_millis(a), Timestamp::from_millis(b));
            prop_assert_eq!(a.cmp(&b), encode(a.millis()).cmp(&encode(b.millis())));
            prop_assert_eq!(read(&mut &encode(a.millis())[..]), Ok(a));
        }
    }
}
