//! The way from a submitted pipeline to a [`Plan`].

use std::collections::BTreeMap;

use crate::model::stage::{StageGraph, TransformNames};
use crate::plan::error::Error;
use crate::plan::graph::Graph;
use crate::plan::state_backed::back_groups_by_state;
use crate::plan::{fusion, read, rewrite, stages, support};
use crate::proto::fn_execution::ProcessBundleDescriptor;
use crate::proto::pipeline::{Environment, Pipeline};

/// What a plan depends on besides the pipeline.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The URL at which harnesses reach data, state and timers; any text when a pipeline is only checked.
    pub endpoint: String,
    /// The job's `--experiments`.
    pub experiments: Vec<String>,
    /// The job's pipeline options that are strings, by their name in snake case (`input_topic`).
    pub options: BTreeMap<String, String>,
}

/// A pipeline made ready to run.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// What the engine runs.
    pub graph: StageGraph,
    /// What harnesses run, by descriptor id.
    pub descriptors: BTreeMap<String, ProcessBundleDescriptor>,
    /// The environments that stages run in, with their ids in the pipeline; an `EnvironmentId` is an index.
    pub environments: Vec<(String, Environment)>,
    /// Transform id → the unique name of the user's step, also for the parts that rewrites made.
    pub steps: TransformNames,
    /// PCollection id → its unique name in the pipeline.
    pub pcollections: BTreeMap<String, String>,
    /// For each stage, why its first transform was not fused into the stage before; `None` where there was no
    /// choice.
    pub breaks: Vec<Option<String>>,
}

/// Turns a submitted pipeline into executable stages.
pub fn build(pipeline: &Pipeline, settings: &Settings) -> Result<Plan, Error> {
    build_unless(pipeline, settings, support::REFUSED)
}

/// The same, refusing just what is in `refused`.
pub(crate) fn build_unless(
    pipeline: &Pipeline,
    settings: &Settings,
    refused: &[support::Refusal],
) -> Result<Plan, Error> {
    let mut graph = read::read(pipeline, settings)?;
    rewrite::detach_outputs(&mut graph);
    rewrite::lift_combiners(&mut graph)?;
    support::check(&graph, refused)?;
    rewrite::split_test_stream(&mut graph)?;
    rewrite::expand_splittable_dofns(&mut graph)?;
    rewrite::encode_flatten_inputs_alike(&mut graph)?;
    rewrite::encode_reshuffles_alike(&mut graph)?;
    rewrite::encode_groups_alike(&mut graph)?;
    rewrite::merge_windows_in_sdk(&mut graph)?;
    graph.sort()?;
    let fused = fusion::fuse(&graph)?;
    back_groups_by_state(&mut graph, &fused);
    let steps = names(&graph);
    let pcollections = graph.pcollections.iter();
    let pcollections = pcollections
        .map(|pcollection| {
            (
                pcollection.id.clone(),
                pcollection.proto.unique_name.clone(),
            )
        })
        .collect();
    let assembled = stages::assemble(&mut graph, fused, &settings.endpoint)?;
    Ok(Plan {
        graph: assembled.graph,
        descriptors: assembled.descriptors,
        environments: graph.environments,
        steps,
        pcollections,
        breaks: assembled.breaks,
    })
}

impl Settings {
    /// Whether an experiment is switched on.
    pub(crate) fn experiment(&self, name: &str) -> bool {
        self.experiments.iter().any(|experiment| experiment == name)
    }

    /// A value that the pipeline gives, or that it wants read from an option at run time; `None` when it gives
    /// neither.
    pub(crate) fn resolve(&self, value: &str, option: &str) -> Result<Option<String>, Error> {
        if option.is_empty() {
            return Ok(Some(value.to_owned()).filter(|value| !value.is_empty()));
        }
        let name = snake_case(option);
        match self.options.get(&name) {
            Some(value) => Ok(Some(value.clone())),
            None => Err(Error::malformed(format!(
                "it reads the pipeline option {name:?}, which is not set"
            ))),
        }
    }
}

fn names(graph: &Graph) -> TransformNames {
    let transforms = graph.transforms.iter();
    transforms
        .map(|transform| (transform.id.clone(), transform.step.clone()))
        .collect()
}

/// Java names options in camel case, the options themselves arrive in snake case.
fn snake_case(name: &str) -> String {
    let mut snake = String::with_capacity(name.len() + 4);
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}
