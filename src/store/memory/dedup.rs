//! Which messages were committed within the last minutes.
//!
//! An id takes 16 bytes however long it is. Message ids are decimal numbers, and those are kept
//! exactly. Any other id is kept as 127 bits of its SHA-256: among a thousand million ids the chance
//! that two share these bits is below 10⁻²⁰, and since the hash resists collisions nobody who
//! publishes can make them share. A shorter or weaker hash would not do, because a collision means
//! that a message is dropped without a trace. The hash has no seed, so that stored ids stay valid
//! over restarts.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use sha2::{Digest, Sha256};

use crate::engine::tables::DedupTable;
use crate::model::{Millis, StageId, Timestamp};

/// Committed ids by read stage.
#[derive(Debug, Default)]
pub struct MemoryDedup {
    stages: BTreeMap<StageId, DedupSet>,
}

impl MemoryDedup {
    /// How many ids are remembered.
    pub fn len(&self) -> usize {
        self.stages.values().map(DedupSet::len).sum()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl DedupTable for MemoryDedup {
    fn check(&mut self, stage: StageId, id: &[u8], now: Timestamp) -> bool {
        let Some(seen) = self.stages.get_mut(&stage) else {
            return false;
        };
        let id = DedupId::of(id);
        let known = seen.check(id, now);
        if known {
            seen.insert(id, now);
        }
        known
    }

    fn insert(&mut self, stage: StageId, id: &[u8], now: Timestamp) {
        self.stages
            .entry(stage)
            .or_insert_with(|| DedupSet::new(DedupSet::HORIZON))
            .insert(DedupId::of(id), now);
    }

    fn expire(&mut self, now: Timestamp) {
        for seen in self.stages.values_mut() {
            seen.expire(now);
        }
    }
}

/// What stands for a deduplication id in the set and in stored rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DedupId([u8; 16]);

impl DedupId {
    /// The id of these bytes; the same for equal bytes in every process and version.
    pub fn of(bytes: &[u8]) -> Self {
        if let Some(number) = decimal(bytes) {
            return Self(number.to_be_bytes());
        }
        let digest: [u8; 32] = Sha256::digest(bytes).into();
        let mut id = [0; 16];
        id.copy_from_slice(&digest[..16]);
        id[0] |= HASHED;
        Self(id)
    }

    /// As stored.
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0
    }

    /// From what [`Self::to_bytes`] gave.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }
}

/// The ids seen within a horizon, each with the minute it was last seen in.
///
/// ```
/// use tidemill::model::Timestamp;
/// use tidemill::store::memory::{DedupId, DedupSet};
///
/// let at = |minute: i64| Timestamp::from_millis((29_900_000 + minute) * 60_000);
/// let mut seen = DedupSet::new(DedupSet::HORIZON);
/// let id = DedupId::of(b"17");
/// seen.insert(id, at(0));
/// assert!(seen.check(id, at(10)));
/// seen.insert(id, at(10)); // seen again: remembered for ten minutes more
/// assert!(seen.check(id, at(20)));
/// seen.expire(at(30));
/// assert_eq!(seen.len(), 0);
/// ```
#[derive(Clone, Debug)]
pub struct DedupSet {
    /// How many whole minutes an id is remembered after the one it was last seen in.
    horizon_minutes: i64,
    last_seen: HashMap<DedupId, Minute, FxBuildHasher>,
    /// Every id seen before this minute is gone.
    expired_before: i64,
}

impl DedupSet {
    /// Ten minutes, as Dataflow promises.
    pub const HORIZON: Millis = 600_000;

    /// An empty set that remembers ids for at least `horizon`, and at most a minute longer.
    pub fn new(horizon: Millis) -> Self {
        Self {
            horizon_minutes: (horizon.max(0) + MINUTE - 1) / MINUTE,
            last_seen: HashMap::default(),
            expired_before: i64::MIN,
        }
    }

    /// Whether `id` was inserted within the horizon before `now`.
    pub fn check(&self, id: DedupId, now: Timestamp) -> bool {
        self.last_seen
            .get(&id)
            .is_some_and(|minute| minute.absolute() >= self.oldest_kept(now))
    }

    /// Remembers `id` from `now` on, which is when the message's effects are committed, or when a
    /// duplicate of it came.
    pub fn insert(&mut self, id: DedupId, now: Timestamp) {
        let minute = Minute::of(now);
        let last_seen = self.last_seen.entry(id).or_insert(minute);
        if last_seen.absolute() < minute.absolute() {
            *last_seen = minute;
        }
    }

    /// Forgets what is beyond the horizon; returns how many ids that were. Does nothing until a
    /// new minute has begun.
    pub fn expire(&mut self, now: Timestamp) -> usize {
        let oldest_kept = self.oldest_kept(now);
        if oldest_kept <= self.expired_before {
            return 0;
        }
        self.expired_before = oldest_kept;
        let before = self.last_seen.len();
        self.last_seen
            .retain(|_, minute| minute.absolute() >= oldest_kept);
        if self.last_seen.capacity() > 4 * self.last_seen.len().max(1_024) {
            self.last_seen.shrink_to(2 * self.last_seen.len());
        }
        before - self.last_seen.len()
    }

    /// How many ids are remembered.
    pub fn len(&self) -> usize {
        self.last_seen.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.last_seen.is_empty()
    }

    const fn oldest_kept(&self, now: Timestamp) -> i64 {
        now.millis().div_euclid(MINUTE) - self.horizon_minutes
    }
}

/// Minutes since the epoch in three bytes, which suffice for 31 years before they wrap: with the
/// id an entry is 19 bytes and needs no padding.
#[derive(Clone, Copy, Debug)]
struct Minute([u8; 3]);

impl Minute {
    /// 2020-01-01, before which no clock of ours stands.
    const FIRST: i64 = 26_297_280;

    fn of(time: Timestamp) -> Self {
        let minute = time.millis().div_euclid(MINUTE) - Self::FIRST;
        let [a, b, c, ..] = minute.clamp(0, 0xff_ffff).to_le_bytes();
        Self([a, b, c])
    }

    fn absolute(self) -> i64 {
        let [a, b, c] = self.0;
        i64::from(u32::from_le_bytes([a, b, c, 0])) + Self::FIRST
    }
}

/// The value of a decimal number without leading zeros, if it fits below the bit that marks
/// hashes. Nothing else maps to it.
fn decimal(bytes: &[u8]) -> Option<u128> {
    let fits = (1..=DIGITS_MAX).contains(&bytes.len());
    let canonical = bytes == b"0" || bytes.first() != Some(&b'0');
    if !fits || !canonical {
        return None;
    }
    // Two halves in 64 bits are several times faster than one in 128.
    let (high, low) = bytes.split_at(bytes.len().saturating_sub(HALF_DIGITS));
    Some(u128::from(half(high)?) * HALF + u128::from(half(low)?))
}

fn half(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0, |sum, digit| {
        digit
            .is_ascii_digit()
            .then(|| sum * 10 + u64::from(digit - b'0'))
    })
}

const MINUTE: Millis = 60_000;
const HASHED: u8 = 0x80;
const DIGITS_MAX: usize = 37;
const HALF_DIGITS: usize = 19;
const HALF: u128 = 10_000_000_000_000_000_000;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(minute: i64, second: i64) -> Timestamp {
        Timestamp::from_millis(
            1_796_000_000_000 / MINUTE * MINUTE + minute * MINUTE + second * 1_000,
        )
    }

    #[test]
    fn remembers_for_the_horizon_and_at_most_a_minute_more() {
        let mut seen = DedupSet::new(DedupSet::HORIZON);
        let id = DedupId::of(b"a");
        assert!(!seen.check(id, at(0, 0)));
        seen.insert(id, at(0, 59));
        for (minute, second, known) in [(0, 59, true), (10, 59, true), (11, 0, false)] {
            assert_eq!(
                seen.check(id, at(minute, second)),
                known,
                "{minute}:{second}"
            );
        }
        assert_eq!(seen.expire(at(10, 59)), 0);
        assert_eq!(seen.expire(at(11, 0)), 1);
        assert!(seen.is_empty());
    }

    #[test]
    fn a_duplicate_starts_the_horizon_again() {
        let mut seen = DedupSet::new(DedupSet::HORIZON);
        let id = DedupId::of(b"a");
        seen.insert(id, at(0, 0));
        seen.insert(id, at(9, 0));
        seen.insert(id, at(5, 0)); // a late commit does not shorten it
        assert_eq!(seen.expire(at(15, 0)), 0);
        assert!(seen.check(id, at(19, 59)));
        assert_eq!(seen.len(), 1);
        assert_eq!(seen.expire(at(20, 0)), 1);
    }

    #[test]
    fn numbers_are_exact_and_the_rest_is_hashed() {
        for (id, hashed) in [
            ("0", false),
            ("17", false),
            ("9999999999999999999999999999999999999", false),
            ("00", true),
            ("017", true),
            ("10000000000000000000000000000000000000000", true),
            ("", true),
            ("-1", true),
            ("m5", true),
            ("0f8fad5b-d9cb-469f-a165-70867728950e", true),
        ] {
            let [first, ..] = DedupId::of(id.as_bytes()).to_bytes();
            assert_eq!(first & HASHED != 0, hashed, "{id:?}");
        }
        assert_eq!(
            DedupId::of(b"18446744073709551617").to_bytes(),
            18_446_744_073_709_551_617_u128.to_be_bytes()
        );
    }

    #[test]
    fn stages_do_not_share_ids_and_a_hit_counts_as_seen() {
        let (one, other) = (StageId(1), StageId(2));
        let mut table = MemoryDedup::default();
        table.insert(one, b"a", at(0, 0));
        assert!(!table.check(other, b"a", at(0, 0)));
        assert!(table.check(one, b"a", at(10, 0)));
        table.expire(at(20, 0));
        assert!(table.check(one, b"a", at(20, 0)));
        table.expire(at(31, 0));
        assert!(!table.check(one, b"a", at(31, 0)));
    }

    proptest! {
        #[test]
        fn different_ids_stay_different(a in "[0-9a-z-]{0,40}", b in "[0-9]{0,40}") {
            prop_assert_eq!(
                DedupId::of(a.as_bytes()) == DedupId::of(b.as_bytes()),
                a == b
            );
        }
    }
}
