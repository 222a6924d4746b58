//! What must hold of every plan.

use std::collections::{BTreeMap, BTreeSet};

use prost::Message;

use crate::model::coder::Coder;
use crate::model::ids::{PCollectionId, StageId};
use crate::model::stage::{ExecutableStage, Stage, StageKind};
use crate::plan::Plan;
use crate::proto::fn_execution::{ProcessBundleDescriptor, RemoteGrpcPort};
use crate::proto::pipeline as pb;
use crate::proto::urn::coders;

/// Checks the invariants of a plan, and gives the ids of the transforms that harnesses run.
pub(super) fn assert_valid(plan: &Plan) -> Vec<String> {
    let graph = &plan.graph;
    assert_eq!(graph.environments as usize, plan.environments.len());
    for (index, stage) in graph.stages.iter().enumerate() {
        let id = StageId(index as u32);
        assert_connected(plan, id, stage);
    }
    for (index, pcollection) in graph.pcollections.iter().enumerate() {
        assert_no_unknown_length(&pcollection.coder);
        let maker = &graph.stages[pcollection.producer.index()];
        let times = maker
            .outputs
            .iter()
            .filter(|id| id.index() == index)
            .count();
        assert_eq!(times, 1, "{pcollection:?}");
        let answers = graph.stages.iter().filter_map(Stage::window_merging);
        let is_answer = answers.into_iter().any(|to| to.answers.index() == index);
        assert!(
            is_answer
                || !(pcollection.consumers.is_empty() && pcollection.side_consumers.is_empty()),
            "nobody reads {pcollection:?}"
        );
    }
    let mut runs = Vec::new();
    for stage in &graph.stages {
        if let StageKind::Executable(executable) = &stage.kind {
            let descriptor = &plan.descriptors[&executable.descriptor];
            assert_descriptor(descriptor);
            assert_ports(plan, stage, executable, descriptor);
            let transforms = descriptor.transforms.keys();
            runs.extend(
                transforms
                    .filter(|id| plan.steps.contains_key(*id))
                    .cloned(),
            );
        }
    }
    let unique: BTreeSet<&String> = runs.iter().collect();
    assert_eq!(unique.len(), runs.len(), "a transform runs twice");
    runs
}

/// Whether one stage of an SDK that can is all that reads a PCollection.
fn reads_values_as_state(plan: &Plan, groups: PCollectionId) -> bool {
    let groups = &plan.graph.pcollections[groups.index()];
    let [reader] = groups.consumers[..] else {
        return false;
    };
    let StageKind::Executable(reader) = &plan.graph.stages[reader.index()].kind else {
        return false;
    };
    let (_, environment) = &plan.environments[reader.environment.index()];
    let mut capabilities = environment.capabilities.iter();
    groups.side_consumers.is_empty()
        && !reader.keyed
        && capabilities.any(|urn| urn == coders::STATE_BACKED_ITERABLE)
}

fn assert_connected(plan: &Plan, id: StageId, stage: &Stage) {
    for input in &stage.inputs {
        let pcollection = &plan.graph.pcollections[input.index()];
        assert!(pcollection.producer < id);
        assert!(pcollection.consumers.contains(&id));
    }
    for output in &stage.outputs {
        assert_eq!(plan.graph.pcollections[output.index()].producer, id);
    }
    let coder = |id: crate::model::ids::PCollectionId| &plan.graph.pcollections[id.index()].coder;
    match &stage.kind {
        StageKind::Flatten | StageKind::Reshuffle => {
            for (input, output) in stage.inputs.iter().zip(stage.outputs.iter().cycle()) {
                assert_eq!(coder(*input), coder(*output));
            }
        }
        StageKind::GroupByKey(_) => {
            let Coder::WindowedValue(pair, window) = coder(stage.inputs[0]) else {
                panic!("not windowed");
            };
            let Coder::Kv(key, value) = pair.as_ref() else {
                panic!("no pairs");
            };
            if let Some(output) = stage.sole_output() {
                let values = if reads_values_as_state(plan, output) {
                    Coder::StateBackedIterable(value.clone())
                } else {
                    Coder::Iterable(value.clone())
                };
                let grouped = Box::new(Coder::Kv(key.clone(), Box::new(values)));
                let Coder::WindowedValue(found, _) = coder(output) else {
                    panic!("not windowed");
                };
                assert_eq!(found, &grouped, "{window:?}");
            }
        }
        StageKind::Executable(executable) => {
            assert_eq!(stage.inputs.len(), 1);
            assert_eq!(executable.sinks.len(), stage.outputs.len());
            for (index, side) in executable.side_inputs.iter().enumerate() {
                let pcollection = &plan.graph.pcollections[side.pcollection.index()];
                assert!(pcollection.producer < id);
                let mut uses = pcollection.side_consumers.iter();
                assert!(uses.any(|used| used.stage == id && used.index == index));
            }
        }
        StageKind::Impulse
        | StageKind::TestStream
        | StageKind::PubsubRead(_)
        | StageKind::PubsubWrite(_) => {}
    }
}

/// Everything that a descriptor names is in it, and every PCollection in it comes from somewhere.
fn assert_descriptor(descriptor: &ProcessBundleDescriptor) {
    let mut made = BTreeSet::new();
    for (id, transform) in &descriptor.transforms {
        for pcollection in transform.inputs.values().chain(transform.outputs.values()) {
            let found = descriptor.pcollections.get(pcollection);
            let proto = found.unwrap_or_else(|| panic!("{id} uses {pcollection}"));
            assert!(
                descriptor.coders.contains_key(&proto.coder_id),
                "{}",
                proto.coder_id
            );
            let strategy = &descriptor.windowing_strategies[&proto.windowing_strategy_id];
            assert!(descriptor.coders.contains_key(&strategy.window_coder_id));
        }
        for output in transform.outputs.values() {
            assert!(made.insert(output), "{output} is made twice");
        }
        if !transform.environment_id.is_empty() {
            assert!(
                descriptor
                    .environments
                    .contains_key(&transform.environment_id)
            );
        }
    }
    for (id, transform) in &descriptor.transforms {
        let sides = side_inputs(transform);
        for (name, input) in &transform.inputs {
            assert!(
                made.contains(input) || sides.contains(name),
                "{id}: {input}"
            );
        }
    }
    for coder in descriptor.coders.values() {
        for component in &coder.component_coder_ids {
            assert!(descriptor.coders.contains_key(component), "{component}");
        }
    }
}

fn side_inputs(transform: &pb::PTransform) -> BTreeSet<String> {
    let spec = transform.spec.clone().unwrap_or_default();
    if !spec.urn.starts_with("beam:transform:pardo") && !spec.urn.starts_with("beam:transform:sdf")
    {
        return BTreeSet::new();
    }
    let payload = pb::ParDoPayload::decode(spec.payload).unwrap_or_default();
    payload.side_inputs.into_keys().collect()
}

fn assert_ports(
    plan: &Plan,
    stage: &Stage,
    executable: &ExecutableStage,
    descriptor: &ProcessBundleDescriptor,
) {
    let mut ports = vec![(&executable.source, stage.inputs[0])];
    ports.extend(executable.sinks.iter().zip(stage.outputs.iter().copied()));
    for (id, pcollection) in ports {
        let spec = descriptor.transforms[id].spec.clone().unwrap_or_default();
        let port = RemoteGrpcPort::decode(spec.payload).expect("a port");
        assert_eq!(
            shape(&port.coder_id, &descriptor.coders),
            plan.graph.pcollections[pcollection.index()].coder,
            "{id}"
        );
    }
}

/// The coder of a descriptor as the engine must see it, read in another way than the planner does.
fn shape(id: &str, coders: &BTreeMap<String, pb::Coder>) -> Coder {
    let coder = &coders[id];
    let part = |index: usize| Box::new(shape(&coder.component_coder_ids[index], coders));
    let urn = coder.spec.as_ref().map_or("", |spec| &spec.urn);
    match urn
        .trim_start_matches("beam:coder:")
        .trim_end_matches(":v1")
    {
        "bytes" => Coder::Bytes,
        "string_utf8" => Coder::StringUtf8,
        "bool" => Coder::Bool,
        "varint" => Coder::VarInt,
        "double" => Coder::Double,
        "kv" => Coder::Kv(part(0), part(1)),
        "iterable" => Coder::Iterable(part(0)),
        "length_prefix" => Coder::LengthPrefix(part(0)),
        "state_backed_iterable" => Coder::StateBackedIterable(part(0)),
        "nullable" => Coder::Nullable(part(0)),
        "global_window" => Coder::GlobalWindow,
        "interval_window" => Coder::IntervalWindow,
        "custom_window" => Coder::CustomWindow(part(0)),
        "windowed_value" => Coder::WindowedValue(part(0), part(1)),
        _ => Coder::Opaque(urn.to_owned()),
    }
}

fn assert_no_unknown_length(coder: &Coder) {
    match coder {
        Coder::Opaque(urn) => panic!("{urn} has no boundaries"),
        Coder::Kv(left, right) | Coder::WindowedValue(left, right) => {
            assert_no_unknown_length(left);
            assert_no_unknown_length(right);
        }
        Coder::Iterable(inner)
        | Coder::StateBackedIterable(inner)
        | Coder::Nullable(inner)
        | Coder::CustomWindow(inner) => {
            assert_no_unknown_length(inner);
        }
        _ => {}
    }
}
