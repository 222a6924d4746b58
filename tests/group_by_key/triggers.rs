//! Every trigger: elements and time in, panes out.

use expect_test::{Expect, expect};
use tidemill::model::{AccumulationMode, Trigger, WindowingStrategy};

use crate::rig::{Rig, check, check_rig, strategy};

fn with(trigger: Trigger) -> WindowingStrategy {
    WindowingStrategy {
        trigger,
        ..strategy()
    }
}

fn late(trigger: Trigger) -> WindowingStrategy {
    WindowingStrategy {
        allowed_lateness: 100,
        ..with(trigger)
    }
}

fn repeat(trigger: Trigger) -> Trigger {
    Trigger::Repeat(Box::new(trigger))
}

fn at_end(early: Option<Trigger>, late: Option<Trigger>) -> Trigger {
    Trigger::AfterEndOfWindow {
        early: early.map(Box::new),
        late: late.map(Box::new),
    }
}

fn count(count: u32) -> Trigger {
    Trigger::ElementCount(count)
}

fn check_trigger(trigger: Trigger, script: &str, expected: Expect) {
    check(&late(trigger), script, expected);
}

#[test]
fn default_fires_at_the_end_and_for_each_late_element() {
    check_trigger(
        Trigger::Default,
        "
        a: 1 2
        wm 10
        a: 3 4
        wm max
        ",
        expect![[r#"
            a: 1 2
              hold 9
            wm 10
              a [0,10) [1, 2] at 9: on time, 0/0 first
              hold MAX
            a: 3 4
              a [0,10) [3] at 9: late, 1/1
              a [0,10) [4] at 9: late, 2/2
            wm max
        "#]],
    );
}

#[test]
fn always_fires_per_element() {
    check_trigger(
        Trigger::Always,
        "
        a: 1 2
        wm 10
        a: 3
        wm max
        ",
        expect![[r#"
            a: 1 2
              a [0,10) [1] at 9: early, 0/-1 first
              a [0,10) [2] at 9: early, 1/-1
              hold 9
            wm 10
              hold MAX
            a: 3
              a [0,10) [3] at 9: late, 2/0
            wm max
        "#]],
    );
}

#[test]
fn never_fires_at_expiry() {
    check_trigger(
        Trigger::Never,
        "
        a: 1 2
        wm 10
        a: 3
        wm max
        ",
        expect![[r#"
            a: 1 2
              hold 9
            wm 10
            a: 3
            wm max
              a [0,10) [1, 2, 3] at 9: on time, 0/0 first last
              hold MAX
        "#]],
    );
}

#[test]
fn count_fires_once_and_closes() {
    check_trigger(
        count(2),
        "
        a+b: 1
        a: 2 3
        a: 4
        wm 10
        a: 5
        wm max
        ",
        expect![[r#"
            a+b: 1
              hold 9
            a: 2 3
              a [0,10) [1, 2] at 9: early, 0/-1 first last
            a: 4
            wm 10
            a: 5
            wm max
              b [0,10) [1] at 9: on time, 0/0 first last
              hold MAX
            dropped: 0 late, 3 closed
        "#]],
    );
}

#[test]
fn repeated_count_leaves_the_rest_to_expiry() {
    check_trigger(
        repeat(count(2)),
        "
        a: 1 2 3 4 5
        wm 10
        wm max
        ",
        expect![[r#"
            a: 1 2 3 4 5
              a [0,10) [1, 2] at 9: early, 0/-1 first
              a [0,10) [3, 4] at 9: early, 1/-1
              hold 9
            wm 10
            wm max
              a [0,10) [5] at 9: on time, 2/0 last
              hold MAX
        "#]],
    );
}

#[test]
fn accumulates() {
    let accumulating = WindowingStrategy {
        accumulation: AccumulationMode::Accumulating,
        ..late(at_end(Some(count(2)), Some(count(1))))
    };
    check(
        &accumulating,
        "
        a: 1 2 3
        wm 10
        a: 4
        wm max
        ",
        expect![[r#"
            a: 1 2 3
              a [0,10) [1, 2] at 9: early, 0/-1 first
              hold 9
            wm 10
              a [0,10) [1, 2, 3] at 9: on time, 1/0
              hold MAX
            a: 4
              a [0,10) [1, 2, 3, 4] at 9: late, 2/1
            wm max
        "#]],
    );
}

#[test]
fn end_of_window_alone_closes() {
    check_trigger(
        at_end(None, None),
        "
        a: 1
        wm 10
        a: 2
        b: 3
        b: 4
        wm max
        ",
        expect![[r#"
            a: 1
              hold 9
            wm 10
              a [0,10) [1] at 9: on time, 0/0 first last
              hold MAX
            a: 2
            b: 3
              b [0,10) [3] at 9: late, 0/0 first last
            b: 4
            wm max
            dropped: 0 late, 2 closed
        "#]],
    );
}

#[test]
fn early_on_time_and_late_panes() {
    check_trigger(
        at_end(Some(count(2)), Some(count(2))),
        "
        a: 1 2 3
        wm 10
        a: 4
        a: 5
        a: 6
        wm max
        ",
        expect![[r#"
            a: 1 2 3
              a [0,10) [1, 2] at 9: early, 0/-1 first
              hold 9
            wm 10
              a [0,10) [3] at 9: on time, 1/0
              hold MAX
            a: 4
              hold 109
            a: 5
              a [0,10) [4, 5] at 9: late, 2/1
              hold MAX
            a: 6
              hold 109
            wm max
              a [0,10) [6] at 9: late, 3/2 last
              hold MAX
        "#]],
    );
}

#[test]
fn on_time_pane_may_be_empty() {
    check_trigger(
        at_end(Some(count(2)), Some(count(1))),
        "a: 1 2\nwm 10\nwm max",
        expect![[r#"
            a: 1 2
              a [0,10) [1, 2] at 9: early, 0/-1 first
              hold 9
            wm 10
              a [0,10) [] at 9: on time, 1/0
              hold MAX
            wm max
        "#]],
    );
    let if_nonempty = WindowingStrategy {
        on_time_always: false,
        ..late(at_end(Some(count(2)), Some(count(1))))
    };
    check(
        &if_nonempty,
        "a: 1 2\nwm 10\na: 3\nwm max",
        expect![[r#"
            a: 1 2
              a [0,10) [1, 2] at 9: early, 0/-1 first
            wm 10
            a: 3
              a [0,10) [3] at 9: late, 1/0
            wm max
        "#]],
    );
}

#[test]
fn closing_pane_may_be_empty() {
    let closing = WindowingStrategy {
        closing_always: true,
        ..late(at_end(Some(count(1)), Some(count(1))))
    };
    check(
        &closing,
        "a: 1\nwm 10\nwm max",
        expect![[r#"
        a: 1
          a [0,10) [1] at 9: early, 0/-1 first
          hold 9
        wm 10
          a [0,10) [] at 9: on time, 1/0
          hold 109
        wm max
          a [0,10) [] at 9: late, 2/1 last
          hold MAX
    "#]],
    );
}

#[test]
fn all_wait_for_each_other() {
    check_trigger(
        repeat(Trigger::AfterAll(vec![Trigger::Always, count(3)])),
        "
        a: 1 2 3 4
        wm max
        ",
        expect![[r#"
            a: 1 2 3 4
              a [0,10) [1, 2, 3] at 9: early, 0/-1 first
              hold 9
            wm max
              a [0,10) [4] at 9: on time, 1/0 last
              hold MAX
        "#]],
    );
    check_trigger(
        Trigger::AfterAll(vec![count(1), at_end(None, None)]),
        "
        a: 1 2
        wm 10
        a: 3
        wm max
        ",
        expect![[r#"
            a: 1 2
              hold 9
            wm 10
              a [0,10) [1, 2] at 9: on time, 0/0 first last
              hold MAX
            a: 3
            wm max
            dropped: 0 late, 1 closed
        "#]],
    );
}

#[test]
fn any_takes_the_first() {
    check_trigger(
        Trigger::AfterAny(vec![count(3), at_end(None, None)]),
        "
        a: 1 2 3 4
        b: 1
        wm 10
        b: 2
        wm max
        ",
        expect![[r#"
            a: 1 2 3 4
              a [0,10) [1, 2, 3] at 9: early, 0/-1 first last
            b: 1
              hold 9
            wm 10
              b [0,10) [1] at 9: on time, 0/0 first last
              hold MAX
            b: 2
            wm max
            dropped: 0 late, 2 closed
        "#]],
    );
    check_trigger(
        repeat(Trigger::AfterAny(vec![count(3), count(2)])),
        "a: 1 2 3 4 5\nwm max",
        expect![[r#"
            a: 1 2 3 4 5
              a [0,10) [1, 2] at 9: early, 0/-1 first
              a [0,10) [3, 4] at 9: early, 1/-1
              hold 9
            wm max
              a [0,10) [5] at 9: on time, 2/0 last
              hold MAX
        "#]],
    );
}

#[test]
fn each_runs_in_turn() {
    check_trigger(
        repeat(Trigger::AfterEach(vec![count(3), count(1)])),
        "a: 1 2 3 4 5 6 7 8 9\nwm max",
        expect![[r#"
            a: 1 2 3 4 5 6 7 8 9
              a [0,10) [1, 2, 3] at 9: early, 0/-1 first
              a [0,10) [4] at 9: early, 1/-1
              a [0,10) [5, 6, 7] at 9: early, 2/-1
              a [0,10) [8] at 9: early, 3/-1
              hold 9
            wm max
              a [0,10) [9] at 9: on time, 4/0 last
              hold MAX
        "#]],
    );
    check_trigger(
        Trigger::AfterEach(vec![count(2), at_end(None, Some(count(1)))]),
        "
        a: 1 2 3
        wm 10
        a: 4
        wm max
        ",
        expect![[r#"
            a: 1 2 3
              a [0,10) [1, 2] at 9: early, 0/-1 first
              hold 9
            wm 10
              a [0,10) [3] at 9: on time, 1/0
              hold MAX
            a: 4
              a [0,10) [4] at 9: late, 2/1
            wm max
        "#]],
    );
}

#[test]
fn or_finally_ends_what_repeats() {
    check_trigger(
        Trigger::OrFinally {
            main: Box::new(Trigger::Always),
            finally: Box::new(count(2)),
        },
        "a: 1 2 3\nb: 1\nwm max",
        expect![[r#"
            a: 1 2 3
              a [0,10) [1] at 9: early, 0/-1 first
              a [0,10) [2] at 9: early, 1/-1 last
            b: 1
              b [0,10) [1] at 9: early, 0/-1 first
              hold 9
            wm max
              hold MAX
            dropped: 0 late, 1 closed
        "#]],
    );
    check_trigger(
        Trigger::OrFinally {
            main: Box::new(repeat(count(2))),
            finally: Box::new(at_end(None, None)),
        },
        "
        a: 1 2 3
        wm 10
        a: 4
        wm max
        ",
        expect![[r#"
            a: 1 2 3
              a [0,10) [1, 2] at 9: early, 0/-1 first
              hold 9
            wm 10
              a [0,10) [3] at 9: on time, 1/0 last
              hold MAX
            a: 4
            wm max
            dropped: 0 late, 1 closed
        "#]],
    );
}

#[test]
fn batches_may_be_evaluated_as_one() {
    check_rig(
        Rig::per_batch(&with(count(3))),
        "
        a: 1 2 3 4 5
        b: 1 2
        b: 3
        a: 6
        wm max
        ",
        expect![[r#"
            a: 1 2 3 4 5
              a [0,10) [1, 2, 3, 4, 5] at 9: early, 0/-1 first last
            b: 1 2
              hold 9
            b: 3
              b [0,10) [1, 2, 3] at 9: early, 0/-1 first last
              hold MAX
            a: 6
            wm max
            dropped: 0 late, 1 closed
        "#]],
    );
}
