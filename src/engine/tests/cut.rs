//! Output that arrives in pieces cut inside elements.

use super::*;
use crate::engine::delivery::Payload;
use crate::engine::routing::{Routes, Staged};
use crate::engine::tables::Tables;

/// `words` goes to a group-by-key, to a stage as it is, and to another as side input.
fn forked() -> (StageGraph, PCollectionId) {
    let mut builder = Builder::default();
    let impulse = builder.impulse();
    let words = builder.par_do("split", impulse, Some(kv()));
    builder.group("group", words);
    let main = builder.par_do("print", words, Some(kv()));
    builder.par_do("look", main, None);
    (builder.graph(), PCollectionId(words))
}

/// What is staged of these pieces, as text; chunks of a queue are joined.
fn staged(pieces: &[Bytes]) -> String {
    let (graph, words) = forked();
    let routes = Routes::new(&graph);
    let mut tables = MemoryTables::default();
    let mut staged = Staged::new(words, &routes, &graph, 2);
    for (index, piece) in pieces.iter().enumerate() {
        let cut = index + 1 < pieces.len();
        let added = staged.add(&graph, piece.clone(), cut, tables.payload());
        added.expect("elements");
    }
    assert!(!staged.is_cut());
    let mut text = String::new();
    for (lane, delivery) in staged.into_deliveries(&routes, LaneId(0), 2, &mut 0) {
        let _ = match delivery.payload {
            Payload::Queue(chunks) => {
                let bytes: Vec<u8> = chunks
                    .iter()
                    .flat_map(|chunk| chunk.bytes.to_vec())
                    .collect();
                let count: u32 = chunks.iter().map(|chunk| chunk.count).sum();
                writeln!(text, "{lane:?} {count} {bytes:?}")
            }
            other => writeln!(text, "{lane:?} {other:?}"),
        };
    }
    text
}

#[test]
fn cuts_inside_elements_change_nothing() {
    let long = format!("c:{}", "x".repeat(20_000));
    let output = encode(&[(5, "a:1"), (6, "b:2"), (7, &long), (8, "a:3")]);
    let whole = staged(std::slice::from_ref(&output));
    let ends = [
        1,
        7,
        30,
        54,
        60,
        90,
        5000,
        9000,
        output.len() - 30,
        output.len() - 1,
    ];
    for first in 0..output.len().min(100) {
        for last in ends {
            let middle = first.max(last);
            let pieces = [
                output.slice(..first),
                output.slice(first..middle),
                output.slice(middle..),
            ];
            assert_eq!(staged(&pieces), whole, "cut at {first} and {middle}");
        }
    }
}

#[test]
fn output_that_ends_inside_an_element_fails_the_bundle() {
    let mut rig = Rig::new(word_count(), Settings::default());
    let whole = encode(&[(5, "a:1")]);
    rig.put_out(whole.slice(..whole.len() - 1), true);
    rig.finish(&[]);
    rig.check(expect![[r#"
        watermark impulse MAX
        start b1 split [.@MIN]
        Release(DiscardMetrics { bundle: BundleId(1) })
        Retrying { stage: StageId(1), failure: "output 0 cannot be read: it ends inside an element", attempt: 1 }
        start b2 split [.@MIN]
    "#]]);
}
