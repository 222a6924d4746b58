//! Greedy producer-consumer fusion: which transforms share a stage, and why others do not.
//!
//! Transforms come in topological order. Each joins the stage that makes its input, or a stage with the same
//! input, unless one of the [`Break`]s forbids it; else it starts a stage.
//!
//! Invariant: stages never depend on each other in a circle. Joining a stage adds no dependency but those on
//! the transform's side inputs, and these are checked not to descend from the stage.

use std::collections::BTreeMap;
use std::fmt;

use crate::model::ids::EnvironmentId;
use crate::plan::error::Error;
use crate::plan::graph::{Graph, Kind, PCollectionIndex, Role, Transform, TransformIndex};

/// Transforms that one environment runs together, or one step of the runner.
#[derive(Debug)]
pub(crate) struct FusedStage {
    /// In topological order.
    pub(crate) transforms: Vec<TransformIndex>,
    /// Of an executable stage.
    pub(crate) executable: Option<Executable>,
    /// Why the first transform is not in the stage before.
    pub(crate) reason: Option<String>,
    /// Stages whose outputs it reads.
    pub(crate) reads_from: Vec<usize>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Executable {
    pub(crate) environment: EnvironmentId,
    pub(crate) input: PCollectionIndex,
    /// Of the transform that the input is for.
    role: Role,
    /// Some transform in it has side inputs.
    waits: bool,
}

/// Why a transform does not join a stage.
#[derive(Clone, Debug)]
enum Break {
    Environment,
    Stateful,
    SplittableProcess,
    StableInput,
    TimeSortedInput,
    Depth,
    SideInputFromStage(String),
    SideInputWindows(String),
}

/// Puts every transform of a sorted graph into a stage; stages come in topological order.
pub(crate) fn fuse(graph: &Graph) -> Result<Vec<FusedStage>, Error> {
    let mut fuser = Fuser {
        graph,
        producers: graph.producers(),
        stage_of: vec![usize::MAX; graph.transforms.len()],
        depth_of: vec![1; graph.transforms.len()],
        stages: Vec::new(),
        by_input: BTreeMap::new(),
        visited: Vec::new(),
        visit: 0,
    };
    for index in 0..graph.transforms.len() {
        fuser.place(index)?;
    }
    sort(fuser.stages)
}

struct Fuser<'a> {
    graph: &'a Graph,
    producers: Vec<Option<TransformIndex>>,
    stage_of: Vec<usize>,
    /// For each transform, how many of its stage pass an element on to each other up to it.
    depth_of: Vec<usize>,
    stages: Vec<FusedStage>,
    by_input: BTreeMap<(PCollectionIndex, EnvironmentId), usize>,
    /// For each stage, the last search that came by.
    visited: Vec<u32>,
    visit: u32,
}

impl Fuser<'_> {
    fn place(&mut self, index: TransformIndex) -> Result<(), Error> {
        let transform = &self.graph.transforms[index];
        if !transform.in_sdk() {
            self.start(index, None, None);
            return Ok(());
        }
        let input = transform.main_input()?;
        let environment = transform.environment.ok_or_else(|| {
            Error::bug("an SDK transform without environment").at(&transform.step)
        })?;
        let producer = self.producers[input];
        let before = producer.map(|producer| (producer, self.stage_of[producer]));
        let before = before.filter(|&(_, stage)| self.stages[stage].executable.is_some());
        let mut reason = None;
        if let Some((producer, stage)) = before {
            let depth = self.depth_of[producer] + 1;
            match self.fits(transform, stage, environment, depth) {
                Ok(()) => {
                    self.depth_of[index] = depth;
                    self.join(index, stage);
                    return Ok(());
                }
                Err(why) => reason = Some(why.to_string()),
            }
        }
        if let Some(&sibling) = self.by_input.get(&(input, environment))
            && self.fits_beside(transform, sibling)
        {
            self.join(index, sibling);
            return Ok(());
        }
        let role = match transform.kind {
            Kind::Sdk(role) => role,
            _ => Role::Plain,
        };
        let executable = Executable {
            environment,
            input,
            role,
            waits: false,
        };
        self.start(index, Some(executable), reason);
        Ok(())
    }

    fn start(
        &mut self,
        index: TransformIndex,
        executable: Option<Executable>,
        reason: Option<String>,
    ) {
        let stage = self.stages.len();
        if let Some(Executable {
            environment, input, ..
        }) = executable
        {
            let open = self.by_input.entry((input, environment)).or_insert(stage);
            if !self.stages.get(*open).is_none_or(takes_siblings) {
                *open = stage;
            }
        }
        let graph = self.graph;
        let inputs = graph.transforms[index].inputs.iter();
        let producers = inputs.filter_map(|&(_, input)| self.producers[input]);
        let reads_from = producers.map(|producer| self.stage_of[producer]).collect();
        self.stages.push(FusedStage {
            transforms: Vec::new(),
            executable,
            reason,
            reads_from,
        });
        self.visited.push(0);
        self.join(index, stage);
    }

    fn join(&mut self, index: TransformIndex, stage: usize) {
        self.stage_of[index] = stage;
        let transform = &self.graph.transforms[index];
        for side in &transform.side_inputs {
            if let Some(producer) = self.producers[side.pcollection] {
                let producer = self.stage_of[producer];
                self.stages[stage].reads_from.push(producer);
            }
        }
        let stage = &mut self.stages[stage];
        stage.transforms.push(index);
        if let Some(executable) = &mut stage.executable {
            executable.waits |= !transform.side_inputs.is_empty();
        }
    }

    /// Whether a transform may join the stage that makes its input.
    fn fits(
        &mut self,
        transform: &Transform,
        stage: usize,
        environment: EnvironmentId,
        depth: usize,
    ) -> Result<(), Break> {
        let Some(executable) = self.stages[stage].executable else {
            return Ok(());
        };
        if executable.environment != environment {
            return Err(Break::Environment);
        }
        starts_stage(transform)?;
        if depth > DEPTH_MAX {
            return Err(Break::Depth);
        }
        for side in &transform.side_inputs {
            let name = || self.graph.pcollections[side.pcollection].id.clone();
            if !self.graph.bounded(side.pcollection)
                && !self.same_windows(executable.input, transform)
            {
                return Err(Break::SideInputWindows(name()));
            }
            let producer = self.producers[side.pcollection].map(|index| self.stage_of[index]);
            if producer.is_some_and(|producer| self.descends(producer, stage)) {
                return Err(Break::SideInputFromStage(name()));
            }
        }
        Ok(())
    }

    /// Whether a transform may join a stage that reads the same input.
    ///
    /// Neither may have side inputs, so that no transform waits for another's.
    fn fits_beside(&self, transform: &Transform, stage: usize) -> bool {
        takes_siblings(&self.stages[stage])
            && transform.side_inputs.is_empty()
            && starts_stage(transform).is_ok()
    }

    fn same_windows(&self, stage_input: PCollectionIndex, transform: &Transform) -> bool {
        let strategy = |pcollection| self.graph.strategy_of(pcollection).ok();
        let main = transform.main_input().ok().and_then(strategy);
        let (Some(here), Some(main)) = (strategy(stage_input), main) else {
            return false;
        };
        here.window_fn == main.window_fn && here.window_coder_id == main.window_coder_id
    }

    /// Whether `stage` is `ancestor` or reads, directly or not, what `ancestor` makes.
    fn descends(&mut self, stage: usize, ancestor: usize) -> bool {
        self.visit += 1;
        let mut open = vec![stage];
        while let Some(stage) = open.pop() {
            if stage == ancestor {
                return true;
            }
            if std::mem::replace(&mut self.visited[stage], self.visit) == self.visit {
                continue;
            }
            open.extend(&self.stages[stage].reads_from);
        }
        false
    }
}

/// Whether transforms with the same input may join: they would be keyed, be split or wait like the first.
fn takes_siblings(stage: &FusedStage) -> bool {
    let executable = stage.executable.as_ref();
    executable.is_some_and(|executable| executable.role == Role::Plain && !executable.waits)
}

/// What always makes a stage of its own start.
fn starts_stage(transform: &Transform) -> Result<(), Break> {
    match transform.kind {
        Kind::Sdk(Role::Stateful) => return Err(Break::Stateful),
        Kind::Sdk(Role::SplittableProcess) => return Err(Break::SplittableProcess),
        _ => {}
    }
    match transform.par_do.as_deref() {
        Some(par_do) if par_do.requires_stable_input => Err(Break::StableInput),
        Some(par_do) if par_do.requires_time_sorted_input => Err(Break::TimeSortedInput),
        _ => Ok(()),
    }
}

/// Puts stages behind those they read from, otherwise in the order of their first transforms.
fn sort(stages: Vec<FusedStage>) -> Result<Vec<FusedStage>, Error> {
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    let mut waiting = vec![0_usize; stages.len()];
    let mut readers = vec![Vec::new(); stages.len()];
    for (index, stage) in stages.iter().enumerate() {
        for &from in &stage.reads_from {
            readers[from].push(index);
            waiting[index] += 1;
        }
    }
    let roots = waiting.iter().enumerate().filter(|(_, count)| **count == 0);
    let mut ready: BinaryHeap<_> = roots.map(|(index, _)| Reverse(index)).collect();
    let mut place = vec![usize::MAX; stages.len()];
    let mut next = 0;
    while let Some(Reverse(index)) = ready.pop() {
        place[index] = next;
        next += 1;
        for &reader in &readers[index] {
            waiting[reader] -= 1;
            if waiting[reader] == 0 {
                ready.push(Reverse(reader));
            }
        }
    }
    if next < stages.len() {
        return Err(Error::bug("fused stages depend on each other in a circle"));
    }
    let mut sorted: Vec<_> = stages.into_iter().zip(place.iter().copied()).collect();
    sorted.sort_by_key(|&(_, place)| place);
    Ok(sorted
        .into_iter()
        .map(|(mut stage, _)| {
            for from in &mut stage.reads_from {
                *from = place[*from];
            }
            stage
        })
        .collect())
}

impl fmt::Display for Break {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Environment => f.write_str("another environment or other resource hints"),
            Self::Stateful => {
                f.write_str("state or timers need a stage input that is spread by key")
            }
            Self::SplittableProcess => f.write_str("restrictions are spread over workers"),
            Self::StableInput => f.write_str("its input must be durable first"),
            Self::Depth => write!(
                f,
                "an SDK runs at most {DEPTH_MAX} transforms inside each other"
            ),
            Self::TimeSortedInput => f.write_str("its input must be sorted by time first"),
            Self::SideInputFromStage(id) => {
                write!(
                    f,
                    "its side input {id:?} depends on the stage that makes its main input"
                )
            }
            Self::SideInputWindows(id) => write!(
                f,
                "its side input {id:?} is waited for per window, and the stage's input has other windows"
            ),
        }
    }
}

/// How long a chain of fused transforms may be. Each calls the next one in the SDK, and Python's stack, for one,
/// ends at a few hundred.
const DEPTH_MAX: usize = 100;
