//! Windows that fire once, at their end.

use expect_test::expect;
use tidemill::model::{OutputTime, Timestamp, Trigger, WindowFn, WindowingStrategy};

use crate::rig::{Rig, check, default_in_cells, global, run, strategy};

#[test]
fn fires_at_the_end() {
    check(
        &strategy(),
        "
        a+b: 1 2 11
        wm 9
        wm 10
        a: 3 12
        wm max
        ",
        expect![[r#"
            a+b: 1 2 11
              hold 9
            wm 9
            wm 10
              a [0,10) [1, 2] at 9: on time, 0/0 first last
              b [0,10) [1, 2] at 9: on time, 0/0 first last
              hold 19
            a: 3 12
            wm max
              a [10,20) [11, 12] at 19: on time, 0/0 first last
              b [10,20) [11] at 19: on time, 0/0 first last
              hold MAX
            dropped: 1 late, 0 closed
        "#]],
    );
}

#[test]
fn cells_do_the_same() {
    let in_cells = WindowingStrategy {
        trigger: default_in_cells(),
        ..strategy()
    };
    check(
        &in_cells,
        "
        a+b: 1 2 11
        wm 9
        wm 10
        a: 3 12
        wm max
        ",
        expect![[r#"
            a+b: 1 2 11
              hold 9
            wm 9
            wm 10
              a [0,10) [1, 2] at 9: on time, 0/0 first last
              b [0,10) [1, 2] at 9: on time, 0/0 first last
              hold 19
            a: 3 12
            wm max
              a [10,20) [11, 12] at 19: on time, 0/0 first last
              b [10,20) [11] at 19: on time, 0/0 first last
              hold MAX
            dropped: 1 late, 0 closed
        "#]],
    );
}

#[test]
fn global_window_fires_at_the_end_of_time() {
    check(
        &global(),
        "
        a: 1 2
        wm 100
        a: 3
        wm max
        a: 4
        ",
        expect![[r#"
            a: 1 2
              hold GLOBAL_MAX
            wm 100
            a: 3
            wm max
              a Global [1, 2, 3] at GLOBAL_MAX: on time, 0/0 first last
              hold MAX
            a: 4
            dropped: 1 late, 0 closed
        "#]],
    );
}

#[test]
fn sliding_windows_share_elements() {
    let sliding = WindowingStrategy {
        window_fn: WindowFn::Sliding {
            size: 10,
            period: 5,
            offset: 0,
        },
        ..strategy()
    };
    check(
        &sliding,
        "
        a: 1 6
        wm 5
        wm max
        ",
        expect![[r#"
            a: 1 6
              hold 4
            wm 5
              a [-5,5) [1] at 4: on time, 0/0 first last
              hold 9
            wm max
              a [0,10) [1, 6] at 9: on time, 0/0 first last
              a [5,15) [6] at 14: on time, 0/0 first last
              hold MAX
        "#]],
    );
}

#[test]
fn never_fires_at_expiry() {
    let never = WindowingStrategy {
        trigger: Trigger::Never,
        ..strategy()
    };
    check(
        &never,
        "a: 1 2\nwm 10",
        expect![[r#"
        a: 1 2
          hold 9
        wm 10
          a [0,10) [1, 2] at 9: on time, 0/0 first last
          hold MAX
    "#]],
    );
}

#[test]
fn combines_timestamps() {
    for (output_time, expected) in [
        (
            OutputTime::Earliest,
            expect![[r#"
            a: 4 2 3
              hold 2
            b: 6
            wm 5
            c: 4
            c: 7
            wm 10
              a [0,10) [4, 2, 3] at 2: on time, 0/0 first last
              b [0,10) [6] at 6: on time, 0/0 first last
              c [0,10) [4, 7] at 4: on time, 0/0 first last
              hold MAX
        "#]],
        ),
        (
            OutputTime::Latest,
            expect![[r#"
            a: 4 2 3
              hold 2
            b: 6
            wm 5
            c: 4
            c: 7
            wm 10
              a [0,10) [4, 2, 3] at 4: on time, 0/0 first last
              b [0,10) [6] at 6: on time, 0/0 first last
              c [0,10) [4, 7] at 7: on time, 0/0 first last
              hold MAX
        "#]],
        ),
    ] {
        let combined = WindowingStrategy {
            output_time,
            ..strategy()
        };
        check(
            &combined,
            "
            a: 4 2 3
            b: 6
            wm 5
            c: 4
            c: 7
            wm 10
            ",
            expected,
        );
    }
}

#[test]
fn large_groups_come_out_whole_and_in_order() {
    let mut rig = Rig::new(&strategy());
    for round in 0..3 {
        let elements: Vec<(String, i64)> = (0..30_000_i64)
            .map(|n| (format!("k{}", n * 7919 % 500), round * 30_000 + n))
            .collect();
        rig.absorb_valued(
            elements
                .iter()
                .map(|(key, value)| (key.as_str(), 5, *value)),
        );
    }
    let all = rig.grouper.buffered_bytes();
    assert!(all > 90_000 * 12, "{all}");
    rig.advance(10);
    let (mut panes, mut chunks, mut bytes) = (Vec::new(), 0, all);
    while let Some(chunk) = rig.poll(20_000, 7) {
        assert!(chunk.len() <= 7);
        chunks += 1;
        panes.extend(chunk);
        assert!(
            rig.grouper.buffered_bytes() <= bytes,
            "memory goes as panes go"
        );
        bytes = rig.grouper.buffered_bytes();
    }
    assert!(chunks > 70, "{chunks}");
    assert_eq!(panes.len(), 500);
    for pane in &panes {
        assert_eq!(pane.values.len(), 180);
        assert!(pane.values.is_sorted(), "values keep their order");
    }
    assert!(rig.grouper.is_empty());
    assert_eq!(rig.grouper.buffered_bytes(), 0);
    assert_eq!(rig.grouper.hold(), Timestamp::MAX);
}

#[test]
fn the_last_pane_is_the_triggers_word_where_the_sdk_means_that() {
    let end = || Trigger::AfterEndOfWindow {
        early: None,
        late: None,
    };
    // Those that go on and on never fire a last pane, in either layout; those that finish do.
    let goes_on = (
        [strategy().trigger, default_in_cells()],
        "a [0,10) [1] at 9: on time, 0/0 first",
    );
    let finishes = (
        [end(), Trigger::AfterAny(vec![end()])],
        "a [0,10) [1] at 9: on time, 0/0 first last",
    );
    for (triggers, expected) in [goes_on, finishes] {
        for trigger in triggers {
            let windows = WindowingStrategy {
                last_by_trigger_only: true,
                trigger,
                ..strategy()
            };
            let shown = run(Rig::new(&windows), "a: 1\nwm max");
            assert!(shown.lines().any(|line| line.trim() == expected), "{shown}");
        }
    }
}
