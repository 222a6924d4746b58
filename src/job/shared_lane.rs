//! A lane as the threads of its job share it: a channel into it, and a short way for state requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_channel::{Receiver, Sender};
use parking_lot::{Mutex, MutexGuard};

use crate::engine::{Event, Lane};
use crate::fnapi::Credit;
use crate::model::{BundleId, StateReply, StateRequest, WorkerId};
use crate::store::memory::MemoryTables;

/// An event on its way to a lane, with the room that its bytes take until the lane has read it.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "moved once per event; a box would cost more"
)]
pub enum LaneInput {
    Event(Event, Credit),
    /// The lane's thread ends.
    Stop,
}

/// One lane, its tables and its channel.
///
/// The lane's thread holds the lock while it works. Whoever brings a state request may answer it itself
/// while that thread has nothing to do: a DoFn waits for every answer, and waking a thread costs more than
/// the answer.
#[derive(Debug)]
pub struct SharedLane {
    /// Unbounded on purpose: lanes send to each other, so a bound could lock them up; what a harness may
    /// have on its way is bounded by its credit, and what lanes exchange by the bundles in flight.
    inputs: Sender<LaneInput>,
    /// Inputs that were sent and are not handled.
    unhandled: AtomicUsize,
    core: Mutex<Core>,
}

/// The lane and what it keeps.
#[derive(Debug)]
pub struct Core {
    pub lane: Lane,
    pub tables: MemoryTables,
}

impl SharedLane {
    /// A lane that has heard of nothing, and the end of its channel that its thread reads.
    pub fn new(lane: Lane, tables: MemoryTables) -> (Arc<Self>, Receiver<LaneInput>) {
        let (inputs, receiver) = crossbeam_channel::unbounded();
        let core = Core { lane, tables };
        let shared = Self {
            inputs,
            unhandled: AtomicUsize::new(0),
            core: Mutex::new(core),
        };
        (Arc::new(shared), receiver)
    }

    pub fn send(&self, input: LaneInput) {
        self.unhandled.fetch_add(1, Ordering::AcqRel);
        // A lane that has stopped needs to hear nothing.
        let _ = self.inputs.send(input);
    }

    /// The lane's thread has handled an input, under the lock.
    pub fn handled(&self) {
        self.unhandled.fetch_sub(1, Ordering::AcqRel);
    }

    pub fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock()
    }

    /// Answers a state request here and now; when the lane is busy, the request has its turn after whatever
    /// was sent before, and the lane answers.
    pub fn ask(
        &self,
        worker: WorkerId,
        bundle: BundleId,
        request: StateRequest,
    ) -> Option<StateReply> {
        if let Some(mut core) = self.core.try_lock()
            && self.unhandled.load(Ordering::Acquire) == 0
        {
            let Core { lane, tables } = &mut *core;
            return Some(lane.answer_state(bundle, request.key, request.operation, tables));
        }
        let event = Event::State {
            bundle,
            worker,
            request,
        };
        self.send(LaneInput::Event(event, Credit::default()));
        None
    }
}
