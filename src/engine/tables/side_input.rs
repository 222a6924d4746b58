//! Contents of side inputs, by stage, side input and encoded window.

use bytes::Bytes;

use crate::engine::tables::group::Values;
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
    /// Adds values. A pane newer than what the window holds replaces it; an older one is dropped.
    fn extend(&mut self, address: &SideInputAddress, pane: i64, values: Values);

    /// Adds a value to a multimap, where panes count for each key by itself.
    fn put(&mut self, address: &SideInputAddress, pane: i64, key: Bytes, value: Bytes);

    /// One page of whole values, back to back: the first, or that at `from`. `None` when what there is now has
    /// no such page: a newer pane has come since.
    fn values(
        &self,
        address: &SideInputAddress,
        key: Option<&Bytes>,
        from: Option<ValuesPage>,
    ) -> Option<(Bytes, Option<ValuesPage>)>;

    /// One page of a multimap's distinct encoded keys, behind the key `after`, and which key was the last if
    /// there are more.
    fn keys(
        &self,
        address: &SideInputAddress,
        after: Option<&[u8]>,
        bytes_max: usize,
    ) -> (Bytes, Option<Bytes>);

    /// One page of (key, big-endian count of values, values), like [`Self::keys`].
    fn keys_values(
        &self,
        address: &SideInputAddress,
        after: Option<&[u8]>,
        bytes_max: usize,
    ) -> (Bytes, Option<Bytes>);
}

/// Names a page of values, which stays the same as long as the pane does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValuesPage {
    pub pane: i64,
    pub number: u64,
}
