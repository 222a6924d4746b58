//! Which pane of its window a firing is.

use crate::model::pane::{PaneInfo, PaneTiming};

/// The pane that follows `previous`, the last one emitted for the key's window.
///
/// `can_be_on_time`: the window's state still holds the output watermark at the window's end or
/// before, so that what comes downstream takes the pane for on time.
pub(super) fn next(
    previous: Option<PaneInfo>,
    window_ended: bool,
    can_be_on_time: bool,
    is_last: bool,
) -> PaneInfo {
    let early_so_far = previous.is_none_or(|pane| pane.timing == PaneTiming::Early);
    let timing = match (window_ended, early_so_far && can_be_on_time) {
        (false, _) if early_so_far => PaneTiming::Early,
        (true, true) => PaneTiming::OnTime,
        _ => PaneTiming::Late,
    };
    let non_speculative_index = match (timing, previous) {
        (PaneTiming::Early, _) => -1,
        (_, Some(pane)) => pane.non_speculative_index + 1,
        (_, None) => 0,
    };
    PaneInfo {
        timing,
        is_first: previous.is_none(),
        is_last,
        index: previous.map_or(0, |pane| pane.index + 1),
        non_speculative_index,
    }
}
