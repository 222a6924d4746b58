//! Late elements: dropped, kept, and what they hold.

use expect_test::expect;
use tidemill::model::{OutputTime, Trigger, WindowingStrategy};

use crate::rig::{check, strategy};

fn lateness(allowed_lateness: i64) -> WindowingStrategy {
    WindowingStrategy {
        allowed_lateness,
        ..strategy()
    }
}

fn late_count(count: u32) -> Trigger {
    Trigger::AfterEndOfWindow {
        early: None,
        late: Some(Box::new(Trigger::ElementCount(count))),
    }
}

#[test]
fn expired_elements_are_dropped() {
    check(
        &lateness(5),
        "
        a: 1
        wm 14
        a: 2
        wm 15
        a: 3
        b: 4 11
        ",
        expect![[r#"
            a: 1
              hold 9
            wm 14
              a [0,10) [1] at 9: on time, 0/0 first
              hold MAX
            a: 2
              a [0,10) [2] at 9: late, 1/1
            wm 15
            a: 3
            b: 4 11
              hold 19
            dropped: 2 late, 0 closed
        "#]],
    );
}

#[test]
fn late_elements_hold_until_they_would_be_dropped_downstream() {
    let strategy = WindowingStrategy {
        trigger: late_count(2),
        ..lateness(20)
    };
    check(
        &strategy,
        "
        wm 12
        a: 1
        wm 25
        a: 2
        a: 3
        wm max
        ",
        expect![[r#"
            wm 12
            a: 1
              a [0,10) [1] at 9: late, 0/0 first
            wm 25
            a: 2
              hold 29
            a: 3
              a [0,10) [2, 3] at 9: late, 1/1
              hold MAX
            wm max
        "#]],
    );
}

#[test]
fn elements_behind_the_output_watermark_do_not_move_the_pane_back() {
    let strategy = WindowingStrategy {
        output_time: OutputTime::Earliest,
        ..lateness(100)
    };
    check(
        &strategy,
        "
        wm 5
        a: 2
        b: 3 7 8
        c: 6
        c: 5
        wm 11
        ",
        expect![[r#"
            wm 5
            a: 2
              hold 9
            b: 3 7 8
              hold 7
            c: 6
              hold 6
            c: 5
              hold 5
            wm 11
              a [0,10) [2] at 9: on time, 0/0 first
              b [0,10) [3, 7, 8] at 7: on time, 0/0 first
              c [0,10) [6, 5] at 5: on time, 0/0 first
              hold MAX
        "#]],
    );
}

#[test]
fn first_element_may_be_late() {
    check(
        &lateness(100),
        "wm 50\na: 1\na: 2\nwm max",
        expect![[r#"
            wm 50
            a: 1
              a [0,10) [1] at 9: late, 0/0 first
            a: 2
              a [0,10) [2] at 9: late, 1/1
            wm max
        "#]],
    );
}

#[test]
fn early_panes_leave_a_hold_at_the_end_of_the_window() {
    let strategy = WindowingStrategy {
        output_time: OutputTime::Earliest,
        trigger: Trigger::AfterEndOfWindow {
            early: Some(Box::new(Trigger::ElementCount(2))),
            late: None,
        },
        ..lateness(0)
    };
    check(
        &strategy,
        "
        a: 3 4
        a: 5
        wm 10
        ",
        expect![[r#"
            a: 3 4
              a [0,10) [3, 4] at 3: early, 0/-1 first
              hold 9
            a: 5
              hold 5
            wm 10
              a [0,10) [5] at 5: on time, 1/0 last
              hold MAX
        "#]],
    );
}
