//! Rows, decoded and encoded.

use bytes::Bytes;

use crate::coder::iterable::{Batch, Size};
use crate::coder::row::{DECIMAL, MILLIS_INSTANT, present, read_header};
use crate::coder::value::Value;
use crate::coder::value::decode::{decode_elements, utf8};
use crate::coder::value::encode::count;
use crate::coder::{Error, Result, input, iterable, length_prefix, timestamp, varint};
use crate::model::schema::{FieldKind, FieldType, Schema};

/// Reads a row; fields that the writer did not know are null.
pub(super) fn decode(schema: &Schema, bytes: &mut &[u8], depth: u32) -> Result<Value> {
    let depth = depth.checked_sub(1).ok_or(Error::TooDeep)?;
    let header = read_header(schema, bytes)?;
    let mut values = vec![Value::Null; schema.fields.len()];
    for (index, field) in present(schema, header) {
        let value = decode_kind(&field.field_type.kind, bytes, depth)?;
        if let Some(slot) = values.get_mut(index) {
            *slot = value;
        }
    }
    Ok(Value::Row(values))
}

/// Appends a row; `values` are its fields in the order of the schema.
pub(super) fn encode(
    schema: &Schema,
    values: &[Value],
    out: &mut Vec<u8>,
    depth: u32,
) -> Result<()> {
    let depth = depth.checked_sub(1).ok_or(Error::TooDeep)?;
    if values.len() != schema.fields.len() {
        return Err(Error::WrongValue("row of another schema".into()));
    }
    varint::write(out, values.len() as u64);
    length_prefix::write(out, &nulls(schema, values));
    for &index in &schema.encoding_order {
        if let (Some(field), Some(value)) = (schema.fields.get(index), values.get(index))
            && *value != Value::Null
        {
            encode_kind(&field.field_type.kind, value, out, depth)?;
        }
    }
    Ok(())
}

/// The bit set of null fields by encoding position, without the bytes at its end that would be 0.
fn nulls(schema: &Schema, values: &[Value]) -> Vec<u8> {
    let mut bits = vec![];
    for (position, &index) in schema.encoding_order.iter().enumerate() {
        if values.get(index) == Some(&Value::Null) {
            bits.resize(position / 8 + 1, 0);
            if let Some(last) = bits.last_mut() {
                *last |= 1 << (position % 8);
            }
        }
    }
    bits
}

fn decode_nullable(element: &FieldType, bytes: &mut &[u8], depth: u32) -> Result<Value> {
    if element.nullable && !input::flag(bytes, "a nullable's flag")? {
        return Ok(Value::Null);
    }
    decode_kind(&element.kind, bytes, depth)
}

fn decode_kind(kind: &FieldKind, bytes: &mut &[u8], depth: u32) -> Result<Value> {
    let depth = depth.checked_sub(1).ok_or(Error::TooDeep)?;
    Ok(match kind {
        FieldKind::Byte => Value::Int(i8::from_be_bytes(input::array(bytes)?).into()),
        FieldKind::Int16 => Value::Int(i16::from_be_bytes(input::array(bytes)?).into()),
        // Java writes a negative one in five bytes, Python in ten.
        FieldKind::Int32 => Value::Int((varint::read(bytes)? as i32).into()),
        FieldKind::Int64 => Value::Int(varint::read(bytes)? as i64),
        FieldKind::Float => Value::Float(f32::from_be_bytes(input::array(bytes)?)),
        FieldKind::Double => Value::Double(f64::from_be_bytes(input::array(bytes)?)),
        FieldKind::String => Value::Text(utf8(length_prefix::read(bytes)?)?),
        FieldKind::Boolean => Value::Bool(input::flag(bytes, "a boolean")?),
        FieldKind::Bytes => Value::Bytes(Bytes::copy_from_slice(length_prefix::read(bytes)?)),
        FieldKind::Array(element) | FieldKind::Iterable(element) => {
            decode_list(element, bytes, depth)?
        }
        FieldKind::Map(key, value) => {
            let mut entries = vec![];
            let count = iterable::read_known_size(bytes)?;
            decode_elements(&mut entries, count, bytes, |bytes| {
                let key = decode_nullable(key, bytes, depth)?;
                Ok((key, decode_nullable(value, bytes, depth)?))
            })?;
            Value::Map(entries)
        }
        FieldKind::Row(schema) => decode(schema, bytes, depth)?,
        FieldKind::Logical { urn, .. } if urn == MILLIS_INSTANT => {
            Value::Instant(timestamp::read_millis(bytes)?)
        }
        FieldKind::Logical { urn, .. } if urn == DECIMAL => Value::Decimal {
            scale: varint::read(bytes)? as i64,
            unscaled: Bytes::copy_from_slice(length_prefix::read(bytes)?),
        },
        FieldKind::Logical { representation, .. } => {
            decode_kind(&representation.kind, bytes, depth)?
        }
    })
}

fn decode_list(element: &FieldType, bytes: &mut &[u8], depth: u32) -> Result<Value> {
    let mut values = vec![];
    let decode = |bytes: &mut &[u8]| decode_nullable(element, bytes, depth);
    if let Size::Known(count) = iterable::read_size(bytes)? {
        decode_elements(&mut values, count, bytes, decode)?;
    } else {
        while let Batch::Elements(count) = iterable::read_batch(bytes, false)? {
            decode_elements(&mut values, count, bytes, decode)?;
        }
    }
    Ok(Value::List(values))
}

fn encode_nullable(
    element: &FieldType,
    value: &Value,
    out: &mut Vec<u8>,
    depth: u32,
) -> Result<()> {
    if element.nullable {
        out.push((*value != Value::Null).into());
        if *value == Value::Null {
            return Ok(());
        }
    }
    encode_kind(&element.kind, value, out, depth)
}

fn encode_kind(kind: &FieldKind, value: &Value, out: &mut Vec<u8>, depth: u32) -> Result<()> {
    let depth = depth.checked_sub(1).ok_or(Error::TooDeep)?;
    match (kind, value) {
        (FieldKind::Byte, Value::Int(int)) => out.push(narrow::<i8>(*int)? as u8),
        (FieldKind::Int16, Value::Int(int)) => {
            out.extend_from_slice(&narrow::<i16>(*int)?.to_be_bytes());
        }
        (FieldKind::Int32, Value::Int(int)) => {
            varint::write(out, i64::from(narrow::<i32>(*int)?) as u64);
        }
        (FieldKind::Int64, Value::Int(int)) => varint::write(out, *int as u64),
        (FieldKind::Float, Value::Float(float)) => out.extend_from_slice(&float.to_be_bytes()),
        (FieldKind::Double, Value::Double(double)) => out.extend_from_slice(&double.to_be_bytes()),
        (FieldKind::String, Value::Text(text)) => length_prefix::write(out, text.as_bytes()),
        (FieldKind::Boolean, Value::Bool(flag)) => out.push((*flag).into()),
        (FieldKind::Bytes, Value::Bytes(bytes)) => length_prefix::write(out, bytes),
        (FieldKind::Array(element) | FieldKind::Iterable(element), Value::List(values)) => {
            iterable::write_count(out, count(values.len())?);
            for value in values {
                encode_nullable(element, value, out, depth)?;
            }
        }
        (FieldKind::Map(key_type, value_type), Value::Map(entries)) => {
            iterable::write_count(out, count(entries.len())?);
            for (key, value) in entries {
                encode_nullable(key_type, key, out, depth)?;
                encode_nullable(value_type, value, out, depth)?;
            }
        }
        (FieldKind::Row(schema), Value::Row(values)) => encode(schema, values, out, depth)?,
        (FieldKind::Logical { urn, .. }, Value::Instant(millis)) if urn == MILLIS_INSTANT => {
            timestamp::write_millis(out, *millis);
        }
        (FieldKind::Logical { urn, .. }, Value::Decimal { scale, unscaled }) if urn == DECIMAL => {
            varint::write(out, *scale as u64);
            length_prefix::write(out, unscaled);
        }
        (FieldKind::Logical { representation, .. }, value) => {
            encode_kind(&representation.kind, value, out, depth)?;
        }
        (kind, _) => return Err(Error::WrongValue(format!("{kind:?}").into())),
    }
    Ok(())
}

fn narrow<T: TryFrom<i64>>(value: i64) -> Result<T> {
    T::try_from(value).map_err(|_| Error::Invalid {
        what: "value of a narrow integer",
        value,
    })
}
