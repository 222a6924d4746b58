//! What planning costs: wall time by the number of transforms and the shape of the pipeline.
//!
//! `cargo bench --bench fusion [NAME]`.

use std::collections::BTreeMap;

use prost::Message;
use tidemill::plan::{self, Settings};
use tidemill::proto::pipeline as pb;
use tidemill::proto::urn::{coders, primitives, side_input_types};
use tidemill::telemetry::clock;

/// A shape of pipelines: adds the transform with this number.
type Shape = fn(&mut pb::Components, usize);

const SHAPES: [(&str, Shape); 3] = [
    ("chain", |components, index| {
        par_do(components, index, index - 1, None)
    }),
    ("fan_out", |components, index| {
        par_do(components, index, index / 10, None)
    }),
    ("side_inputs", |components, index| {
        let side = (index > 2).then_some(index * 7 / 10);
        par_do(components, index, index - 1, side);
    }),
];

fn main() {
    let filter = std::env::args()
        .skip(1)
        .find(|argument| !argument.starts_with('-'));
    println!(
        "{:12} {:>10} {:>10} {:>8}",
        "shape", "transforms", "plan ms", "stages"
    );
    for (name, shape) in SHAPES {
        if filter
            .as_ref()
            .is_some_and(|filter| !name.contains(filter.as_str()))
        {
            continue;
        }
        for transforms in [500, 5_000, 50_000] {
            let pipeline = pipeline(shape, transforms);
            let start = clock::instant();
            let plan = plan::build(&pipeline, &Settings::default()).expect("a plan");
            let millis = start.elapsed().as_secs_f64() * 1e3;
            let stages = plan.graph.stages.len();
            println!("{name:12} {transforms:>10} {millis:>10.1} {stages:>8}");
        }
    }
}

fn pipeline(shape: Shape, transforms: usize) -> pb::Pipeline {
    let mut components = pb::Components::default();
    for urn in [coders::BYTES, coders::GLOBAL_WINDOW] {
        components.coders.insert(
            urn.to_owned(),
            pb::Coder {
                spec: Some(spec(urn, Vec::new())),
                ..Default::default()
            },
        );
    }
    let global = pb::WindowingStrategy {
        window_fn: Some(spec("beam:window_fn:global_windows:v1", Vec::new())),
        window_coder_id: coders::GLOBAL_WINDOW.to_owned(),
        ..Default::default()
    };
    components
        .windowing_strategies
        .insert("global".to_owned(), global);
    components
        .environments
        .insert("sdk".to_owned(), pb::Environment::default());
    add(
        &mut components,
        0,
        spec(primitives::IMPULSE, Vec::new()),
        BTreeMap::new(),
    );
    for index in 1..transforms {
        shape(&mut components, index);
    }
    pb::Pipeline {
        root_transform_ids: (0..transforms).map(name).collect(),
        components: Some(components),
        ..Default::default()
    }
}

fn par_do(components: &mut pb::Components, index: usize, input: usize, side: Option<usize>) {
    let mut payload = pb::ParDoPayload::default();
    let mut inputs = BTreeMap::from([("in".to_owned(), name(input))]);
    if let Some(side) = side {
        inputs.insert("side".to_owned(), name(side));
        let side = pb::SideInput {
            access_pattern: Some(spec(side_input_types::ITERABLE, Vec::new())),
            ..Default::default()
        };
        payload.side_inputs.insert("side".to_owned(), side);
    }
    add(
        components,
        index,
        spec(primitives::PAR_DO, payload.encode_to_vec()),
        inputs,
    );
}

fn add(
    components: &mut pb::Components,
    index: usize,
    spec: pb::FunctionSpec,
    inputs: BTreeMap<String, String>,
) {
    let id = name(index);
    let transform = pb::PTransform {
        unique_name: id.clone(),
        spec: Some(spec),
        inputs,
        outputs: BTreeMap::from([("out".to_owned(), id.clone())]),
        environment_id: "sdk".to_owned(),
        ..Default::default()
    };
    components.transforms.insert(id.clone(), transform);
    let pcollection = pb::PCollection {
        unique_name: id.clone(),
        coder_id: coders::BYTES.to_owned(),
        is_bounded: pb::is_bounded::Enum::Bounded.into(),
        windowing_strategy_id: "global".to_owned(),
        ..Default::default()
    };
    components.pcollections.insert(id, pcollection);
}

fn name(index: usize) -> String {
    format!("t{index:06}")
}

fn spec(urn: &str, payload: Vec<u8>) -> pb::FunctionSpec {
    pb::FunctionSpec {
        urn: urn.to_owned(),
        payload: payload.into(),
    }
}
