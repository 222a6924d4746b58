//! Windows of the user's own that merge in an SDK: here ones that merge as sessions do.
//!
//! Scripts have two more steps: `ask` takes the questions that wait, `answer` answers the oldest.

use expect_test::{Expect, expect};
use tidemill::model::{AccumulationMode, Trigger, WindowFn, WindowingStrategy};

use crate::rig::{Rig, check_rig, run, sessions};

fn own_sessions(gap: i64) -> WindowingStrategy {
    WindowingStrategy {
        window_fn: WindowFn::Custom {
            urn: "own".to_owned(),
        },
        ..sessions(gap)
    }
}

/// Also checks that sessions, which merge at once, would fire the same panes.
fn check(strategy: &WindowingStrategy, script: &str, expected: Expect) {
    let window_fn = sessions(10).window_fn;
    let shown = run(Rig::assigning(strategy, window_fn.clone()), script);
    expected.assert_eq(&shown);
    let known = WindowingStrategy {
        window_fn,
        ..strategy.clone()
    };
    let steps = script.lines().map(str::trim);
    let steps: Vec<&str> = steps
        .filter(|step| !["ask", "answer"].contains(step))
        .collect();
    let at_once = run(Rig::new(&known), &steps.join("\n"));
    assert_eq!(panes(&shown), panes(&at_once));
}

fn panes(shown: &str) -> Vec<&str> {
    shown
        .lines()
        .filter(|line| line.contains("] at "))
        .collect()
}

#[test]
fn merge_per_key() {
    check(
        &own_sessions(10),
        "
        a: 1 2 100 101 102
        b: 5
        a: 11
        ask
        answer
        answer
        wm 15
        wm max
        ",
        expect![[r#"
            a: 1 2 100 101 102
              hold 10
            b: 5
            a: 11
            ask
            answer
              hold 14
            answer
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
fn nothing_fires_before_the_answer() {
    check(
        &own_sessions(10),
        "
        a: 1
        ask
        answer
        a: 9
        ask
        wm 50
        answer
        wm max
        ",
        expect![[r#"
            a: 1
              hold 10
            ask
            answer
            a: 9
            ask
            wm 50
            answer
              a [1,19) [1, 9] at 18: on time, 0/0 first last
              hold MAX
            wm max
        "#]],
    );
}

#[test]
fn a_key_lives_on_up_to_what_came_after_the_question() {
    check(
        &own_sessions(10),
        "
        a: 1
        ask
        wm 8
        a: 9 30
        wm 100
        answer
        ask
        answer
        wm max
        ",
        expect![[r#"
            a: 1
              hold 10
            ask
            wm 8
            a: 9 30
            wm 100
            answer
            ask
            answer
              a [1,19) [1, 9] at 18: on time, 0/0 first last
              a [30,40) [30] at 39: on time, 0/0 first last
              hold MAX
            wm max
        "#]],
    );
}

#[test]
fn the_trigger_hears_of_elements_once_they_are_merged() {
    let strategy = WindowingStrategy {
        trigger: Trigger::Repeat(Box::new(Trigger::ElementCount(2))),
        accumulation: AccumulationMode::Accumulating,
        ..own_sessions(10)
    };
    check(
        &strategy,
        "
        a: 1
        ask
        answer
        a: 5
        ask
        answer
        a: 5
        a: 30 30
        ask
        answer
        wm max
        ",
        expect![[r#"
            a: 1
              hold 10
            ask
            answer
            a: 5
            ask
            answer
              a [1,15) [1, 5] at 14: early, 0/-1 first
              hold 14
            a: 5
            a: 30 30
            ask
            answer
              a [30,40) [30, 30] at 39: early, 0/-1 first
            wm max
              a [1,15) [1, 5, 5] at 14: on time, 1/0 last
              hold MAX
        "#]],
    );
}

#[test]
fn late_elements_join_what_is_still_there() {
    let strategy = WindowingStrategy {
        allowed_lateness: 20,
        ..own_sessions(10)
    };
    check(
        &strategy,
        "
        a: 1
        ask
        answer
        wm 15
        a: 3
        ask
        answer
        a: 9
        ask
        answer
        wm 60
        a: 12
        wm max
        ",
        expect![[r#"
            a: 1
              hold 10
            ask
            answer
            wm 15
              a [1,11) [1] at 10: on time, 0/0 first
              hold MAX
            a: 3
              hold 32
            ask
            answer
              a [1,13) [3] at 12: late, 0/0 first
              hold MAX
            a: 9
              hold 18
            ask
            answer
            wm 60
              a [1,19) [9] at 18: on time, 0/0 first last
              hold MAX
            a: 12
            wm max
            dropped: 1 late, 0 closed
        "#]],
    );
}

#[test]
fn a_restart_asks_again() {
    let strategy = own_sessions(10);
    let mut rig = Rig::assigning(&strategy, sessions(10).window_fn);
    rig.absorb([("a", 1), ("a", 9)]);
    rig.ask();
    rig.restart(rig.watermark);
    assert!(rig.questions.len() == 1, "asked before the restart");
    rig.questions.clear();
    check_rig(
        rig,
        "
        wm 5
        ask
        wm max
        answer
        ",
        expect![[r#"
            wm 5
              hold 10
            ask
            wm max
            answer
              a [1,19) [1, 9] at 18: on time, 0/0 first last
              hold MAX
        "#]],
    );
}
