//! Which failures pass by themselves, and how long to wait before the next try.

use std::time::Duration;

use tonic::Code;

/// Whether a call, stream or not, that ended with `code` is worth repeating. The service ends every
/// stream sooner or later, so "no error" is among them.
pub const fn passes(code: Code) -> bool {
    match code {
        Code::Ok
        | Code::Cancelled
        | Code::Unknown
        | Code::DeadlineExceeded
        | Code::ResourceExhausted
        | Code::Aborted
        | Code::Internal
        | Code::Unavailable => true,
        Code::InvalidArgument
        | Code::NotFound
        | Code::AlreadyExists
        | Code::PermissionDenied
        | Code::FailedPrecondition
        | Code::OutOfRange
        | Code::Unimplemented
        | Code::DataLoss
        | Code::Unauthenticated => false,
    }
}

/// Exponential backoff with jitter.
#[derive(Clone, Debug)]
pub struct Backoff {
    delay_max: Duration,
    next: Duration,
    last: Duration,
    random: u64,
}

impl Backoff {
    /// Starts at [`Self::FIRST`]. Backoffs with different seeds do not wait in step.
    pub const fn new(seed: u64, delay_max: Duration) -> Self {
        Self {
            delay_max,
            next: Self::FIRST,
            last: Duration::ZERO,
            random: seed,
        }
    }

    /// The delay after the first failure, before jitter.
    pub const FIRST: Duration = Duration::from_millis(100);

    /// How long to wait now: half to all of a delay that doubles with each failure.
    pub fn fail(&mut self) -> Duration {
        let delay = self.next.min(self.delay_max);
        self.next = (delay * 2).min(self.delay_max);
        let share = (self.draw() >> 40) as u32;
        self.last = delay / 2 + (delay / 2).mul_f64(f64::from(share) / f64::from(1u32 << 24));
        self.last
    }

    /// The last delay. What then went well for longer than that has succeeded.
    pub const fn last(&self) -> Duration {
        self.last
    }

    /// Something went well: the next failure counts as the first.
    pub const fn succeed(&mut self) {
        self.next = Self::FIRST;
        self.last = Duration::ZERO;
    }

    /// SplitMix64.
    const fn draw(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_longer_each_time_up_to_the_limit() {
        let mut backoff = Backoff::new(1, Duration::from_secs(2));
        let mut longest = Duration::from_millis(100);
        for _ in 0..12 {
            let delay = backoff.fail();
            assert!(delay >= longest / 2 && delay <= longest, "{delay:?}");
            longest = (longest * 2).min(Duration::from_secs(2));
        }
        backoff.succeed();
        assert!(backoff.fail() <= Backoff::FIRST);
    }

    #[test]
    fn the_seed_decides_the_jitter() {
        let delays = |seed| {
            let mut backoff = Backoff::new(seed, Duration::from_secs(60));
            [backoff.fail(), backoff.fail(), backoff.fail()]
        };
        assert_eq!(delays(1), delays(1));
        assert_ne!(delays(1), delays(2));
    }

    #[test]
    fn what_somebody_must_change_is_not_retried() {
        for code in [
            Code::NotFound,
            Code::PermissionDenied,
            Code::FailedPrecondition,
            Code::InvalidArgument,
        ] {
            assert!(!passes(code), "{code:?}");
        }
        for code in [
            Code::DeadlineExceeded,
            Code::ResourceExhausted,
            Code::Aborted,
            Code::Internal,
            Code::Unavailable,
        ] {
            assert!(passes(code), "{code:?}");
        }
    }
}
