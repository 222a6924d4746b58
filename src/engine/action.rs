//! Everything a lane can ask for.

use bytes::Bytes;

use crate::engine::delivery::Delivery;
use crate::model::element::Chunk;
use crate::model::ids::{BundleId, EnvironmentId, LaneId, StageId, WorkerId};
use crate::model::state::StateReply;
use crate::model::time::Timestamp;

/// Something that the job must do for a lane, in order.
#[derive(Debug)]
pub enum Action {
    /// Ask for room in a harness; answered by [`crate::engine::Event::Granted`], now or later.
    RequestSlot {
        environment: EnvironmentId,
    },
    /// Give room back.
    ReturnSlot {
        environment: EnvironmentId,
        worker: WorkerId,
    },
    StartBundle(StartBundle),
    /// Publish elements natively; the bundle finishes or fails like one of a harness. Each chunk comes with
    /// its first element's number, which is the same in every try.
    Publish {
        bundle: BundleId,
        stage: StageId,
        chunks: Vec<(u64, Chunk)>,
    },
    /// A bundle of the harness does nothing for the time being: another may run beside it.
    LendRoom {
        environment: EnvironmentId,
        worker: WorkerId,
    },
    /// A bundle whose room was lent moves again, or has ended.
    ReclaimRoom {
        environment: EnvironmentId,
        worker: WorkerId,
    },
    /// Ask a harness what a bundle that runs for long has measured so far.
    ReportProgress {
        bundle: BundleId,
        worker: WorkerId,
    },
    /// Ask a harness to give back part of a bundle.
    SplitBundle(SplitBundle),
    ReplyState {
        bundle: BundleId,
        worker: WorkerId,
        request: String,
        reply: StateReply,
    },
    /// Hand committed elements to another lane.
    Deliver {
        lane: LaneId,
        delivery: Delivery,
    },
    /// This lane's output watermarks changed.
    Report(Vec<(StageId, Timestamp)>),
    /// Something may leave the process: what it depends on is committed.
    Release(Release),
    /// A try failed, but the job goes on.
    Retrying {
        stage: StageId,
        failure: String,
        attempt: u32,
    },
    /// The job cannot go on.
    Fail {
        stage: StageId,
        failure: String,
    },
}

/// A bundle for a harness.
#[derive(Debug)]
pub struct StartBundle {
    pub bundle: BundleId,
    pub stage: StageId,
    pub worker: WorkerId,
    /// Encoded elements for the stage's data source.
    pub input: Vec<Chunk>,
    /// Encoded firing timers, by index of the stage's timer family.
    pub timers: Vec<(usize, Bytes)>,
    /// Rises when a bundle of the lane fails: what its harness remembers of user state is void from then on.
    pub state_epoch: u64,
    /// Side inputs of the stage, by index, to which nothing more comes: its harness may remember them.
    pub settled_side_inputs: Vec<usize>,
    /// The truncate step of the stage's splittable DoFn is run instead of the stage.
    pub truncates: bool,
}

/// A request to split a running bundle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SplitBundle {
    pub bundle: BundleId,
    pub stage: StageId,
    pub worker: WorkerId,
    /// How much of what is left the harness keeps; 0 makes a checkpoint.
    pub keep: f64,
    /// Elements in the bundle's input.
    pub elements: u32,
    pub only_if: SplitIf,
}

/// When a split that was decided on is still of use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SplitIf {
    Always,
    /// The environment works on fewer bundles than it usefully can.
    Idle,
    /// The same, or the environment has room for another bundle beside one that does nothing: the bundle
    /// waits more than it works.
    IdleOrDormant,
}

/// What may leave the process once its bundle is committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Release {
    /// The source may forget these deliveries.
    Ack { stage: StageId, receipts: Vec<u64> },
    /// The harness may run the bundle's finalizers.
    Finalize { bundle: BundleId, worker: WorkerId },
    /// The bundle's metrics count.
    Metrics { bundle: BundleId },
    /// The bundle's metrics are those of a failed try.
    DiscardMetrics { bundle: BundleId },
    /// Duplicates of the source, dropped.
    Duplicates { stage: StageId, count: u64 },
    /// Elements dropped because their window had expired.
    DroppedLate { stage: StageId, count: u64 },
}
