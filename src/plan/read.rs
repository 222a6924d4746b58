//! From the submitted proto to the checked [`Graph`].

use std::collections::{BTreeMap, BTreeSet};

use prost::Message;

use crate::plan::build::Settings;
use crate::plan::coders::Coders;
use crate::plan::error::Error;
use crate::plan::graph::{Graph, Kind, PCollectionIndex, Role, SideInput, Transform};
use crate::plan::rewrite::{combine_lifting, native_read, native_write};
use crate::proto::pipeline as pb;
use crate::proto::urn::{
    combine_components, composites, deprecated_primitives, primitives, requirements,
    side_input_types, splittable_par_do_components as sdf,
};

/// Reads a pipeline: drops composites and what is inside native ones, and checks what remains.
pub(crate) fn read(pipeline: &pb::Pipeline, settings: &Settings) -> Result<Graph, Error> {
    check_requirements(&pipeline.requirements)?;
    let components = pipeline
        .components
        .as_ref()
        .ok_or_else(|| Error::malformed("the pipeline has no components"))?;
    let leaves = leaves(pipeline, components, settings)?;
    let environments = used_environments(components, &leaves)?;
    let coders = Coders::new(
        components.coders.clone(),
        environments.iter().map(|(_, environment)| environment),
    );
    let mut reader = Reader {
        graph: Graph::new(
            coders,
            components.windowing_strategies.clone(),
            environments,
        ),
        components,
    };
    for leaf in leaves {
        reader.graph.fresh_transform_id(leaf.id);
        let transform = reader.transform(leaf)?;
        reader.graph.transforms.push(transform);
    }
    let graph = reader.graph;
    check_producers(&graph)?;
    Ok(graph)
}

/// A transform that is not looked into.
struct Leaf<'a> {
    id: &'a str,
    proto: &'a pb::PTransform,
    kind: Kind,
    environment: String,
}

/// What to do with a transform on the way down.
enum Visit {
    /// It only hands its input through.
    NoWork,
    Expand,
    Leaf(Kind),
}

struct Reader<'a> {
    graph: Graph,
    components: &'a pb::Components,
}

fn check_requirements(found: &[String]) -> Result<(), Error> {
    match found
        .iter()
        .find(|urn| !REQUIREMENTS.contains(&urn.as_str()))
    {
        None => Ok(()),
        Some(unknown) => Err(Error::unsupported(
            "the pipeline has a requirement that Tidemill does not know",
            "use an SDK version that this version of Tidemill knows",
        )
        .urn(unknown)),
    }
}

/// Goes down the composites, without recursion since their depth is the submitter's choice.
fn leaves<'a>(
    pipeline: &'a pb::Pipeline,
    components: &'a pb::Components,
    settings: &Settings,
) -> Result<Vec<Leaf<'a>>, Error> {
    let mut leaves = Vec::new();
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let mut open: Vec<&str> = pipeline
        .root_transform_ids
        .iter()
        .rev()
        .map(String::as_str)
        .collect();
    while let Some(id) = open.pop() {
        let proto = components
            .transforms
            .get(id)
            .ok_or_else(|| Error::malformed(format!("there is no transform {id:?}")))?;
        if !seen.insert(id) {
            return Err(
                Error::malformed("is contained twice, or contains itself").at(&proto.unique_name)
            );
        }
        if let Some((par_do, kind)) = native_write::python_par_do(proto, components, settings) {
            for part in proto.subtransforms.iter().rev() {
                if part.as_str() != par_do {
                    open.push(part);
                }
            }
            seen.insert(par_do);
            if let Some(proto) = components.transforms.get(par_do) {
                leaves.push(leaf(par_do, proto, kind, components));
            }
            continue;
        }
        match visit(proto, components, settings).map_err(|error| error.at(&proto.unique_name))? {
            Visit::NoWork => {}
            Visit::Expand => open.extend(proto.subtransforms.iter().rev().map(String::as_str)),
            Visit::Leaf(kind) => leaves.push(leaf(id, proto, kind, components)),
        }
    }
    Ok(leaves)
}

fn leaf<'a>(
    id: &'a str,
    proto: &'a pb::PTransform,
    kind: Kind,
    components: &pb::Components,
) -> Leaf<'a> {
    let mut environment = proto.environment_id.clone();
    if environment.is_empty() && matches!(kind, Kind::CombinePerKey) {
        let inner = proto.subtransforms.iter();
        environment = inner
            .filter_map(|id| components.transforms.get(id))
            .map(|part| part.environment_id.clone())
            .find(|id| !id.is_empty())
            .unwrap_or_default();
    }
    Leaf {
        id,
        proto,
        kind,
        environment,
    }
}

fn visit(
    proto: &pb::PTransform,
    components: &pb::Components,
    settings: &Settings,
) -> Result<Visit, Error> {
    let urn = proto.spec.as_ref().map_or("", |spec| spec.urn.as_str());
    let has_parts = !proto.subtransforms.is_empty();
    Ok(match urn {
        primitives::IMPULSE => Visit::Leaf(Kind::Impulse),
        primitives::FLATTEN => Visit::Leaf(Kind::Flatten),
        primitives::GROUP_BY_KEY => Visit::Leaf(Kind::GroupByKey),
        primitives::TEST_STREAM => Visit::Leaf(Kind::TestStream),
        composites::RESHUFFLE
        | composites::REDISTRIBUTE_BY_KEY
        | composites::REDISTRIBUTE_ARBITRARILY => Visit::Leaf(Kind::Reshuffle),
        composites::COMBINE_PER_KEY if combine_lifting::lifts(proto, components) || !has_parts => {
            Visit::Leaf(Kind::CombinePerKey)
        }
        composites::PUBSUB_READ if !(has_parts && settings.experiment(CUSTOM_SOURCE)) => {
            Visit::Leaf(Kind::PubsubRead(native_read::payload(proto, settings)?))
        }
        composites::PUBSUB_WRITE | composites::PUBSUB_WRITE_V2
            if !(has_parts && settings.experiment(CUSTOM_SINK)) =>
        {
            Visit::Leaf(Kind::PubsubWrite(native_write::payload(proto, settings)?))
        }
        EXECUTABLE_STAGE => {
            return Err(Error::unsupported(
                "the client has fused the pipeline already",
                "leave out the experiment pre_optimize=all",
            )
            .urn(urn));
        }
        _ if has_parts => Visit::Expand,
        primitives::PAR_DO | sdf::PROCESS_SIZED_ELEMENTS_AND_RESTRICTIONS => {
            Visit::Leaf(Kind::Sdk(role(urn, proto)?))
        }
        _ if SDK_URNS.contains(&urn) => Visit::Leaf(Kind::Sdk(Role::Plain)),
        _ if hands_through(proto) => Visit::NoWork,
        deprecated_primitives::READ => {
            return Err(Error::unsupported(
                "the deprecated Read primitive cannot be run",
                "leave out the experiment use_deprecated_read, or use an SDK that reads by splittable DoFns",
            )
            .urn(urn));
        }
        _ => {
            return Err(Error::unsupported(
                "a primitive that Tidemill does not know",
                "expand it into ParDos, or use an SDK that does",
            )
            .urn(urn));
        }
    })
}

/// A composite without parts, all of whose outputs are its inputs.
fn hands_through(proto: &pb::PTransform) -> bool {
    let inputs: BTreeSet<&String> = proto.inputs.values().collect();
    if !proto.outputs.values().all(|output| inputs.contains(output)) {
        return false;
    }
    let urn = proto.spec.as_ref().map_or("", |spec| spec.urn.as_str());
    !proto.outputs.is_empty() || COMPOSITE_URNS.contains(&urn)
}

fn role(urn: &str, proto: &pb::PTransform) -> Result<Role, Error> {
    if urn == sdf::PROCESS_SIZED_ELEMENTS_AND_RESTRICTIONS {
        return Ok(Role::SplittableProcess);
    }
    let payload = par_do(proto)?;
    let stateful = !payload.state_specs.is_empty()
        || !payload.timer_family_specs.is_empty()
        || payload.requires_time_sorted_input
        || !payload.on_window_expiration_timer_family_spec.is_empty();
    Ok(if stateful {
        Role::Stateful
    } else {
        Role::Plain
    })
}

/// The payload of a ParDo or of a part of a splittable one.
fn par_do(proto: &pb::PTransform) -> Result<pb::ParDoPayload, Error> {
    let spec = proto.spec.clone().unwrap_or_default();
    pb::ParDoPayload::decode(spec.payload)
        .map_err(|_| Error::malformed("its ParDoPayload cannot be read").urn(&spec.urn))
}

fn used_environments(
    components: &pb::Components,
    leaves: &[Leaf<'_>],
) -> Result<Vec<(String, pb::Environment)>, Error> {
    let mut used = BTreeMap::new();
    for leaf in leaves {
        let id = &leaf.environment;
        let in_sdk = matches!(leaf.kind, Kind::Sdk(_) | Kind::CombinePerKey);
        if !in_sdk || used.contains_key(id) {
            continue;
        }
        let environment = components.environments.get(id).ok_or_else(|| {
            Error::malformed(if id.is_empty() {
                "has no environment to run in".to_owned()
            } else {
                format!("its environment {id:?} is not there")
            })
            .at(&leaf.proto.unique_name)
        })?;
        used.insert(id.clone(), environment.clone());
    }
    Ok(used.into_iter().collect())
}

impl Reader<'_> {
    fn transform(&mut self, leaf: Leaf<'_>) -> Result<Transform, Error> {
        let Leaf {
            id,
            proto,
            kind,
            environment,
        } = leaf;
        let step = proto.unique_name.as_str();
        let urn = proto.spec.as_ref().map_or("", |spec| spec.urn.as_str());
        let is_par_do = matches!(kind, Kind::Sdk(_)) && PAR_DO_URNS.contains(&urn);
        let payload = is_par_do
            .then(|| par_do(proto))
            .transpose()
            .map_err(|error| error.at(step))?;
        let mut inputs = Vec::new();
        let mut side_inputs = Vec::new();
        for (name, pcollection) in &proto.inputs {
            let pcollection = self
                .pcollection(pcollection)
                .map_err(|error| error.at(step))?;
            match payload
                .as_ref()
                .and_then(|payload| payload.side_inputs.get(name))
            {
                None => inputs.push((name.clone(), pcollection)),
                Some(side) => side_inputs.push(SideInput {
                    name: name.clone(),
                    pcollection,
                    multimap: is_multimap(side).map_err(|error| error.at(step))?,
                    view_fn: side
                        .view_fn
                        .as_ref()
                        .map_or_else(String::new, |spec| spec.urn.clone()),
                }),
            }
        }
        let mut outputs = Vec::new();
        for (name, pcollection) in &proto.outputs {
            let pcollection = self
                .pcollection(pcollection)
                .map_err(|error| error.at(step))?;
            outputs.push((name.clone(), pcollection));
        }
        let transform = Transform {
            id: id.to_owned(),
            step: step.to_owned(),
            proto: proto.clone(),
            environment: self.graph.environment(&environment),
            kind,
            inputs,
            side_inputs,
            outputs,
            par_do: payload.map(Box::new),
        };
        check_shape(&transform)?;
        Ok(transform)
    }

    fn pcollection(&mut self, id: &str) -> Result<PCollectionIndex, Error> {
        if let Some(index) = self.graph.pcollection(id) {
            return Ok(index);
        }
        let proto = self
            .components
            .pcollections
            .get(id)
            .ok_or_else(|| Error::malformed(format!("PCollection {id:?} is not there")))?;
        self.graph.coders.get(&proto.coder_id).map_err(|_| {
            Error::malformed(format!(
                "PCollection {id:?} has the coder {:?}, which is not there",
                proto.coder_id
            ))
        })?;
        let index = self.graph.add_pcollection(id, proto.clone());
        self.graph.windowing_of(index)?;
        Ok(index)
    }
}

fn is_multimap(side: &pb::SideInput) -> Result<bool, Error> {
    let urn = side
        .access_pattern
        .as_ref()
        .map_or("", |pattern| pattern.urn.as_str());
    match urn {
        side_input_types::ITERABLE => Ok(false),
        side_input_types::MULTIMAP => Ok(true),
        _ => Err(Error::unsupported(
            format!("a side input has the unknown access pattern {urn:?}"),
            "use an iterable or multimap view",
        )),
    }
}

fn check_shape(transform: &Transform) -> Result<(), Error> {
    match transform.kind {
        Kind::Impulse | Kind::PubsubRead(_) => {
            if !transform.inputs.is_empty() {
                return Err(transform.error("a source cannot have an input"));
            }
            transform.output().map(drop)
        }
        Kind::Flatten => transform.output().map(drop),
        Kind::GroupByKey | Kind::Reshuffle | Kind::CombinePerKey => {
            transform.main_input()?;
            transform.output().map(drop)
        }
        Kind::TestStream => Ok(()),
        Kind::PubsubWrite(_) | Kind::Sdk(_) | Kind::Transcode | Kind::Decode => {
            transform.main_input().map(drop)
        }
    }
}

fn check_producers(graph: &Graph) -> Result<(), Error> {
    let mut producers: Vec<Option<&str>> = vec![None; graph.pcollections.len()];
    for transform in &graph.transforms {
        for &(_, output) in &transform.outputs {
            if let Some(other) = producers[output].replace(&transform.step) {
                return Err(transform.error(format!(
                    "PCollection {:?} is made by {other:?} too",
                    graph.pcollections[output].id
                )));
            }
        }
    }
    for transform in &graph.transforms {
        for input in transform.reads() {
            if producers[input].is_none() {
                return Err(transform.error(format!(
                    "nothing makes its input PCollection {:?}",
                    graph.pcollections[input].id
                )));
            }
        }
    }
    Ok(())
}

const CUSTOM_SOURCE: &str = "enable_custom_pubsub_source";
const CUSTOM_SINK: &str = "enable_custom_pubsub_sink";
const EXECUTABLE_STAGE: &str = "beam:runner:executable_stage:v1";

const REQUIREMENTS: &[&str] = &[
    requirements::REQUIRES_STATEFUL_PROCESSING,
    requirements::REQUIRES_BUNDLE_FINALIZATION,
    requirements::REQUIRES_STABLE_INPUT,
    requirements::REQUIRES_TIME_SORTED_INPUT,
    requirements::REQUIRES_SPLITTABLE_DOFN,
    requirements::REQUIRES_ON_WINDOW_EXPIRATION,
];

/// Primitives whose payload is a ParDoPayload.
const PAR_DO_URNS: &[&str] = &[
    primitives::PAR_DO,
    sdf::PAIR_WITH_RESTRICTION,
    sdf::SPLIT_AND_SIZE_RESTRICTIONS,
    sdf::TRUNCATE_SIZED_RESTRICTION,
    sdf::PROCESS_SIZED_ELEMENTS_AND_RESTRICTIONS,
];

/// Further primitives that an SDK harness runs.
const SDK_URNS: &[&str] = &[
    primitives::ASSIGN_WINDOWS,
    primitives::MAP_WINDOWS,
    primitives::MERGE_WINDOWS,
    primitives::TO_STRING,
    combine_components::COMBINE_PER_KEY_PRECOMBINE,
    combine_components::COMBINE_PER_KEY_MERGE_ACCUMULATORS,
    combine_components::COMBINE_PER_KEY_EXTRACT_OUTPUTS,
    combine_components::COMBINE_PER_KEY_CONVERT_TO_ACCUMULATORS,
    combine_components::COMBINE_GROUPED_VALUES,
    sdf::PAIR_WITH_RESTRICTION,
    sdf::SPLIT_AND_SIZE_RESTRICTIONS,
    sdf::TRUNCATE_SIZED_RESTRICTION,
    "beam:transform:read_from_impulse_python:v1",
    // Python's own way to encode the input of a flatten anew.
    "beam:dofn:identity:0.1",
];

/// URNs of composites that may have neither parts nor outputs.
const COMPOSITE_URNS: &[&str] = &[
    "",
    "beam:transform:generic_composite:v1",
    "beam:transform:pickled_python:v1",
];
