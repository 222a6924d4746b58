//! A lane whose harness and sources do as the bytes say: data and timers that are none, state
//! requests, residuals, splits and messages that make no sense, ends in any order.

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use prost::Message as _;
use tidemill::coder::windowed_value;
use tidemill::engine::watermark::Aggregator;
use tidemill::engine::{Action, Event, Lane, Message, Settings, StartBundle};
use tidemill::model::bundle::{BundleApplication, ChannelSplit, Residual, SplitOutcome};
use tidemill::model::stage::{ExecutableStage, StageGraph, StageKind};
use tidemill::model::{
    Coder, LaneId, PaneInfo, StageId, StateKey, StateOperation, StateRequest, Timestamp, Window,
    WorkerId,
};
use tidemill::plan;
use tidemill::proto::pipeline::Pipeline;
use tidemill::store::memory::MemoryTables;

/// The first byte chooses the pipeline, the rest says what its harness does.
pub fn run(data: &[u8]) {
    let Some((choice, bytes)) = data.split_first() else {
        return;
    };
    let graph = &GRAPHS[usize::from(*choice) % GRAPHS.len()];
    let mut job = Job::new(graph);
    let mut script = Script { bytes };
    job.tell(Event::Start);
    for _ in 0..STEPS_MAX {
        if script.bytes.is_empty() {
            break;
        }
        job.step(&mut script);
    }
    job.end();
}

const STEPS_MAX: usize = 200;
const SLOTS: u32 = 8;

/// A lane with a harness that always has room.
struct Job {
    graph: Arc<StageGraph>,
    lane: Lane,
    tables: MemoryTables,
    aggregator: Aggregator,
    now: Timestamp,
    running: Vec<StartBundle>,
    slots: u32,
}

impl Job {
    fn new(graph: &Arc<StageGraph>) -> Self {
        let settings = Settings {
            attempts_max: Some(3),
            parallelism: vec![SLOTS; graph.environments as usize],
            ..Settings::default()
        };
        Self {
            lane: Lane::new(LaneId(0), Arc::clone(graph), settings),
            tables: MemoryTables::default(),
            aggregator: Aggregator::new(Arc::clone(graph), 1),
            graph: Arc::clone(graph),
            now: Timestamp::from_millis(1_000_000),
            running: Vec::new(),
            slots: SLOTS,
        }
    }

    fn tell(&mut self, event: Event) {
        let mut events = vec![event];
        while !events.is_empty() {
            for event in std::mem::take(&mut events) {
                self.lane.handle(self.now, event, &mut self.tables);
            }
            self.lane.settle(self.now);
            while let Some(action) = self.lane.poll_action() {
                self.perform(action, &mut events);
            }
        }
    }

    fn perform(&mut self, action: Action, events: &mut Vec<Event>) {
        match action {
            Action::RequestSlot { environment } if self.slots > 0 => {
                self.slots -= 1;
                events.push(Event::Granted {
                    environment,
                    worker: WorkerId(0),
                });
            }
            Action::ReturnSlot { .. } | Action::LendRoom { .. } => self.slots += 1,
            Action::ReclaimRoom { .. } => self.slots = self.slots.saturating_sub(1),
            Action::StartBundle(start) => {
                let input = self.graph.stages[start.stage.index()].inputs[0];
                let coder = &self.graph.pcollections[input.index()].coder;
                for chunk in &start.input {
                    windowed_value::scan(coder, chunk.bytes.clone())
                        .expect("what the engine sends can be read");
                }
                self.running.push(start);
            }
            Action::Publish { bundle, .. } => events.push(Event::Finished {
                bundle,
                residuals: Vec::new(),
                finalize: false,
            }),
            Action::Deliver { delivery, .. } => events.push(Event::Delivered(delivery)),
            Action::Report(watermarks) => {
                let risen = self.aggregator.report(LaneId(0), &watermarks);
                if !risen.is_empty() {
                    events.push(Event::Watermarks(risen));
                }
            }
            Action::RequestSlot { .. }
            | Action::ReportProgress { .. }
            | Action::SplitBundle(_)
            | Action::ReplyState { .. }
            | Action::Release(_)
            | Action::Retrying { .. }
            | Action::Fail { .. } => {}
        }
    }

    fn step(&mut self, script: &mut Script<'_>) {
        match script.byte() % 13 {
            0 => self.data(script),
            1 => self.timers(script),
            2 => self.state(script),
            3 | 4 => self.finish(script),
            5 => {
                if let Some(start) = self.pick(script.byte()) {
                    let (bundle, failure) = (start.bundle, "no".to_owned());
                    self.running.retain(|start| start.bundle != bundle);
                    self.tell(Event::Failed { bundle, failure });
                }
            }
            6 => self.split(script),
            7 => {
                let due = self.lane.next_wakeup().unwrap_or(self.now);
                self.now = due.max(self.now).min(self.now.plus(1 << 40));
                self.tell(Event::Tick);
            }
            8 => {
                self.running.clear();
                self.slots = SLOTS;
                self.tell(Event::WorkerLost {
                    worker: WorkerId(0),
                    reason: "lost".to_owned(),
                });
            }
            9 => self.tell(Event::Drain),
            10 => self.messages(script),
            12 => {
                if let Some(start) = self.pick(script.byte()) {
                    let bundle = start.bundle;
                    let taken = Some(u64::from(script.byte())).filter(|taken| *taken != 0);
                    self.tell(Event::Progress { bundle, taken });
                }
            }
            _ => self.elements(script),
        }
    }

    fn pick(&self, index: u8) -> Option<&StartBundle> {
        self.running
            .get(usize::from(index) % self.running.len().max(1))
    }

    fn executable(&self, stage: StageId) -> Option<&ExecutableStage> {
        match &self.graph.stages[stage.index()].kind {
            StageKind::Executable(executable) => Some(executable),
            _ => None,
        }
    }

    /// Bytes that may be no elements at all.
    fn data(&mut self, script: &mut Script<'_>) {
        let Some(start) = self.pick(script.byte()) else {
            return;
        };
        let (bundle, stage) = (start.bundle, start.stage);
        let outputs = self.graph.stages[stage.index()].outputs.len();
        if outputs > 0 {
            let flags = script.byte();
            let output = usize::from(flags & 0x7f) % outputs;
            let bytes = script.text();
            self.tell(Event::Data {
                bundle,
                output,
                bytes,
                cut: flags & 0x80 != 0,
            });
        }
    }

    /// Elements with a right header, and any value.
    fn elements(&mut self, script: &mut Script<'_>) {
        let Some(start) = self.pick(script.byte()) else {
            return;
        };
        let (bundle, stage) = (start.bundle, start.stage);
        let outputs = &self.graph.stages[stage.index()].outputs;
        if outputs.is_empty() {
            return;
        }
        let output = usize::from(script.byte()) % outputs.len();
        let coder = &self.graph.pcollections[outputs[output].index()].coder;
        let Ok((_, window_coder)) = windowed_value::parts(coder) else {
            return;
        };
        let mut bytes = Vec::new();
        let timestamp = script.time();
        let window = match window_coder {
            Coder::IntervalWindow => Window::Interval {
                start: timestamp,
                end: timestamp.plus(10),
            },
            _ => Window::Global,
        };
        windowed_value::write_header(&mut bytes, timestamp, &[window], PaneInfo::NO_FIRING);
        bytes.extend_from_slice(&script.text());
        self.tell(Event::Data {
            bundle,
            output,
            bytes: bytes.into(),
            cut: false,
        });
    }

    fn timers(&mut self, script: &mut Script<'_>) {
        let Some(start) = self.pick(script.byte()) else {
            return;
        };
        let (bundle, stage) = (start.bundle, start.stage);
        let Some(executable) = self.executable(stage) else {
            return;
        };
        let families = &executable.timer_families;
        let index = usize::from(script.byte()) % (families.len() + 1);
        let (transform, family) = match families.get(index) {
            Some(family) => (family.transform.clone(), family.family.clone()),
            None => ("unknown".to_owned(), "unknown".to_owned()),
        };
        let bytes = script.text();
        self.tell(Event::Timers {
            bundle,
            transform,
            family,
            bytes,
        });
    }

    fn state(&mut self, script: &mut Script<'_>) {
        let Some(start) = self.pick(script.byte()) else {
            return;
        };
        let (bundle, worker, stage) = (start.bundle, start.worker, start.stage);
        let key = state_key(self.executable(stage), script);
        let operation = match script.byte() % 4 {
            0 => StateOperation::Get { continuation: None },
            1 => StateOperation::Get {
                continuation: Some(script.text()),
            },
            2 => StateOperation::Append {
                data: script.text(),
            },
            _ => StateOperation::Clear,
        };
        let request = StateRequest {
            id: "r".to_owned(),
            key,
            operation,
        };
        self.tell(Event::State {
            bundle,
            worker,
            request,
        });
    }

    fn finish(&mut self, script: &mut Script<'_>) {
        let Some(start) = self.pick(script.byte()) else {
            return;
        };
        let (bundle, stage) = (start.bundle, start.stage);
        let flags = script.byte();
        let residuals = (0..flags % 4)
            .map(|_| self.residual(stage, script))
            .collect();
        self.running.retain(|start| start.bundle != bundle);
        self.tell(Event::Finished {
            bundle,
            residuals,
            finalize: flags & 0x80 != 0,
        });
    }

    fn split(&mut self, script: &mut Script<'_>) {
        let Some(start) = self.pick(script.byte()) else {
            return;
        };
        let (bundle, stage) = (start.bundle, start.stage);
        let flags = script.byte();
        let source = self
            .executable(stage)
            .map_or_else(String::new, |executable| executable.source.clone());
        let last_primary = script.number();
        let outcome = SplitOutcome {
            primaries: (0..flags % 3)
                .map(|_| self.residual(stage, script).application)
                .collect(),
            residuals: (0..flags / 3 % 3)
                .map(|_| self.residual(stage, script))
                .collect(),
            channel_splits: (0..flags / 9 % 3)
                .map(|_| ChannelSplit {
                    transform: source.clone(),
                    last_primary,
                    first_residual: last_primary.saturating_add(i64::from(script.byte())),
                })
                .collect(),
        };
        self.tell(Event::Split { bundle, outcome });
    }

    fn residual(&self, stage: StageId, script: &mut Script<'_>) -> Residual {
        let splittable = self
            .executable(stage)
            .and_then(|executable| executable.splittable.as_ref());
        let flags = script.byte();
        let (transform, input) = match splittable {
            Some(splittable) if flags & 1 == 0 => {
                (splittable.transform.clone(), splittable.input.clone())
            }
            _ => ("unknown".to_owned(), "unknown".to_owned()),
        };
        let outputs = splittable.map_or(&[][..], |splittable| &splittable.outputs);
        Residual {
            application: BundleApplication {
                transform,
                input,
                element: script.text(),
                output_watermarks: outputs
                    .iter()
                    .map(|output| (output.clone(), script.time()))
                    .collect(),
            },
            delay: script.number(),
        }
    }

    fn messages(&mut self, script: &mut Script<'_>) {
        let reads = self
            .graph
            .stages
            .iter()
            .position(|stage| matches!(&stage.kind, StageKind::PubsubRead(_)));
        let Some(stage) = reads.map(|index| StageId(index as u32)) else {
            return;
        };
        let watermark = script.time();
        let messages = (0..script.byte() % 8)
            .map(|receipt| Message {
                key: u32::from(script.byte()),
                dedup_id: script.text(),
                timestamp: script.time(),
                element: script.text(),
                receipt: u64::from(receipt),
            })
            .collect();
        self.tell(Event::Messages { stage, messages });
        self.tell(Event::SourceWatermark { stage, watermark });
    }

    /// What is left ends well, again and again, until nothing more starts.
    fn end(&mut self) {
        for _ in 0..STEPS_MAX {
            let Some(start) = self.running.pop() else {
                return;
            };
            self.tell(Event::Finished {
                bundle: start.bundle,
                residuals: Vec::new(),
                finalize: false,
            });
        }
    }
}

fn state_key(executable: Option<&ExecutableStage>, script: &mut Script<'_>) -> StateKey {
    let kind = script.byte();
    let index = usize::from(script.byte());
    let states = executable.map_or(&[][..], |executable| &executable.user_states);
    let sides = executable.map_or(&[][..], |executable| &executable.side_inputs);
    let (transform, state) = match states.get(index % (states.len() + 1)) {
        Some(state) => (state.transform.clone(), state.name.clone()),
        None => ("unknown".to_owned(), "unknown".to_owned()),
    };
    let (side_transform, side_input) = match sides.get(index % (sides.len() + 1)) {
        Some(side) => (side.transform.clone(), side.name.clone()),
        None => (transform.clone(), state.clone()),
    };
    let (window, key) = (script.text(), script.text());
    match kind % 10 {
        0 => StateKey::Runner { key },
        1 => StateKey::IterableSideInput {
            transform: side_transform,
            side_input,
            window,
        },
        2 => StateKey::MultimapSideInput {
            transform: side_transform,
            side_input,
            window,
            key,
        },
        3 => StateKey::MultimapKeysSideInput {
            transform: side_transform,
            side_input,
            window,
        },
        4 => StateKey::MultimapKeysValuesSideInput {
            transform: side_transform,
            side_input,
            window,
        },
        5 => StateKey::BagUserState {
            transform,
            state,
            window,
            key,
        },
        6 => StateKey::MultimapKeysUserState {
            transform,
            state,
            window,
            key,
        },
        7 => StateKey::MultimapEntriesUserState {
            transform,
            state,
            window,
            key,
        },
        8 => StateKey::MultimapUserState {
            transform,
            state,
            window,
            key,
            map_key: script.text(),
        },
        _ => StateKey::OrderedListUserState {
            transform,
            state,
            window,
            key,
            start: script.number(),
            end: script.number(),
        },
    }
}

/// The bytes that are still to be followed.
struct Script<'a> {
    bytes: &'a [u8],
}

impl Script<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.bytes.split_first() else {
            return 0;
        };
        self.bytes = rest;
        *first
    }

    /// As many bytes as the next one says.
    fn text(&mut self) -> Bytes {
        let length = usize::from(self.byte()).min(self.bytes.len());
        let (text, rest) = self.bytes.split_at(length);
        self.bytes = rest;
        Bytes::copy_from_slice(text)
    }

    /// A small number, or the first or last there is.
    fn number(&mut self) -> i64 {
        match self.byte() {
            255 => i64::MAX,
            254 => i64::MIN,
            small => i64::from(small) - 2,
        }
    }

    /// A small time, or the first or last there is.
    fn time(&mut self) -> Timestamp {
        match self.byte() {
            0 => Timestamp::MIN,
            255 => Timestamp::MAX,
            254 => Timestamp::GLOBAL_WINDOW_MAX,
            small => Timestamp::from_millis((i64::from(small) - 100) * 1_000),
        }
    }
}

static GRAPHS: LazyLock<Vec<Arc<StageGraph>>> = LazyLock::new(|| {
    let pipelines: [&[u8]; 6] = [
        include_bytes!("../../src/plan/fixtures/stateful-raw.pb"),
        include_bytes!("../../src/plan/fixtures/sides-raw.pb"),
        include_bytes!("../../src/plan/fixtures/splittable-raw.pb"),
        include_bytes!("../../src/plan/fixtures/shuffles-raw.pb"),
        include_bytes!("../../src/plan/fixtures/words-lifted.pb"),
        include_bytes!("../../src/plan/fixtures/pubsub-raw.pb"),
    ];
    let graph = |bytes: &&[u8]| {
        let pipeline = Pipeline::decode(*bytes).expect("a pipeline");
        let plan = plan::build(&pipeline, &plan::Settings::default()).expect("a plan");
        Arc::new(plan.graph)
    };
    pipelines.iter().map(graph).collect()
});
