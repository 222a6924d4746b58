//! State that is larger than a page, as running bundles read it.

use super::*;
use crate::model::stage::ScriptEvent;

const MIB: usize = 1 << 20;

/// A stage with user state, of whose one key a bundle runs.
struct Reading(Rig);

impl Reading {
    fn new() -> Self {
        let mut builder = Builder::default();
        let source = builder.add("source", StageKind::TestStream, &[], Some(Coder::Bytes));
        let pairs = builder.par_do("pairs", source, Some(kv()));
        let state = UserState {
            transform: "t".to_owned(),
            name: "s".to_owned(),
            multimap_values: Some(Coder::Bytes),
        };
        builder.stateful("remember", pairs, vec![state]);
        let mut reading = Self(Rig::new(builder.graph(), Settings::default()));
        reading.start_bundle();
        reading
    }

    fn start_bundle(&mut self) {
        self.0.play(ScriptEvent::Elements {
            stage: StageId(0),
            elements: vec![(Timestamp::from_millis(1), Bytes::from_static(b"e"))],
        });
        self.0.finish(&[(5, "k:1")]);
    }

    fn next_bundle(&mut self) {
        self.0.finish(&[]);
        self.start_bundle();
    }

    fn ask(&mut self, key: &StateKey, operation: StateOperation) -> StateReply {
        self.0.read_state(key, operation)
    }

    fn append(&mut self, key: &StateKey, data: impl Into<Bytes>) {
        let data = data.into();
        let reply = self.ask(key, StateOperation::Append { data });
        assert_eq!(reply, StateReply::Done);
    }

    fn clear(&mut self, key: &StateKey) {
        assert_eq!(self.ask(key, StateOperation::Clear), StateReply::Done);
    }

    fn page(&mut self, key: &StateKey, token: Option<Bytes>) -> (Bytes, Option<Bytes>) {
        match self.get(key, token) {
            StateReply::Data { data, continuation } => (data, continuation),
            other => panic!("a page was expected instead of {other:?}"),
        }
    }

    fn get(&mut self, key: &StateKey, continuation: Option<Bytes>) -> StateReply {
        self.ask(key, StateOperation::Get { continuation })
    }

    /// The first bytes of the values that each page from `token` on holds.
    fn pages(&mut self, key: &StateKey, mut token: Option<Bytes>, value: usize) -> Vec<Vec<u8>> {
        let mut pages = Vec::new();
        loop {
            let (data, next) = self.page(key, token);
            assert_eq!(data.len() % value, 0, "a page holds whole values");
            pages.push(data.iter().step_by(value).copied().collect());
            token = next;
            if token.is_none() {
                return pages;
            }
        }
    }
}

fn bag() -> StateKey {
    StateKey::BagUserState {
        transform: "t".to_owned(),
        state: "s".to_owned(),
        window: Bytes::new(),
        key: Bytes::from_static(b"\x01k"),
    }
}

fn map_keys() -> StateKey {
    StateKey::MultimapKeysUserState {
        transform: "t".to_owned(),
        state: "s".to_owned(),
        window: Bytes::new(),
        key: Bytes::from_static(b"\x01k"),
    }
}

fn map_entries() -> StateKey {
    StateKey::MultimapEntriesUserState {
        transform: "t".to_owned(),
        state: "s".to_owned(),
        window: Bytes::new(),
        key: Bytes::from_static(b"\x01k"),
    }
}

fn map_values(map_key: Vec<u8>) -> StateKey {
    StateKey::MultimapUserState {
        transform: "t".to_owned(),
        state: "s".to_owned(),
        window: Bytes::new(),
        key: Bytes::from_static(b"\x01k"),
        map_key: Bytes::from(map_key),
    }
}

fn list(start: i64, end: i64) -> StateKey {
    StateKey::OrderedListUserState {
        transform: "t".to_owned(),
        state: "s".to_owned(),
        window: Bytes::new(),
        key: Bytes::from_static(b"\x01k"),
        start,
        end,
    }
}

/// A value of this many bytes that begins with `first`.
fn value(first: u8, bytes: usize) -> Bytes {
    let mut value = vec![0; bytes];
    value[0] = first;
    Bytes::from(value)
}

/// An entry of an ordered list.
fn entry(sort_key: u8, bytes: usize) -> Bytes {
    let mut entry = vec![sort_key];
    coder::length_prefix::write(&mut entry, &vec![0; bytes - 4]);
    assert_eq!(entry.len(), bytes);
    Bytes::from(entry)
}

fn message(reply: StateReply) -> String {
    match reply {
        StateReply::Error(message) => message,
        other => panic!("an error was expected instead of {other:?}"),
    }
}

#[test]
fn a_bag_is_read_from_where_its_token_says() {
    let mut reading = Reading::new();
    for n in 0..5 {
        reading.append(&bag(), value(n, MIB));
    }
    reading.next_bundle();
    let (first, token) = reading.page(&bag(), None);
    assert_eq!((first[0], first[MIB], first.len()), (0, 1, 2 * MIB));
    reading.append(&bag(), value(5, MIB));
    assert_eq!(reading.pages(&bag(), token.clone(), MIB), [[2, 3], [4, 5]]);
    // The same again; and to the end of what is there by now.
    reading.append(&bag(), value(6, MIB));
    let expected: &[&[u8]] = &[&[2, 3], &[4, 5], &[6]];
    assert_eq!(reading.pages(&bag(), token.clone(), MIB), expected);
    // A harness remembers its token together with what it read.
    reading.next_bundle();
    reading.append(&bag(), value(7, MIB));
    let expected: &[&[u8]] = &[&[2, 3], &[4, 5], &[6, 7]];
    assert_eq!(reading.pages(&bag(), token, MIB), expected);
}

#[test]
fn a_large_value_is_a_page_and_is_not_copied() {
    let mut reading = Reading::new();
    let large = value(1, 3 * MIB);
    reading.append(&bag(), large.clone());
    reading.append(&bag(), value(2, 1));
    let (page, token) = reading.page(&bag(), None);
    assert_eq!(page.as_ptr(), large.as_ptr());
    assert_eq!(reading.pages(&bag(), token, 1), [[2]]);
}

#[test]
fn a_token_that_makes_no_sense_is_refused() {
    let mut reading = Reading::new();
    for n in 0..4 {
        reading.append(&bag(), value(n, MIB));
    }
    let (_, token) = reading.page(&bag(), None);
    let other = map_values(vec![7]);
    let refused = "the continuation token is not one that was given out for this state";
    for (key, token) in [
        (bag(), Bytes::new()),
        (bag(), Bytes::from_static(b"twenty bytes of junk")),
        (bag(), Bytes::from_static(b"more than twenty bytes of junk")),
        (list(0, 9), Bytes::from_static(b"twenty bytes of junk")),
        (map_keys(), Bytes::from_static(b"junk")),
        (other, token.clone().expect("there is more")),
    ] {
        assert_eq!(message(reading.get(&key, Some(token))), refused);
    }
    reading.clear(&bag());
    for n in 0..4 {
        reading.append(&bag(), value(n, MIB));
    }
    assert_eq!(
        message(reading.get(&bag(), token)),
        "the state was cleared since its continuation token was given out"
    );
    assert_eq!(reading.pages(&bag(), None, MIB), [[0, 1], [2, 3]]);
}

#[test]
fn a_map_is_read_from_the_key_after_the_last_one() {
    let mut reading = Reading::new();
    let map_key = |first: u8| value(first, MIB).to_vec();
    for n in [1, 3, 5, 7] {
        reading.append(&map_values(map_key(n)), &b"\x01v"[..]);
    }
    reading.next_bundle();
    reading.append(&map_values(map_key(9)), &b"\x01v"[..]);
    let (page, token) = reading.page(&map_keys(), None);
    assert_eq!((page[0], page[MIB], page.len()), (1, 3, 2 * MIB));
    reading.append(&map_values(map_key(2)), &b"\x01v"[..]);
    reading.append(&map_values(map_key(6)), &b"\x01v"[..]);
    reading.clear(&map_values(map_key(7)));
    reading.clear(&map_values(map_key(8)));
    let expected: &[&[u8]] = &[&[5, 6], &[9]];
    assert_eq!(reading.pages(&map_keys(), token, MIB), expected);
    // An entry is its key, a count of four bytes, and a value of two.
    let (page, token) = reading.page(&map_entries(), None);
    assert_eq!(page.len(), 2 * (MIB + 6));
    assert_eq!(page[MIB..MIB + 6], *b"\0\0\0\x01\x01v");
    let expected: &[&[u8]] = &[&[3, 5], &[6, 9]];
    let entries = reading.pages(&map_entries(), token.clone(), MIB + 6);
    assert_eq!(entries, expected);
    reading.clear(&map_keys());
    assert_eq!(
        message(reading.get(&map_entries(), token)),
        "the state was cleared since its continuation token was given out"
    );
    assert_eq!(reading.page(&map_keys(), None), (Bytes::new(), None));
}

#[test]
fn an_ordered_list_is_read_in_order_from_where_its_token_says() {
    let mut reading = Reading::new();
    let (first, all) = (list(0, 4), list(0, 100));
    for n in [1, 3, 3, 5] {
        reading.append(&all, entry(n, MIB));
    }
    reading.next_bundle();
    let (page, token) = reading.page(&all, None);
    assert_eq!((page[0], page[MIB], page.len()), (1, 3, 2 * MIB));
    for n in [0, 3, 4] {
        reading.append(&all, entry(n, MIB));
    }
    let expected: &[&[u8]] = &[&[3, 3], &[4, 5]];
    assert_eq!(reading.pages(&all, token.clone(), MIB), expected);
    assert_eq!(reading.pages(&first, token.clone(), MIB), [[3, 3]]);
    let expected: &[&[u8]] = &[&[0, 1], &[3, 3], &[3]];
    assert_eq!(reading.pages(&first, None, MIB), expected);
    reading.clear(&first);
    assert_eq!(
        message(reading.get(&all, token)),
        "the state was cleared since its continuation token was given out"
    );
    assert_eq!(reading.pages(&all, None, MIB), [[4, 5]]);
}
