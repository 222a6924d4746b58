//! Values to bytes.

use crate::coder::value::{Context, TimerValue, Value, row};
use crate::coder::{
    Error, Result, iterable, length, length_prefix, pane, timestamp, varint, window, windowed_value,
};
use crate::model::coder::Coder;
use crate::model::window::Window;

/// Appends one value. On an error, part of it may have been appended.
pub fn encode(coder: &Coder, context: Context, value: &Value, out: &mut Vec<u8>) -> Result<()> {
    encode_at(coder, context, value, out, length::DEPTH_MAX)
}

fn encode_at(
    coder: &Coder,
    context: Context,
    value: &Value,
    out: &mut Vec<u8>,
    depth: u32,
) -> Result<()> {
    let depth = depth.checked_sub(1).ok_or(Error::TooDeep)?;
    let nested = |coder: &Coder, value: &Value, out: &mut Vec<u8>| {
        encode_at(coder, Context::Nested, value, out, depth)
    };
    match (coder, value) {
        (Coder::Bytes, Value::Bytes(bytes)) => text(context, bytes, out),
        (Coder::StringUtf8, Value::Text(string)) => text(context, string.as_bytes(), out),
        (Coder::Bool, Value::Bool(flag)) => out.push((*flag).into()),
        (Coder::VarInt, Value::Int(int)) => varint::write(out, *int as u64),
        (Coder::Double, Value::Double(double)) => out.extend_from_slice(&double.to_be_bytes()),
        (Coder::Kv(key_coder, value_coder), Value::Pair(key, value)) => {
            nested(key_coder, key, out)?;
            encode_at(value_coder, context, value, out, depth)?;
        }
        (Coder::Iterable(element) | Coder::StateBackedIterable(element), Value::List(values)) => {
            iterable::write_count(out, count(values.len())?);
            for value in values {
                nested(element, value, out)?;
            }
        }
        (Coder::StateBackedIterable(element), Value::Continued { elements, token }) => {
            iterable::write_unknown(out);
            if !elements.is_empty() {
                iterable::write_batch(out, elements.len() as u64);
            }
            for value in elements {
                nested(element, value, out)?;
            }
            iterable::write_continuation(out, token);
        }
        (Coder::LengthPrefix(inner), value) => encode_prefixed(inner, value, out, depth)?,
        (Coder::Nullable(_), Value::Null) => out.push(0),
        (Coder::Nullable(inner), value) => {
            out.push(1);
            encode_at(inner, context, value, out, depth)?;
        }
        (Coder::ShardedKey(key_coder), Value::ShardedKey { shard, key }) => {
            length_prefix::write(out, shard);
            nested(key_coder, key, out)?;
        }
        (coder, Value::Window(window)) => encode_window(coder, window, out)?,
        (Coder::WindowedValue(value_coder, window_coder), Value::Windowed(header, value)) => {
            check_windows(window_coder, &header.windows)?;
            windowed_value::write_header(out, header.timestamp, &header.windows, header.pane);
            encode_at(value_coder, context, value, out, depth)?;
        }
        (Coder::ParamWindowedValue(value_coder, ..), Value::Windowed(_, value)) => {
            encode_at(value_coder, context, value, out, depth)?;
        }
        (Coder::Timer(key_coder, window_coder), Value::Timer(timer)) => {
            check_windows(window_coder, &timer.windows)?;
            nested(key_coder, &timer.key, out)?;
            encode_timer_after_key(timer, out);
        }
        (Coder::Row(schema), Value::Row(values)) => row::encode(schema, values, out, depth)?,
        (Coder::Opaque(urn), _) => return Err(Error::Opaque(urn.as_str().into())),
        (coder, _) => return Err(Error::WrongValue(format!("{coder:?}").into())),
    }
    Ok(())
}

pub(super) fn count(elements: usize) -> Result<i32> {
    i32::try_from(elements).map_err(|_| Error::Invalid {
        what: "number of elements",
        value: elements as i64,
    })
}

fn text(context: Context, bytes: &[u8], out: &mut Vec<u8>) {
    match context {
        Context::Nested => length_prefix::write(out, bytes),
        Context::Outer => out.extend_from_slice(bytes),
    }
}

fn encode_prefixed(inner: &Coder, value: &Value, out: &mut Vec<u8>, depth: u32) -> Result<()> {
    if let (Coder::Opaque(_), Value::Bytes(bytes)) = (inner, value) {
        length_prefix::write(out, bytes);
        return Ok(());
    }
    let mut encoded = vec![];
    encode_at(inner, Context::Outer, value, &mut encoded, depth)?;
    length_prefix::write(out, &encoded);
    Ok(())
}

fn encode_window(coder: &Coder, window: &Window, out: &mut Vec<u8>) -> Result<()> {
    check_windows(coder, std::slice::from_ref(window))?;
    window::write(out, window);
    Ok(())
}

/// Whether the windows are of the kind that the window coder writes.
fn check_windows(coder: &Coder, windows: &[Window]) -> Result<()> {
    let fits = |window: &Window| {
        matches!(
            (coder, window),
            (Coder::GlobalWindow, Window::Global)
                | (Coder::IntervalWindow, Window::Interval { .. })
                | (Coder::CustomWindow(_), Window::Custom { .. })
        )
    };
    if windows.iter().all(fits) {
        Ok(())
    } else {
        Err(Error::WrongValue(format!("{coder:?}").into()))
    }
}

fn encode_timer_after_key(timer: &TimerValue, out: &mut Vec<u8>) {
    length_prefix::write(out, &timer.tag);
    window::write_all(out, &timer.windows);
    out.push(timer.firing.is_none().into());
    if let Some(firing) = &timer.firing {
        timestamp::write(out, firing.fire_at);
        timestamp::write(out, firing.hold);
        pane::write(out, firing.pane);
    }
}
