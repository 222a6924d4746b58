//! Windowing strategies: how a group-by-key collects, fires and forgets.

use crate::model::coder::Coder;
use crate::model::ids::EnvironmentId;
use crate::model::time::Millis;
use crate::model::window::WindowFn;

/// Beam's WindowingStrategy, read and checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowingStrategy {
    pub window_fn: WindowFn,
    /// The windows of a key must be merged before they are grouped.
    pub needs_merge: bool,
    /// How a window looks on the wire: global, interval or custom window coder.
    pub window_coder: Coder,
    pub trigger: Trigger,
    pub accumulation: AccumulationMode,
    pub output_time: OutputTime,
    /// Fire a last pane at expiry even when it is empty.
    pub closing_always: bool,
    /// Fire the on-time pane even when it is empty.
    pub on_time_always: bool,
    /// A pane is the last one of its window only if the trigger has finished, and not because the window
    /// expires: the Python SDK's idea of it.
    pub last_by_trigger_only: bool,
    pub allowed_lateness: Millis,
    /// The environment whose SDK knows a custom window fn.
    pub environment: Option<EnvironmentId>,
}

/// Whether a pane repeats what earlier panes of the window held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccumulationMode {
    Discarding,
    Accumulating,
}

/// Which timestamp a pane gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputTime {
    EndOfWindow,
    Latest,
    Earliest,
}

/// Beam's Trigger message, as a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// Repeats at the end of the window and then per late element.
    Default,
    Always,
    Never,
    ElementCount(u32),
    AfterEndOfWindow {
        early: Option<Box<Trigger>>,
        late: Option<Box<Trigger>>,
    },
    AfterProcessingTime(Vec<TimestampTransform>),
    AfterSynchronizedProcessingTime,
    AfterAll(Vec<Trigger>),
    AfterAny(Vec<Trigger>),
    AfterEach(Vec<Trigger>),
    OrFinally {
        main: Box<Trigger>,
        finally: Box<Trigger>,
    },
    Repeat(Box<Trigger>),
}

impl Trigger {
    /// Whether it may fire before the end of the window.
    pub fn may_fire_early(&self) -> bool {
        !matches!(
            self,
            Self::Default | Self::Never | Self::AfterEndOfWindow { early: None, .. }
        )
    }
}

/// A step of the time at which a processing-time trigger fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimestampTransform {
    Delay(Millis),
    AlignTo { period: Millis, offset: Millis },
}
