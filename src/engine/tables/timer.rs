//! Timers that are set.

use bytes::Bytes;

use crate::model::ids::StageId;
use crate::model::time::Timestamp;
use crate::model::timer::{TimeDomain, TimerFiring};
use crate::model::window::Window;

/// Names one timer of a stage: setting it again replaces it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimerId {
    /// The encoded key.
    pub key: Bytes,
    pub window: Window,
    /// Index of the family in the stage.
    pub family: usize,
    pub tag: Bytes,
}

/// Timers by name and by due time.
pub trait TimerTable {
    /// Sets a timer; returns what it was set to before.
    fn set(
        &mut self,
        stage: StageId,
        domain: TimeDomain,
        id: TimerId,
        firing: TimerFiring,
    ) -> Option<TimerFiring>;

    /// Clears a timer; returns what it was set to.
    fn clear(&mut self, stage: StageId, domain: TimeDomain, id: &TimerId) -> Option<TimerFiring>;

    /// The earliest time at which a timer of the domain fires.
    fn next(&self, stage: StageId, domain: TimeDomain) -> Option<Timestamp>;

    /// Timers of the domain that fire at or before `until`, in order, as long as `visit` says so.
    fn due(
        &self,
        stage: StageId,
        domain: TimeDomain,
        until: Timestamp,
        visit: &mut dyn FnMut(Timestamp, &TimerId) -> bool,
    );

    /// The timers of one key in the domain that fire first, at the same time, if that is not after `until`.
    fn first_of_key(
        &self,
        stage: StageId,
        domain: TimeDomain,
        key: &Bytes,
        until: Timestamp,
    ) -> Vec<(TimerId, TimerFiring)>;

    /// Clears the timers of a window; returns what they were set to.
    fn expire(&mut self, stage: StageId, window: &Window) -> Vec<TimerFiring>;
}
