//! The checked graph: leaf transforms and the PCollections between them, by index.
//!
//! Invariants: every PCollection that is consumed has exactly one producer; its coder and windowing strategy
//! exist; every SDK transform has an environment and exactly one main input.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use crate::model::ids::EnvironmentId;
use crate::model::stage::{PubsubRead, PubsubWrite};
use crate::model::window::WindowFn;
use crate::model::windowing::WindowingStrategy;
use crate::plan::coders::Coders;
use crate::plan::error::Error;
use crate::plan::rewrite::TestStream;
use crate::plan::windowing;
use crate::proto::pipeline as pb;

/// A transform's index in [`Graph::transforms`].
pub(crate) type TransformIndex = usize;
/// A PCollection's index in [`Graph::pcollections`].
pub(crate) type PCollectionIndex = usize;

/// A pipeline without its composites.
#[derive(Debug)]
pub(crate) struct Graph {
    pub(crate) transforms: Vec<Transform>,
    pub(crate) pcollections: Vec<PCollection>,
    pub(crate) coders: Coders,
    pub(crate) strategies: BTreeMap<String, pb::WindowingStrategy>,
    /// Used environments; an [`EnvironmentId`] is an index.
    pub(crate) environments: Vec<(String, pb::Environment)>,
    pub(crate) test_streams: Vec<TestStream>,
    /// By the ids of group-by-keys whose windows an SDK merges.
    pub(crate) window_merges: BTreeMap<String, WindowMerge>,
    /// Groups whose values their reader may read as state.
    pub(crate) state_backed: BTreeSet<PCollectionIndex>,
    ids: BTreeMap<String, PCollectionIndex>,
    transform_ids: BTreeSet<String>,
}

/// A PCollection of the pipeline, or one that a rewrite made.
#[derive(Clone, Debug)]
pub(crate) struct PCollection {
    pub(crate) id: String,
    pub(crate) proto: pb::PCollection,
}

/// A leaf transform: run by the runner, or in an SDK.
#[derive(Clone, Debug)]
pub(crate) struct Transform {
    pub(crate) id: String,
    /// The unique name of the user's step; parts made by a rewrite share it.
    pub(crate) step: String,
    /// As sent to the SDK.
    pub(crate) proto: pb::PTransform,
    pub(crate) kind: Kind,
    pub(crate) environment: Option<EnvironmentId>,
    /// Local name and PCollection of each main input.
    pub(crate) inputs: Vec<(String, PCollectionIndex)>,
    pub(crate) side_inputs: Vec<SideInput>,
    pub(crate) outputs: Vec<(String, PCollectionIndex)>,
    /// Of a ParDo or a part of a splittable one.
    pub(crate) par_do: Option<Box<pb::ParDoPayload>>,
}

/// What a group-by-key asks the SDK that merges its windows, and the answers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowMerge {
    pub(crate) questions: PCollectionIndex,
    pub(crate) answers: PCollectionIndex,
}

#[derive(Clone, Debug)]
pub(crate) struct SideInput {
    pub(crate) name: String,
    pub(crate) pcollection: PCollectionIndex,
    pub(crate) multimap: bool,
    /// The URN of how the SDK makes the view of it.
    pub(crate) view_fn: String,
}

/// What a leaf is to the runner.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Impulse,
    Flatten,
    GroupByKey,
    /// Reshuffle and both kinds of Redistribute.
    Reshuffle,
    /// Replaced by a rewrite: nothing after the rewrites sees it.
    CombinePerKey,
    TestStream,
    PubsubRead(PubsubRead),
    PubsubWrite(PubsubWrite),
    /// Encodes its input anew; in the SDK but without a transform of its own.
    Transcode,
    /// Decodes a TestStream's elements: the stage's source makes the output of this step.
    Decode,
    Sdk(Role),
}

/// What is special about an SDK transform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Plain,
    /// Keeps state or timers, which makes its stage keyed.
    Stateful,
    /// Processes sized elements and restrictions.
    SplittableProcess,
}

impl Graph {
    pub(crate) fn new(
        coders: Coders,
        strategies: BTreeMap<String, pb::WindowingStrategy>,
        environments: Vec<(String, pb::Environment)>,
    ) -> Self {
        Self {
            transforms: Vec::new(),
            pcollections: Vec::new(),
            coders,
            strategies,
            environments,
            test_streams: Vec::new(),
            window_merges: BTreeMap::new(),
            state_backed: BTreeSet::new(),
            ids: BTreeMap::new(),
            transform_ids: BTreeSet::new(),
        }
    }

    /// Adds a PCollection; its id must be new.
    pub(crate) fn add_pcollection(&mut self, id: &str, proto: pb::PCollection) -> PCollectionIndex {
        let index = self.pcollections.len();
        self.pcollections.push(PCollection {
            id: id.to_owned(),
            proto,
        });
        self.ids.insert(id.to_owned(), index);
        index
    }

    /// Adds a PCollection like another one but with this coder, under an id made from `id`.
    pub(crate) fn derive_pcollection(
        &mut self,
        like: PCollectionIndex,
        id: &str,
        coder: &str,
    ) -> PCollectionIndex {
        let mut id = id.to_owned();
        while self.ids.contains_key(&id) {
            id.push('_');
        }
        let proto = pb::PCollection {
            unique_name: id.clone(),
            coder_id: coder.to_owned(),
            ..self.pcollections[like].proto.clone()
        };
        self.add_pcollection(&id, proto)
    }

    pub(crate) fn pcollection(&self, id: &str) -> Option<PCollectionIndex> {
        self.ids.get(id).copied()
    }

    pub(crate) fn environment(&self, id: &str) -> Option<EnvironmentId> {
        let index = self
            .environments
            .binary_search_by(|(known, _)| known.as_str().cmp(id))
            .ok()?;
        Some(EnvironmentId(index as u32))
    }

    /// The coder id of a PCollection.
    pub(crate) fn coder_of(&self, pcollection: PCollectionIndex) -> &str {
        &self.pcollections[pcollection].proto.coder_id
    }

    pub(crate) fn strategy_of(
        &self,
        pcollection: PCollectionIndex,
    ) -> Result<&pb::WindowingStrategy, Error> {
        let PCollection { id, proto } = &self.pcollections[pcollection];
        let strategy = &proto.windowing_strategy_id;
        self.strategies.get(strategy).ok_or_else(|| {
            Error::malformed(format!(
                "PCollection {id:?} has the windowing strategy {strategy:?}, which is not there"
            ))
        })
    }

    /// The windowing strategy of a PCollection, as the engine sees it.
    pub(crate) fn windowing_of(
        &mut self,
        pcollection: PCollectionIndex,
    ) -> Result<WindowingStrategy, Error> {
        let strategy = self.strategy_of(pcollection)?.clone();
        let environment = self.environment(&strategy.environment_id);
        let python = environment.is_some_and(|id| is_python(&self.environments[id.index()].1));
        let mut windowing = windowing::read(&strategy, environment, &mut self.coders)?;
        windowing.last_by_trigger_only = python && windowing.window_fn != WindowFn::Global;
        Ok(windowing)
    }

    /// The port coder of a PCollection: its windowed elements as the wire shows them.
    pub(crate) fn port_of(&mut self, pcollection: PCollectionIndex) -> Result<String, Error> {
        let window = self.strategy_of(pcollection)?.window_coder_id.clone();
        let element = self.coder_of(pcollection).to_owned();
        if self.state_backed.contains(&pcollection) {
            self.coders.state_backed_port(&element, &window)
        } else {
            self.coders.port(&element, &window)
        }
    }

    /// Whether a PCollection ends; what does not say so is unbounded.
    pub(crate) fn bounded(&self, pcollection: PCollectionIndex) -> bool {
        self.pcollections[pcollection].proto.is_bounded() == pb::is_bounded::Enum::Bounded
    }

    /// A transform id that no transform has, made from `id`.
    pub(crate) fn fresh_transform_id(&mut self, id: &str) -> String {
        let mut id = id.to_owned();
        while !self.transform_ids.insert(id.clone()) {
            id.push('_');
        }
        id
    }

    /// Puts every transform behind those whose outputs it reads, otherwise keeping the order.
    pub(crate) fn sort(&mut self) -> Result<(), Error> {
        let producers = self.producers();
        let mut waiting = vec![0_usize; self.transforms.len()];
        let mut readers: Vec<Vec<TransformIndex>> = vec![Vec::new(); self.transforms.len()];
        for (index, transform) in self.transforms.iter().enumerate() {
            for producer in transform.reads().filter_map(|read| producers[read]) {
                readers[producer].push(index);
                waiting[index] += 1;
            }
        }
        let roots = waiting.iter().enumerate().filter(|(_, count)| **count == 0);
        let mut ready: BinaryHeap<_> = roots.map(|(index, _)| Reverse(index)).collect();
        let mut transforms: Vec<Option<Transform>> = std::mem::take(&mut self.transforms)
            .into_iter()
            .map(Some)
            .collect();
        while let Some(Reverse(index)) = ready.pop() {
            self.transforms.extend(transforms[index].take());
            for &reader in &readers[index] {
                waiting[reader] -= 1;
                if waiting[reader] == 0 {
                    ready.push(Reverse(reader));
                }
            }
        }
        match transforms.into_iter().flatten().next() {
            None => Ok(()),
            Some(stuck) => Err(stuck.error("its input depends on its own output")),
        }
    }

    /// For each PCollection, the transform that makes it.
    pub(crate) fn producers(&self) -> Vec<Option<TransformIndex>> {
        let mut producers = vec![None; self.pcollections.len()];
        for (index, transform) in self.transforms.iter().enumerate() {
            for &(_, output) in &transform.outputs {
                producers[output] = Some(index);
            }
        }
        producers
    }
}

impl Transform {
    /// Every PCollection that must be there before the transform runs.
    pub(crate) fn reads(&self) -> impl Iterator<Item = PCollectionIndex> {
        let main = self.inputs.iter().map(|&(_, pcollection)| pcollection);
        main.chain(self.side_inputs.iter().map(|side| side.pcollection))
    }

    pub(crate) fn urn(&self) -> &str {
        self.proto
            .spec
            .as_ref()
            .map_or("", |spec| spec.urn.as_str())
    }

    /// The only main input.
    pub(crate) fn main_input(&self) -> Result<PCollectionIndex, Error> {
        match self.inputs.as_slice() {
            &[(_, pcollection)] => Ok(pcollection),
            inputs => Err(self.error(format!("{} main inputs instead of one", inputs.len()))),
        }
    }

    /// The only output.
    pub(crate) fn output(&self) -> Result<PCollectionIndex, Error> {
        match self.outputs.as_slice() {
            &[(_, pcollection)] => Ok(pcollection),
            outputs => Err(self.error(format!("{} outputs instead of one", outputs.len()))),
        }
    }

    /// The error that this transform contradicts itself.
    pub(crate) fn error(&self, problem: impl Into<String>) -> Error {
        Error::malformed(problem).at(&self.step).urn(self.urn())
    }

    /// A transform that does a part of this one's work: same step, environment, inputs and payload.
    pub(crate) fn part(&self, graph: &mut Graph, name: &str, urn: &str, kind: Kind) -> Self {
        let id = graph.fresh_transform_id(&format!("{}/{name}", self.id));
        let mut part = Self {
            id,
            kind,
            ..self.clone()
        };
        part.proto.subtransforms.clear();
        part.proto.display_data.clear();
        part.proto.unique_name = format!("{}/{name}", self.proto.unique_name);
        if let Some(spec) = &mut part.proto.spec {
            spec.urn = urn.to_owned();
        }
        part
    }

    /// The same with this only input and output.
    pub(crate) fn between(
        mut self,
        graph: &Graph,
        input: PCollectionIndex,
        output: PCollectionIndex,
    ) -> Self {
        let name = "in".to_owned();
        let id = graph.pcollections[input].id.clone();
        self.proto.inputs = BTreeMap::from([(name.clone(), id)]);
        self.inputs = vec![(name, input)];
        self.into_only(graph, output)
    }

    /// The same with this only output.
    pub(crate) fn into_only(mut self, graph: &Graph, output: PCollectionIndex) -> Self {
        let name = "out".to_owned();
        let id = graph.pcollections[output].id.clone();
        self.proto.outputs = BTreeMap::from([(name.clone(), id)]);
        self.outputs = vec![(name, output)];
        self
    }

    /// Runs in an SDK harness.
    pub(crate) fn in_sdk(&self) -> bool {
        matches!(self.kind, Kind::Sdk(_) | Kind::Transcode | Kind::Decode)
    }
}

/// Whether an environment says that it runs the Python SDK.
fn is_python(environment: &pb::Environment) -> bool {
    let mut capabilities = environment.capabilities.iter();
    capabilities.any(|urn| urn.starts_with(PYTHON_SDK))
}

const PYTHON_SDK: &str = "beam:version:sdk_base:apache/beam_python";
