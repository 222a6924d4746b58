//! A bundle that a harness is running: which of its outputs have ended.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::fnapi::events::BundleResult;
use crate::fnapi::metrics::RawMetrics;
use crate::fnapi::shape::Shape;
use crate::model::{BundleId, StateReply};

/// One running bundle.
///
/// Its lock is held while its data, timers and state requests are delivered, so that none comes after its end.
pub(crate) struct RunningBundle {
    pub(crate) id: BundleId,
    pub(crate) shape: Arc<Shape>,
    progress: Mutex<Completion>,
}

/// What the harness reported at the end of a bundle that went well.
pub(crate) type Response = (BundleResult, RawMetrics);

/// Where a message leaves its bundle.
pub(crate) enum Step {
    /// More is to come, or the bundle had ended before.
    Going,
    /// Response and all ends of output are there.
    Complete(Response),
}

/// What became of a state request.
pub(crate) enum StateDelivery {
    Answered(StateReply),
    /// The answer will come.
    Waiting,
    /// The bundle has ended.
    Refused,
}

struct Completion {
    ended: bool,
    /// By [`Shape::sink_end`] and [`Shape::timer_end`].
    open: Vec<bool>,
    response: Option<Response>,
    /// When the response came, while ends of output are missing.
    responded: Option<Instant>,
    state_requests: usize,
}

impl RunningBundle {
    pub(crate) fn new(id: BundleId, shape: Arc<Shape>) -> Self {
        let open = vec![true; shape.output_ends()];
        Self {
            id,
            shape,
            progress: Mutex::new(Completion {
                ended: false,
                open,
                response: None,
                responded: None,
                state_requests: 0,
            }),
        }
    }

    /// Delivers something of the bundle, unless it has ended.
    pub(crate) fn deliver(&self, deliver: impl FnOnce()) {
        let completion = self.progress.lock();
        if !completion.ended {
            deliver();
        }
    }

    /// Delivers a state request, unless the bundle has ended.
    pub(crate) fn deliver_state(
        &self,
        deliver: impl FnOnce() -> Option<StateReply>,
    ) -> StateDelivery {
        let mut completion = self.progress.lock();
        if completion.ended {
            return StateDelivery::Refused;
        }
        match deliver() {
            Some(reply) => StateDelivery::Answered(reply),
            None => {
                completion.state_requests += 1;
                StateDelivery::Waiting
            }
        }
    }

    /// Notes an answer to a state request; `false` when the bundle no longer counts them.
    pub(crate) fn state_answered(&self) -> bool {
        let mut completion = self.progress.lock();
        if completion.ended || completion.state_requests == 0 {
            return false;
        }
        completion.state_requests -= 1;
        true
    }

    /// Notes that an output stream has ended.
    pub(crate) fn output_ended(&self, end: usize) -> Step {
        let mut completion = self.progress.lock();
        if let Some(open) = completion.open.get_mut(end) {
            *open = false;
        }
        completion.step()
    }

    /// Notes the response.
    pub(crate) fn responded(&self, now: Instant, response: Response) -> Step {
        let mut completion = self.progress.lock();
        completion.response = Some(response);
        completion.responded = Some(now);
        completion.step()
    }

    /// The output whose end is missing, when the harness has responded and has sent no data since, for
    /// longer than `patience`. `received` is when it last sent any.
    pub(crate) fn missing_end(
        &self,
        now: Instant,
        received: Option<Instant>,
        patience: Duration,
    ) -> Option<String> {
        let completion = self.progress.lock();
        let quiet_since = completion.responded.max(received);
        let is_waiting = completion.responded.is_some() && !completion.ended;
        let quiet = now.saturating_duration_since(quiet_since?);
        if !is_waiting || quiet < patience {
            return None;
        }
        let missing = completion.open.iter().position(|open| *open)?;
        Some(self.shape.end_name(missing))
    }

    /// Ends the bundle before its time; `false` when it had ended. The number is of unanswered state requests.
    pub(crate) fn abort(&self) -> Option<usize> {
        let mut completion = self.progress.lock();
        if completion.ended {
            return None;
        }
        completion.ended = true;
        Some(std::mem::take(&mut completion.state_requests))
    }
}

impl Completion {
    fn step(&mut self) -> Step {
        if self.ended || self.open.contains(&true) {
            return Step::Going;
        }
        match self.response.take() {
            None => Step::Going,
            Some(response) => {
                self.ended = true;
                Step::Complete(response)
            }
        }
    }
}
