//! Timers as they travel between runner and harness.

use bytes::Bytes;

use crate::model::pane::PaneInfo;
use crate::model::time::Timestamp;
use crate::model::window::Window;

/// The clock a timer family follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TimeDomain {
    EventTime,
    ProcessingTime,
}

/// A timer set or cleared by user code, or firing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timer {
    /// The encoded key, as the wire has it.
    pub key: Bytes,
    /// The dynamic tag within the family; often empty.
    pub tag: Bytes,
    pub windows: Vec<Window>,
    /// `None`: the timer is cleared.
    pub firing: Option<TimerFiring>,
}

/// When a timer fires and what it holds until then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimerFiring {
    pub fire_at: Timestamp,
    /// The output timestamp, which holds the watermark until the timer fires or is cleared.
    pub hold: Timestamp,
    pub pane: PaneInfo,
}
