//! Rows: a field count, a bit set of the fields that are null, then the other fields.

use crate::coder::{Error, Result, input, iterable, length, length_prefix, varint};
use crate::model::schema::{Field, FieldKind, FieldType, Schema};

/// A timestamp that has the encoding of [`crate::coder::timestamp`], not that of its
/// representation.
pub(super) const MILLIS_INSTANT: &str = "beam:logical_type:millis_instant:v1";

/// A varint scale, then the length-prefixed unscaled value: again not as its representation.
pub(super) const DECIMAL: &str = "beam:logical_type:decimal:v1";

/// What stands in front of a row's fields.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header<'a> {
    /// How many fields the writer knew.
    pub(super) count: usize,
    nulls: &'a [u8],
}

impl Header<'_> {
    /// Whether a field is null or unknown to the writer.
    pub(super) fn is_null(&self, encoding_position: usize) -> bool {
        let bits = self.nulls.get(encoding_position / 8).copied();
        encoding_position >= self.count || bits.unwrap_or(0) >> (encoding_position % 8) & 1 == 1
    }
}

/// Reads a row's header. A writer with more fields than the schema is refused: where they end is
/// not known.
pub(super) fn read_header<'a>(schema: &Schema, bytes: &mut &'a [u8]) -> Result<Header<'a>> {
    let count = varint::read_len(bytes)?;
    if count > schema.fields.len() {
        return Err(Error::Invalid {
            what: "number of fields",
            value: count as i64,
        });
    }
    let nulls = length_prefix::read(bytes)?;
    Ok(Header { count, nulls })
}

/// The fields that a row has, in the order of their encoding, with their index.
pub(super) fn present<'a>(
    schema: &'a Schema,
    header: Header<'a>,
) -> impl Iterator<Item = (usize, &'a Field)> {
    let order = schema.encoding_order.iter().copied().enumerate();
    order.filter_map(move |(position, index)| {
        let field = schema.fields.get(index)?;
        (!header.is_null(position)).then_some((index, field))
    })
}

/// Passes over a row.
pub(super) fn skip(schema: &Schema, bytes: &mut &[u8], depth: u32) -> Result<()> {
    let depth = depth.checked_sub(1).ok_or(Error::TooDeep)?;
    let header = read_header(schema, bytes)?;
    for (_, field) in present(schema, header) {
        skip_kind(&field.field_type.kind, bytes, depth)?;
    }
    Ok(())
}

/// Passes over an element of an array or an entry of a map, which say for themselves that they are
/// null.
fn skip_nullable(element: &FieldType, bytes: &mut &[u8], depth: u32) -> Result<()> {
    if element.nullable && !input::flag(bytes, "a nullable's flag")? {
        return Ok(());
    }
    skip_kind(&element.kind, bytes, depth)
}

fn skip_kind(kind: &FieldKind, bytes: &mut &[u8], depth: u32) -> Result<()> {
    let depth = depth.checked_sub(1).ok_or(Error::TooDeep)?;
    match kind {
        FieldKind::Byte => input::array::<1>(bytes).map(drop),
        FieldKind::Int16 => input::array::<2>(bytes).map(drop),
        FieldKind::Int32 | FieldKind::Int64 => varint::read(bytes).map(drop),
        FieldKind::Float => input::array::<4>(bytes).map(drop),
        FieldKind::Double => input::array::<8>(bytes).map(drop),
        FieldKind::String | FieldKind::Bytes => length_prefix::read(bytes).map(drop),
        FieldKind::Boolean => input::flag(bytes, "a boolean").map(drop),
        FieldKind::Array(element) | FieldKind::Iterable(element) => {
            length::skip_batches(bytes, false, |bytes| skip_nullable(element, bytes, depth))
        }
        FieldKind::Map(key, value) => {
            let count = iterable::read_known_size(bytes)?;
            length::skip_elements(bytes, count, |bytes| {
                skip_nullable(key, bytes, depth)?;
                skip_nullable(value, bytes, depth)
            })
        }
        FieldKind::Row(schema) => skip(schema, bytes, depth),
        FieldKind::Logical { urn, .. } if urn == MILLIS_INSTANT => {
            input::array::<8>(bytes).map(drop)
        }
        FieldKind::Logical { urn, .. } if urn == DECIMAL => {
            varint::read(bytes)?;
            length_prefix::read(bytes).map(drop)
        }
        FieldKind::Logical { representation, .. } => skip_kind(&representation.kind, bytes, depth),
    }
}
