//! Actions that take more than one call.

use std::sync::Arc;

use bytes::Bytes;

use crate::coder;
use crate::engine::{Event, Release, SplitBundle, SplitIf};
use crate::fnapi::Credit;
use crate::job::execution::Execution;
use crate::job::sources;
use crate::model::stage::{PubsubWrite, StageKind};
use crate::model::{BundleId, Chunk, Coder, EnvironmentId, SplitOutcome, StageId};
use crate::proto::urn::monitoring_info_specs;
use crate::source::pubsub::Outgoing;

/// Publishes a bundle of a native sink; the bundle's lane hears how it went.
pub fn publish(
    execution: &Arc<Execution>,
    bundle: BundleId,
    stage: StageId,
    chunks: Vec<(u64, Chunk)>,
) {
    let execution = Arc::clone(execution);
    let runtime = execution.runtime.clone();
    runtime.spawn(async move {
        let event = match publish_now(&execution, stage, &chunks).await {
            Ok(()) => Event::Finished {
                bundle,
                residuals: Vec::new(),
                finalize: false,
            },
            Err(failure) => Event::Failed { bundle, failure },
        };
        execution.send_about(bundle, event, Credit::default());
    });
}

async fn publish_now(
    execution: &Execution,
    stage: StageId,
    chunks: &[(u64, Chunk)],
) -> Result<(), String> {
    let publisher = execution
        .publishers
        .get(&stage)
        .ok_or_else(|| "the stage has no publisher".to_owned())?;
    let node = &execution.graph.stages[stage.index()];
    let coder = &execution.graph.pcollections[node.inputs[0].index()].coder;
    let StageKind::PubsubWrite(write) = &node.kind else {
        return Err("the stage is not a native sink".to_owned());
    };
    let (value_coder, _) =
        coder::windowed_value::parts(coder).map_err(|error| error.to_string())?;
    let mut messages = Vec::new();
    for (sequence, chunk) in chunks {
        let elements = coder::windowed_value::Elements::new(coder, &chunk.bytes);
        for (number, element) in (*sequence..).zip(elements) {
            let element = element.map_err(|error| error.to_string())?;
            let value = chunk.bytes.slice(element.value.clone());
            let (topic, message) =
                topic_and_message(write, value_coder, value).map_err(|error| error.to_string())?;
            messages.push(Outgoing {
                topic,
                message,
                id: Some(format!("{}-{stage}-{number}", execution.record.id())),
                timestamp: element.timestamp,
            });
        }
    }
    publisher
        .publish(messages)
        .await
        .map_err(|error| error.to_string())
}

/// The topic and the serialized message of one element of a native sink.
fn topic_and_message(
    write: &PubsubWrite,
    value_coder: &Coder,
    value: Bytes,
) -> Result<(String, Bytes), coder::Error> {
    if let Some(topic) = &write.topic {
        return Ok((topic.clone(), value.slice_ref(content(&value)?)));
    }
    let (topic, message) = coder::kv::split(value_coder, &value)?;
    let topic = content(topic)?;
    let topic = String::from_utf8_lossy(topic).into_owned();
    Ok((topic, value.slice_ref(content(message)?)))
}

/// The content of encoded bytes or text.
fn content(mut encoded: &[u8]) -> Result<&[u8], coder::Error> {
    coder::length_prefix::read(&mut encoded)
}

/// Asks a harness to split; an answer at once says that there is nothing to ask.
pub fn split(execution: &Execution, split: SplitBundle) -> Option<Event> {
    let none = Event::Split {
        bundle: split.bundle,
        outcome: SplitOutcome::default(),
    };
    let StageKind::Executable(executable) = &execution.graph.stages[split.stage.index()].kind
    else {
        return Some(none);
    };
    let environment = executable.environment;
    if !is_of_use(execution, environment, split.only_if) {
        return Some(none);
    }
    let Some(harness) = execution.harness(split.worker) else {
        return Some(none);
    };
    harness.split(
        split.bundle,
        &executable.source,
        split.keep,
        i64::from(split.elements),
    );
    None
}

/// Whether part of a bundle could be worked on beside the rest of it.
fn is_of_use(execution: &Execution, environment: EnvironmentId, only_if: SplitIf) -> bool {
    let parallelism = execution.parallelism.get(environment.index());
    let useful_bundles = parallelism.copied().unwrap_or(1);
    let slots = &execution.slots;
    match only_if {
        SplitIf::Always => true,
        SplitIf::Idle => slots.has_idle_worker(environment, useful_bundles),
        SplitIf::IdleOrDormant => {
            slots.has_idle_worker(environment, useful_bundles)
                || slots.has_lendable_room(environment)
        }
    }
}

/// Lets out what is committed.
pub fn release(execution: &Execution, release: Release) {
    match release {
        Release::Ack { stage, receipts } => {
            if let Some(reader) = execution.readers.get(&stage) {
                reader.ack(&sources::receipts(receipts));
            }
        }
        Release::Finalize { bundle, worker } => {
            if let Some(harness) = execution.harness(worker) {
                harness.finalize(bundle);
            }
        }
        Release::Metrics { bundle } => execution.metrics_committed(bundle),
        Release::DiscardMetrics { bundle } => execution.metrics_discarded(bundle),
        Release::Duplicates { stage, count } => {
            count_at(execution, stage, "pubsub_duplicates", count);
        }
        Release::DroppedLate { stage, count } => {
            count_at(execution, stage, "droppedDueToLateness", count);
        }
    }
}

/// Counts something that the runner itself did at a step, as a counter that every client shows.
fn count_at(execution: &Execution, stage: StageId, name: &str, count: u64) {
    let labels = [
        ("PTRANSFORM", execution.stage_name(stage)),
        ("NAMESPACE", "tidemill"),
        ("NAME", name),
    ];
    let labels = labels.map(|(label, value)| (label.to_owned(), value.to_owned()));
    let delta = i64::try_from(count).unwrap_or(i64::MAX);
    let urn = monitoring_info_specs::USER_SUM_INT64;
    execution
        .record
        .metrics()
        .counter(urn, &labels.into(), delta);
}
