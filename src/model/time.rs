//! Event and processing time in Beam's unit, the millisecond.

use std::fmt;

/// A length of time in milliseconds; never negative in a valid pipeline.
pub type Millis = i64;

/// Milliseconds since the Unix epoch, within Beam's bounds (but see [`Self::of_window_bound`]).
///
/// Used for event time, watermarks and (as wall-clock time) processing time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// Beam's smallest timestamp, where every watermark starts.
    pub const MIN: Self = Self(-9_223_372_036_854_775);
    /// Beam's largest timestamp: a watermark here says that nothing more will come.
    pub const MAX: Self = Self(9_223_372_036_854_775);
    /// The maximum timestamp of the global window, one day before [`Self::MAX`].
    pub const GLOBAL_WINDOW_MAX: Self = Self(9_223_371_950_454_775);

    /// Clamps `millis` to Beam's bounds.
    pub const fn from_millis(millis: i64) -> Self {
        if millis < Self::MIN.0 {
            Self::MIN
        } else if millis > Self::MAX.0 {
            Self::MAX
        } else {
            Self(millis)
        }
    }

    /// The start or end of a window, not clamped: Java lets the first and last window of time reach a
    /// little beyond Beam's bounds, and its encoding must survive. So does the hold of a timer that holds nothing.
    pub const fn of_window_bound(millis: i64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the Unix epoch.
    pub const fn millis(self) -> i64 {
        self.0
    }

    /// This time moved by `delta` milliseconds, clamped to Beam's bounds.
    pub const fn plus(self, delta: Millis) -> Self {
        Self::from_millis(self.0.saturating_add(delta))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::MIN => f.write_str("MIN"),
            Self::MAX => f.write_str("MAX"),
            Self::GLOBAL_WINDOW_MAX => f.write_str("GLOBAL_MAX"),
            Self(millis) => write!(f, "{millis}"),
        }
    }
}
