//! Contents of side inputs, by stage, side input and encoded window.

use bytes::Bytes;

use crate::model::ids::StageId;

/// Names one window of one side input.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SideInputAddress {
    /// The stage that reads it.
    pub stage: StageId,
    /// Index into the stage's side inputs.
    pub index: usize,
    /// The encoded window.
    pub window: Bytes,
}

/// Values of side inputs; a multimap's by key.
pub trait SideInputTable {
    /// Adds one value. A pane newer than what the window (of a multimap: the key in the window) holds
    /// replaces it; an older one is dropped.
    fn put(&mut self, address: &SideInputAddress, key: Option<Bytes>, pane: i64, value: &[u8]);

    /// One page of whole values, concatenated, from byte offset `from`, and where the next one starts.
    fn values(
        &self,
        address: &SideInputAddress,
        key: Option<&Bytes>,
        from: u64,
        bytes_max: usize,
    ) -> (Bytes, Option<u64>);

    /// One page of a multimap's distinct encoded keys, from key number `from`.
    fn keys(&self, address: &SideInputAddress, from: u64, bytes_max: usize)
    -> (Bytes, Option<u64>);

    /// One page of (key, big-endian count of values, values), from key number `from`.
    fn keys_values(
        &self,
        address: &SideInputAddress,
        from: u64,
        bytes_max: usize,
    ) -> (Bytes, Option<u64>);
}
