//! Elements as they travel: encoded bytes with what the runner needs to know about them.

use bytes::Bytes;

use crate::model::pane::PaneInfo;
use crate::model::time::Timestamp;
use crate::model::window::Window;

/// What precedes the value in an encoded windowed value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElementHeader {
    pub timestamp: Timestamp,
    pub windows: Vec<Window>,
    pub pane: PaneInfo,
}

/// Some encoded windowed values of one PCollection, back to back.
///
/// Invariant: `bytes` holds exactly `count` elements and `min_timestamp` is the lowest of theirs
/// ([`Timestamp::MAX`] when there are none).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    pub bytes: Bytes,
    pub count: u32,
    pub min_timestamp: Timestamp,
}
