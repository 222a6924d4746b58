//! Whole values, decoded: for tests, for what people are shown, and for the few values the runner
//! makes up.
//!
//! The data path never comes here; it cuts bytes with [`length`](crate::coder::length).

mod decode;
mod encode;
mod row;
#[cfg(test)]
mod tests;

use bytes::Bytes;

use crate::model::element::ElementHeader;
use crate::model::timer::TimerFiring;
use crate::model::window::Window;

pub use decode::{decode, decode_all};
pub use encode::encode;

/// Whether an encoding must know its own end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// Something may follow: what has no end of its own is preceded by its length. All that runner
    /// and harness exchange is in this context.
    Nested,
    /// Nothing follows: the last part of the value goes on to the end of the bytes.
    Outer,
}

/// A decoded value of any coder that the runner knows.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// The absent value of a nullable, or of a field of a row.
    Null,
    Bool(bool),
    /// Of a varint, and of a row's byte, int16, int32 and int64.
    Int(i64),
    Float(f32),
    Double(f64),
    Text(String),
    /// Bytes, and what is length-prefixed around an opaque coder.
    Bytes(Bytes),
    Pair(Box<Value>, Box<Value>),
    /// Of an iterable that is all there, and of an array.
    List(Vec<Value>),
    /// Of a state-backed iterable whose rest is in the runner's state, under `token`.
    Continued {
        elements: Vec<Value>,
        token: Bytes,
    },
    Map(Vec<(Value, Value)>),
    /// The fields in the order of the schema.
    Row(Vec<Value>),
    /// Of a row's instant in milliseconds; not clamped to Beam's bounds, which it may exceed.
    Instant(i64),
    /// `unscaled` is in two's complement, big endian; the value is unscaled · 10^-scale.
    Decimal {
        scale: i64,
        unscaled: Bytes,
    },
    Window(Window),
    Timer(Box<TimerValue>),
    ShardedKey {
        shard: Bytes,
        key: Box<Value>,
    },
    Windowed(Box<ElementHeader>, Box<Value>),
}

/// A timer whose key is decoded.
#[derive(Clone, Debug, PartialEq)]
pub struct TimerValue {
    pub key: Value,
    pub tag: Bytes,
    pub windows: Vec<Window>,
    pub firing: Option<TimerFiring>,
}
