//! Splittable DoFns: pair with a restriction, split and size, process.
//!
//! The process part starts a stage, so that restrictions are spread over all workers between the two. The
//! truncate part runs on drain only, in a descriptor of its own.

use crate::plan::error::Error;
use crate::plan::graph::{Graph, Kind, PCollectionIndex, Role, Transform};
use crate::proto::urn::{coders, primitives, splittable_par_do_components as parts};

/// Replaces each splittable ParDo by its parts.
pub(crate) fn expand_splittable_dofns(graph: &mut Graph) -> Result<(), Error> {
    for transform in std::mem::take(&mut graph.transforms) {
        let restriction = transform
            .par_do
            .as_ref()
            .filter(|_| transform.urn() == primitives::PAR_DO)
            .map(|payload| payload.restriction_coder_id.clone())
            .filter(|coder| !coder.is_empty());
        match restriction {
            None => graph.transforms.push(transform),
            Some(restriction) => expand(graph, transform, &restriction)?,
        }
    }
    Ok(())
}

fn expand(graph: &mut Graph, mut process: Transform, restriction: &str) -> Result<(), Error> {
    let input = process.main_input()?;
    let element = graph.coder_of(input).to_owned();
    let id = process.id.clone();
    let pair = graph
        .coders
        .add(&format!("{id}_pair"), coders::KV, &[&element, restriction]);
    let double = graph.coders.add("double", coders::DOUBLE, &[]);
    let sized = graph
        .coders
        .add(&format!("{id}_sized"), coders::KV, &[&pair, &double]);
    let paired = graph.derive_pcollection(input, &format!("{id}/PairWithRestriction.out"), &pair);
    let split = graph.derive_pcollection(input, &format!("{id}/SplitAndSize.out"), &sized);
    for (name, urn, from, to) in [
        (
            "PairWithRestriction",
            parts::PAIR_WITH_RESTRICTION,
            input,
            paired,
        ),
        (
            "SplitAndSize",
            parts::SPLIT_AND_SIZE_RESTRICTIONS,
            paired,
            split,
        ),
    ] {
        let part = process.part(graph, name, urn, Kind::Sdk(Role::Plain));
        let part = read_from(part, graph, from);
        let part = part.into_only(graph, to);
        graph.transforms.push(part);
    }
    if let Some(spec) = &mut process.proto.spec {
        spec.urn = parts::PROCESS_SIZED_ELEMENTS_AND_RESTRICTIONS.to_owned();
    }
    process.kind = Kind::Sdk(Role::SplittableProcess);
    let process = read_from(process, graph, split);
    graph.transforms.push(process);
    Ok(())
}

/// The transform with another main input under the same local name, and the same side inputs.
fn read_from(mut transform: Transform, graph: &Graph, input: PCollectionIndex) -> Transform {
    for (name, pcollection) in &mut transform.inputs {
        *pcollection = input;
        let id = graph.pcollections[input].id.clone();
        transform.proto.inputs.insert(name.clone(), id);
    }
    transform
}
