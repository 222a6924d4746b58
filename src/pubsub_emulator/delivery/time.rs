//! The one timeline of the emulator.

use std::time::Duration;

/// A moment, in nanoseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(i64);

impl Time {
    /// The end of time: what never comes.
    pub const NEVER: Time = Time(i64::MAX);

    /// The moment `nanos` nanoseconds after the epoch.
    pub const fn from_nanos(nanos: i64) -> Time {
        Time(nanos)
    }

    /// The moment `seconds` seconds after the epoch.
    pub const fn from_seconds(seconds: i64) -> Time {
        Time(seconds.saturating_mul(1_000_000_000))
    }

    /// Nanoseconds since the epoch.
    pub const fn nanos(self) -> i64 {
        self.0
    }

    /// This moment moved into the future; saturates at [`Time::NEVER`].
    pub fn plus(self, by: Duration) -> Time {
        let nanos = i64::try_from(by.as_nanos()).unwrap_or(i64::MAX);
        Time(self.0.saturating_add(nanos))
    }

    /// This moment moved into the past.
    pub fn minus(self, by: Duration) -> Time {
        let nanos = i64::try_from(by.as_nanos()).unwrap_or(i64::MAX);
        Time(self.0.saturating_sub(nanos))
    }

    /// How long after `earlier` this is; zero if it is not.
    pub fn since(self, earlier: Time) -> Duration {
        let nanos = self.0.saturating_sub(earlier.0).max(0);
        Duration::from_nanos(nanos.unsigned_abs())
    }
}
