//! Fused transforms made into the engine's [`StageGraph`] and the harnesses' descriptors.

use std::collections::BTreeMap;

use crate::model::coder::Coder;
use crate::model::ids::{PCollectionId, StageId};
use crate::model::stage::{
    ExecutableStage, GroupByKey, PCollection, Script, SideInput, SideInputUse, SplittableStage,
    Stage, StageGraph, StageKind, TimerFamily, TruncateStep, UserState, WindowMerging,
};
use crate::model::timer::TimeDomain;
use crate::model::window::WindowFn;
use crate::model::windowing::AccumulationMode;
use crate::plan::descriptor::{self, DescriptorBuilder};
use crate::plan::error::Error;
use crate::plan::fusion::{Executable, FusedStage};
use crate::plan::graph::{self, Graph, Kind, PCollectionIndex, Role, Transform};
use crate::plan::rewrite;
use crate::proto::fn_execution::ProcessBundleDescriptor;
use crate::proto::pipeline as pb;
use crate::proto::urn::splittable_par_do_components::TRUNCATE_SIZED_RESTRICTION;

pub(crate) struct Assembled {
    pub(crate) graph: StageGraph,
    pub(crate) descriptors: BTreeMap<String, ProcessBundleDescriptor>,
    pub(crate) breaks: Vec<Option<String>>,
}

/// Makes stages of fused transforms, in the same order.
pub(crate) fn assemble(
    graph: &mut Graph,
    fused: Vec<FusedStage>,
    endpoint: &str,
) -> Result<Assembled, Error> {
    let script = script(graph, &fused)?;
    let boundaries = Boundaries::find(graph, &fused);
    let mut assembly = Assembly {
        graph,
        endpoint,
        descriptors: BTreeMap::new(),
        boundaries,
    };
    let pcollections = assembly.pcollections()?;
    let mut stages = Vec::with_capacity(fused.len());
    let mut breaks = Vec::with_capacity(fused.len());
    for (index, stage) in fused.into_iter().enumerate() {
        stages.push(assembly.stage(StageId(index as u32), &stage)?);
        breaks.push(stage.reason);
    }
    let environments = assembly.graph.environments.len() as u32;
    let mut assembled = Assembled {
        graph: StageGraph {
            stages,
            pcollections,
            environments,
            script,
        },
        descriptors: assembly.descriptors,
        breaks,
    };
    connect(&mut assembled.graph)?;
    Ok(assembled)
}

/// The script of the pipeline's TestStreams, by the stages of their outputs.
fn script(graph: &Graph, fused: &[FusedStage]) -> Result<Option<Script>, Error> {
    let mut stages = BTreeMap::new();
    for (index, stage) in (0..).zip(fused) {
        let transforms = stage
            .transforms
            .iter()
            .map(|&index| &graph.transforms[index]);
        let outputs = transforms.filter(|transform| matches!(transform.kind, Kind::TestStream));
        stages.extend(outputs.map(|transform| (transform.id.as_str(), StageId(index))));
    }
    rewrite::script(&graph.test_streams, &stages)
}

/// The PCollections that cross stages.
struct Boundaries {
    ids: BTreeMap<PCollectionIndex, PCollectionId>,
    /// In the order of their ids, with their producers.
    list: Vec<(PCollectionIndex, StageId)>,
}

impl Boundaries {
    fn find(graph: &Graph, fused: &[FusedStage]) -> Self {
        let mut made_in = vec![usize::MAX; graph.pcollections.len()];
        for (index, stage) in fused.iter().enumerate() {
            for &transform in &stage.transforms {
                for &(_, output) in &graph.transforms[transform].outputs {
                    made_in[output] = index;
                }
            }
        }
        let mut crossing = vec![false; graph.pcollections.len()];
        for merge in graph.window_merges.values() {
            crossing[merge.answers] = true;
        }
        for (index, stage) in fused.iter().enumerate() {
            for &transform in &stage.transforms {
                for read in graph.transforms[transform].reads() {
                    crossing[read] |= made_in[read] != index;
                }
            }
        }
        let mut list: Vec<(PCollectionIndex, StageId)> = (0..crossing.len())
            .filter(|&pcollection| crossing[pcollection])
            .map(|pcollection| (pcollection, StageId(made_in[pcollection] as u32)))
            .collect();
        list.sort_by_key(|&(pcollection, stage)| (stage, pcollection));
        let ids = list.iter().enumerate();
        Self {
            ids: ids
                .map(|(id, &(pcollection, _))| (pcollection, PCollectionId(id as u32)))
                .collect(),
            list,
        }
    }
}

struct Assembly<'a> {
    graph: &'a mut Graph,
    endpoint: &'a str,
    descriptors: BTreeMap<String, ProcessBundleDescriptor>,
    boundaries: Boundaries,
}

impl Assembly<'_> {
    fn pcollections(&mut self) -> Result<Vec<PCollection>, Error> {
        let mut pcollections = Vec::with_capacity(self.boundaries.list.len());
        for &(pcollection, producer) in &self.boundaries.list {
            let port = self.graph.port_of(pcollection)?;
            pcollections.push(PCollection {
                name: self.graph.pcollections[pcollection].id.clone(),
                producer,
                consumers: Vec::new(),
                side_consumers: Vec::new(),
                coder: self.graph.coders.model(&port)?,
                windowing: self.graph.windowing_of(pcollection)?,
                bounded: self.graph.bounded(pcollection),
            });
        }
        Ok(pcollections)
    }

    fn stage(&mut self, id: StageId, fused: &FusedStage) -> Result<Stage, Error> {
        let transforms: Vec<Transform> = fused
            .transforms
            .iter()
            .map(|&index| self.graph.transforms[index].clone())
            .collect();
        let outputs: Vec<PCollectionIndex> = {
            let outputs = transforms.iter().flat_map(|transform| &transform.outputs);
            let ids = &self.boundaries.ids;
            let mut crossing: Vec<PCollectionIndex> = outputs
                .map(|&(_, output)| output)
                .filter(|output| ids.contains_key(output))
                .collect();
            crossing.sort_unstable();
            crossing
        };
        let (inputs, kind) = match fused.executable {
            Some(executable) => {
                let stage = self.executable(id, executable, &transforms, &outputs)?;
                (
                    vec![executable.input],
                    StageKind::Executable(Box::new(stage)),
                )
            }
            None => {
                let [transform] = transforms.as_slice() else {
                    return Err(Error::bug("a runner step of several transforms"));
                };
                let inputs = transform.inputs.iter().map(|&(_, input)| input);
                (inputs.collect(), self.native(transform)?)
            }
        };
        Ok(Stage {
            name: stage_name(&transforms),
            kind,
            inputs: self.ids(&inputs)?,
            outputs: self.ids(&outputs)?,
        })
    }

    fn ids(&self, pcollections: &[PCollectionIndex]) -> Result<Vec<PCollectionId>, Error> {
        let ids = pcollections
            .iter()
            .map(|index| self.boundaries.ids.get(index).copied());
        ids.collect::<Option<_>>()
            .ok_or_else(|| Error::bug("a stage reads a PCollection that does not cross stages"))
    }

    fn native(&mut self, transform: &Transform) -> Result<StageKind, Error> {
        Ok(match &transform.kind {
            Kind::Impulse => {
                self.expect_element(transform, transform.output()?, &Coder::Bytes)?;
                StageKind::Impulse
            }
            Kind::Flatten => StageKind::Flatten,
            Kind::Reshuffle => StageKind::Reshuffle,
            Kind::GroupByKey => StageKind::GroupByKey(GroupByKey {
                windowing: self.graph.windowing_of(transform.main_input()?)?,
                merging: self.merging(transform)?,
            }),
            Kind::PubsubRead(read) => {
                self.expect_element(transform, transform.output()?, &Coder::Bytes)?;
                StageKind::PubsubRead(read.clone())
            }
            Kind::PubsubWrite(write) => {
                let element = if write.topic.is_some() {
                    Coder::Bytes
                } else {
                    Coder::Kv(Box::new(Coder::StringUtf8), Box::new(Coder::Bytes))
                };
                self.expect_element(transform, transform.main_input()?, &element)?;
                StageKind::PubsubWrite(write.clone())
            }
            Kind::TestStream => StageKind::TestStream,
            Kind::CombinePerKey | Kind::Transcode | Kind::Decode | Kind::Sdk(_) => {
                return Err(Error::bug("is no step of the runner").at(&transform.step));
            }
        })
    }

    fn merging(&self, transform: &Transform) -> Result<Option<WindowMerging>, Error> {
        let Some(merge) = self.graph.window_merges.get(&transform.id) else {
            return Ok(None);
        };
        let ids = self.ids(&[merge.questions, merge.answers])?;
        Ok(Some(WindowMerging {
            questions: ids[0],
            answers: ids[1],
        }))
    }

    fn expect_element(
        &mut self,
        transform: &Transform,
        pcollection: PCollectionIndex,
        element: &Coder,
    ) -> Result<(), Error> {
        let found = self.element(pcollection)?;
        if found == *element {
            return Ok(());
        }
        Err(transform.error(format!(
            "PCollection {:?} is encoded as {found:?} instead of {element:?}",
            self.graph.pcollections[pcollection].id
        )))
    }

    /// What the runner sees of a PCollection's elements.
    fn element(&mut self, pcollection: PCollectionIndex) -> Result<Coder, Error> {
        let coder = self.graph.coder_of(pcollection).to_owned();
        let wire = self.graph.coders.wire(&coder)?;
        self.graph.coders.model(&wire)
    }

    /// Whether a window of the side input is the sum of its panes.
    ///
    /// Beam lets the newest pane stand for the window. Python's runners and tests add discarded panes up
    /// within a window; for the global one, which never ends, its users expect the newest too.
    fn holds_all_panes(&mut self, side: &graph::SideInput) -> Result<bool, Error> {
        let windowing = self.graph.windowing_of(side.pcollection)?;
        Ok(side.view_fn == PYTHON_VIEW_FN
            && windowing.accumulation == AccumulationMode::Discarding
            && windowing.window_fn != WindowFn::Global)
    }

    fn executable(
        &mut self,
        id: StageId,
        Executable {
            environment, input, ..
        }: Executable,
        transforms: &[Transform],
        outputs: &[PCollectionIndex],
    ) -> Result<ExecutableStage, Error> {
        let descriptor = format!("stage-{}", id.0);
        let mut stage = ExecutableStage {
            environment,
            descriptor: descriptor.clone(),
            source: descriptor::source_id(self.graph, input),
            sinks: outputs
                .iter()
                .map(|&output| descriptor::sink_id(self.graph, output))
                .collect(),
            side_inputs: Vec::new(),
            keyed: false,
            user_states: Vec::new(),
            timer_families: Vec::new(),
            splittable: None,
            finalizes: false,
            stable_input: false,
            time_sorted_input: false,
        };
        for transform in transforms {
            self.add_traits(&mut stage, transform, input)?;
        }
        let built = DescriptorBuilder {
            id: descriptor.clone(),
            graph: self.graph,
            endpoint: self.endpoint,
            environment,
            input,
            outputs,
        }
        .build(transforms)?;
        self.descriptors.insert(descriptor, built);
        Ok(stage)
    }

    fn add_traits(
        &mut self,
        stage: &mut ExecutableStage,
        transform: &Transform,
        input: PCollectionIndex,
    ) -> Result<(), Error> {
        for side in &transform.side_inputs {
            let coder = self.element(side.pcollection)?;
            if side.multimap && !matches!(coder, Coder::Kv(..)) {
                return Err(transform.error(format!(
                    "its multimap side input {:?} is not encoded as key-value pairs",
                    side.name
                )));
            }
            stage.side_inputs.push(SideInput {
                pcollection: self.ids(&[side.pcollection])?[0],
                transform: transform.id.clone(),
                name: side.name.clone(),
                multimap: side.multimap,
                all_panes: self.holds_all_panes(side)?,
                coder,
            });
        }
        let Some(par_do) = transform.par_do.as_deref() else {
            return Ok(());
        };
        stage.finalizes |= par_do.requests_finalization;
        stage.stable_input |= par_do.requires_stable_input;
        stage.time_sorted_input |= par_do.requires_time_sorted_input;
        match transform.kind {
            Kind::Sdk(Role::Stateful) => self.add_state(stage, transform, par_do, input),
            Kind::Sdk(Role::SplittableProcess) => {
                stage.splittable = Some(self.splittable(stage, transform)?);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn add_state(
        &mut self,
        stage: &mut ExecutableStage,
        transform: &Transform,
        par_do: &pb::ParDoPayload,
        input: PCollectionIndex,
    ) -> Result<(), Error> {
        if !matches!(self.element(input)?, Coder::Kv(..)) {
            return Err(transform.error("state needs an input that is encoded as key-value pairs"));
        }
        stage.keyed = true;
        for (name, spec) in &par_do.state_specs {
            let multimap_values = match &spec.spec {
                Some(pb::state_spec::Spec::MultimapSpec(multimap)) => {
                    Some(self.graph.coders.model(&multimap.value_coder_id)?)
                }
                _ => None,
            };
            stage.user_states.push(UserState {
                transform: transform.id.clone(),
                name: name.clone(),
                multimap_values,
            });
        }
        for (family, spec) in &par_do.timer_family_specs {
            let wire = self.graph.coders.wire(&spec.timer_family_coder_id)?;
            let coder = self.graph.coders.model(&wire)?;
            if !matches!(coder, Coder::Timer(..)) {
                return Err(
                    transform.error(format!("its timer family {family:?} has no timer coder"))
                );
            }
            stage.timer_families.push(TimerFamily {
                transform: transform.id.clone(),
                family: family.clone(),
                domain: match spec.time_domain() {
                    pb::time_domain::Enum::ProcessingTime => TimeDomain::ProcessingTime,
                    pb::time_domain::Enum::EventTime | pb::time_domain::Enum::Unspecified => {
                        TimeDomain::EventTime
                    }
                },
                coder,
                on_window_expiration: *family == par_do.on_window_expiration_timer_family_spec,
            });
        }
        Ok(())
    }

    fn splittable(
        &mut self,
        stage: &ExecutableStage,
        transform: &Transform,
    ) -> Result<SplittableStage, Error> {
        let [(input_name, input)] = transform.inputs.as_slice() else {
            return Err(transform.error("it must have one main input"));
        };
        Ok(SplittableStage {
            transform: transform.id.clone(),
            input: input_name.clone(),
            outputs: transform
                .outputs
                .iter()
                .map(|(name, _)| name.clone())
                .collect(),
            unbounded: transform
                .outputs
                .iter()
                .any(|&(_, output)| !self.graph.bounded(output)),
            truncate: self.truncate(stage, transform, *input)?,
        })
    }

    /// Makes the descriptor that truncates restrictions on drain, where the SDK can.
    fn truncate(
        &mut self,
        stage: &ExecutableStage,
        process: &Transform,
        input: PCollectionIndex,
    ) -> Result<Option<TruncateStep>, Error> {
        let (_, environment) = &self.graph.environments[stage.environment.index()];
        if !environment
            .capabilities
            .iter()
            .any(|urn| urn == TRUNCATE_SIZED_RESTRICTION)
        {
            return Ok(None);
        }
        let descriptor = format!("{}-truncate", stage.descriptor);
        let sized = self.graph.coder_of(input).to_owned();
        let id = format!("{}/Truncate.out", process.id);
        let output = self.graph.derive_pcollection(input, &id, &sized);
        let sdk = Kind::Sdk(Role::Plain);
        let part = process.part(self.graph, "Truncate", TRUNCATE_SIZED_RESTRICTION, sdk);
        let part = part.into_only(self.graph, output);
        let step = TruncateStep {
            descriptor: descriptor.clone(),
            source: descriptor::source_id(self.graph, input),
            sink: descriptor::sink_id(self.graph, output),
        };
        let built = DescriptorBuilder {
            id: descriptor.clone(),
            graph: self.graph,
            endpoint: self.endpoint,
            environment: stage.environment,
            input,
            outputs: &[output],
        }
        .build(&[part])?;
        self.descriptors.insert(descriptor, built);
        Ok(Some(step))
    }
}

/// Enters every use of a PCollection with it, and checks the graph's invariants.
fn connect(graph: &mut StageGraph) -> Result<(), Error> {
    for (index, stage) in graph.stages.iter().enumerate() {
        let id = StageId(index as u32);
        for input in &stage.inputs {
            let pcollection = &mut graph.pcollections[input.index()];
            if pcollection.producer >= id {
                return Err(Error::bug("a stage stands before its input"));
            }
            pcollection.consumers.push(id);
        }
        let StageKind::Executable(executable) = &stage.kind else {
            continue;
        };
        for (index, side) in executable.side_inputs.iter().enumerate() {
            let pcollection = &mut graph.pcollections[side.pcollection.index()];
            if pcollection.producer >= id {
                return Err(Error::bug("a stage stands before its side input"));
            }
            pcollection
                .side_consumers
                .push(SideInputUse { stage: id, index });
        }
    }
    Ok(())
}

/// The user's steps in a stage, the first few of them.
fn stage_name(transforms: &[Transform]) -> String {
    let mut steps: Vec<&str> = Vec::new();
    for transform in transforms {
        if !steps.contains(&transform.step.as_str()) {
            steps.push(&transform.step);
        }
        if steps.len() > STEPS_MAX {
            break;
        }
    }
    let more = steps.len() > STEPS_MAX;
    steps.truncate(STEPS_MAX);
    let name = steps.join(" + ");
    if more { name + " + …" } else { name }
}

/// More steps than these do not make a stage's name clearer.
const STEPS_MAX: usize = 3;

/// How the Python SDK says that it makes a view itself.
const PYTHON_VIEW_FN: &str = "beam:view_fn:pickled_python_data:v1";
