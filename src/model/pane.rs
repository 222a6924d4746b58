//! Panes: which firing of a window an element comes from.

/// When a pane fired, relative to the watermark passing the end of its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PaneTiming {
    Early,
    OnTime,
    Late,
    /// The element did not come out of a group-by-key.
    Unknown,
}

/// Beam's PaneInfo.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PaneInfo {
    pub timing: PaneTiming,
    pub is_first: bool,
    pub is_last: bool,
    /// Counts all panes of the key and window, from 0.
    pub index: i64,
    /// Counts panes that are not early, from 0; -1 for an early pane.
    pub non_speculative_index: i64,
}

impl PaneInfo {
    /// The pane of an element that no trigger has fired; encoded as 0x0F.
    pub const NO_FIRING: Self = Self {
        timing: PaneTiming::Unknown,
        is_first: true,
        is_last: true,
        index: 0,
        non_speculative_index: 0,
    };
}
