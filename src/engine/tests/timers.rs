//! Timers under the rig.

use super::*;
use crate::model::stage::TimerFamily;
use crate::model::timer::{TimeDomain, Timer, TimerFiring};

impl Builder {
    /// A stage with the timer family `later`.
    pub fn timed(&mut self, input: u32, domain: TimeDomain) -> u32 {
        let kind = ExecutableStage {
            keyed: true,
            timer_families: vec![TimerFamily {
                transform: "t".to_owned(),
                family: "later".to_owned(),
                domain,
                coder: Coder::Timer(Box::new(Coder::Bytes), Box::new(Coder::GlobalWindow)),
                on_window_expiration: false,
            }],
            ..executable()
        };
        let kind = StageKind::Executable(Box::new(kind));
        self.add("timed", kind, &[input], None)
    }
}

impl Rig {
    /// The bundle that started first sets the timer of a key.
    pub fn set_timer(&mut self, key: &str, fire_at: Timestamp, hold: Timestamp) {
        let mut encoded_key = Vec::new();
        coder::length_prefix::write(&mut encoded_key, key.as_bytes());
        let timer = Timer {
            key: Bytes::from(encoded_key),
            tag: Bytes::new(),
            windows: vec![Window::Global],
            firing: Some(TimerFiring {
                fire_at,
                hold,
                pane: PaneInfo::NO_FIRING,
            }),
        };
        let mut bytes = Vec::new();
        coder::timer::write(&mut bytes, &timer);
        let bundle = self.started[0].bundle;
        let event = Event::Timers {
            bundle,
            transform: "t".to_owned(),
            family: "later".to_owned(),
            bytes: Bytes::from(bytes),
        };
        self.tell(bundle, event);
    }
}

#[test]
fn a_timer_that_holds_nothing_fires_before_its_window_is_forgotten_and_the_job_done() {
    let mut builder = Builder::default();
    let impulse = builder.impulse();
    let pairs = builder.par_do("pairs", impulse, Some(kv()));
    builder.timed(pairs, TimeDomain::EventTime);
    let mut rig = Rig::new(builder.graph(), Settings::default());
    rig.finish(&[(1, "a:1")]);
    rig.set_timer("a", Timestamp::GLOBAL_WINDOW_MAX, Timestamp::MAX);
    rig.finish(&[]);
    assert_eq!(rig.started.len(), 1, "the timer fires");
    assert!(!rig.done());
    rig.finish(&[]);
    assert!(rig.done());
}
