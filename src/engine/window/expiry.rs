//! When windows end and when they are forgotten.

use crate::model::time::{Millis, Timestamp};
use crate::model::window::Window;

/// The window has ended once the watermark is beyond this: its last timestamp, which is never
/// beyond the global window's, so that the last watermark ends every window.
pub fn end(window: &Window) -> Timestamp {
    window.max_timestamp().min(Timestamp::GLOBAL_WINDOW_MAX)
}

/// The window has expired once the watermark is beyond this.
pub fn expiry(window: &Window, allowed_lateness: Millis) -> Timestamp {
    end(window)
        .plus(allowed_lateness.max(0))
        .min(Timestamp::GLOBAL_WINDOW_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_expires_with_the_last_watermark() {
        assert_eq!(end(&Window::Global), Timestamp::GLOBAL_WINDOW_MAX);
        assert_eq!(
            expiry(&Window::Global, i64::MAX),
            Timestamp::GLOBAL_WINDOW_MAX
        );
        let fixed = Window::Interval {
            start: Timestamp::from_millis(0),
            end: Timestamp::from_millis(10),
        };
        assert_eq!(end(&fixed).millis(), 9);
        assert_eq!(expiry(&fixed, 5).millis(), 14);
    }
}
