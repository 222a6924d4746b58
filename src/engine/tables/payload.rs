//! Payload that a job holds: elements that wait, values of groups, side inputs and state.

use bytes::Bytes;

/// Holds payload, outside of memory where that is short.
pub trait PayloadTable {
    /// Memory is short: what may be held for long goes through [`Self::keep`].
    fn is_short(&self) -> bool;

    /// Whether what was to be kept last found room, or would now: what is about to be committed would have none else.
    ///
    /// # Errors
    ///
    /// When there is no room.
    fn check(&mut self) -> Result<(), PayloadError>;

    /// The same bytes in another place, which takes no memory that cannot be had back.
    ///
    /// # Errors
    ///
    /// When there is no room for them.
    fn keep(&mut self, bytes: &Bytes, reading: Reading) -> Result<Bytes, PayloadError>;

    /// These bytes will be read soon, whether they are kept or not.
    fn expect(&self, bytes: &[u8]);
}

/// How kept payload will be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// In the order in which it was kept.
    InOrder,
    /// Here and there; what is long is expected first.
    Anywhere,
}

/// Payload has no room outside of memory: why, where, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PayloadError(pub String);
