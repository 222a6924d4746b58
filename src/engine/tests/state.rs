//! User state as running bundles see it.

use bytes::Bytes;
use expect_test::expect;

use super::{Builder, Rig, kv};
use crate::engine::{Event, Settings};
use crate::model::bundle::{ChannelSplit, SplitOutcome};
use crate::model::stage::UserState;
use crate::model::{Coder, StateKey, StateOperation};

#[test]
fn entries_of_a_multimap_are_keys_with_counted_values() {
    let state = |name: &str, values| UserState {
        transform: "t".to_owned(),
        name: name.to_owned(),
        multimap_values: Some(values),
    };
    let mut builder = Builder::default();
    let impulse = builder.impulse();
    let pairs = builder.par_do("pairs", impulse, Some(kv()));
    let opaque = Coder::Opaque("java".to_owned());
    let states = vec![state("texts", Coder::Bytes), state("things", opaque)];
    builder.stateful("remember", pairs, states);
    let mut rig = Rig::new(builder.graph(), Settings::default());
    rig.finish(&[(5, "k:1"), (6, "k:2")]);
    let put = |rig: &mut Rig, name: &str, map_key: &'static [u8], data: &'static [u8]| {
        let key = StateKey::MultimapUserState {
            transform: "t".to_owned(),
            state: name.to_owned(),
            window: Bytes::new(),
            key: Bytes::from_static(b"\x01k"),
            map_key: Bytes::from_static(map_key),
        };
        let data = Bytes::from_static(data);
        rig.ask_state(key, StateOperation::Append { data });
    };
    let list = |rig: &mut Rig, name: &str| {
        let key = StateKey::MultimapEntriesUserState {
            transform: "t".to_owned(),
            state: name.to_owned(),
            window: Bytes::new(),
            key: Bytes::from_static(b"\x01k"),
        };
        rig.ask_state(key, StateOperation::Get { continuation: None });
    };
    put(&mut rig, "texts", b"\x01a", b"\x01x\x02yz");
    put(&mut rig, "texts", b"\x01b", b"\x01w");
    put(&mut rig, "texts", b"\x01a", b"\x01v");
    put(&mut rig, "things", b"\x01a", b"xyz");
    list(&mut rig, "texts");
    list(&mut rig, "things");
    rig.finish(&[]);
    assert!(rig.done());
    rig.check(expect![[r#"
        watermark impulse MAX
        start b1 pairs [.@MIN]
        watermark pairs MAX
        watermark remember 5
        start b2 remember [.k.1@5 .k.2@6]
        ReplyState { bundle: BundleId(2), worker: WorkerId(0), request: "r", reply: Done }
        ReplyState { bundle: BundleId(2), worker: WorkerId(0), request: "r", reply: Done }
        ReplyState { bundle: BundleId(2), worker: WorkerId(0), request: "r", reply: Done }
        ReplyState { bundle: BundleId(2), worker: WorkerId(0), request: "r", reply: Done }
        ReplyState { bundle: BundleId(2), worker: WorkerId(0), request: "r", reply: Data { data: b"\x01a\0\0\0\x03\x01x\x02yz\x01v\x01b\0\0\0\x01\x01w", continuation: None } }
        ReplyState { bundle: BundleId(2), worker: WorkerId(0), request: "r", reply: Error("the entries of state things cannot be listed: boundaries of coder java are not known: it must be length-prefixed; read its keys and get each") }
        watermark remember MAX
    "#]]);
}

#[test]
fn keys_are_in_one_bundle_as_a_whole() {
    let mut builder = Builder::default();
    let impulse = builder.impulse();
    let pairs = builder.par_do("pairs", impulse, Some(kv()));
    builder.stateful("count", pairs, Vec::new());
    let mut rig = Rig::new(builder.graph(), Settings::default());
    rig.finish(&[(5, "k:1"), (6, "k:2"), (7, "l:3")]);
    rig.log.clear();
    // It is slow, and there is room; no part of it is asked for.
    rig.wake();
    rig.wake();
    // A harness that gives all of it back unasked would lose it.
    let bundle = rig.started[0].bundle;
    let outcome = SplitOutcome {
        channel_splits: vec![ChannelSplit {
            transform: "source".to_owned(),
            last_primary: -1,
            first_residual: 0,
        }],
        ..SplitOutcome::default()
    };
    rig.tell(bundle, Event::Split { bundle, outcome });
    while !rig.started.is_empty() {
        rig.finish(&[]);
    }
    rig.check(expect![[r#"
        Release(DiscardMetrics { bundle: BundleId(2) })
        Retrying { stage: StageId(2), failure: "the harness split a bundle of whole keys", attempt: 1 }
        start b3 count [.k.1@5 .k.2@6]
        start b4 count [.l.3@7]
        watermark count 7
        watermark count MAX
    "#]]);
    assert!(rig.done());
}
