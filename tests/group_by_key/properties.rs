//! What holds for any input, strategy and order of events.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use tidemill::model::windowing::TimestampTransform;
use tidemill::model::{
    AccumulationMode, OutputTime, PaneTiming, Timestamp, Trigger, Window, WindowFn,
    WindowingStrategy,
};

use crate::rig::{Pane, Rig, default_in_cells, global, strategy};

/// One thing that happens to a grouper. Times are steps from what they were.
#[derive(Clone, Debug)]
enum Event {
    /// Keys and timestamps, these relative to the watermark.
    Absorb(Vec<(u8, i64)>),
    Watermark(i64),
    Now(i64),
    Poll {
        max_count: usize,
    },
    Restart,
}

const KEYS: [&str; 4] = ["a", "b", "c", "d"];

fn events() -> impl Strategy<Value = Vec<Event>> {
    let element = (0..4_u8, -25..25_i64);
    let event = prop_oneof![
        4 => proptest::collection::vec(element, 1..6).prop_map(Event::Absorb),
        3 => (0..15_i64).prop_map(Event::Watermark),
        2 => (0..8_i64).prop_map(Event::Now),
        2 => (1..4_usize).prop_map(|max_count| Event::Poll { max_count }),
        1 => Just(Event::Restart),
    ];
    proptest::collection::vec(event, 1..40)
}

fn leaf() -> impl Strategy<Value = Trigger> {
    prop_oneof![
        Just(Trigger::Default),
        Just(Trigger::Always),
        Just(Trigger::Never),
        (1..4_u32).prop_map(Trigger::ElementCount),
        (0..10_i64)
            .prop_map(|delay| Trigger::AfterProcessingTime(vec![TimestampTransform::Delay(delay)])),
        Just(Trigger::AfterSynchronizedProcessingTime),
    ]
}

fn trigger() -> impl Strategy<Value = Trigger> {
    leaf().prop_recursive(3, 8, 3, |inner| {
        let some = proptest::collection::vec(inner.clone(), 1..3);
        let maybe = proptest::option::of(inner.clone().prop_map(Box::new));
        prop_oneof![
            (maybe.clone(), maybe)
                .prop_map(|(early, late)| Trigger::AfterEndOfWindow { early, late }),
            some.clone().prop_map(Trigger::AfterAll),
            some.clone().prop_map(Trigger::AfterAny),
            some.prop_map(Trigger::AfterEach),
            (inner.clone(), inner.clone()).prop_map(|(main, finally)| Trigger::OrFinally {
                main: Box::new(main),
                finally: Box::new(finally),
            }),
            inner.prop_map(|repeated| Trigger::Repeat(Box::new(repeated))),
        ]
    })
}

fn window_fn() -> impl Strategy<Value = WindowFn> {
    prop_oneof![
        Just(WindowFn::Global),
        Just(WindowFn::Fixed {
            size: 10,
            offset: 3
        }),
        Just(WindowFn::Sliding {
            size: 10,
            period: 4,
            offset: 0
        }),
        Just(WindowFn::Sessions { gap: 7 }),
    ]
}

prop_compose! {
    fn any_strategy()(
        window_fn in window_fn(),
        trigger in trigger(),
        accumulating in any::<bool>(),
        output_time in prop_oneof![
            Just(OutputTime::EndOfWindow),
            Just(OutputTime::Earliest),
            Just(OutputTime::Latest),
        ],
        closing_always in any::<bool>(),
        on_time_always in any::<bool>(),
        allowed_lateness in prop_oneof![Just(0), 0..30_i64],
    ) -> WindowingStrategy {
        let base = if window_fn == WindowFn::Global { global() } else { strategy() };
        WindowingStrategy {
            needs_merge: matches!(window_fn, WindowFn::Sessions { .. }),
            window_fn,
            trigger,
            accumulation: if accumulating {
                AccumulationMode::Accumulating
            } else {
                AccumulationMode::Discarding
            },
            output_time,
            closing_always,
            on_time_always,
            allowed_lateness,
            ..base
        }
    }
}

/// What a run gave.
struct Run {
    panes: Vec<Pane>,
    /// Key, timestamp and value of each element.
    elements: Vec<(&'static str, i64, i64)>,
    dropped: u64,
}

/// Plays the events and then the end of time. Checks holds on the way.
fn run(strategy: &WindowingStrategy, events: &[Event]) -> Run {
    let mut rig = Rig::new(strategy);
    let mut run = Run {
        panes: Vec::new(),
        elements: Vec::new(),
        dropped: 0,
    };
    rig.advance(0);
    let mut output_watermark = Timestamp::from_millis(0);
    let mut dropped = |rig: &mut Rig| {
        let so_far = rig.grouper.dropped_late() + rig.grouper.dropped_closed();
        run.dropped += so_far;
    };
    for event in events {
        match event {
            Event::Absorb(elements) => {
                let valued: Vec<(&str, i64, i64)> = elements
                    .iter()
                    .enumerate()
                    .map(|(n, (key, time))| {
                        let value = (run.elements.len() + n) as i64;
                        (
                            KEYS[usize::from(*key)],
                            rig.watermark.millis() + time,
                            value,
                        )
                    })
                    .collect();
                rig.absorb_valued(valued.iter().copied());
                run.elements.extend(valued);
            }
            Event::Watermark(step) => rig.advance(rig.watermark.millis() + step),
            Event::Now(step) => rig.advance_now(rig.now.millis() + step),
            Event::Poll { max_count } => {
                if let Some(panes) = rig.poll(64, *max_count) {
                    check_timestamps(strategy, &panes, output_watermark);
                    run.panes.extend(panes);
                }
            }
            Event::Restart => {
                dropped(&mut rig);
                rig.restart(output_watermark);
            }
        }
        let reported = rig.watermark.min(rig.grouper.hold());
        assert!(
            reported >= output_watermark || rig.grouper.hold() < output_watermark,
            "only a hold keeps the watermark back"
        );
        output_watermark = output_watermark.max(reported);
    }
    rig.advance(i64::MAX);
    dropped(&mut rig);
    let rest = rig.poll_all();
    check_timestamps(strategy, &rest, output_watermark);
    run.panes.extend(rest);
    assert!(rig.grouper.is_empty(), "nothing outlives time");
    assert_eq!(rig.grouper.hold(), Timestamp::MAX);
    assert_eq!(rig.grouper.buffered_bytes(), 0);
    assert_eq!(rig.grouper.next_processing_time(), None);
    run
}

/// No pane is behind the watermark that was reported before it came, unless it is late; and then
/// its window has not expired by that watermark.
fn check_timestamps(strategy: &WindowingStrategy, panes: &[Pane], output_watermark: Timestamp) {
    for pane in panes {
        let end = pane.window.max_timestamp();
        assert!(pane.timestamp <= end, "{pane:?}");
        let expiry = end.plus(strategy.allowed_lateness);
        assert!(
            expiry >= output_watermark,
            "dropped downstream: {pane:?} at {output_watermark}"
        );
        if pane.info.timing != PaneTiming::Late {
            assert!(
                pane.timestamp >= output_watermark,
                "{pane:?} at {output_watermark}"
            );
        }
    }
}

/// The panes of each key and window, in order.
fn by_window(panes: &[Pane]) -> BTreeMap<(&str, &Window), Vec<&Pane>> {
    let mut windows: BTreeMap<_, Vec<&Pane>> = BTreeMap::new();
    for pane in panes {
        let window = (pane.key.as_str(), &pane.window);
        windows.entry(window).or_default().push(pane);
    }
    windows
}

fn windows_per_element(strategy: &WindowingStrategy, time: i64) -> usize {
    tidemill::engine::window::assign(&strategy.window_fn, Timestamp::from_millis(time)).len()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn panes_follow_each_other(strategy in any_strategy(), events in events()) {
        let run = run(&strategy, &events);
        // A merged window may come about again after it has closed, and starts again then.
        if strategy.needs_merge {
            return Ok(());
        }
        for panes in by_window(&run.panes).values() {
            let mut timings = Vec::new();
            for (index, pane) in panes.iter().enumerate() {
                prop_assert_eq!(pane.info.index, index as i64);
                prop_assert_eq!(pane.info.is_first, index == 0);
                prop_assert!(!pane.info.is_last || index + 1 == panes.len(), "{:?}", panes);
                timings.push(match pane.info.timing {
                    PaneTiming::Early => 0,
                    PaneTiming::OnTime => 1,
                    PaneTiming::Late => 2,
                    PaneTiming::Unknown => 3,
                });
            }
            prop_assert!(timings.is_sorted(), "{:?}", panes);
            prop_assert!(timings.iter().filter(|timing| **timing == 1).count() <= 1);
            let later = panes.iter().filter(|pane| pane.info.timing != PaneTiming::Early);
            for (index, pane) in later.enumerate() {
                prop_assert_eq!(pane.info.non_speculative_index, index as i64);
            }
        }
    }

    #[test]
    fn discarding_gives_each_element_once(strategy in any_strategy(), events in events()) {
        let strategy = WindowingStrategy {
            accumulation: AccumulationMode::Discarding,
            ..strategy
        };
        let run = run(&strategy, &events);
        let expected: usize =
            run.elements.iter().map(|(_, time, _)| windows_per_element(&strategy, *time)).sum();
        let found: usize = run.panes.iter().map(|pane| pane.values.len()).sum();
        prop_assert_eq!(found + run.dropped as usize, expected);
        let mut seen = BTreeSet::new();
        for pane in &run.panes {
            for value in &pane.values {
                prop_assert!(seen.insert((&pane.window, *value)), "twice: {:?}", pane);
                let (key, time, _) = run.elements[*value as usize];
                prop_assert_eq!(&pane.key, key);
                prop_assert!(Timestamp::from_millis(time) <= pane.window.max_timestamp());
            }
        }
    }

    #[test]
    fn accumulating_repeats_what_was(strategy in any_strategy(), events in events()) {
        let strategy = WindowingStrategy {
            accumulation: AccumulationMode::Accumulating,
            needs_merge: false,
            ..strategy
        };
        let run = run(&strategy, &events);
        for panes in by_window(&run.panes).values() {
            for pair in panes.windows(2) {
                prop_assert!(pair[1].values.starts_with(&pair[0].values), "{:?}", panes);
            }
        }
    }

    #[test]
    fn both_paths_give_the_same(
        window_fn in window_fn(),
        output_time in prop_oneof![
            Just(OutputTime::EndOfWindow),
            Just(OutputTime::Earliest),
            Just(OutputTime::Latest),
        ],
        events in events(),
    ) {
        let base = if window_fn == WindowFn::Global { global() } else { strategy() };
        let whole = WindowingStrategy { window_fn, output_time, ..base };
        let cells = WindowingStrategy { trigger: default_in_cells(), ..whole.clone() };
        // Late elements count towards timestamps or not by how far the output watermark got, which
        // depends on what was polled.
        let events: Vec<Event> = events
            .into_iter()
            .filter(|event| !matches!(event, Event::Poll { .. }))
            .collect();
        let (one, other) = (run(&whole, &events), run(&cells, &events));
        let sorted = |mut panes: Vec<Pane>| {
            panes.sort();
            panes
        };
        prop_assert_eq!(one.dropped, other.dropped);
        let (one, other) = (sorted(one.panes), sorted(other.panes));
        if output_time == OutputTime::EndOfWindow {
            prop_assert_eq!(one, other);
        } else {
            prop_assert_eq!(without_timestamps(one), without_timestamps(other));
        }
    }
}

fn without_timestamps(panes: Vec<Pane>) -> Vec<Pane> {
    let without = |pane| Pane {
        timestamp: Timestamp::MIN,
        ..pane
    };
    panes.into_iter().map(without).collect()
}
