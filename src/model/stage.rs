//! The executable plan, without protos: what the engine runs.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::model::coder::Coder;
use crate::model::ids::{EnvironmentId, PCollectionId, StageId};
use crate::model::time::{Millis, Timestamp};
use crate::model::timer::TimeDomain;
use crate::model::windowing::WindowingStrategy;

/// All stages of a job and the PCollections between them.
///
/// Invariants: ids are indexes into the lists; every PCollection has exactly one producer; stages stand in
/// topological order (side inputs included). Only PCollections that cross a stage boundary are listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageGraph {
    pub stages: Vec<Stage>,
    pub pcollections: Vec<PCollection>,
    /// How many environments the job has.
    pub environments: u32,
    /// What a TestStream does, and when.
    pub script: Option<Script>,
}

/// The events of a job's TestStream; each is settled through all stages before the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Script {
    Events(Vec<ScriptEvent>),
    /// A TestStreamService hands the events out.
    Service {
        endpoint: String,
        /// The stage of each output tag, as the service names it.
        outputs: BTreeMap<String, StageId>,
    },
}

/// One step of a TestStream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScriptEvent {
    /// Elements of one output, encoded by the TestStream's own coder in the outer context.
    Elements {
        stage: StageId,
        elements: Vec<(Timestamp, Bytes)>,
    },
    Watermark {
        stage: StageId,
        to: Timestamp,
    },
    ProcessingTime {
        by: Millis,
    },
}

/// A PCollection that crosses a stage boundary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PCollection {
    /// Its id in the submitted pipeline (or the one a rewrite gave it).
    pub name: String,
    pub producer: StageId,
    /// Stages that read it as main input, in order; one entry per use (a flatten may use one twice).
    pub consumers: Vec<StageId>,
    /// Stages that read it as side input.
    pub side_consumers: Vec<SideInputUse>,
    /// The encoding on the wire: always [`Coder::WindowedValue`] and never opaque where a length is needed.
    pub coder: Coder,
    pub windowing: WindowingStrategy,
    pub bounded: bool,
}

/// One use of a PCollection as side input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SideInputUse {
    pub stage: StageId,
    /// Index into that stage's `side_inputs`.
    pub index: usize,
}

/// A fused set of transforms, or one runner-native step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// For people: the user's step names.
    pub name: String,
    pub kind: StageKind,
    /// Main inputs. Only flatten has other than one (sources have none).
    pub inputs: Vec<PCollectionId>,
    pub outputs: Vec<PCollectionId>,
}

impl Stage {
    /// How the stage has windows merged, if an SDK does it.
    pub fn window_merging(&self) -> Option<WindowMerging> {
        match &self.kind {
            StageKind::GroupByKey(group) => group.merging,
            _ => None,
        }
    }

    /// The only output of the stage, its questions about windows aside.
    pub fn sole_output(&self) -> Option<PCollectionId> {
        let questions = self.window_merging().map(|merging| merging.questions);
        let mut outputs = self.outputs.iter().filter(|id| Some(**id) != questions);
        let output = outputs.next();
        output.copied().filter(|_| outputs.next().is_none())
    }
}

/// What a stage does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StageKind {
    /// One empty byte string at [`crate::model::Timestamp::MIN`] in the global window, once.
    Impulse,
    /// One output of a TestStream: the script says what comes and when.
    TestStream,
    /// Passes elements of all inputs on; coders of inputs and output are equal.
    Flatten,
    /// Passes elements on unchanged, spread over all workers; breaks fusion.
    Reshuffle,
    /// Groups KV elements by encoded key and window.
    GroupByKey(GroupByKey),
    /// Runs in an SDK harness.
    Executable(Box<ExecutableStage>),
    /// The native Pub/Sub source.
    PubsubRead(PubsubRead),
    /// The native Pub/Sub sink.
    PubsubWrite(PubsubWrite),
}

/// A group-by-key: the input coder is `windowed(kv(key, value))`, the output `windowed(kv(key, iterable(value)))`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupByKey {
    /// The strategy of the input PCollection.
    pub windowing: WindowingStrategy,
    /// Of windows that only an SDK can merge.
    pub merging: Option<WindowMerging>,
}

/// How a group-by-key has windows merged: one stage of an SDK takes its questions, `kv(bytes, iterable(window))`,
/// which are one of its outputs, and makes the answers, which come back to it although they are none of its inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowMerging {
    pub questions: PCollectionId,
    pub answers: PCollectionId,
}

/// A stage that one environment runs as one ProcessBundleDescriptor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutableStage {
    pub environment: EnvironmentId,
    /// The descriptor's id, unique in the job.
    pub descriptor: String,
    /// The transform id of the data source in the descriptor.
    pub source: String,
    /// Transform ids of the data sinks, in the order of the stage's `outputs`.
    pub sinks: Vec<String>,
    pub side_inputs: Vec<SideInput>,
    /// The stage keeps state or timers per key: its input is keyed and a key is in one bundle at a time.
    pub keyed: bool,
    pub user_states: Vec<UserState>,
    pub timer_families: Vec<TimerFamily>,
    /// The source feeds a process-sized-elements-and-restrictions transform.
    pub splittable: Option<SplittableStage>,
    /// Some transform registers bundle finalizers.
    pub finalizes: bool,
    /// The input of the stage must be durable before its first attempt.
    pub stable_input: bool,
    /// Elements reach the DoFn in timestamp order, per key and window.
    pub time_sorted_input: bool,
}

/// Where residuals of a splittable DoFn come back in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplittableStage {
    /// The process transform's id, which residuals name.
    pub transform: String,
    pub input: String,
    /// Local output names of the process transform, for residual watermarks.
    pub outputs: Vec<String>,
    /// Some restriction may have no end: a bundle of it is cut short by a checkpoint.
    pub unbounded: bool,
    /// The truncate step to put residuals through on drain, if the SDK has one.
    pub truncate: Option<TruncateStep>,
}

/// A descriptor that holds just the truncate transform of a splittable DoFn; both ports have the coder of the stage's input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TruncateStep {
    /// The descriptor's id.
    pub descriptor: String,
    /// The transform id of its data source.
    pub source: String,
    /// The transform id of its data sink.
    pub sink: String,
}

/// A side input as the engine keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SideInput {
    pub pcollection: PCollectionId,
    /// The consuming transform's id, as state keys name it.
    pub transform: String,
    /// The side input's local name, as state keys name it.
    pub name: String,
    /// Values are KVs, asked for by key.
    pub multimap: bool,
    /// A window holds the elements of all its panes; else a newer pane replaces older ones.
    pub all_panes: bool,
    /// The value coder on the wire (`kv` for a multimap).
    pub coder: Coder,
}

/// A user state cell declaration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserState {
    pub transform: String,
    pub name: String,
    /// How a multimap's values are encoded: its entries are listed with their count. The SDK takes the coder
    /// from the DoFn, so that no length is put before what the runner cannot read.
    pub multimap_values: Option<Coder>,
}

/// A timer family of a stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimerFamily {
    pub transform: String,
    pub family: String,
    pub domain: TimeDomain,
    /// The [`Coder::Timer`] on the wire.
    pub coder: Coder,
    /// The family that fires at window expiry.
    pub on_window_expiration: bool,
}

/// What a native Pub/Sub read reads; paths are `projects/P/topics/T` and `projects/P/subscriptions/S`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PubsubRead {
    /// The transform's full name in the user's pipeline.
    pub transform: String,
    pub topic: Option<String>,
    /// Wins over `topic`.
    pub subscription: Option<String>,
    pub timestamp_attribute: Option<String>,
    pub id_attribute: Option<String>,
    /// Elements are serialized PubsubMessages rather than their data.
    pub with_attributes: bool,
}

/// What a native Pub/Sub write publishes: elements are serialized PubsubMessages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PubsubWrite {
    pub transform: String,
    /// `None`: elements are KVs of topic path and message (`pubsub_write:v2`).
    pub topic: Option<String>,
    pub timestamp_attribute: Option<String>,
    pub id_attribute: Option<String>,
    /// Publish with the ordering keys that the messages carry; else drop them.
    pub ordering_keys: bool,
}

/// Names that connect engine ids with the user's pipeline, for messages and metrics.
pub type TransformNames = BTreeMap<String, String>;
