//! TestStream: one step of the runner for each output, and the script of what happens when.
//!
//! Elements of the script bear the payload's own coder, which need not be the output's. They go out behind
//! their lengths; where the output is encoded in another way, the SDK decodes them at the port of the stage
//! that reads them.

use std::collections::BTreeMap;

use prost::Message;

use crate::model::ids::{EnvironmentId, StageId};
use crate::model::stage::{Script, ScriptEvent};
use crate::model::time::Timestamp;
use crate::plan::error::Error;
use crate::plan::graph::{Graph, Kind, PCollectionIndex, Transform};
use crate::proto::pipeline as pb;
use crate::proto::urn::{coders, primitives};

/// A TestStream whose outputs are steps of their own.
#[derive(Debug)]
pub(crate) struct TestStream {
    step: String,
    payload: pb::TestStreamPayload,
    /// Local name of each output, and the step that makes it.
    outputs: BTreeMap<String, String>,
}

/// Splits a TestStream by its outputs.
pub(crate) fn split_test_stream(graph: &mut Graph) -> Result<(), Error> {
    let readers = environments_of_readers(graph);
    for transform in std::mem::take(&mut graph.transforms) {
        if !matches!(transform.kind, Kind::TestStream) {
            graph.transforms.push(transform);
            continue;
        }
        let spec = transform.proto.spec.clone().unwrap_or_default();
        let payload = pb::TestStreamPayload::decode(spec.payload)
            .map_err(|_| transform.error("its payload cannot be read"))?;
        let mut outputs = BTreeMap::new();
        for (name, output) in transform.outputs.clone() {
            let id = split(
                graph,
                &transform,
                &name,
                output,
                &payload.coder_id,
                &readers,
            )?;
            outputs.insert(name, id);
        }
        graph.test_streams.push(TestStream {
            step: transform.step,
            payload,
            outputs,
        });
    }
    Ok(())
}

/// Adds the step for one output, and one to decode what it makes if need be; gives the step's id.
fn split(
    graph: &mut Graph,
    stream: &Transform,
    name: &str,
    output: PCollectionIndex,
    coder: &str,
    readers: &[Option<EnvironmentId>],
) -> Result<String, Error> {
    let window = graph.strategy_of(output)?.window_coder_id.clone();
    if graph.coders.urn_of(&window)? != coders::GLOBAL_WINDOW {
        return Err(stream.error("its output is not in the global window"));
    }
    let mut source = stream.part(graph, name, primitives::TEST_STREAM, Kind::TestStream);
    source.environment = None;
    let id = source.id.clone();
    let is_of_go = graph.coders.urn_of(coder)? == GO_CUSTOM_CODER;
    let mut add = |name: &str, component: &str| {
        let name = format!("{id}_{name}");
        graph.coders.add(&name, coders::LENGTH_PREFIX, &[component])
    };
    // Go writes the length before what its own coders write, without saying so.
    let prefixed = if is_of_go {
        let written = add("written", coder);
        add("prefixed", &written)
    } else {
        add("prefixed", coder)
    };
    let declared = graph.coder_of(output).to_owned();
    let wire = graph.coders.wire(&declared)?;
    let alike = graph.coders.same(&wire, &prefixed)?;
    let Some(environment) = readers[output].filter(|_| !alike) else {
        graph.transforms.push(source.into_only(graph, output));
        return Ok(id);
    };
    let encoded = graph.derive_pcollection(output, &format!("{id}.encoded"), &prefixed);
    graph.transforms.push(source.into_only(graph, encoded));
    let decode = stream.part(graph, &format!("{name}/Decode"), "", Kind::Decode);
    let mut decode = decode.between(graph, encoded, output);
    decode.environment = Some(environment);
    graph.transforms.push(decode);
    Ok(id)
}

/// For each PCollection that is read, an environment that knows its coder.
fn environments_of_readers(graph: &Graph) -> Vec<Option<EnvironmentId>> {
    let any = (!graph.environments.is_empty()).then_some(EnvironmentId(0));
    let mut environments = vec![None; graph.pcollections.len()];
    for transform in &graph.transforms {
        for read in transform.reads() {
            if environments[read].is_none() || environments[read] == any {
                environments[read] = transform.environment.or(any);
            }
        }
    }
    environments
}

/// The script of the engine, given the stages of the outputs by their steps' ids. Several TestStreams
/// take turns, one event each.
pub(crate) fn script(
    streams: &[TestStream],
    stages: &BTreeMap<&str, StageId>,
) -> Result<Option<Script>, Error> {
    if let [stream] = streams
        && let Some(endpoint) = stream.service()
    {
        return Ok(Some(Script::Service {
            endpoint: endpoint.to_owned(),
            outputs: stream.stages(stages),
        }));
    }
    let mut listed = Vec::with_capacity(streams.len());
    for stream in streams {
        if stream.service().is_some() {
            let problem = "a service cannot hand out events where there is another TestStream";
            let error = Error::unsupported(problem, "give the one TestStream several outputs");
            return Err(error.at(&stream.step).urn(primitives::TEST_STREAM));
        }
        listed.push(stream.events(stages)?.into_iter());
    }
    let mut events = Vec::new();
    loop {
        let before = events.len();
        events.extend(listed.iter_mut().filter_map(Iterator::next));
        if events.len() == before {
            return Ok((!streams.is_empty()).then_some(Script::Events(events)));
        }
    }
}

impl TestStream {
    /// Who hands the events out, if they are not in the payload.
    fn service(&self) -> Option<&str> {
        let endpoint = self.payload.endpoint.as_ref()?;
        Some(endpoint.url.as_str()).filter(|url| !url.is_empty())
    }

    /// The stage of each output.
    fn stages(&self, stages: &BTreeMap<&str, StageId>) -> BTreeMap<String, StageId> {
        self.outputs
            .iter()
            .filter_map(|(name, id)| Some((name.clone(), *stages.get(id.as_str())?)))
            .collect()
    }

    fn events(&self, stages: &BTreeMap<&str, StageId>) -> Result<Vec<ScriptEvent>, Error> {
        let outputs = self.stages(stages);
        let events = self.payload.events.iter();
        events
            .map(|event| script_event(event, &outputs))
            .collect::<Result<_, Error>>()
            .map_err(|error| error.at(&self.step).urn(primitives::TEST_STREAM))
    }
}

/// Reads one event of a TestStream, given the stages of its outputs by their tags.
///
/// # Errors
///
/// When the event is of an unknown kind, or for an output that is not there.
pub fn script_event(
    event: &pb::test_stream_payload::Event,
    outputs: &BTreeMap<String, StageId>,
) -> Result<ScriptEvent, Error> {
    use pb::test_stream_payload::event::Event;
    let stage = |tag: &str| {
        let known = outputs.get(tag).copied();
        // The tag of a sole output is anything, or nothing.
        let sole = outputs
            .values()
            .next()
            .copied()
            .filter(|_| outputs.len() == 1);
        known
            .or(sole)
            .ok_or_else(|| Error::malformed(format!("an event is for the unknown output {tag:?}")))
    };
    match &event.event {
        Some(Event::WatermarkEvent(advance)) => Ok(ScriptEvent::Watermark {
            stage: stage(&advance.tag)?,
            to: Timestamp::from_millis(advance.new_watermark),
        }),
        Some(Event::ProcessingTimeEvent(advance)) => Ok(ScriptEvent::ProcessingTime {
            by: advance.advance_duration,
        }),
        Some(Event::ElementEvent(add)) => Ok(ScriptEvent::Elements {
            stage: stage(&add.tag)?,
            elements: add
                .elements
                .iter()
                .map(|element| {
                    let timestamp = Timestamp::from_millis(element.timestamp);
                    (timestamp, element.encoded_element.clone())
                })
                .collect(),
        }),
        None => Err(Error::malformed("an event of an unknown kind")),
    }
}

/// Any coder that is not one of Beam's own, as the Go SDK names it.
const GO_CUSTOM_CODER: &str = "beam:go:coder:custom:v1";
