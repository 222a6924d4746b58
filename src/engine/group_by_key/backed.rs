//! Groups too large to hand on whole: the harness gets their key and reads their values as state.
//!
//! The values belong to the work that waits or runs with the group, and go with it: to another try, to the part of
//! a split that has the element. They are gone once that work is committed.

use std::sync::Arc;

use bytes::Bytes;

use crate::engine::tables::group::BackedValues;
use crate::model::element::Chunk;
use crate::model::ids::StageId;

/// Fired panes, encoded.
#[derive(Debug)]
pub struct Fired {
    pub chunk: Chunk,
    /// Those of them whose values are read as state, in order.
    pub backed: Vec<BackedGroup>,
}

/// A group in a chunk whose values are read as state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackedGroup {
    /// Which element of the chunk it is.
    pub element: u32,
    pub id: BackedId,
    pub values: Arc<BackedValues>,
}

/// Names the values of a group towards harnesses, once and for all bundles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackedId {
    /// The stage that grouped.
    pub stage: StageId,
    pub number: u64,
    /// Where what the element itself does not hold starts.
    pub from: u64,
}

impl BackedId {
    /// Reads what [`Self::to_token`] wrote.
    pub fn of_token(mut token: &[u8]) -> Option<Self> {
        let id = Self {
            stage: StageId(u32::from_be_bytes(take(&mut token)?)),
            number: u64::from_be_bytes(take(&mut token)?),
            from: u64::from_be_bytes(take(&mut token)?),
        };
        token.is_empty().then_some(id)
    }

    /// The id as its element bears it.
    pub fn to_token(self) -> Bytes {
        let mut token = self.stage.0.to_be_bytes().to_vec();
        token.extend_from_slice(&self.number.to_be_bytes());
        token.extend_from_slice(&self.from.to_be_bytes());
        Bytes::from(token)
    }
}

/// Which groups have their values read as state, and how many were numbered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Backing {
    /// Those with more bytes of values than this.
    pub(super) bytes_max: usize,
    pub(super) stage: StageId,
    pub(super) next: u64,
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*taken)
}
