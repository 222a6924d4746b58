//! Encoding a PCollection anew where the runner needs it to look like another.
//!
//! The runner copies bytes; only an SDK can turn one coder's bytes into another's. A transcoding step has no
//! transform: its stage decodes at one port and encodes at another. Behind an SDK transform of the same
//! environment it costs nothing, since it becomes that stage's sink with another coder.

use crate::model::coder::Coder;
use crate::model::ids::EnvironmentId;
use crate::plan::error::Error;
use crate::plan::graph::{Graph, Kind, PCollectionIndex, Transform, TransformIndex};

/// Finds the environments that can transcode.
pub(super) struct Transcoder {
    producers: Vec<Option<TransformIndex>>,
    readers: Vec<Vec<TransformIndex>>,
}

impl Transcoder {
    pub(super) fn new(graph: &Graph) -> Self {
        let mut readers = vec![Vec::new(); graph.pcollections.len()];
        for (index, transform) in graph.transforms.iter().enumerate() {
            for pcollection in transform.reads() {
                readers[pcollection].push(index);
            }
        }
        Self {
            producers: graph.producers(),
            readers,
        }
    }

    /// Makes the `index`th input of a runner transform look like `coder`, by a transcoding step if need be.
    pub(super) fn adapt(
        &self,
        graph: &mut Graph,
        consumer: TransformIndex,
        index: usize,
        coder: &str,
    ) -> Result<(), Error> {
        let (name, input) = graph.transforms[consumer].inputs[index].clone();
        let has = graph.coder_of(input).to_owned();
        let (has, wants) = (graph.coders.wire(&has)?, graph.coders.wire(coder)?);
        if graph.coders.same(&has, &wants)? {
            return Ok(());
        }
        let transform = &graph.transforms[consumer];
        let wants = graph.coders.model(&wants)?;
        let environment = self
            .environment(graph, transform, input, &wants)
            .ok_or_else(|| {
                transform.error("its input must be encoded anew, but no SDK is there to do it")
            })?;
        let id = format!("{}/Transcode/{name}", transform.id);
        let step = transform.step.clone();
        let id = graph.fresh_transform_id(&id);
        let output = graph.derive_pcollection(input, &format!("{id}.out"), coder);
        graph.transforms.push(Transform {
            id,
            step,
            proto: Default::default(),
            kind: Kind::Transcode,
            environment: Some(environment),
            inputs: vec![("in".to_owned(), input)],
            side_inputs: Vec::new(),
            outputs: vec![("out".to_owned(), output)],
            par_do: None,
        });
        graph.transforms[consumer].inputs[index].1 = output;
        Ok(())
    }

    /// Who knows both coders: the producer's SDK when the wanted coder is one that all know, else the SDK
    /// that the transform or the first reader of its output belongs to.
    fn environment(
        &self,
        graph: &Graph,
        consumer: &Transform,
        input: PCollectionIndex,
        wants: &Coder,
    ) -> Option<EnvironmentId> {
        let made_in = self.producers.get(input).copied().flatten();
        let producer = made_in.and_then(|index| graph.transforms[index].environment);
        let own = graph.environment(&consumer.proto.environment_id);
        let outputs = consumer
            .outputs
            .iter()
            .flat_map(|&(_, output)| self.readers.get(output));
        let reader = outputs
            .flatten()
            .find_map(|&index| graph.transforms[index].environment);
        let first = (!graph.environments.is_empty()).then_some(EnvironmentId(0));
        if is_standard(wants) {
            producer.or(own).or(reader).or(first)
        } else {
            own.or(reader).or(producer).or(first)
        }
    }
}

fn is_standard(coder: &Coder) -> bool {
    match coder {
        Coder::LengthPrefix(_) | Coder::Row(_) | Coder::Opaque(_) => false,
        Coder::Kv(left, right)
        | Coder::ParamWindowedValue(left, right, _)
        | Coder::WindowedValue(left, right)
        | Coder::Timer(left, right) => is_standard(left) && is_standard(right),
        Coder::Iterable(inner)
        | Coder::StateBackedIterable(inner)
        | Coder::Nullable(inner)
        | Coder::ShardedKey(inner)
        | Coder::CustomWindow(inner) => is_standard(inner),
        Coder::Bytes
        | Coder::StringUtf8
        | Coder::Bool
        | Coder::VarInt
        | Coder::Double
        | Coder::GlobalWindow
        | Coder::IntervalWindow => true,
    }
}
