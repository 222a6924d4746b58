//! Session windows, which merge per key.

use expect_test::expect;
use tidemill::model::windowing::TimestampTransform;
use tidemill::model::{AccumulationMode, OutputTime, Trigger, WindowingStrategy};

use crate::rig::{check, sessions};

fn count(count: u32) -> Trigger {
    Trigger::ElementCount(count)
}

fn at_end(early: Option<Trigger>, late: Option<Trigger>) -> Trigger {
    Trigger::AfterEndOfWindow {
        early: early.map(Box::new),
        late: late.map(Box::new),
    }
}

#[test]
fn merge_per_key() {
    check(
        &sessions(10),
        "
        a: 1 2 100 101 102
        b: 5
        a: 11
        wm 15
        wm max
        ",
        expect![[r#"
            a: 1 2 100 101 102
              hold 11
            b: 5
            a: 11
              hold 14
            wm 15
              b [5,15) [5] at 14: on time, 0/0 first last
              hold 20
            wm max
              a [1,21) [1, 2, 11] at 20: on time, 0/0 first last
              a [100,112) [100, 101, 102] at 111: on time, 0/0 first last
              hold MAX
        "#]],
    );
}

#[test]
fn a_bridge_joins_two() {
    check(
        &sessions(10),
        "
        a: 0 15
        a: 8
        wm 20
        wm 25
        ",
        expect![[r#"
            a: 0 15
              hold 9
            a: 8
              hold 24
            wm 20
            wm 25
              a [0,25) [0, 15, 8] at 24: on time, 0/0 first last
              hold MAX
        "#]],
    );
}

#[test]
fn counts_add_up() {
    let strategy = WindowingStrategy {
        trigger: Trigger::Repeat(Box::new(count(3))),
        ..sessions(10)
    };
    check(
        &strategy,
        "
        a: 0 15
        a: 8
        a: 9
        wm max
        ",
        expect![[r#"
            a: 0 15
              hold 9
            a: 8
              a [0,25) [0, 15, 8] at 24: early, 0/-1 first
              hold 24
            a: 9
            wm max
              a [0,25) [9] at 24: on time, 1/0 last
              hold MAX
        "#]],
    );
}

#[test]
fn panes_start_again_in_a_new_window() {
    let strategy = WindowingStrategy {
        trigger: at_end(Some(count(2)), Some(count(1))),
        accumulation: AccumulationMode::Accumulating,
        allowed_lateness: 100,
        ..sessions(10)
    };
    check(
        &strategy,
        "
        a: 1 2
        a: 3
        wm 20
        a: 1
        a: 25
        a: 11
        wm 40
        ",
        expect![[r#"
            a: 1 2
              a [1,12) [1, 2] at 11: early, 0/-1 first
              hold 11
            a: 3
              hold 12
            wm 20
              a [1,13) [1, 2, 3] at 12: on time, 0/0 first
              hold MAX
            a: 1
              a [1,13) [1, 2, 3, 1] at 12: late, 1/1
            a: 25
              hold 34
            a: 11
              hold 20
            wm 40
              a [1,21) [1, 2, 3, 1, 11] at 20: on time, 0/0 first
              a [25,35) [25] at 34: on time, 0/0 first
              hold MAX
        "#]],
    );
}

#[test]
fn closed_sessions_do_not_merge() {
    let strategy = WindowingStrategy {
        trigger: count(2),
        ..sessions(10)
    };
    check(
        &strategy,
        "
        a: 0 0
        a: 0
        a: 5
        wm max
        ",
        expect![[r#"
            a: 0 0
              a [0,10) [0, 0] at 9: early, 0/-1 first last
            a: 0
            a: 5
              hold 14
            wm max
              a [5,15) [5] at 14: on time, 0/0 first last
              hold MAX
            dropped: 0 late, 1 closed
        "#]],
    );
}

#[test]
fn holds_merge() {
    for (output_time, expected) in [
        (
            OutputTime::Earliest,
            expect![[r#"
            a: 3
              hold 3
            a: 20
            a: 12
            wm max
              a [3,30) [3, 20, 12] at 3: on time, 0/0 first last
              hold MAX
        "#]],
        ),
        (
            OutputTime::Latest,
            expect![[r#"
            a: 3
              hold 3
            a: 20
            a: 12
              hold 20
            wm max
              a [3,30) [3, 20, 12] at 20: on time, 0/0 first last
              hold MAX
        "#]],
        ),
        (
            OutputTime::EndOfWindow,
            expect![[r#"
            a: 3
              hold 12
            a: 20
            a: 12
              hold 29
            wm max
              a [3,30) [3, 20, 12] at 29: on time, 0/0 first last
              hold MAX
        "#]],
        ),
    ] {
        let strategy = WindowingStrategy {
            output_time,
            ..sessions(10)
        };
        check(&strategy, "a: 3\na: 20\na: 12\nwm max", expected);
    }
}

#[test]
fn earliest_processing_time_counts() {
    let delay = Trigger::AfterProcessingTime(vec![TimestampTransform::Delay(10)]);
    let strategy = WindowingStrategy {
        trigger: Trigger::Repeat(Box::new(delay)),
        ..sessions(10)
    };
    check(
        &strategy,
        "
        a: 0
        now 3
        a: 15
        now 5
        a: 8
        now 10
        a: 9
        now 20
        ",
        expect![[r#"
            a: 0
              hold 9
            now 3
            a: 15
            now 5
            a: 8
              hold 24
            now 10
              a [0,25) [0, 15, 8] at 24: early, 0/-1 first
            a: 9
            now 20
              a [0,25) [9] at 24: early, 1/-1
        "#]],
    );
}

#[test]
fn merged_windows_are_not_merged_again() {
    let strategy = WindowingStrategy {
        needs_merge: false,
        ..sessions(10)
    };
    check(
        &strategy,
        "a: 1 2\nwm max",
        expect![[r#"
        a: 1 2
          hold 10
        wm max
          a [1,11) [1] at 10: on time, 0/0 first last
          a [2,12) [2] at 11: on time, 0/0 first last
          hold MAX
    "#]],
    );
}
