//! Everything that can happen to a lane.

use bytes::Bytes;

use crate::engine::delivery::Delivery;
use crate::model::bundle::{Residual, SplitOutcome};
use crate::model::ids::{BundleId, EnvironmentId, StageId, WorkerId};
use crate::model::stage::ScriptEvent;
use crate::model::state::StateRequest;
use crate::model::time::Timestamp;

/// Something that happened outside the engine, in the order in which the lane hears of it.
///
/// Invariant: a lane hears of every [`Delivery`] of another lane before it hears of a watermark that the
/// other lane reported after sending it. Watermarks are safe only because of that order.
#[derive(Debug)]
pub enum Event {
    /// The job runs: impulses fire.
    Start,
    /// Output of a running bundle: encoded elements for one of its stage's outputs, by index.
    Data {
        bundle: BundleId,
        output: usize,
        bytes: Bytes,
        /// The last element may go on in the next data of this output.
        cut: bool,
    },
    /// Timers that a running bundle sets or clears, encoded, of one family of one transform.
    Timers {
        bundle: BundleId,
        transform: String,
        family: String,
        bytes: Bytes,
    },
    /// A bundle ended well, after all its data was heard of.
    Finished {
        bundle: BundleId,
        residuals: Vec<Residual>,
        finalize: bool,
    },
    /// A bundle ended badly, for the reason that the SDK (or a sink) gives; nothing of it may stay.
    Failed { bundle: BundleId, failure: String },
    /// A harness answered a split request.
    Split {
        bundle: BundleId,
        outcome: SplitOutcome,
    },
    /// A harness says how far a running bundle is, as it was asked to.
    Progress {
        bundle: BundleId,
        /// How many elements of the input it has taken, where the SDK says so.
        taken: Option<u64>,
    },
    /// A harness reads or writes state.
    State {
        bundle: BundleId,
        worker: WorkerId,
        request: StateRequest,
    },
    /// A harness has room for one more bundle, as this lane asked.
    Granted {
        environment: EnvironmentId,
        worker: WorkerId,
    },
    /// A harness is gone with everything it was doing.
    WorkerLost { worker: WorkerId, reason: String },
    /// Elements that another lane committed.
    Delivered(Delivery),
    /// Output watermarks of stages, the minimum over all lanes.
    Watermarks(Vec<(StageId, Timestamp)>),
    /// Messages of a native source.
    Messages {
        stage: StageId,
        messages: Vec<Message>,
    },
    /// What a native source will not go below again.
    SourceWatermark {
        stage: StageId,
        watermark: Timestamp,
    },
    /// The next step of a TestStream, after everything before it has settled.
    Script(ScriptEvent),
    /// The TestStream has no more steps.
    ScriptEnded,
    /// Nothing new is read any more, and restrictions are truncated; what was read is finished.
    Drain,
    /// Time passed: [`crate::engine::Lane::next_wakeup`] is due.
    Tick,
}

/// One message of a native source, already sent to the lane that owns its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The shuffle key: one key is in one bundle at a time.
    pub key: u32,
    /// What makes two deliveries the same message.
    pub dedup_id: Bytes,
    pub timestamp: Timestamp,
    /// The element's value.
    pub element: Bytes,
    /// Names the delivery towards the source.
    pub receipt: u64,
}
