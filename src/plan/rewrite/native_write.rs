//! Pub/Sub writes run by the runner, Python's included, which bears no URN since Beam 2.69.

use prost::Message;

use crate::model::stage::PubsubWrite;
use crate::plan::build::Settings;
use crate::plan::error::Error;
use crate::plan::graph::{Graph, Kind, Transform};
use crate::plan::rewrite::native_read::set;
use crate::plan::rewrite::pubsub_path;
use crate::proto::pipeline as pb;
use crate::proto::urn::{coders, composites, display_data, primitives};

/// Reads the payload of a `pubsub_write` transform.
pub(crate) fn payload(proto: &pb::PTransform, settings: &Settings) -> Result<PubsubWrite, Error> {
    let spec = proto.spec.clone().unwrap_or_default();
    let payload = pb::PubSubWritePayload::decode(spec.payload)
        .map_err(|_| Error::malformed("its payload cannot be read").urn(&spec.urn))?;
    let topic = settings.resolve(&payload.topic, &payload.topic_runtime_overridden)?;
    let dynamic = spec.urn == composites::PUBSUB_WRITE_V2;
    if topic.is_none() && !dynamic {
        return Err(Error::malformed("it names no topic").urn(&spec.urn));
    }
    Ok(PubsubWrite {
        transform: proto.unique_name.clone(),
        topic: topic
            .filter(|_| !dynamic)
            .map(|topic| pubsub_path::canonical(&topic, "topics"))
            .transpose()?,
        timestamp_attribute: set(payload.timestamp_attribute),
        id_attribute: set(payload.id_attribute),
        ordering_keys: true,
    })
}

/// Recognises Python's `WriteToPubSub` beyond doubt, and names the ParDo in it that publishes.
///
/// Three marks must all be there: the composite's display data in the namespace of the Python class with a
/// topic, a ParDo in it whose display data names the publishing DoFn, and an input of plain bytes for it.
pub(crate) fn python_par_do<'a>(
    proto: &'a pb::PTransform,
    components: &pb::Components,
    settings: &Settings,
) -> Option<(&'a str, Kind)> {
    if settings.experiment("enable_custom_pubsub_sink") {
        return None;
    }
    let urn = proto.spec.as_ref().map_or("", |spec| spec.urn.as_str());
    let composite = Labels::read(&proto.display_data, Some(WRITE_NAMESPACE));
    if urn != PICKLED_PYTHON || composite.0.is_empty() {
        return None;
    }
    let topic = pubsub_path::canonical(&composite.text("topic")?, "topics").ok()?;
    let id = proto.subtransforms.last()?;
    let par_do = components.transforms.get(id)?;
    let par_do_urn = par_do.spec.as_ref().map_or("", |spec| spec.urn.as_str());
    let publishes = Labels::read(&par_do.display_data, None).text("fn")? == WRITE_DOFN;
    let [input] = par_do.inputs.values().collect::<Vec<_>>()[..] else {
        return None;
    };
    let coder = &components.pcollections.get(input)?.coder_id;
    let coder_urn = &components.coders.get(coder)?.spec.as_ref()?.urn;
    if par_do_urn != primitives::PAR_DO || !publishes || coder_urn != coders::BYTES {
        return None;
    }
    let write = PubsubWrite {
        transform: par_do.unique_name.clone(),
        topic: Some(topic),
        timestamp_attribute: composite.text("timestamp_attribute").and_then(set),
        id_attribute: composite.text("id_label").and_then(set),
        ordering_keys: composite.flag("publish_with_ordering_key"),
    };
    Some((id, Kind::PubsubWrite(write)))
}

/// Leaves native writes without outputs; what reads the (always empty) output reads an empty flatten instead.
pub(crate) fn detach_outputs(graph: &mut Graph) {
    let mut read = vec![false; graph.pcollections.len()];
    for pcollection in graph.transforms.iter().flat_map(Transform::reads) {
        read[pcollection] = true;
    }
    let mut empties = Vec::new();
    for transform in &mut graph.transforms {
        if !matches!(transform.kind, Kind::PubsubWrite(_)) {
            continue;
        }
        for output in std::mem::take(&mut transform.outputs) {
            if read[output.1] {
                empties.push(Transform {
                    id: format!("{}/{}", transform.id, output.0),
                    kind: Kind::Flatten,
                    inputs: Vec::new(),
                    outputs: vec![output],
                    ..transform.clone()
                });
            }
        }
    }
    for mut empty in empties {
        empty.id = graph.fresh_transform_id(&empty.id);
        graph.transforms.push(empty);
    }
}

/// Labelled display data.
struct Labels(Vec<pb::LabelledPayload>);

impl Labels {
    fn read(data: &[pb::DisplayData], namespace: Option<&str>) -> Self {
        let labelled = data
            .iter()
            .filter(|datum| datum.urn == display_data::LABELLED);
        let payloads =
            labelled.filter_map(|datum| pb::LabelledPayload::decode(datum.payload.clone()).ok());
        Self(
            payloads
                .filter(|payload| namespace.is_none_or(|wanted| payload.namespace == wanted))
                .collect(),
        )
    }

    fn text(&self, key: &str) -> Option<String> {
        match self.value(key)? {
            pb::labelled_payload::Value::StringValue(text) => Some(text.clone()),
            _ => None,
        }
    }

    fn flag(&self, key: &str) -> bool {
        matches!(
            self.value(key),
            Some(pb::labelled_payload::Value::BoolValue(true))
        )
    }

    fn value(&self, key: &str) -> Option<&pb::labelled_payload::Value> {
        self.0
            .iter()
            .find(|payload| payload.key == key)?
            .value
            .as_ref()
    }
}

const PICKLED_PYTHON: &str = "beam:transform:pickled_python:v1";
const WRITE_NAMESPACE: &str = "apache_beam.io.gcp.pubsub.WriteToPubSub";
const WRITE_DOFN: &str = "apache_beam.io.gcp.pubsub._PubSubWriteDoFn";
