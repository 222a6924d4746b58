//! The emulator's clock: real time, and what it was set ahead.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use crate::pubsub_emulator::delivery::Time;
use crate::telemetry::clock;

/// Goes at the pace of real time, never back, and can be set ahead.
#[derive(Debug)]
pub(super) struct Clock {
    started: Instant,
    started_at: Time,
    ahead_nanos: AtomicI64,
}

impl Clock {
    /// The clock that shows real time.
    pub(super) fn new() -> Clock {
        Clock {
            started: clock::instant(),
            started_at: Time::from_nanos(clock::unix_millis().saturating_mul(1_000_000)),
            ahead_nanos: AtomicI64::new(0),
        }
    }

    /// What it shows.
    pub(super) fn now(&self) -> Time {
        let elapsed = clock::instant().saturating_duration_since(self.started);
        let ahead = self.ahead_nanos.load(Ordering::Relaxed);
        let ahead = Duration::from_nanos(ahead.unsigned_abs());
        self.started_at.plus(elapsed).plus(ahead)
    }

    /// Sets it ahead.
    pub(super) fn advance(&self, by: Duration) {
        let nanos = i64::try_from(by.as_nanos()).unwrap_or(0);
        self.ahead_nanos.fetch_add(nanos, Ordering::Relaxed);
    }
}
