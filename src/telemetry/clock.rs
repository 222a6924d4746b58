//! The sole reader of the OS clock.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Milliseconds since the Unix epoch.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place that reads the wall clock"
)]
pub fn unix_millis() -> i64 {
    let since_epoch = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or(Duration::ZERO);
    i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX)
}

/// A monotonic instant, for measuring durations.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place that reads the monotonic clock"
)]
pub fn instant() -> Instant {
    Instant::now()
}
