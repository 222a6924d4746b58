//! Merging the windows of a key.

use crate::model::window::{Window, WindowFn};

/// What comes of a new window among those a key has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merge {
    /// The window that takes the new one's place.
    pub result: Window,
    /// The windows of the key that are merged into it, itself included if the key has it.
    pub merged: Vec<Window>,
}

/// Decides which windows of a key become one.
///
/// Session windows are merged on the spot. A custom window fn merges in the SDK: its stage has to
/// ask for a [`Merge`] and to apply it when the answer comes.
pub trait Merger {
    /// `windows` are those the key has, none of which merge with each other.
    fn merge<'a>(&self, windows: impl Iterator<Item = &'a Window>, new: &Window) -> Merge;
}

/// What a window fn asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StandardMerger {
    /// Windows stay as they are.
    None,
    /// Intervals that overlap become one.
    Sessions,
}

impl StandardMerger {
    /// The merger for windows that need it.
    pub fn of(window_fn: &WindowFn) -> Self {
        match window_fn {
            WindowFn::Sessions { .. } => Self::Sessions,
            WindowFn::Global
            | WindowFn::Fixed { .. }
            | WindowFn::Sliding { .. }
            | WindowFn::Custom { .. } => Self::None,
        }
    }
}

impl Merger for StandardMerger {
    fn merge<'a>(&self, windows: impl Iterator<Item = &'a Window>, new: &Window) -> Merge {
        let mut result = new.clone();
        let mut merged = Vec::new();
        for window in windows {
            let united = match self {
                Self::None => (window == new).then(|| window.clone()),
                Self::Sessions => unite(&result, window),
            };
            if let Some(united) = united {
                merged.push(window.clone());
                result = united;
            }
        }
        Merge { result, merged }
    }
}

/// The span of two intervals that overlap; touching is not enough.
fn unite(left: &Window, right: &Window) -> Option<Window> {
    match (left, right) {
        (
            Window::Interval { start, end },
            Window::Interval {
                start: other_start,
                end: other_end,
            },
        ) if start < other_end && other_start < end => Some(Window::Interval {
            start: *start.min(other_start),
            end: *end.max(other_end),
        }),
        _ => (left == right).then(|| left.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::model::time::Timestamp;

    fn interval(start: i64, end: i64) -> Window {
        Window::Interval {
            start: Timestamp::from_millis(start),
            end: Timestamp::from_millis(end),
        }
    }

    #[test]
    fn sessions_that_overlap_become_one() {
        let windows = [interval(0, 10), interval(12, 20), interval(29, 35)];
        let merge = StandardMerger::Sessions.merge(windows.iter(), &interval(9, 19));
        assert_eq!(merge.result, interval(0, 20));
        assert_eq!(merge.merged, windows[..2]);
    }

    #[test]
    fn sessions_that_touch_stay_apart() {
        let windows = [interval(0, 10)];
        let merge = StandardMerger::Sessions.merge(windows.iter(), &interval(10, 20));
        assert_eq!(merge.result, interval(10, 20));
        assert!(merge.merged.is_empty());
    }
}
