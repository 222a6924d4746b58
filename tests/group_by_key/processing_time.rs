//! Triggers that follow the clock.

use expect_test::expect;
use tidemill::model::windowing::TimestampTransform;
use tidemill::model::{AccumulationMode, Timestamp, Trigger, WindowingStrategy};

use crate::rig::{Rig, check, global, strategy};

fn delay(millis: i64) -> Trigger {
    Trigger::AfterProcessingTime(vec![TimestampTransform::Delay(millis)])
}

fn with(trigger: Trigger) -> WindowingStrategy {
    WindowingStrategy {
        trigger,
        ..strategy()
    }
}

#[test]
fn fires_once_after_the_delay() {
    check(
        &with(delay(20)),
        "
        now 5
        a: 0
        now 20
        a: 1
        now 24
        now 25
        a: 2
        wm max
        ",
        expect![[r#"
            now 5
            a: 0
              hold 9
            now 20
            a: 1
            now 24
            now 25
              a [0,10) [0, 1] at 9: early, 0/-1 first last
              hold MAX
            a: 2
            wm max
            dropped: 0 late, 1 closed
        "#]],
    );
}

#[test]
fn repeats() {
    check(
        &with(Trigger::Repeat(Box::new(delay(20)))),
        "
        now 19
        a: 0
        now 38
        a: 1
        now 57
        a: 2
        now 76
        a: 3
        now 100
        wm max
        ",
        expect![[r#"
            now 19
            a: 0
              hold 9
            now 38
            a: 1
            now 57
              a [0,10) [0, 1] at 9: early, 0/-1 first
            a: 2
            now 76
            a: 3
            now 100
              a [0,10) [2, 3] at 9: early, 1/-1
            wm max
              hold MAX
        "#]],
    );
}

#[test]
fn aligns() {
    let aligned = Trigger::AfterProcessingTime(vec![
        TimestampTransform::Delay(5),
        TimestampTransform::AlignTo {
            period: 10,
            offset: 0,
        },
    ]);
    check(
        &with(aligned),
        "now 7\na: 0\nnow 19\nnow 20",
        expect![[r#"
            now 7
            a: 0
              hold 9
            now 19
            now 20
              a [0,10) [0] at 9: early, 0/-1 first last
              hold MAX
        "#]],
    );
}

#[test]
fn all_of_count_and_time() {
    let strategy = WindowingStrategy {
        accumulation: AccumulationMode::Accumulating,
        ..with(Trigger::AfterEndOfWindow {
            early: Some(Box::new(Trigger::AfterAll(vec![
                Trigger::ElementCount(2),
                delay(5),
            ]))),
            late: None,
        })
    };
    check(
        &strategy,
        "
        a: 1
        now 5
        now 6
        a: 2
        a: 3
        wm max
        ",
        expect![[r#"
            a: 1
              hold 9
            now 5
            now 6
            a: 2
              a [0,10) [1, 2] at 9: early, 0/-1 first
            a: 3
            wm max
              a [0,10) [1, 2, 3] at 9: on time, 1/0 last
              hold MAX
        "#]],
    );
}

#[test]
fn synchronized_time_gathers_what_comes_at_once() {
    let strategy = WindowingStrategy {
        trigger: Trigger::Repeat(Box::new(Trigger::AfterSynchronizedProcessingTime)),
        ..global()
    };
    check(
        &strategy,
        "
        a: 1
        a: 2
        now 0
        now 1
        a: 3
        wm max
        ",
        expect![[r#"
            a: 1
              hold GLOBAL_MAX
            a: 2
            now 0
            now 1
              a Global [1, 2] at GLOBAL_MAX: early, 0/-1 first
            a: 3
            wm max
              a Global [3] at GLOBAL_MAX: on time, 1/0 last
              hold MAX
        "#]],
    );
}

#[test]
fn tells_when_it_is_due() {
    let mut rig = Rig::new(&with(Trigger::Repeat(Box::new(delay(20)))));
    let due = |rig: &Rig| rig.grouper.next_processing_time().map(|time| time.millis());
    assert_eq!(due(&rig), None);
    rig.advance_now(5);
    rig.absorb([("a", 1)]);
    rig.advance_now(8);
    rig.absorb([("b", 1), ("a", 2)]);
    assert_eq!(due(&rig), Some(25));
    rig.restart(Timestamp::MIN);
    assert_eq!(due(&rig), Some(25));
    rig.advance_now(25);
    assert_eq!(due(&rig), Some(28));
    rig.advance(i64::MAX);
    assert_eq!(due(&rig), None);
}
