//! Committed elements on their way to the stage, and the lane, that consumes them.

use crate::engine::group_by_key::KeyedBatch;
use crate::engine::keyed::KeyedElements;
use crate::engine::merge_windows::MergedKey;
use crate::engine::side_input::SideInputBatch;
use crate::model::element::Chunk;
use crate::model::ids::StageId;

/// Elements for one consumer on one lane.
#[derive(Debug)]
pub struct Delivery {
    pub stage: StageId,
    pub payload: Payload,
}

/// Elements in the form their consumer keeps them in.
#[derive(Debug)]
pub enum Payload {
    /// For the queue of a stage without keys.
    Queue(Vec<Chunk>),
    /// For a stage with keys.
    Keyed(KeyedElements),
    /// For a group-by-key.
    Group(Box<KeyedBatch>),
    /// What an SDK says of windows that a group-by-key asked about.
    Merged(Vec<MergedKey>),
    /// For a side input of the stage, by index.
    SideInput { index: usize, batch: SideInputBatch },
}
