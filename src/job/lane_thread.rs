//! A lane's thread: feeds the engine events and does what it asks for.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use crossbeam_channel::{Receiver, RecvTimeoutError};

use crate::engine::{Action, Event, Lane, StartBundle};
use crate::fnapi::{self, CacheToken};
use crate::job::execution::{Execution, Outcome};
use crate::job::messages::Importance;
use crate::job::perform;
use crate::job::script::Player;
use crate::job::shared_lane::{Core, LaneInput, SharedLane};
use crate::model::stage::{ExecutableStage, ScriptEvent, SplittableStage, StageKind};
use crate::model::{LaneId, Timestamp};
use crate::telemetry::clock;

/// Most events that a lane takes before it settles.
const BATCH_MAX: usize = 256;

/// The thread of one lane.
pub struct LaneThread {
    id: LaneId,
    shared: Arc<SharedLane>,
    execution: Arc<Execution>,
    input: Receiver<LaneInput>,
    /// Answers to actions that were there at once.
    answers: VecDeque<Event>,
    /// The job's TestStream, once the job has started.
    script: Option<Player>,
}

impl LaneThread {
    /// Starts the thread of a lane; it ends with [`LaneInput::Stop`].
    ///
    /// # Errors
    ///
    /// When the system has no thread left.
    pub fn spawn(
        id: LaneId,
        execution: Arc<Execution>,
        input: Receiver<LaneInput>,
    ) -> std::io::Result<std::thread::JoinHandle<()>> {
        let thread = std::thread::Builder::new().name(format!("tidemill-{id}"));
        thread.spawn(move || {
            Self {
                id,
                shared: Arc::clone(&execution.lanes[id.index()]),
                execution,
                input,
                answers: VecDeque::new(),
                script: None,
            }
            .run();
        })
    }

    fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        let mut due = None;
        loop {
            let first = self.wait(due);
            let mut core = shared.lock();
            if !self.take_batch(first, &mut core) {
                return;
            }
            core.lane.settle(now());
            self.perform_all(&mut core.lane);
            self.follow_script(&mut core.lane);
            due = core.lane.next_wakeup();
        }
    }

    /// Once all that came before has settled, the next event of the TestStream has its turn.
    fn follow_script(&mut self, lane: &mut Lane) {
        let Some(script) = &mut self.script else {
            return;
        };
        let now = now();
        if !self.answers.is_empty() || !self.input.is_empty() || !lane.is_quiet(now) {
            return;
        }
        let next = if script.has_ended() {
            let by = lane.until_next_firing(now);
            by.map(|by| Event::Script(ScriptEvent::ProcessingTime { by }))
        } else {
            script.next()
        };
        self.answers.extend(next);
    }

    /// Gives the lane an event from outside.
    fn handle(&mut self, event: Event, core: &mut Core) {
        match (&event, &self.execution.graph.script) {
            (Event::Start, Some(script)) => {
                self.script = Some(Player::new(script, &self.execution));
            }
            (Event::Drain, Some(_)) => self.script = Some(Player::ended()),
            _ => {}
        }
        core.lane.handle(now(), event, &mut core.tables);
    }

    /// Feeds what is there; `false` when the thread is to end.
    fn take_batch(&mut self, first: Waited, core: &mut Core) -> bool {
        let mut taken = 0;
        while let Some(event) = self.answers.pop_front() {
            core.lane.handle(now(), event, &mut core.tables);
            taken += 1;
        }
        let mut next = match first {
            Waited::Input(input) => Some(input),
            Waited::Answers => self.input.try_recv().ok(),
            Waited::Due => {
                core.lane.handle(now(), Event::Tick, &mut core.tables);
                // Whatever asks to be woken again at once must not keep the lane from its input.
                self.input.try_recv().ok()
            }
            Waited::Closed => return false,
        };
        while let Some(input) = next {
            match input {
                LaneInput::Stop => return false,
                LaneInput::Event(event, credit) => {
                    self.handle(event, core);
                    self.shared.handled();
                    drop(credit);
                }
            }
            taken += 1;
            next = if taken < BATCH_MAX {
                self.input.try_recv().ok()
            } else {
                None
            };
        }
        true
    }

    /// Waits for something to do; the lane may ask to be woken at a time.
    fn wait(&self, due: Option<Timestamp>) -> Waited {
        if !self.answers.is_empty() {
            return Waited::Answers;
        }
        let Some(due) = due else {
            return self.input.recv().map_or(Waited::Closed, Waited::Input);
        };
        let pause = due.millis().saturating_sub(now().millis());
        let Ok(pause @ 1..) = u64::try_from(pause) else {
            return Waited::Due;
        };
        match self.input.recv_timeout(Duration::from_millis(pause)) {
            Ok(input) => Waited::Input(input),
            Err(RecvTimeoutError::Timeout) => Waited::Due,
            Err(RecvTimeoutError::Disconnected) => Waited::Closed,
        }
    }

    fn perform_all(&mut self, lane: &mut Lane) {
        while let Some(action) = lane.poll_action() {
            if let Some(answer) = self.perform(action) {
                self.answers.push_back(answer);
            }
        }
    }

    /// Does one thing; returns the event that answers it at once.
    fn perform(&self, action: Action) -> Option<Event> {
        let execution = &self.execution;
        match action {
            Action::RequestSlot { environment } => {
                let worker = execution.slots.request(environment, self.id)?;
                return Some(Event::Granted {
                    environment,
                    worker,
                });
            }
            Action::ReturnSlot {
                environment,
                worker,
            } => {
                let grant = execution.slots.release(environment, worker);
                execution.grant(environment, grant);
            }
            Action::LendRoom {
                environment,
                worker,
            } => {
                execution.grant(environment, execution.slots.lend(environment, worker));
            }
            Action::ReclaimRoom {
                environment,
                worker,
            } => execution.slots.reclaim(environment, worker),
            Action::StartBundle(start) => return self.start_bundle(start),
            Action::Publish {
                bundle,
                stage,
                chunks,
            } => {
                perform::publish(execution, bundle, stage, chunks);
            }
            Action::ReportProgress { bundle, worker } => {
                execution.harness(worker)?.progress(bundle);
            }
            Action::SplitBundle(split) => return perform::split(execution, split),
            Action::ReplyState {
                bundle,
                worker,
                request,
                reply,
            } => {
                execution
                    .harness(worker)?
                    .reply_state(bundle, &request, reply);
            }
            Action::Deliver { lane, delivery } => {
                execution.send(lane, Event::Delivered(delivery));
            }
            Action::Report(watermarks) => execution.report_watermarks(self.id, &watermarks),
            Action::Release(release) => perform::release(execution, release),
            Action::Retrying {
                stage,
                failure,
                attempt,
            } => {
                let name = execution.stage_name(stage);
                execution.record.message(
                    Importance::Warning,
                    format!("try {attempt} of a bundle of {name} failed: {failure}"),
                );
            }
            Action::Fail { stage, failure } => {
                let text = execution.failure_text(stage, &failure);
                let _ = execution.outcome.send(Outcome::Failed(text));
            }
        }
        None
    }

    fn start_bundle(&self, start: StartBundle) -> Option<Event> {
        let StartBundle {
            bundle,
            stage,
            worker,
            input,
            timers,
            state_epoch,
            settled_side_inputs,
            truncates,
        } = start;
        let StageKind::Executable(executable) = &self.execution.graph.stages[stage.index()].kind
        else {
            return Some(Event::Failed {
                bundle,
                failure: "the stage runs in no harness".into(),
            });
        };
        let Some(harness) = self.execution.harness(worker) else {
            let failure = "the SDK harness was lost before the bundle started".to_owned();
            return Some(Event::Failed { bundle, failure });
        };
        let (descriptor, source) = match &executable.splittable {
            Some(SplittableStage {
                truncate: Some(truncate),
                ..
            }) if truncates => (&truncate.descriptor, &truncate.source),
            _ => (&executable.descriptor, &executable.source),
        };
        let pieces: Vec<Bytes> = input.into_iter().map(|chunk| chunk.bytes).collect();
        let stalls = &self.execution.stalls;
        stalls.lock().begin(clock::instant(), bundle, stage, worker);
        let started = harness.start_bundle(fnapi::StartBundle {
            bundle,
            descriptor: descriptor.clone(),
            cache_tokens: self.cache_tokens(executable, state_epoch, &settled_side_inputs),
            inputs: vec![(source.clone(), pieces)],
            timers: timers
                .into_iter()
                .map(|(family, timers)| fnapi::TimerInput {
                    transform: executable.timer_families[family].transform.clone(),
                    family: executable.timer_families[family].family.clone(),
                    pieces: vec![timers],
                })
                .collect(),
        });
        if !started {
            stalls.lock().end(bundle);
        }
        None
    }

    /// Lets a harness remember from bundle to bundle what no other can change meanwhile: user state, if it is the
    /// only harness, and side inputs to which nothing more comes.
    fn cache_tokens(
        &self,
        executable: &ExecutableStage,
        state_epoch: u64,
        settled_side_inputs: &[usize],
    ) -> Vec<CacheToken> {
        let record = &self.execution.record;
        let mut tokens = Vec::new();
        if !executable.user_states.is_empty() && record.settings().workers() == 1 {
            let token = format!("{}/{}/{state_epoch}", record.id(), self.id);
            tokens.push(CacheToken::UserState {
                token: token.into(),
            });
        }
        let settled = settled_side_inputs
            .iter()
            .filter_map(|&index| executable.side_inputs.get(index));
        tokens.extend(settled.map(|side| CacheToken::SideInput {
            transform: side.transform.clone(),
            side_input: side.name.clone(),
            token: record.id().to_owned().into(),
        }));
        tokens
    }
}

#[expect(
    clippy::large_enum_variant,
    reason = "moved once per event; a box would cost more"
)]
enum Waited {
    Input(LaneInput),
    /// Actions were answered at once.
    Answers,
    Due,
    Closed,
}

fn now() -> Timestamp {
    Timestamp::from_millis(clock::unix_millis())
}
