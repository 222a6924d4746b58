//! A stage as its harness runs it: the ProcessBundleDescriptor.

use std::collections::{BTreeMap, BTreeSet};

use prost::Message;

use crate::model::ids::EnvironmentId;
use crate::plan::error::Error;
use crate::plan::graph::{Graph, Kind, PCollectionIndex, Transform};
use crate::proto::fn_execution::{ProcessBundleDescriptor, RemoteGrpcPort};
use crate::proto::pipeline as pb;
use crate::proto::urn::coders;

/// The transform id of a stage's data source.
pub(crate) fn source_id(graph: &Graph, pcollection: PCollectionIndex) -> String {
    format!("source/{}", graph.pcollections[pcollection].id)
}

/// The transform id of a stage's data sink for one output.
pub(crate) fn sink_id(graph: &Graph, pcollection: PCollectionIndex) -> String {
    format!("sink/{}", graph.pcollections[pcollection].id)
}

/// Makes the descriptor of one stage.
pub(crate) struct DescriptorBuilder<'a> {
    pub(crate) id: String,
    pub(crate) graph: &'a mut Graph,
    pub(crate) endpoint: &'a str,
    pub(crate) environment: EnvironmentId,
    pub(crate) input: PCollectionIndex,
    /// The PCollections that leave the stage.
    pub(crate) outputs: &'a [PCollectionIndex],
}

impl DescriptorBuilder<'_> {
    pub(crate) fn build(
        mut self,
        transforms: &[Transform],
    ) -> Result<ProcessBundleDescriptor, Error> {
        let endpoint = pb::ApiServiceDescriptor {
            url: self.endpoint.to_owned(),
            ..Default::default()
        };
        let (id, environment) = self.graph.environments[self.environment.index()].clone();
        let mut built = ProcessBundleDescriptor {
            id: std::mem::take(&mut self.id),
            environments: BTreeMap::from([(id, environment)]),
            // Python opens a state stream whether or not there is state.
            state_api_service_descriptor: Some(endpoint.clone()),
            ..Default::default()
        };
        self.ports(&mut built, transforms, &endpoint)?;
        for transform in transforms
            .iter()
            .filter(|transform| has_transform(transform))
        {
            let proto = self.transform(transform, &mut built)?;
            built.transforms.insert(transform.id.clone(), proto);
            let par_do = transform.par_do.as_deref();
            if par_do.is_some_and(|par_do| !par_do.timer_family_specs.is_empty()) {
                built.timer_api_service_descriptor = Some(endpoint.clone());
            }
        }
        self.pcollections(&mut built, transforms)?;
        Ok(built)
    }

    /// The data source, and a data sink for each output.
    fn ports(
        &mut self,
        built: &mut ProcessBundleDescriptor,
        transforms: &[Transform],
        endpoint: &pb::ApiServiceDescriptor,
    ) -> Result<(), Error> {
        let encoded_anew: BTreeMap<PCollectionIndex, PCollectionIndex> = transforms
            .iter()
            .filter(|transform| is_transcode(transform))
            .map(|transform| Ok((transform.output()?, transform.main_input()?)))
            .collect::<Result<_, Error>>()?;
        let name = |graph: &Graph, pcollection: PCollectionIndex, local: &str| {
            let id = graph.pcollections[pcollection].id.clone();
            BTreeMap::from([(local.to_owned(), id)])
        };
        let id = source_id(self.graph, self.input);
        let mut source = self.port(SOURCE, self.input, endpoint, built)?;
        source.unique_name.clone_from(&id);
        source.outputs = name(self.graph, decoded(self.input, transforms), "out");
        built.transforms.insert(id, source);
        for &output in self.outputs {
            let mut inside = output;
            while let Some(&decoded) = encoded_anew.get(&inside) {
                inside = decoded;
            }
            let id = sink_id(self.graph, output);
            let mut sink = self.port(SINK, output, endpoint, built)?;
            sink.unique_name.clone_from(&id);
            sink.inputs = name(self.graph, inside, "in");
            built.transforms.insert(id, sink);
        }
        Ok(())
    }

    fn port(
        &mut self,
        urn: &str,
        pcollection: PCollectionIndex,
        endpoint: &pb::ApiServiceDescriptor,
        built: &mut ProcessBundleDescriptor,
    ) -> Result<pb::PTransform, Error> {
        let coder = self.graph.port_of(pcollection)?;
        self.graph.coders.collect(&coder, &mut built.coders)?;
        let port = RemoteGrpcPort {
            api_service_descriptor: Some(endpoint.clone()),
            coder_id: coder,
        };
        Ok(pb::PTransform {
            spec: Some(pb::FunctionSpec {
                urn: urn.to_owned(),
                payload: port.encode_to_vec().into(),
            }),
            ..Default::default()
        })
    }

    /// The transform as the SDK gets it, with wire forms of the coders that the runner sees; collects the
    /// coders that its payload names.
    fn transform(
        &mut self,
        transform: &Transform,
        built: &mut ProcessBundleDescriptor,
    ) -> Result<pb::PTransform, Error> {
        let mut proto = transform.proto.clone();
        proto.subtransforms.clear();
        let Some(par_do) = transform.par_do.as_deref() else {
            let payload = proto.spec.as_ref().map(|spec| spec.payload.clone());
            if is_combine(transform.urn())
                && let Some(Ok(combine)) = payload.map(pb::CombinePayload::decode)
            {
                self.collect(&combine.accumulator_coder_id, built)?;
            }
            return Ok(proto);
        };
        self.collect(&par_do.restriction_coder_id, built)?;
        for coder in par_do.state_specs.values().flat_map(state_coders) {
            self.collect(coder, built)?;
        }
        if !par_do.timer_family_specs.is_empty() {
            let mut par_do = par_do.clone();
            for family in par_do.timer_family_specs.values_mut() {
                family.timer_family_coder_id =
                    self.graph.coders.wire(&family.timer_family_coder_id)?;
                self.collect(&family.timer_family_coder_id, built)?;
            }
            if let Some(spec) = &mut proto.spec {
                spec.payload = par_do.encode_to_vec().into();
            }
        }
        Ok(proto)
    }

    fn collect(&self, coder: &str, built: &mut ProcessBundleDescriptor) -> Result<(), Error> {
        if coder.is_empty() {
            return Ok(());
        }
        self.graph.coders.collect(coder, &mut built.coders)
    }

    /// Every PCollection that a transform of the stage touches. Those that the runner sees bear the wire form
    /// of their coder, since the SDK derives the encoding of keys, residuals and side inputs from it.
    fn pcollections(
        &mut self,
        built: &mut ProcessBundleDescriptor,
        transforms: &[Transform],
    ) -> Result<(), Error> {
        let mut seen: BTreeSet<PCollectionIndex> = self.outputs.iter().copied().collect();
        let input = decoded(self.input, transforms);
        seen.insert(input);
        let mut all = BTreeSet::from([input]);
        for transform in transforms.iter().filter(|transform| !is_decode(transform)) {
            seen.extend(transform.side_inputs.iter().map(|side| side.pcollection));
            all.extend(transform.reads());
            if !is_transcode(transform) {
                all.extend(transform.outputs.iter().map(|&(_, output)| output));
            }
        }
        for index in all {
            let mut proto = self.graph.pcollections[index].proto.clone();
            let strategy = self.graph.strategy_of(index)?.clone();
            if self.graph.coders.urn_of(&proto.coder_id)? == coders::WINDOWED_VALUE {
                // SDKs take such a coder for the port's, and would look inside.
                proto.coder_id = self.graph.port_of(index)?;
            } else if seen.contains(&index) {
                proto.coder_id = self.graph.coders.wire(&proto.coder_id)?;
            }
            self.collect(&proto.coder_id, built)?;
            self.collect(&strategy.window_coder_id, built)?;
            if let Some(environment) = self.graph.environment(&strategy.environment_id) {
                let (id, environment) = &self.graph.environments[environment.index()];
                built.environments.insert(id.clone(), environment.clone());
            }
            let id = proto.windowing_strategy_id.clone();
            built.windowing_strategies.insert(id, strategy);
            let id = self.graph.pcollections[index].id.clone();
            built.pcollections.insert(id, proto);
        }
        Ok(())
    }
}

/// What a stage's source makes: its input, or what a first step decodes from it.
fn decoded(input: PCollectionIndex, transforms: &[Transform]) -> PCollectionIndex {
    let decode = transforms.first().filter(|transform| is_decode(transform));
    let output = decode.and_then(|decode| decode.outputs.first());
    output.map_or(input, |&(_, output)| output)
}

fn has_transform(transform: &Transform) -> bool {
    matches!(transform.kind, Kind::Sdk(_))
}

fn is_decode(transform: &Transform) -> bool {
    matches!(transform.kind, Kind::Decode)
}

fn is_transcode(transform: &Transform) -> bool {
    matches!(transform.kind, Kind::Transcode)
}

fn is_combine(urn: &str) -> bool {
    urn.starts_with("beam:transform:combine_")
}

fn state_coders(spec: &pb::StateSpec) -> Vec<&str> {
    use pb::state_spec::Spec;
    match &spec.spec {
        None => Vec::new(),
        Some(Spec::ReadModifyWriteSpec(value)) => vec![&value.coder_id],
        Some(Spec::BagSpec(bag)) => vec![&bag.element_coder_id],
        Some(Spec::CombiningSpec(combining)) => vec![&combining.accumulator_coder_id],
        Some(Spec::MapSpec(map)) => vec![&map.key_coder_id, &map.value_coder_id],
        Some(Spec::SetSpec(set)) => vec![&set.element_coder_id],
        Some(Spec::OrderedListSpec(list)) => vec![&list.element_coder_id],
        Some(Spec::MultimapSpec(map)) => vec![&map.key_coder_id, &map.value_coder_id],
    }
}

const SOURCE: &str = "beam:runner:source:v1";
const SINK: &str = "beam:runner:sink:v1";
