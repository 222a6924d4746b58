//! TestStream under the rig: what settles when, and what processing time means to a harness.

use super::*;
use crate::model::stage::ScriptEvent;
use crate::model::timer::TimeDomain;

/// A TestStream, decoded for a stage with a processing-time timer.
fn timed() -> StageGraph {
    let mut builder = Builder::default();
    let stream = builder.add("stream", StageKind::TestStream, &[], Some(Coder::Bytes));
    let decoded = builder.par_do("decode", stream, Some(kv()));
    builder.timed(decoded, TimeDomain::ProcessingTime);
    builder.graph()
}

fn element() -> ScriptEvent {
    ScriptEvent::Elements {
        stage: StageId(0),
        elements: vec![(Timestamp::from_millis(1), Bytes::from_static(b"encoded"))],
    }
}

impl Rig {
    /// The running bundle sets the timer of a key to `delay` from what a harness takes for now.
    fn delay_timer(&mut self, key: &str, delay: i64) {
        self.set_timer(key, self.now.plus(delay), Timestamp::from_millis(1));
    }

    pub(super) fn play(&mut self, event: ScriptEvent) {
        self.inboxes.push_back((LaneId(0), Event::Script(event)));
        self.settle();
    }

    fn is_quiet(&self) -> bool {
        self.lanes[0].0.is_quiet(self.now)
    }
}

#[test]
fn an_event_is_settled_when_nothing_runs_or_could() {
    let mut rig = Rig::new(timed(), Settings::default());
    assert!(rig.is_quiet());
    rig.play(element());
    assert!(!rig.is_quiet(), "a bundle runs");
    rig.finish(&[(1, "a:1")]);
    rig.delay_timer("a", 10);
    rig.finish(&[]);
    assert!(rig.is_quiet(), "a timer that waits for time is settled");
    rig.play(ScriptEvent::ProcessingTime { by: 10 });
    assert_eq!(rig.started.len(), 1, "the timer fires");
    assert!(!rig.is_quiet());
}

#[test]
fn a_timer_set_after_time_was_moved_waits_its_whole_delay() {
    let mut rig = Rig::new(timed(), Settings::default());
    rig.play(ScriptEvent::ProcessingTime { by: 1_000 });
    rig.play(element());
    rig.finish(&[(1, "a:1")]);
    rig.delay_timer("a", 10);
    rig.finish(&[]);
    rig.play(ScriptEvent::ProcessingTime { by: 9 });
    assert!(rig.started.is_empty());
    rig.play(ScriptEvent::ProcessingTime { by: 1 });
    assert_eq!(rig.started.len(), 1);
}

#[test]
fn processing_time_does_not_pass_by_itself() {
    let mut rig = Rig::new(timed(), Settings::default());
    rig.play(element());
    rig.finish(&[(1, "a:1")]);
    rig.delay_timer("a", 10);
    rig.finish(&[]);
    rig.now = rig.now.plus(1_000);
    rig.play(ScriptEvent::ProcessingTime { by: 9 });
    assert!(rig.started.is_empty() && rig.is_quiet());
    assert_eq!(rig.lanes[0].0.next_wakeup(), None);
    rig.play(ScriptEvent::ProcessingTime { by: 1 });
    assert_eq!(rig.started.len(), 1);
}

#[test]
fn a_bundle_that_runs_for_long_is_looked_at_while_time_stands_still() {
    let mut rig = Rig::new(timed(), Settings::default());
    rig.play(element());
    let started = rig.now;
    rig.wake();
    assert_eq!(rig.now, started.plus(Settings::default().split_after));
}

#[test]
fn after_the_script_time_flies_to_the_next_firing() {
    let mut rig = Rig::new(timed(), Settings::default());
    rig.play(element());
    rig.finish(&[(1, "a:1")]);
    rig.delay_timer("a", 600_000);
    rig.finish(&[]);
    rig.inboxes.push_back((LaneId(0), Event::ScriptEnded));
    rig.settle();
    assert!(rig.is_quiet() && !rig.done(), "the timer holds the job");
    let by = rig.lanes[0].0.until_next_firing(rig.now);
    assert_eq!(by, Some(600_000));
    rig.play(ScriptEvent::ProcessingTime { by: 600_000 });
    rig.finish(&[]);
    assert!(rig.done());
}
