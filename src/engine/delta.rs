//! Deltas: everything one finished bundle changes, applied whole or not at all.

use crate::engine::action::Release;
use crate::engine::bundle::KeyedBundle;
use crate::engine::delivery::Delivery;
use crate::engine::queue::{Item, SourceWork};
use crate::model::ids::{LaneId, StageId};
use crate::model::time::Timestamp;

/// The effects of one committed bundle.
#[derive(Debug)]
pub struct Delta {
    /// The stage that ran.
    pub stage: StageId,
    /// Output, by the lane that takes it.
    pub deliveries: Vec<(LaneId, Delivery)>,
    /// Work of the same stage that is not done, with when to go on.
    pub residuals: Vec<(Timestamp, Item)>,
    /// Keys that the bundle worked on, with what it changes for them.
    pub keyed: Option<KeyedBundle>,
    /// Messages of native sources whose effects these are.
    pub consumed: Vec<SourceWork>,
    /// What may leave the process once the delta is durable.
    pub releases: Vec<Release>,
}
