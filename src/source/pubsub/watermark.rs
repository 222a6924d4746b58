//! How far event time has come: a lower bound on the timestamps of what is held and of what the
//! server will still deliver.
//!
//! Three things bound it.
//!
//! 1. The messages that are held. This bound is exact.
//! 2. The publish times still to come (the *base*). Where the server can be asked for the publish
//!    time of its oldest unacknowledged message, that is the base, and it is exact too: what was
//!    unacknowledged then is not older, and what is published later is younger. Where it cannot,
//!    the base is estimated by the lowest publish time among recent arrivals; once nothing has
//!    arrived for a while although there was room, by the clock. A broken stream may have lost
//!    messages on the way that come back only when their leases expire, so the estimate stands
//!    still until then.
//! 3. When event times come from an attribute, how far they were behind publish times among recent
//!    arrivals (the *lag*, never less than a minimum): an event time is taken to be at least
//!    base − lag. This is a guess, as any statement about the event times of unseen messages is.
//!
//! Invariant: the watermark never goes back, whatever arrives.

use std::collections::{BTreeMap, VecDeque};

use crate::model::{Millis, Timestamp};

/// How the watermark of a read is found.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Event times come from an attribute, so that they may be behind the publish time.
    pub by_attribute: bool,
    /// How long arrivals count in the estimated base.
    pub arrival_memory: Millis,
    /// How long a lag is remembered.
    pub lag_memory: Millis,
    /// The least that event times are taken to be behind publish times.
    pub lag_min: Millis,
    /// Silence, with room to receive, after which the estimated base follows the clock.
    pub idle_after: Millis,
}

/// What bounds the watermark, for the person who wonders why it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// A message that is held.
    Held,
    /// The server's oldest unacknowledged message.
    OldestUnacknowledged,
    /// The publish times of recent arrivals.
    Arrivals,
    /// The clock: nothing has arrived for a while.
    Clock,
    /// Messages that a broken stream may have lost on the way.
    BrokenStream,
    /// Nothing is known yet.
    Unknown,
}

/// The watermark of one read.
#[derive(Debug)]
pub struct Watermark {
    settings: Settings,
    held: BTreeMap<Timestamp, u32>,
    /// Publish times of recent arrivals, lowest per bucket.
    publish: Recent,
    /// Publish time − event time of recent arrivals, highest per bucket (negated).
    lag: Recent,
    /// Arrival − publish time: how far our clock seems ahead of the server's.
    latency: Recent,
    last_arrival: Option<Timestamp>,
    first_arrival: Option<Timestamp>,
    /// Since when every stream has been open with room to receive.
    receptive_since: Option<Timestamp>,
    probed: Option<Timestamp>,
    broken_until: Timestamp,
    base: Timestamp,
    base_bound: Bound,
    latched: Timestamp,
}

impl Watermark {
    /// A watermark that stands at [`Timestamp::MIN`].
    pub fn new(settings: Settings) -> Self {
        Self {
            publish: Recent::new(settings.arrival_memory),
            lag: Recent::new(settings.lag_memory),
            latency: Recent::new(settings.lag_memory),
            settings,
            held: BTreeMap::new(),
            last_arrival: None,
            first_arrival: None,
            receptive_since: None,
            probed: None,
            broken_until: Timestamp::MIN,
            base: Timestamp::MIN,
            base_bound: Bound::Unknown,
            latched: Timestamp::MIN,
        }
    }

    /// A delivery came; the same message may have come before.
    pub fn arrive(&mut self, now: Timestamp, publish: Timestamp, event: Timestamp) {
        self.first_arrival.get_or_insert(now);
        self.last_arrival = Some(now);
        self.publish.add(now, publish.millis());
        self.lag.add(now, event.millis() - publish.millis());
        self.latency.add(now, now.millis() - publish.millis());
    }

    /// A message with this event time is held from now on.
    pub fn hold(&mut self, event: Timestamp) {
        *self.held.entry(event).or_insert(0) += 1;
    }

    /// A held message with this event time was settled.
    pub fn release(&mut self, event: Timestamp) {
        let count = self.held.get_mut(&event);
        debug_assert!(count.is_some(), "released {event}, which is not held");
        if let Some(count) = count {
            *count -= 1;
            if *count == 0 {
                self.held.remove(&event);
            }
        }
    }

    /// Every stream is open and has room, or one is not.
    pub fn set_receptive(&mut self, now: Timestamp, receptive: bool) {
        self.receptive_since = match self.receptive_since {
            Some(since) if receptive => Some(since),
            Some(_) | None => receptive.then_some(now),
        };
    }

    /// A stream broke, and what it may have lost comes back before `until`.
    pub fn stream_broke(&mut self, until: Timestamp) {
        self.broken_until = self.broken_until.max(until);
    }

    /// The server said that nothing published before `oldest` is unacknowledged or will come.
    pub fn probed(&mut self, oldest: Timestamp) {
        self.probed = Some(oldest);
    }

    /// The server cannot be asked any more.
    pub fn probe_ended(&mut self) {
        self.probed = None;
    }

    /// The watermark at `now`.
    pub fn advance(&mut self, now: Timestamp) -> Timestamp {
        self.advance_base(now);
        let held = self.held.keys().next().copied().unwrap_or(Timestamp::MAX);
        let new = self.expected_event().min(held);
        self.latched = self.latched.max(new);
        self.latched
    }

    /// What holds the watermark where [`Self::advance`] last found it.
    pub fn bound(&self) -> Bound {
        match self.held.keys().next() {
            Some(held) if *held <= self.expected_event() => Bound::Held,
            Some(_) | None => self.base_bound,
        }
    }

    /// The lowest event time that unseen messages are taken to have.
    fn expected_event(&self) -> Timestamp {
        if !self.settings.by_attribute {
            return self.base;
        }
        // An estimated base is behind by the memory of arrivals already.
        let lag_min = self.probed.map_or(0, |_| self.settings.lag_min);
        let lag = self.lag.lowest().map_or(self.settings.idle_after, |l| -l);
        self.base.plus(-lag.max(lag_min))
    }

    fn advance_base(&mut self, now: Timestamp) {
        let (base, bound) = match self.probed {
            Some(oldest) => (oldest, Bound::OldestUnacknowledged),
            None => self.estimate(now),
        };
        self.base_bound = bound;
        self.base = self.base.max(base);
    }

    fn estimate(&mut self, now: Timestamp) -> (Timestamp, Bound) {
        if now < self.broken_until {
            return (Timestamp::MIN, Bound::BrokenStream);
        }
        let quiet_since = self.receptive_since.max(self.last_arrival);
        let is_quiet = self.receptive_since.is_some()
            && quiet_since.is_some_and(|since| now >= since.plus(self.settings.idle_after));
        if is_quiet {
            let ahead = self.latency.lowest().unwrap_or(0).max(0);
            let clock = now.plus(-self.settings.idle_after - ahead);
            return (clock, Bound::Clock);
        }
        self.publish.forget(now);
        let warmed_up = self
            .first_arrival
            .is_some_and(|first| now >= first.plus(self.settings.arrival_memory));
        match self.publish.lowest() {
            Some(lowest) if warmed_up => (Timestamp::from_millis(lowest), Bound::Arrivals),
            Some(_) | None => (Timestamp::MIN, Bound::Unknown),
        }
    }
}

/// The lowest of the values that came within a span of time, kept by buckets. What is too old is
/// forgotten when something newer comes, or when told.
#[derive(Debug)]
struct Recent {
    bucket: Millis,
    /// Start of each bucket and its lowest value, oldest first.
    buckets: VecDeque<(i64, i64)>,
}

impl Recent {
    fn new(span: Millis) -> Self {
        Self {
            bucket: (span / Self::BUCKETS).max(1),
            buckets: VecDeque::new(),
        }
    }

    const BUCKETS: i64 = 10;

    fn add(&mut self, now: Timestamp, value: i64) {
        let index = now.millis().div_euclid(self.bucket);
        match self.buckets.back_mut() {
            Some((last, lowest)) if *last >= index => *lowest = value.min(*lowest),
            Some(_) | None => {
                self.buckets.push_back((index, value));
                self.forget(now);
            }
        }
    }

    fn forget(&mut self, now: Timestamp) {
        let oldest = now.millis().div_euclid(self.bucket) - Self::BUCKETS;
        while self
            .buckets
            .front()
            .is_some_and(|(index, _)| *index < oldest)
        {
            self.buckets.pop_front();
        }
    }

    fn lowest(&self) -> Option<i64> {
        self.buckets.iter().map(|(_, lowest)| *lowest).min()
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn settings(by_attribute: bool) -> Settings {
        Settings {
            by_attribute,
            arrival_memory: 2_000,
            lag_memory: 60_000,
            lag_min: 5,
            idle_after: 10_000,
        }
    }

    /// Runs a script, one event a line, and renders the watermark after each.
    ///
    /// `NOW arrive PUBLISH EVENT` (and hold), `NOW again PUBLISH EVENT` (known already),
    /// `NOW settle EVENT`, `NOW open`, `NOW shut`, `NOW broke UNTIL`, `NOW probe OLDEST`,
    /// `NOW unprobed`, `NOW`.
    fn check(by_attribute: bool, script: &str, expected: &Expect) {
        let mut watermark = Watermark::new(settings(by_attribute));
        let mut rendered = String::new();
        for line in script
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
        {
            let words: Vec<&str> = line.split_whitespace().collect();
            let time = |index: usize| at(words[index].parse().unwrap());
            let now = time(0);
            match words.get(1).copied() {
                Some("arrive") => {
                    watermark.arrive(now, time(2), time(3));
                    watermark.hold(time(3));
                }
                Some("again") => watermark.arrive(now, time(2), time(3)),
                Some("settle") => watermark.release(time(2)),
                Some("open") => watermark.set_receptive(now, true),
                Some("shut") => watermark.set_receptive(now, false),
                Some("broke") => watermark.stream_broke(time(2)),
                Some("probe") => watermark.probed(time(2)),
                Some("unprobed") => watermark.probe_ended(),
                None => {}
                Some(other) => panic!("{other}"),
            }
            let value = watermark.advance(now);
            rendered += &format!("{line:<28} {value} {:?}\n", watermark.bound());
        }
        expected.assert_eq(&rendered);
    }

    #[test]
    fn the_probe_makes_the_base_exact() {
        check(
            false,
            "0 open
             5000 probe 4900
             5100 arrive 4950 4950
             5200 probe 4950
             5300 probe 4950
             5400 settle 4950
             5700 probe 5600",
            &expect![[r#"
                0 open                       MIN Unknown
                5000 probe 4900              4900 OldestUnacknowledged
                5100 arrive 4950 4950        4900 OldestUnacknowledged
                5200 probe 4950              4950 Held
                5300 probe 4950              4950 Held
                5400 settle 4950             4950 OldestUnacknowledged
                5700 probe 5600              5600 OldestUnacknowledged
            "#]],
        );
    }

    #[test]
    fn an_attribute_trails_by_the_recent_lag() {
        check(
            true,
            "0 open
             100 probe 90000
             200 arrive 90100 90090
             300 settle 90090
             400 probe 91000
             500 arrive 91100 90000
             600 probe 92000
             700 settle 90000
             800 probe 93000
             70000 arrive 160000 160000
             70000 settle 160000
             70001 probe 160000",
            &expect![[r#"
                0 open                       MIN Unknown
                100 probe 90000              80000 OldestUnacknowledged
                200 arrive 90100 90090       89990 OldestUnacknowledged
                300 settle 90090             89990 OldestUnacknowledged
                400 probe 91000              90990 OldestUnacknowledged
                500 arrive 91100 90000       90990 OldestUnacknowledged
                600 probe 92000              90990 Held
                700 settle 90000             90990 OldestUnacknowledged
                800 probe 93000              91900 OldestUnacknowledged
                70000 arrive 160000 160000   92995 OldestUnacknowledged
                70000 settle 160000          92995 OldestUnacknowledged
                70001 probe 160000           159995 OldestUnacknowledged
            "#]],
        );
    }

    #[test]
    fn without_a_probe_it_follows_arrivals_and_then_the_clock() {
        check(
            false,
            "100000 open
             100100 arrive 100000 100000
             101000 arrive 100950 100950
             102100
             102200 settle 100000
             103300
             103400 settle 100950
             110900
             111000
             120000
             120100 shut
             130000
             140000 open
             149999
             150000
             150100 arrive 150050 150050",
            &expect![[r#"
                100000 open                  MIN Unknown
                100100 arrive 100000 100000  MIN Unknown
                101000 arrive 100950 100950  MIN Unknown
                102100                       100000 Held
                102200 settle 100000         100950 Held
                103300                       100950 Held
                103400 settle 100950         100950 Unknown
                110900                       100950 Unknown
                111000                       100950 Clock
                120000                       109950 Clock
                120100 shut                  109950 Unknown
                130000                       109950 Unknown
                140000 open                  109950 Unknown
                149999                       109950 Unknown
                150000                       139950 Clock
                150100 arrive 150050 150050  150050 Held
            "#]],
        );
    }

    #[test]
    fn a_broken_stream_holds_the_estimate_until_leases_expire() {
        check(
            false,
            "100000 open
             100000 arrive 100000 100000
             102000 arrive 102000 102000
             102100 settle 100000
             102100 settle 102000
             102500 broke 130000
             104000 arrive 104000 104000
             104000 settle 104000
             129000 arrive 101000 101000
             129001 settle 101000
             130000 again 129900 129900
             140000",
            &expect![[r#"
                100000 open                  MIN Unknown
                100000 arrive 100000 100000  MIN Unknown
                102000 arrive 102000 102000  100000 Held
                102100 settle 100000         100000 Arrivals
                102100 settle 102000         100000 Arrivals
                102500 broke 130000          100000 BrokenStream
                104000 arrive 104000 104000  100000 BrokenStream
                104000 settle 104000         100000 BrokenStream
                129000 arrive 101000 101000  100000 BrokenStream
                129001 settle 101000         100000 BrokenStream
                130000 again 129900 129900   101000 Arrivals
                140000                       130000 Clock
            "#]],
        );
    }

    #[test]
    fn a_clock_ahead_of_the_servers_is_allowed_for() {
        check(
            false,
            "100000 open
             160000 arrive 100000 100000
             160000 settle 100000
             170000
             180000",
            &expect![[r#"
                100000 open                  MIN Unknown
                160000 arrive 100000 100000  MIN Unknown
                160000 settle 100000         MIN Unknown
                170000                       100000 Clock
                180000                       110000 Clock
            "#]],
        );
    }

    proptest! {
        #[test]
        fn never_goes_back_and_never_passes_what_is_held(
            steps in prop::collection::vec((0u8..8, 0i64..3_000, -5_000i64..5_000), 1..200),
            by_attribute: bool,
        ) {
            let mut watermark = Watermark::new(settings(by_attribute));
            let (mut now, mut last) = (100_000, Timestamp::MIN);
            let mut held: Vec<Timestamp> = Vec::new();
            for (what, later, offset) in steps {
                now += later;
                let time = at(now + offset);
                match what {
                    0..3 => {
                        watermark.arrive(at(now), at(now - later), time);
                        if time >= last {
                            watermark.hold(time);
                            held.push(time);
                        }
                    }
                    3 => if let Some(event) = held.pop() {
                        watermark.release(event);
                    },
                    4 => watermark.set_receptive(at(now), offset > 0),
                    5 => watermark.stream_broke(time),
                    6 => watermark.probed(time),
                    _ => watermark.probe_ended(),
                }
                let value = watermark.advance(at(now));
                prop_assert!(value >= last);
                prop_assert!(held.iter().all(|event| value <= *event));
                last = value;
            }
        }
    }
}
