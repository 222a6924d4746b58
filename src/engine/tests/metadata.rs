//! Element metadata under the rig: what an SDK put behind a pane reaches the next stage as it was.

use super::*;

/// `kv(bytes, bytes)` at time 5 in the global window, with the metadata that a drain caused it.
const ELEMENT: &[u8] = b"\x80\0\0\0\0\0\0\x05\0\0\0\x01\x8f\x02\x08\x02\x01k\x01v";

fn passes(graph: StageGraph) {
    let mut rig = Rig::new(graph, Settings::default());
    rig.answer([ELEMENT, ELEMENT].concat());
    let start = rig.started.front().expect("the next stage runs");
    let input: Vec<u8> = start
        .input
        .iter()
        .flat_map(|chunk| chunk.bytes.clone())
        .collect();
    assert_eq!(input, [ELEMENT, ELEMENT].concat());
}

fn kv() -> Coder {
    Coder::Kv(Box::new(Coder::Bytes), Box::new(Coder::Bytes))
}

#[test]
fn metadata_passes_a_reshuffle() {
    let mut builder = Builder::default();
    let impulse = builder.impulse();
    let made = builder.par_do("make", impulse, Some(kv()));
    let spread = builder.add("spread", StageKind::Reshuffle, &[made], Some(kv()));
    builder.par_do("next", spread, None);
    passes(builder.graph());
}

#[test]
fn metadata_reaches_a_stage_with_keys() {
    let mut builder = Builder::default();
    let impulse = builder.impulse();
    let made = builder.par_do("make", impulse, Some(kv()));
    builder.stateful("next", made, Vec::new());
    passes(builder.graph());
}
