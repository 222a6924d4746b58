//! The shape of an encoding, as far as the runner must see into it.

use bytes::Bytes;

use crate::model::schema::Schema;

/// A coder that the runner can find its way through.
///
/// Whatever the runner does not know is opaque: the plan wraps it in [`Coder::LengthPrefix`]
/// wherever the runner needs its boundaries, so that [`Coder::Opaque`] never stands where a length
/// is needed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Coder {
    /// `beam:coder:bytes:v1`, nested: varint length and bytes.
    Bytes,
    /// `beam:coder:string_utf8:v1`, nested: varint length and UTF-8.
    StringUtf8,
    /// `beam:coder:bool:v1`: one byte.
    Bool,
    /// `beam:coder:varint:v1`.
    VarInt,
    /// `beam:coder:double:v1`: eight bytes, big endian.
    Double,
    /// `beam:coder:kv:v1`: key, then value.
    Kv(Box<Coder>, Box<Coder>),
    /// `beam:coder:iterable:v1`.
    Iterable(Box<Coder>),
    /// `beam:coder:state_backed_iterable:v1`.
    StateBackedIterable(Box<Coder>),
    /// `beam:coder:length_prefix:v1` around anything, known or not.
    LengthPrefix(Box<Coder>),
    /// `beam:coder:nullable:v1`.
    Nullable(Box<Coder>),
    /// `beam:coder:sharded_key:v1`: shard id bytes, then key.
    ShardedKey(Box<Coder>),
    /// `beam:coder:global_window:v1`: no bytes.
    GlobalWindow,
    /// `beam:coder:interval_window:v1`: end, then varint length.
    IntervalWindow,
    /// `beam:coder:custom_window:v1`: end timestamp, then the wrapped window.
    CustomWindow(Box<Coder>),
    /// `beam:coder:windowed_value:v1` (value, window).
    WindowedValue(Box<Coder>, Box<Coder>),
    /// `beam:coder:param_windowed_value:v1` (value, window): only the value goes over the wire, and all
    /// values share one header, given here as the coder's payload has it.
    ParamWindowedValue(Box<Coder>, Box<Coder>, Bytes),
    /// `beam:coder:timer:v1` (key, window).
    Timer(Box<Coder>, Box<Coder>),
    /// `beam:coder:row:v1`, by its schema.
    Row(Schema),
    /// Anything else, by its URN: no boundaries known.
    Opaque(String),
}
