//! User state: what DoFns keep per key and window.

use std::ops::Bound;

use bytes::Bytes;

use crate::model::ids::StageId;

/// Names one state cell. Ordered so that a window's cells stand together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StateAddress {
    pub stage: StageId,
    /// The encoded window.
    pub window: Bytes,
    /// The encoded key.
    pub key: Bytes,
    /// The transform's id and the state's name.
    pub transform: String,
    pub name: String,
}

/// One entry of a cell: a bag is one entry, a multimap has one per map key, an ordered list one per sort key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StateEntry {
    Bag,
    MapKey(Bytes),
    SortKey(i64),
}

/// Committed user state.
pub trait UserStateTable {
    /// The values of one entry, as they were appended.
    fn values(&self, address: &StateAddress, entry: &StateEntry) -> &[Bytes];

    /// The entries of a cell from `from` on, in order; each has values.
    fn entries(
        &self,
        address: &StateAddress,
        from: Bound<&StateEntry>,
    ) -> impl Iterator<Item = &StateEntry>;

    /// Appends to one entry.
    fn append(&mut self, address: &StateAddress, entry: StateEntry, values: Vec<Bytes>);

    /// Removes one entry.
    fn remove(&mut self, address: &StateAddress, entry: &StateEntry);

    /// Removes a cell.
    fn clear(&mut self, address: &StateAddress);

    /// Removes everything that a stage keeps for an encoded window.
    fn expire(&mut self, stage: StageId, window: &Bytes);
}
