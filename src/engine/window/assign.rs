//! The windows of a timestamp under the standard window fns.

use crate::model::time::{Millis, Timestamp};
use crate::model::window::{Window, WindowFn};

/// The windows an element with this timestamp belongs to, latest first; none when only the SDK can
/// tell.
pub fn assign(window_fn: &WindowFn, timestamp: Timestamp) -> Vec<Window> {
    match *window_fn {
        WindowFn::Global => vec![Window::Global],
        WindowFn::Fixed { size, offset } => {
            vec![interval(last_start(timestamp, size, offset), size)]
        }
        WindowFn::Sliding {
            size,
            period,
            offset,
        } => {
            let last = last_start(timestamp, period, offset);
            let end = timestamp.millis();
            std::iter::successors(Some(last), |start| Some(start - period.max(1)))
                .take_while(|start| start + size > end)
                .map(|start| interval(start, size))
                .collect()
        }
        WindowFn::Sessions { gap } => vec![interval(timestamp.millis(), gap)],
        WindowFn::Custom { .. } => Vec::new(),
    }
}

/// The window of a side input that belongs to a window of the main input: the earliest one that
/// contains the main window's last timestamp. `None` when only the SDK can tell.
pub fn side_input_window(window_fn: &WindowFn, main_window: &Window) -> Option<Window> {
    assign(window_fn, main_window.max_timestamp()).pop()
}

/// The latest start of a window at or before the timestamp, when one starts every `period`.
fn last_start(timestamp: Timestamp, period: Millis, offset: Millis) -> Millis {
    let millis = timestamp.millis();
    millis - (millis - offset).rem_euclid(period.max(1))
}

/// Ends no later than the global window, as the window must end before the last watermark.
fn interval(start: Millis, size: Millis) -> Window {
    let end = start
        .saturating_add(size)
        .min(Timestamp::GLOBAL_WINDOW_MAX.millis() + 1);
    Window::Interval {
        start: Timestamp::from_millis(start),
        end: Timestamp::from_millis(end),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    const FIXED: WindowFn = WindowFn::Fixed {
        size: 10,
        offset: 0,
    };
    const SLIDING: WindowFn = WindowFn::Sliding {
        size: 10,
        period: 4,
        offset: 1,
    };
    const SESSIONS: WindowFn = WindowFn::Sessions { gap: 10 };

    fn show(windows: impl IntoIterator<Item = Window>) -> String {
        let texts: Vec<String> = windows
            .into_iter()
            .map(|window| match window {
                Window::Interval { start, end } => format!("[{start},{end})"),
                other => format!("{other:?}"),
            })
            .collect();
        texts.join(" ")
    }

    fn check(window_fn: &WindowFn, timestamps: &[i64], expected: Expect) {
        let lines: String = timestamps
            .iter()
            .map(|&millis| {
                let windows = assign(window_fn, Timestamp::from_millis(millis));
                format!("{millis}: {}\n", show(windows))
            })
            .collect();
        expected.assert_eq(&lines);
    }

    #[test]
    fn assigns_fixed() {
        check(
            &FIXED,
            &[-11, -10, -1, 0, 9, 10],
            expect![[r#"
            -11: [-20,-10)
            -10: [-10,0)
            -1: [-10,0)
            0: [0,10)
            9: [0,10)
            10: [10,20)
        "#]],
        );
        let offset = WindowFn::Fixed {
            size: 10,
            offset: 3,
        };
        check(
            &offset,
            &[2, 3, 12],
            expect![[r#"
            2: [-7,3)
            3: [3,13)
            12: [3,13)
        "#]],
        );
    }

    #[test]
    fn assigns_sliding_latest_first() {
        check(
            &SLIDING,
            &[0, 1, 5],
            expect![[r#"
            0: [-3,7) [-7,3)
            1: [1,11) [-3,7) [-7,3)
            5: [5,15) [1,11) [-3,7)
        "#]],
        );
    }

    #[test]
    fn sliding_with_gaps_may_assign_none() {
        let sparse = WindowFn::Sliding {
            size: 2,
            period: 10,
            offset: 0,
        };
        check(
            &sparse,
            &[1, 2],
            expect![[r#"
            1: [0,2)
            2: 
        "#]],
        );
    }

    #[test]
    fn windows_end_with_time() {
        check(
            &FIXED,
            &[
                Timestamp::MIN.millis(),
                Timestamp::GLOBAL_WINDOW_MAX.millis(),
            ],
            expect![[r#"
                -9223372036854775: [MIN,-9223372036854770)
                9223371950454775: [9223371950454770,9223371950454776)
            "#]],
        );
    }

    #[test]
    fn maps_side_input_windows() {
        let main = Window::Interval {
            start: Timestamp::from_millis(1),
            end: Timestamp::from_millis(6),
        };
        let map = |window_fn| show(side_input_window(window_fn, &main));
        assert_eq!(map(&WindowFn::Global), "Global");
        assert_eq!(map(&FIXED), "[0,10)");
        assert_eq!(map(&SLIDING), "[-3,7)");
        assert_eq!(map(&SESSIONS), "[5,15)");
        assert_eq!(
            side_input_window(&WindowFn::Custom { urn: String::new() }, &main),
            None
        );
    }
}
