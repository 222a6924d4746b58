//! Windows, and the window fns that the runner itself understands.

use bytes::Bytes;

use crate::model::time::{Millis, Timestamp};

/// A window, comparable and ordered by its maximum timestamp first.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Window {
    Global,
    /// `[start, end)`, as fixed, sliding and session windows have.
    Interval {
        start: Timestamp,
        end: Timestamp,
    },
    /// A window of a custom type: its maximum timestamp, and the bytes that follow it on the wire
    /// (with the length in front that the runner made the SDK write).
    Custom {
        max_timestamp: Timestamp,
        encoded: Bytes,
    },
}

impl Window {
    /// The last timestamp that belongs to the window.
    pub fn max_timestamp(&self) -> Timestamp {
        match self {
            Self::Global => Timestamp::GLOBAL_WINDOW_MAX,
            Self::Interval { end, .. } => end.plus(-1),
            // Beyond Beam's bounds no watermark would ever reach it.
            Self::Custom { max_timestamp, .. } => max_timestamp.plus(0),
        }
    }

    fn order(&self) -> (Timestamp, u8, Timestamp, &[u8]) {
        let max = self.max_timestamp();
        match self {
            Self::Global => (max, 0, Timestamp::MIN, &[]),
            Self::Interval { start, .. } => (max, 1, *start, &[]),
            Self::Custom { encoded, .. } => (max, 2, Timestamp::MIN, encoded),
        }
    }
}

impl Ord for Window {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.order().cmp(&other.order())
    }
}

impl PartialOrd for Window {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// How elements get their windows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WindowFn {
    Global,
    Fixed {
        size: Millis,
        offset: Millis,
    },
    Sliding {
        size: Millis,
        period: Millis,
        offset: Millis,
    },
    Sessions {
        gap: Millis,
    },
    /// Only the SDK can assign (and merge) these windows.
    Custom {
        urn: String,
    },
}
