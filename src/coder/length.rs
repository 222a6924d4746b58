//! Finding where an encoded value ends.

use crate::coder::{
    input, iterable, pane, row, varint, window, windowed_value,
    {
        Error, Result,
        iterable::{Batch, Size},
    },
};
use crate::model::coder::Coder;

/// Deeper coders are refused: none that people write comes near.
pub const DEPTH_MAX: u32 = 64;

/// How many bytes the value at the start of `bytes` takes. Nothing is decoded or allocated.
///
/// ```
/// use tidemill::coder::length::encoded_len;
/// use tidemill::model::Coder;
///
/// let kv = Coder::Kv(Box::new(Coder::StringUtf8), Box::new(Coder::VarInt));
/// assert_eq!(encoded_len(&kv, b"\x03key\x07next"), Ok(5));
/// ```
#[inline]
pub fn encoded_len(coder: &Coder, bytes: &[u8]) -> Result<usize> {
    let mut rest = bytes;
    skip(coder, &mut rest)?;
    Ok(bytes.len() - rest.len())
}

/// Passes over one encoded value.
#[inline]
pub fn skip(coder: &Coder, bytes: &mut &[u8]) -> Result<()> {
    match coder {
        Coder::Bytes | Coder::StringUtf8 | Coder::LengthPrefix(_) => skip_prefixed(bytes),
        Coder::VarInt => varint::read(bytes).map(drop),
        other => skip_nested(other, bytes, DEPTH_MAX),
    }
}

#[inline]
fn skip_prefixed(bytes: &mut &[u8]) -> Result<()> {
    let len = varint::read_len(bytes)?;
    input::take(bytes, len).map(drop)
}

fn skip_nested(coder: &Coder, bytes: &mut &[u8], depth: u32) -> Result<()> {
    let depth = depth.checked_sub(1).ok_or(Error::TooDeep)?;
    match coder {
        Coder::Bytes | Coder::StringUtf8 | Coder::LengthPrefix(_) => skip_prefixed(bytes),
        Coder::Bool => input::flag(bytes, "a boolean").map(drop),
        Coder::VarInt => varint::read(bytes).map(drop),
        Coder::Double => input::array::<8>(bytes).map(drop),
        Coder::Kv(key, value) => {
            skip_nested(key, bytes, depth)?;
            skip_nested(value, bytes, depth)
        }
        Coder::Iterable(element) => skip_iterable(element, bytes, false, depth),
        Coder::StateBackedIterable(element) => skip_iterable(element, bytes, true, depth),
        Coder::Nullable(inner) => {
            if input::flag(bytes, "a nullable's flag")? {
                skip_nested(inner, bytes, depth)?;
            }
            Ok(())
        }
        Coder::ShardedKey(key) => {
            skip_prefixed(bytes)?;
            skip_nested(key, bytes, depth)
        }
        Coder::GlobalWindow => Ok(()),
        Coder::IntervalWindow => window::skip(coder, bytes),
        Coder::CustomWindow(inner) => {
            input::array::<8>(bytes)?;
            skip_nested(inner, bytes, depth)
        }
        Coder::WindowedValue(value, window) => {
            windowed_value::skip_header_reading_timestamp(window, bytes)?;
            skip_nested(value, bytes, depth)
        }
        Coder::ParamWindowedValue(value, ..) => skip_nested(value, bytes, depth),
        Coder::Timer(key, window) => {
            skip_nested(key, bytes, depth)?;
            skip_timer_after_key(window, bytes)
        }
        Coder::Row(schema) => row::skip(schema, bytes, depth),
        Coder::Opaque(urn) => Err(Error::Opaque(urn.as_str().into())),
    }
}

fn skip_iterable(element: &Coder, bytes: &mut &[u8], state_backed: bool, depth: u32) -> Result<()> {
    skip_batches(bytes, state_backed, |bytes| {
        skip_nested(element, bytes, depth)
    })
}

/// Passes over an iterable whose elements `skip` passes over.
pub(super) fn skip_batches(
    bytes: &mut &[u8],
    state_backed: bool,
    skip: impl Fn(&mut &[u8]) -> Result<()>,
) -> Result<()> {
    if let Size::Known(count) = iterable::read_size(bytes)? {
        return skip_elements(bytes, count, skip);
    }
    while let Batch::Elements(count) = iterable::read_batch(bytes, state_backed)? {
        skip_elements(bytes, count, &skip)?;
    }
    Ok(())
}

/// Passes over `count` elements.
pub(super) fn skip_elements(
    bytes: &mut &[u8],
    count: u64,
    skip: impl Fn(&mut &[u8]) -> Result<()>,
) -> Result<()> {
    for _ in 0..count {
        let before = bytes.len();
        skip(bytes)?;
        // A coder that takes no bytes for one value takes none for any: a large count must not cost
        // time.
        if bytes.len() == before {
            break;
        }
    }
    Ok(())
}

fn skip_timer_after_key(window_coder: &Coder, bytes: &mut &[u8]) -> Result<()> {
    skip_prefixed(bytes)?;
    window::skip_all(window_coder, bytes)?;
    if !input::flag(bytes, "a timer's clear flag")? {
        input::array::<16>(bytes)?;
        pane::read_of_timer(bytes)?;
    }
    Ok(())
}
