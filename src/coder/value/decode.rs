//! Bytes to values.

use bytes::Bytes;

use crate::coder::iterable::{Batch, Size};
use crate::coder::value::{Context, TimerValue, Value, row};
use crate::coder::{
    Error, Result, input, iterable, length, length_prefix, pane, timestamp, varint, window,
    windowed_value,
};
use crate::model::coder::Coder;
use crate::model::timer::TimerFiring;

/// Reads one value. In the outer context it is all of `bytes` that the coder can take.
pub fn decode(coder: &Coder, context: Context, bytes: &mut &[u8]) -> Result<Value> {
    decode_at(coder, context, bytes, length::DEPTH_MAX)
}

/// Reads the one value that `bytes` holds.
pub fn decode_all(coder: &Coder, context: Context, mut bytes: &[u8]) -> Result<Value> {
    let value = decode(coder, context, &mut bytes)?;
    match bytes.len() {
        0 => Ok(value),
        left => Err(Error::LeftOver(left)),
    }
}

fn decode_at(coder: &Coder, context: Context, bytes: &mut &[u8], depth: u32) -> Result<Value> {
    let depth = depth.checked_sub(1).ok_or(Error::TooDeep)?;
    let nested = |coder: &Coder, bytes: &mut &[u8]| {
        decode_at(coder, Context::Nested, bytes, depth).map(Box::new)
    };
    let last =
        |coder: &Coder, bytes: &mut &[u8]| decode_at(coder, context, bytes, depth).map(Box::new);
    Ok(match coder {
        Coder::Bytes => Value::Bytes(Bytes::copy_from_slice(text(context, bytes)?)),
        Coder::StringUtf8 => Value::Text(utf8(text(context, bytes)?)?),
        Coder::Bool => Value::Bool(input::flag(bytes, "a boolean")?),
        Coder::VarInt => Value::Int(varint::read(bytes)? as i64),
        Coder::Double => Value::Double(f64::from_be_bytes(input::array(bytes)?)),
        Coder::Kv(key, value) => Value::Pair(nested(key, bytes)?, last(value, bytes)?),
        Coder::Iterable(element) => decode_iterable(bytes, false, |bytes| nested(element, bytes))?,
        Coder::StateBackedIterable(element) => {
            decode_iterable(bytes, true, |bytes| nested(element, bytes))?
        }
        Coder::LengthPrefix(inner) => decode_prefixed(inner, length_prefix::read(bytes)?, depth)?,
        Coder::Nullable(inner) => {
            if input::flag(bytes, "a nullable's flag")? {
                *last(inner, bytes)?
            } else {
                Value::Null
            }
        }
        Coder::ShardedKey(key) => Value::ShardedKey {
            shard: Bytes::copy_from_slice(length_prefix::read(bytes)?),
            key: nested(key, bytes)?,
        },
        Coder::GlobalWindow | Coder::IntervalWindow | Coder::CustomWindow(_) => {
            Value::Window(window::read(coder, bytes)?)
        }
        Coder::WindowedValue(value, window) => {
            let header = windowed_value::read_header(window, bytes)?;
            Value::Windowed(Box::new(header), last(value, bytes)?)
        }
        Coder::ParamWindowedValue(value, window, header) => {
            let header = windowed_value::read_header(window, &mut &header[..])?;
            Value::Windowed(Box::new(header), last(value, bytes)?)
        }
        Coder::Timer(key, window) => {
            let key = *nested(key, bytes)?;
            decode_timer(key, window, bytes)?
        }
        Coder::Row(schema) => row::decode(schema, bytes, depth)?,
        Coder::Opaque(urn) => return Err(Error::Opaque(urn.as_str().into())),
    })
}

/// What has no end of its own.
fn text<'a>(context: Context, bytes: &mut &'a [u8]) -> Result<&'a [u8]> {
    match context {
        Context::Nested => length_prefix::read(bytes),
        Context::Outer => input::take(bytes, bytes.len()),
    }
}

pub(super) fn utf8(bytes: &[u8]) -> Result<String> {
    str::from_utf8(bytes)
        .map(str::to_owned)
        .map_err(|_| Error::NotUtf8)
}

/// Inside of a length prefix the value is alone, hence in the outer context; bytes of an unknown
/// coder are kept as they are.
fn decode_prefixed(inner: &Coder, mut bytes: &[u8], depth: u32) -> Result<Value> {
    if let Coder::Opaque(_) = inner {
        return Ok(Value::Bytes(Bytes::copy_from_slice(bytes)));
    }
    let value = decode_at(inner, Context::Outer, &mut bytes, depth)?;
    match bytes.len() {
        0 => Ok(value),
        left => Err(Error::LeftOver(left)),
    }
}

fn decode_iterable(
    bytes: &mut &[u8],
    state_backed: bool,
    element: impl Fn(&mut &[u8]) -> Result<Box<Value>>,
) -> Result<Value> {
    let element = |bytes: &mut &[u8]| element(bytes).map(|value| *value);
    let mut elements = vec![];
    if let Size::Known(count) = iterable::read_size(bytes)? {
        decode_elements(&mut elements, count, bytes, element)?;
        return Ok(Value::List(elements));
    }
    loop {
        match iterable::read_batch(bytes, state_backed)? {
            Batch::Elements(count) => decode_elements(&mut elements, count, bytes, element)?,
            Batch::End => return Ok(Value::List(elements)),
            Batch::Continued(token) => {
                return Ok(Value::Continued {
                    elements,
                    token: Bytes::copy_from_slice(token),
                });
            }
        }
    }
}

/// Appends `count` decoded elements, unless there are more than what their bytes could hold.
pub(super) fn decode_elements<T>(
    elements: &mut Vec<T>,
    count: u64,
    bytes: &mut &[u8],
    decode: impl Fn(&mut &[u8]) -> Result<T>,
) -> Result<()> {
    for index in 0..count {
        let before = bytes.len();
        elements.push(decode(bytes)?);
        if bytes.len() == before && (count - index).max(elements.len() as u64) > EMPTY_MAX {
            return Err(Error::Invalid {
                what: "number of elements that take no bytes",
                value: count as i64,
            });
        }
    }
    Ok(())
}

fn decode_timer(key: Value, window_coder: &Coder, bytes: &mut &[u8]) -> Result<Value> {
    let tag = Bytes::copy_from_slice(length_prefix::read(bytes)?);
    let windows = window::read_all(window_coder, bytes)?;
    let firing = if input::flag(bytes, "a timer's clear flag")? {
        None
    } else {
        Some(TimerFiring {
            fire_at: timestamp::read(bytes)?,
            hold: timestamp::read(bytes)?,
            pane: pane::read_of_timer(bytes)?,
        })
    };
    Ok(Value::Timer(Box::new(TimerValue {
        key,
        tag,
        windows,
        firing,
    })))
}

/// Elements without bytes, such as global windows, are decoded up to this many, lest a few bytes
/// take all memory; in one list, however it is cut into batches.
const EMPTY_MAX: u64 = 1 << 16;
