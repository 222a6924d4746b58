//! Combine-per-key: combine before the shuffle where the trigger cannot tell the difference.

use prost::Message;

use crate::plan::error::Error;
use crate::plan::graph::{Graph, Kind, Role, Transform};
use crate::proto::pipeline as pb;
use crate::proto::urn::{coders, combine_components as parts};

/// Whether a combine-per-key can be split into a part before and parts behind the shuffle.
///
/// With side inputs it cannot, and neither when its trigger counts elements or its panes take the time of
/// the earliest element that is not late.
pub(crate) fn lifts(proto: &pb::PTransform, components: &pb::Components) -> bool {
    let mut inputs = proto.inputs.values();
    let (Some(input), None, 1) = (inputs.next(), inputs.next(), proto.outputs.len()) else {
        return false;
    };
    let Some(input) = components.pcollections.get(input) else {
        return false;
    };
    let strategy = components
        .windowing_strategies
        .get(&input.windowing_strategy_id);
    let coder = components.coders.get(&input.coder_id);
    accumulator_coder(proto).is_some_and(|coder| components.coders.contains_key(&coder))
        && coder
            .and_then(|coder| coder.spec.as_ref())
            .is_some_and(|spec| spec.urn == coders::KV)
        && strategy.is_some_and(|strategy| takes_combined(strategy, input))
}

/// Replaces each combine-per-key by its parts.
pub(crate) fn lift_combiners(graph: &mut Graph) -> Result<(), Error> {
    for transform in std::mem::take(&mut graph.transforms) {
        if !matches!(transform.kind, Kind::CombinePerKey) {
            graph.transforms.push(transform);
            continue;
        }
        let input = transform.main_input()?;
        let pcollection = &graph.pcollections[input].proto;
        let lifts = takes_combined(graph.strategy_of(input)?, pcollection)
            && accumulator_coder(&transform.proto).is_some();
        if lifts {
            lift(graph, &transform)?;
        } else {
            group_then_combine(graph, &transform)?;
        }
    }
    Ok(())
}

/// Precombine, group, merge accumulators, extract outputs.
fn lift(graph: &mut Graph, combine: &Transform) -> Result<(), Error> {
    let (input, output) = (combine.main_input()?, combine.output()?);
    let (key, _) = key_value(graph, combine)?;
    let accumulator = accumulator_coder(&combine.proto).unwrap_or_default();
    let id = &combine.id;
    let keyed = graph.coders.add(
        &format!("{id}_accumulators"),
        coders::KV,
        &[&key, &accumulator],
    );
    let list = graph
        .coders
        .add(&format!("{id}_list"), coders::ITERABLE, &[&accumulator]);
    let grouped = graph
        .coders
        .add(&format!("{id}_groups"), coders::KV, &[&key, &list]);
    let precombined = graph.derive_pcollection(input, &format!("{id}/Precombine.out"), &keyed);
    let groups = graph.derive_pcollection(output, &format!("{id}/Group.out"), &grouped);
    let merged = graph.derive_pcollection(output, &format!("{id}/Merge.out"), &keyed);
    let sdk = Kind::Sdk(Role::Plain);
    for (name, urn, kind, from, to) in [
        (
            "Precombine",
            parts::COMBINE_PER_KEY_PRECOMBINE,
            sdk.clone(),
            input,
            precombined,
        ),
        ("Group", "", Kind::GroupByKey, precombined, groups),
        (
            "Merge",
            parts::COMBINE_PER_KEY_MERGE_ACCUMULATORS,
            sdk.clone(),
            groups,
            merged,
        ),
        (
            "ExtractOutputs",
            parts::COMBINE_PER_KEY_EXTRACT_OUTPUTS,
            sdk,
            merged,
            output,
        ),
    ] {
        let part = combine.part(graph, name, urn, kind);
        graph.transforms.push(part.between(graph, from, to));
    }
    Ok(())
}

/// Group, then combine the grouped values.
fn group_then_combine(graph: &mut Graph, combine: &Transform) -> Result<(), Error> {
    let (input, output) = (combine.main_input()?, combine.output()?);
    let (key, value) = key_value(graph, combine)?;
    let id = &combine.id;
    let list = graph
        .coders
        .add(&format!("{id}_list"), coders::ITERABLE, &[&value]);
    let grouped = graph
        .coders
        .add(&format!("{id}_groups"), coders::KV, &[&key, &list]);
    let groups = graph.derive_pcollection(output, &format!("{id}/Group.out"), &grouped);
    let group = combine.part(graph, "Group", "", Kind::GroupByKey);
    graph.transforms.push(group.between(graph, input, groups));
    let sdk = Kind::Sdk(Role::Plain);
    let values = combine.part(graph, "CombineValues", parts::COMBINE_GROUPED_VALUES, sdk);
    graph.transforms.push(values.between(graph, groups, output));
    Ok(())
}

fn key_value(graph: &Graph, combine: &Transform) -> Result<(String, String), Error> {
    let coder = graph.coder_of(combine.main_input()?);
    match graph.coders.components(coder, coders::KV)? {
        Some([key, value]) => Ok((key, value)),
        None => Err(combine.error("its input is not encoded as key-value pairs")),
    }
}

fn accumulator_coder(proto: &pb::PTransform) -> Option<String> {
    let payload = proto.spec.as_ref()?.payload.clone();
    let coder = pb::CombinePayload::decode(payload)
        .ok()?
        .accumulator_coder_id;
    Some(coder).filter(|coder| !coder.is_empty())
}

/// Whether panes come out alike when several elements arrive combined into one.
///
/// What is combined has the time of its earliest element, which may be late where others are not; only of
/// bounded input nothing is.
fn takes_combined(strategy: &pb::WindowingStrategy, input: &pb::PCollection) -> bool {
    let timely = strategy.output_time() != pb::output_time::Enum::EarliestInPane
        || input.is_bounded() == pb::is_bounded::Enum::Bounded;
    timely && ignores_counts(strategy.trigger.as_ref())
}

/// Whether a trigger fires alike when several elements arrive combined into one.
fn ignores_counts(trigger: Option<&pb::Trigger>) -> bool {
    use pb::trigger::Trigger as Kind;
    let Some(kind) = trigger.and_then(|trigger| trigger.trigger.as_ref()) else {
        return true;
    };
    match kind {
        Kind::Default(_)
        | Kind::Never(_)
        | Kind::AfterProcessingTime(_)
        | Kind::AfterSynchronizedProcessingTime(_) => true,
        Kind::ElementCount(count) => count.element_count == 1,
        Kind::AfterEndOfWindow(window) => {
            ignores_counts(window.early_firings.as_deref())
                && ignores_counts(window.late_firings.as_deref())
        }
        Kind::AfterAny(any) => any
            .subtriggers
            .iter()
            .all(|inner| ignores_counts(Some(inner))),
        Kind::Repeat(repeat) => ignores_counts(repeat.subtrigger.as_deref()),
        // Users of Always want to see every element.
        Kind::Always(_) | Kind::AfterAll(_) | Kind::AfterEach(_) | Kind::OrFinally(_) => false,
    }
}
