//! Windows that only an SDK can merge: a step of the SDK beside each group-by-key that has such windows.
//!
//! The step reads what the group-by-key asks, which becomes an output of it, and makes the answers. That
//! these come back is no edge of the graph, which stays without circles.

use prost::Message;

use crate::model::window::WindowFn;
use crate::plan::error::Error;
use crate::plan::graph::{Graph, Kind, Role, TransformIndex, WindowMerge};
use crate::plan::windowing;
use crate::proto::pipeline as pb;
use crate::proto::urn::{coders, primitives};

/// Adds the steps.
pub(crate) fn merge_windows_in_sdk(graph: &mut Graph) -> Result<(), Error> {
    for index in 0..graph.transforms.len() {
        let transform = &graph.transforms[index];
        if !matches!(transform.kind, Kind::GroupByKey) {
            continue;
        }
        let strategy = graph.strategy_of(transform.main_input()?)?.clone();
        let window_fn = windowing::merging_window_fn(&strategy)?;
        if matches!(window_fn, Some(WindowFn::Custom { .. })) {
            add_step(graph, index, &strategy)?;
        }
    }
    Ok(())
}

fn add_step(
    graph: &mut Graph,
    index: TransformIndex,
    strategy: &pb::WindowingStrategy,
) -> Result<(), Error> {
    let group = graph.transforms[index].clone();
    let input = group.main_input()?;
    let producer = graph.producers()[input];
    let environment = graph
        .environment(&strategy.environment_id)
        .or_else(|| graph.transforms[producer?].environment)
        .ok_or_else(|| group.error("its windows must be merged, but no SDK is there to do it"))?;
    let window = graph.coders.wire_window(&strategy.window_coder_id)?;
    let (question, answer) = coders_of(graph, &window);
    let windowing = global_windows(graph);
    let mut derive = |name: &str, coder: &str| {
        let id = format!("{}/{name}", group.id);
        let derived = graph.derive_pcollection(input, &id, coder);
        let proto = &mut graph.pcollections[derived].proto;
        proto.windowing_strategy_id.clone_from(&windowing);
        derived
    };
    let questions = derive("Merge.in", &question);
    let answers = derive("Merge.out", &answer);
    let sdk = Kind::Sdk(Role::Plain);
    let merge = group.part(graph, "Merge", primitives::MERGE_WINDOWS, sdk);
    let mut merge = merge.between(graph, questions, answers);
    merge.environment = Some(environment);
    let (id, _) = &graph.environments[environment.index()];
    merge.proto.environment_id.clone_from(id);
    let window_fn = strategy.window_fn.clone().unwrap_or_default();
    merge.proto.spec = Some(pb::FunctionSpec {
        urn: primitives::MERGE_WINDOWS.to_owned(),
        payload: window_fn.encode_to_vec().into(),
    });
    graph.transforms.push(merge);
    let outputs = &mut graph.transforms[index].outputs;
    outputs.push((QUESTIONS.to_owned(), questions));
    let merge = WindowMerge { questions, answers };
    graph.window_merges.insert(group.id, merge);
    Ok(())
}

/// The coders of questions and answers about windows of this coder.
fn coders_of(graph: &mut Graph, window: &str) -> (String, String) {
    let mut add = |name: &str, urn: &str, parts: &[&str]| {
        let name = format!("{window}_{name}");
        graph.coders.add(&name, urn, parts)
    };
    let nonce = add("nonce", coders::BYTES, &[]);
    let windows = add("windows", coders::ITERABLE, &[window]);
    let question = add("question", coders::KV, &[&nonce, &windows]);
    let merge = add("merge", coders::KV, &[window, &windows]);
    let merges = add("merges", coders::ITERABLE, &[&merge]);
    let merged = add("merged", coders::KV, &[&windows, &merges]);
    let answer = add("answer", coders::KV, &[&nonce, &merged]);
    (question, answer)
}

/// The id of a strategy with nothing but the global window, added if need be.
fn global_windows(graph: &mut Graph) -> String {
    let id = GLOBAL_WINDOWS.to_owned();
    let window_coder_id = graph
        .coders
        .add("global_window", coders::GLOBAL_WINDOW, &[]);
    let default = pb::trigger::Trigger::Default(pb::trigger::Default {});
    graph
        .strategies
        .entry(id.clone())
        .or_insert_with(|| pb::WindowingStrategy {
            window_fn: Some(pb::FunctionSpec {
                urn: windowing::GLOBAL.to_owned(),
                ..Default::default()
            }),
            merge_status: pb::merge_status::Enum::NonMerging.into(),
            window_coder_id,
            trigger: Some(pb::Trigger {
                trigger: Some(default),
            }),
            accumulation_mode: pb::accumulation_mode::Enum::Discarding.into(),
            output_time: pb::output_time::Enum::EndOfWindow.into(),
            closing_behavior: pb::closing_behavior::Enum::EmitIfNonempty.into(),
            on_time_behavior: pb::on_time_behavior::Enum::FireAlways.into(),
            assigns_to_one_window: true,
            ..Default::default()
        });
    id
}

/// The name of the output that a group-by-key asks by.
const QUESTIONS: &str = "questions";
/// The id of the strategy of questions and answers.
const GLOBAL_WINDOWS: &str = "tidemill:global_windows";
