//! Groups whose values do not come with them.

use super::*;
use crate::model::stage::ScriptEvent;

/// A source of pairs, grouped by `windowing` and read by a stage that can read values as state.
fn rig(windowing: WindowingStrategy) -> Rig {
    let mut builder = Builder::default();
    let source = builder.add("source", StageKind::TestStream, &[], Some(Coder::Bytes));
    let pairs = builder.par_do("pairs", source, Some(kv()));
    let grouped = builder.group("group", pairs);
    builder.par_do("read", grouped, None);
    let mut graph = builder.graph();
    let values = Coder::StateBackedIterable(Box::new(Coder::Bytes));
    let group = Coder::Kv(Box::new(Coder::Bytes), Box::new(values));
    graph.pcollections[grouped as usize].coder = windowed(group, Coder::GlobalWindow);
    graph.pcollections[pairs as usize].windowing = windowing.clone();
    for stage in &mut graph.stages {
        if let StageKind::GroupByKey(group) = &mut stage.kind {
            group.windowing = windowing.clone();
        }
    }
    let settings = Settings {
        group_bytes_max: 1_000_000,
        ..Settings::default()
    };
    Rig::new(graph, settings)
}

/// A value of 0.3 MB that shows its number.
fn value(number: usize) -> String {
    format!("{number}").repeat(300_000)
}

impl Rig {
    fn group(&mut self, elements: &[(i64, String)]) {
        self.play(ScriptEvent::Elements {
            stage: StageId(0),
            elements: vec![(Timestamp::from_millis(1), Bytes::from_static(b"e"))],
        });
        let elements: Vec<(i64, &str)> = elements
            .iter()
            .map(|(at, text)| (*at, text.as_str()))
            .collect();
        self.finish(&elements);
    }

    fn end(&mut self) {
        self.play(ScriptEvent::Watermark {
            stage: StageId(0),
            to: Timestamp::MAX,
        });
    }

    /// The groups that the bundle that started first got, with the numbers of their values: those that came with
    /// them, and those read as state.
    fn read_groups(&mut self) -> Vec<String> {
        let start = self.started.front().expect("a bundle is running");
        let input = self.graph.stages[start.stage.index()].inputs[0];
        let coder = &self.graph.pcollections[input.index()].coder;
        let mut groups: Vec<Vec<u8>> = Vec::new();
        for chunk in &start.input {
            for element in coder::windowed_value::Elements::new(coder, &chunk.bytes) {
                let element = element.expect("what the engine sends can be read");
                groups.push(chunk.bytes[element.value].to_vec());
            }
        }
        groups.iter().map(|group| self.read_group(group)).collect()
    }

    fn read_group(&mut self, group: &[u8]) -> String {
        let mut rest = group;
        let key = coder::length_prefix::read(&mut rest).expect("a key");
        let key = String::from_utf8_lossy(key).into_owned();
        let (count, after) = rest.split_first_chunk::<4>().expect("a count");
        rest = after;
        if i32::from_be_bytes(*count) >= 0 {
            return format!("{key}: {}", numbers(rest));
        }
        let mut first = String::new();
        loop {
            match coder::varint::read(&mut rest).expect("a count") as i64 {
                -1 => break,
                count => {
                    for _ in 0..count {
                        let value = coder::length_prefix::read(&mut rest).expect("a value");
                        first.push_str(&format!("{}", char::from(value[0])));
                    }
                }
            }
        }
        let token = coder::length_prefix::read(&mut rest).expect("a token");
        let key_of_values = Bytes::copy_from_slice(token);
        format!("{key}: {first} and {}", self.read_values(&key_of_values))
    }

    /// Numbers of values by page, read twice.
    fn read_values(&mut self, token: &Bytes) -> String {
        let key = StateKey::Runner { key: token.clone() };
        let mut read = || {
            let (mut pages, mut next) = (Vec::new(), None);
            loop {
                let page = self.read_state(&key, StateOperation::Get { continuation: next });
                let StateReply::Data { data, continuation } = page else {
                    return format!("{page:?}");
                };
                pages.push(numbers(&data));
                next = continuation;
                if next.is_none() {
                    return pages.join("|");
                }
            }
        };
        let pages = read();
        assert_eq!(read(), pages);
        pages
    }
}

/// The first characters of encoded values.
fn numbers(mut values: &[u8]) -> String {
    let mut numbers = String::new();
    while !values.is_empty() {
        let value = coder::length_prefix::read(&mut values).expect("a value");
        numbers.push(char::from(value[0]));
    }
    numbers
}

/// Values 1 to 9 of `large`, two of `small` between them, and a short one before.
fn elements() -> Vec<(i64, String)> {
    let mut elements = vec![(1, "large:0".to_owned())];
    for number in 1..10 {
        elements.push((1, format!("large:{}", value(number))));
        if number % 4 == 0 {
            elements.push((1, format!("small:{}", value(number))));
        }
    }
    elements
}

#[test]
fn values_of_a_large_group_are_read_as_state() {
    let mut rig = rig(windowing());
    rig.group(&elements());
    rig.end();
    let mut groups = rig.read_groups();
    groups.sort();
    assert_eq!(groups, ["large: 0 and 123456|789", "small: 48"]);
    // Another try reads the same.
    rig.fail("boom");
    let mut groups = rig.read_groups();
    groups.sort();
    assert_eq!(groups, ["large: 0 and 123456|789", "small: 48"]);
    let running = rig.lanes[0].0.bundles.values().next();
    let input = &running.expect("a bundle is running").input;
    let mut backed = input.iter().flat_map(|item| &item.backed);
    let values = Arc::downgrade(&backed.next().expect("a large group").values);
    assert_eq!(values.strong_count(), 1);
    rig.finish(&[]);
    assert_eq!(values.strong_count(), 0, "committed work keeps nothing");
    rig.end();
    assert!(rig.done());
}

#[test]
fn a_split_takes_values_along() {
    let mut rig = rig(windowing());
    let large = |key: char| (0..5).map(move |number| (1, format!("{key}:{}", value(number))));
    let elements: Vec<(i64, String)> = "abc".chars().flat_map(large).collect();
    rig.group(&elements);
    rig.end();
    let mut groups = rig.read_groups();
    assert_eq!(groups.len(), 3);
    groups.sort();
    assert_eq!(groups, ["a:  and 01234", "b:  and 01234", "c:  and 01234"]);
    let groups = rig.read_groups();
    let bundle = rig.started[0].bundle;
    let outcome = SplitOutcome {
        channel_splits: vec![ChannelSplit {
            transform: "source".to_owned(),
            last_primary: 0,
            first_residual: 1,
        }],
        ..SplitOutcome::default()
    };
    rig.tell(bundle, Event::Split { bundle, outcome });
    // The harness still has all three, and may read only the first.
    let read = rig.read_groups();
    assert_eq!(read[0], groups[0]);
    let gone = r#"Error("b2 has no group with these values")"#;
    assert!(read[1].ends_with(gone), "{read:?}");
    assert!(read[2].ends_with(gone), "{read:?}");
    rig.finish(&[]);
    assert_eq!(rig.read_groups(), groups[1..]);
    rig.finish(&[]);
    assert!(rig.done());
}

#[test]
fn panes_have_the_values_they_fired_with() {
    for (accumulation, expected) in [
        (
            AccumulationMode::Discarding,
            ["k:  and 1234", "k:  and 5678", "k: 9"],
        ),
        (
            AccumulationMode::Accumulating,
            ["k:  and 1234", "k:  and 123456|78", "k:  and 123456|789"],
        ),
    ] {
        let mut rig = rig(WindowingStrategy {
            trigger: Trigger::Repeat(Box::new(Trigger::ElementCount(4))),
            accumulation,
            ..windowing()
        });
        let mut panes = Vec::new();
        for numbers in [1..6, 6..9, 9..10] {
            let elements: Vec<(i64, String)> = numbers
                .map(|number| (1, format!("k:{}", value(number))))
                .collect();
            rig.group(&elements);
            if !rig.started.is_empty() {
                panes.extend(rig.read_groups());
                // What is added meanwhile is not seen.
                rig.finish(&[]);
            }
        }
        rig.end();
        panes.extend(rig.read_groups());
        rig.finish(&[]);
        assert!(rig.done());
        assert_eq!(panes, expected, "{accumulation:?}");
    }
}

#[test]
fn requests_for_values_that_make_no_sense_are_refused() {
    let mut rig = rig(windowing());
    rig.group(&elements());
    rig.end();
    let get = |continuation: Option<&'static [u8]>| StateOperation::Get {
        continuation: continuation.map(Bytes::from_static),
    };
    let refusals = [
        (&b"junk"[..], get(None)),
        (b"twenty bytes of junk", get(None)),
        (b"twenty bytes of junk", StateOperation::Clear),
        (
            &[0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
            get(Some(b"junk")),
        ),
        (
            &[0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
            get(Some(b"no token")),
        ),
    ]
    .map(|(key, operation)| {
        let key = Bytes::from_static(key);
        match rig.read_state(&StateKey::Runner { key }, operation) {
            StateReply::Error(error) => error,
            other => panic!("an error was expected instead of {other:?}"),
        }
    });
    expect![[r#"
        b2 has no group with these values
        b2 has no group with these values
        the values of a group can only be read
        the continuation token is not one that was given out for this group
        the continuation token is not one that was given out for this group"#]]
    .assert_eq(&refusals.join("\n"));
}
