//! Keys and values side by side.

use crate::coder::{Error, Result, length};
use crate::model::coder::Coder;

/// Cuts an encoded `kv:v1` value into the bytes of its key and the bytes of its value.
///
/// The key's bytes are what grouping and state go by. `value_bytes` must hold one value and no
/// more: all that follows the key is taken for the value.
#[inline]
pub fn split<'a>(kv_coder: &Coder, value_bytes: &'a [u8]) -> Result<(&'a [u8], &'a [u8])> {
    let Coder::Kv(key, _) = kv_coder else {
        return Err(Error::WrongCoder("kv"));
    };
    let key_len = length::encoded_len(key, value_bytes)?;
    value_bytes
        .split_at_checked(key_len)
        .ok_or(Error::Truncated)
}
