//! Bytes to model and back, for the coders a runner must understand.
//!
//! All functions here read from the front of a byte slice, which they advance past what they read,
//! and write to the end of a vector. Every encoding is Beam's *nested* one, which knows its own
//! end, since that is what travels between runner and harness. Nothing panics, whatever the bytes
//! are.

mod error;
mod input;
mod key_hash;
mod row;

pub mod iterable;
pub mod kv;
pub mod length;
pub mod length_prefix;
pub mod merge_windows;
pub mod pane;
pub mod timer;
pub mod timestamp;
pub mod value;
pub mod varint;
pub mod window;
pub mod windowed_value;

pub use error::Error;
pub use key_hash::key_hash;

/// What reading an encoding gives.
pub type Result<T> = std::result::Result<T, Error>;
