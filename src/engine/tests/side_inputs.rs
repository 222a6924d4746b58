//! When side inputs are ready under the rig.

use super::*;
use crate::model::stage::ScriptEvent;

/// Elements of `bytes` in the window [0, 10), written as text.
fn in_first_window(elements: &[(i64, &str)]) -> Bytes {
    let window = Window::Interval {
        start: Timestamp::from_millis(0),
        end: Timestamp::from_millis(10),
    };
    let mut bytes = Vec::new();
    for (at, text) in elements {
        coder::windowed_value::write_header(
            &mut bytes,
            Timestamp::from_millis(*at),
            std::slice::from_ref(&window),
            PaneInfo::NO_FIRING,
        );
        coder::length_prefix::write(&mut bytes, text.as_bytes());
    }
    Bytes::from(bytes)
}

/// Main input and side input of two sources; the side input comes in windows of 10 ms, under `trigger`,
/// with elements up to 5 ms late.
fn joined(trigger: Trigger) -> Rig {
    let mut builder = Builder::default();
    let main = builder.add("main", StageKind::TestStream, &[], Some(Coder::Bytes));
    let side = builder.add("side", StageKind::TestStream, &[], Some(Coder::Bytes));
    let main = builder.par_do("window main", main, Some(Coder::Bytes));
    let side = builder.par_do("window side", side, Some(Coder::Bytes));
    builder.side_input("join", main, side);
    let mut graph = builder.graph();
    for pcollection in [main, side] {
        let pcollection = &mut graph.pcollections[pcollection as usize];
        pcollection.windowing = WindowingStrategy {
            window_fn: WindowFn::Fixed {
                size: 10,
                offset: 0,
            },
            window_coder: Coder::IntervalWindow,
            trigger: trigger.clone(),
            allowed_lateness: 5,
            ..windowing()
        };
        pcollection.coder =
            Coder::WindowedValue(Box::new(Coder::Bytes), Box::new(Coder::IntervalWindow));
    }
    Rig::new(graph, Settings::default())
}

/// The watermark of the side input at which an element of the main input goes on.
fn goes_on_at(trigger: Trigger) -> i64 {
    let mut rig = joined(trigger);
    rig.play(ScriptEvent::Elements {
        stage: StageId(0),
        elements: vec![(Timestamp::from_millis(1), Bytes::from_static(b"m"))],
    });
    rig.put_out(in_first_window(&[(1, "m")]), false);
    rig.finish(&[]);
    for to in 0..100 {
        rig.play(ScriptEvent::Watermark {
            stage: StageId(1),
            to: Timestamp::from_millis(to),
        });
        if !rig.started.is_empty() {
            return to;
        }
    }
    panic!("it never goes on");
}

#[test]
fn main_input_waits_for_what_fires_only_when_its_window_expires() {
    assert_eq!(goes_on_at(Trigger::Default), 10);
    assert_eq!(goes_on_at(Trigger::Never), 15);
}

#[test]
fn harnesses_may_remember_what_gets_nothing_more() {
    let mut rig = joined(Trigger::Default);
    let mut settled = Vec::new();
    for to in [Timestamp::from_millis(10), Timestamp::MAX] {
        rig.play(ScriptEvent::Watermark {
            stage: StageId(1),
            to,
        });
        rig.play(ScriptEvent::Elements {
            stage: StageId(0),
            elements: vec![(Timestamp::from_millis(1), Bytes::from_static(b"m"))],
        });
        rig.put_out(in_first_window(&[(1, "m")]), false);
        rig.finish(&[]);
        let join = rig.started.front().expect("the side input is ready");
        settled.push(join.settled_side_inputs.clone());
        rig.finish(&[]);
    }
    assert_eq!(settled, [vec![], vec![0]]);
}
