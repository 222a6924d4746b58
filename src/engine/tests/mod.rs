//! A lane (or several) under simulated time, with a harness that does what a test says.

mod cut;
mod dormancy;
mod drain;
mod large_groups;
mod metadata;
mod read;
mod script;
mod side_inputs;
mod state;
mod state_pages;
mod timers;

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use expect_test::{Expect, expect};

use crate::coder;
use crate::engine::watermark::Aggregator;
use crate::engine::{Action, Event, Lane, Release, Settings, StartBundle};
use crate::model::bundle::{BundleApplication, ChannelSplit, Residual, SplitOutcome};
use crate::model::stage::{
    ExecutableStage, GroupByKey, PCollection, Script, SideInput, SideInputUse, SplittableStage,
    Stage, StageGraph, StageKind, UserState, WindowMerging,
};
use crate::model::{
    AccumulationMode, BundleId, Coder, EnvironmentId, LaneId, OutputTime, PCollectionId, PaneInfo,
    StageId, StateKey, StateOperation, StateReply, StateRequest, Timestamp, Trigger, Window,
    WindowFn, WindowingStrategy, WorkerId,
};
use crate::store::memory::MemoryTables;

/// Elements as tests write them: timestamp and text.
type Elements = Vec<(i64, String)>;

/// A job with a harness that is always there and answers when told.
struct Rig {
    graph: Arc<StageGraph>,
    lanes: Vec<(Lane, MemoryTables)>,
    aggregator: Aggregator,
    now: Timestamp,
    inboxes: VecDeque<(LaneId, Event)>,
    started: VecDeque<StartBundle>,
    slots: i32,
    waiting: VecDeque<LaneId>,
    log: String,
}

impl Rig {
    fn new(graph: StageGraph, settings: Settings) -> Self {
        let graph = Arc::new(graph);
        let lanes = (0..settings.lanes)
            .map(|id| {
                let lane = Lane::new(LaneId(id), Arc::clone(&graph), settings.clone());
                (lane, MemoryTables::default())
            })
            .collect();
        let mut rig = Self {
            aggregator: Aggregator::new(Arc::clone(&graph), settings.lanes),
            graph,
            lanes,
            now: Timestamp::from_millis(1_000_000),
            inboxes: VecDeque::new(),
            started: VecDeque::new(),
            slots: 4,
            waiting: VecDeque::new(),
            log: String::new(),
        };
        for lane in 0..settings.lanes {
            rig.inboxes.push_back((LaneId(lane), Event::Start));
        }
        rig.settle();
        rig
    }

    fn settle(&mut self) {
        while let Some((id, event)) = self.inboxes.pop_front() {
            let (lane, tables) = &mut self.lanes[id.index()];
            lane.handle(self.now, event, tables);
            lane.settle(self.now);
            let mut actions = Vec::new();
            while let Some(action) = lane.poll_action() {
                actions.push(action);
            }
            for action in actions {
                self.perform(id, action);
            }
        }
    }

    fn perform(&mut self, id: LaneId, action: Action) {
        match action {
            Action::RequestSlot { .. } => {
                self.waiting.push_back(id);
                self.grant();
            }
            Action::ReturnSlot { .. } => {
                self.slots += 1;
                self.grant();
            }
            Action::LendRoom { .. } => {
                self.log.push_str("lend\n");
                self.slots += 1;
                self.grant();
            }
            Action::ReclaimRoom { .. } => {
                self.log.push_str("reclaim\n");
                self.slots -= 1;
            }
            Action::StartBundle(start) => {
                let name = &self.graph.stages[start.stage.index()].name;
                let input = self.show_chunks(start.stage, &start);
                writeln!(self.log, "start {} {name} {input}", start.bundle).unwrap();
                self.started.push_back(start);
            }
            Action::Deliver { lane, delivery } => {
                self.inboxes.push_back((lane, Event::Delivered(delivery)));
            }
            Action::Report(watermarks) => {
                let risen = self.aggregator.report(id, &watermarks);
                for (stage, watermark) in &risen {
                    let name = &self.graph.stages[stage.index()].name;
                    writeln!(self.log, "watermark {name} {watermark}").unwrap();
                }
                for lane in 0..self.lanes.len() as u32 {
                    self.inboxes
                        .push_back((LaneId(lane), Event::Watermarks(risen.clone())));
                }
            }
            Action::Release(Release::Metrics { .. }) | Action::ReportProgress { .. } => {}
            Action::Publish { .. }
            | Action::SplitBundle(_)
            | Action::ReplyState { .. }
            | Action::Release(_)
            | Action::Retrying { .. }
            | Action::Fail { .. } => writeln!(self.log, "{action:?}").unwrap(),
        }
    }

    fn grant(&mut self) {
        while self.slots > 0
            && let Some(lane) = self.waiting.pop_front()
        {
            self.slots -= 1;
            let event = Event::Granted {
                environment: EnvironmentId(0),
                worker: WorkerId(0),
            };
            self.inboxes.push_back((lane, event));
        }
    }

    fn tell(&mut self, bundle: BundleId, event: Event) {
        self.inboxes.push_back((Lane::of_bundle(bundle), event));
        self.settle();
    }

    /// Ends the bundle that started first, with these elements at output 0.
    fn finish(&mut self, output: &[(i64, &str)]) {
        self.finish_with(output, Vec::new());
    }

    fn finish_with(&mut self, output: &[(i64, &str)], residuals: Vec<Residual>) {
        self.end_first(encode(output), residuals);
    }

    /// Ends the bundle that started first, with these bytes at output 0.
    fn answer(&mut self, output: Vec<u8>) {
        self.end_first(Bytes::from(output), Vec::new());
    }

    /// The bundle that started first puts out these bytes at output 0.
    fn put_out(&mut self, bytes: Bytes, cut: bool) {
        let bundle = self.started.front().expect("a bundle is running").bundle;
        let event = Event::Data {
            bundle,
            output: 0,
            bytes,
            cut,
        };
        self.tell(bundle, event);
    }

    fn end_first(&mut self, bytes: Bytes, residuals: Vec<Residual>) {
        if !bytes.is_empty() {
            self.put_out(bytes, false);
        }
        let bundle = self
            .started
            .pop_front()
            .expect("a bundle is running")
            .bundle;
        self.tell(
            bundle,
            Event::Finished {
                bundle,
                residuals,
                finalize: false,
            },
        );
    }

    fn fail(&mut self, failure: &str) {
        let bundle = self
            .started
            .pop_front()
            .expect("a bundle is running")
            .bundle;
        self.tell(
            bundle,
            Event::Failed {
                bundle,
                failure: failure.to_owned(),
            },
        );
    }

    /// Asks for state on behalf of the bundle that started first.
    fn ask_state(&mut self, key: StateKey, operation: StateOperation) {
        let (bundle, event) = self.state_request(key, operation);
        self.tell(bundle, event);
    }

    /// The same, and the answer.
    fn read_state(&mut self, key: &StateKey, operation: StateOperation) -> StateReply {
        let (_, event) = self.state_request(key.clone(), operation);
        let (lane, tables) = &mut self.lanes[0];
        lane.handle(self.now, event, tables);
        match lane.poll_action() {
            Some(Action::ReplyState { reply, .. }) => reply,
            other => panic!("an answer was expected instead of {other:?}"),
        }
    }

    fn state_request(&self, key: StateKey, operation: StateOperation) -> (BundleId, Event) {
        let start = self.started.front().expect("a bundle is running");
        let (bundle, worker) = (start.bundle, start.worker);
        let request = StateRequest {
            id: "r".to_owned(),
            key,
            operation,
        };
        let event = Event::State {
            bundle,
            worker,
            request,
        };
        (bundle, event)
    }

    /// Lets time pass to when lanes want to be woken.
    fn wake(&mut self) {
        let due = self
            .lanes
            .iter()
            .filter_map(|(lane, _)| lane.next_wakeup())
            .min();
        self.now = due.expect("somebody waits for time").max(self.now);
        for lane in 0..self.lanes.len() as u32 {
            self.inboxes.push_back((LaneId(lane), Event::Tick));
        }
        self.settle();
    }

    fn show_chunks(&self, stage: StageId, start: &StartBundle) -> String {
        let input = self.graph.stages[stage.index()].inputs[0];
        let coder = &self.graph.pcollections[input.index()].coder;
        let mut shown: Elements = Vec::new();
        for chunk in &start.input {
            for element in coder::windowed_value::Elements::new(coder, &chunk.bytes) {
                let element = element.expect("what the engine sends can be read");
                let text = printable(&chunk.bytes[element.value.clone()]);
                shown.push((element.timestamp.millis(), text));
            }
        }
        shown.sort();
        let shown: Vec<String> = shown
            .iter()
            .map(|(at, text)| format!("{text}@{at}"))
            .collect();
        format!(
            "[{}]",
            shown
                .join(" ")
                .replace(&Timestamp::MIN.millis().to_string(), "MIN")
        )
    }

    fn done(&self) -> bool {
        self.aggregator.is_done()
    }

    fn check(&mut self, expected: Expect) {
        expected.assert_eq(&std::mem::take(&mut self.log));
    }
}

/// Printable characters as they are, the others as dots.
fn printable(bytes: &[u8]) -> String {
    let show = |byte: &u8| {
        if byte.is_ascii_graphic() {
            char::from(*byte)
        } else {
            '.'
        }
    };
    bytes.iter().map(show).collect()
}

/// Elements of `kv(bytes, bytes)`, written `key:value`, or of `bytes`, in the global window.
fn encode(elements: &[(i64, &str)]) -> Bytes {
    Bytes::from(encode_in(&[Window::Global], elements))
}

fn encode_in(windows: &[Window], elements: &[(i64, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (at, text) in elements {
        coder::windowed_value::write_header(
            &mut bytes,
            Timestamp::from_millis(*at),
            windows,
            PaneInfo::NO_FIRING,
        );
        for part in text.split(':') {
            coder::length_prefix::write(&mut bytes, part.as_bytes());
        }
    }
    bytes
}

fn windowing() -> WindowingStrategy {
    WindowingStrategy {
        window_fn: WindowFn::Global,
        needs_merge: false,
        window_coder: Coder::GlobalWindow,
        trigger: Trigger::Default,
        accumulation: AccumulationMode::Discarding,
        output_time: OutputTime::EndOfWindow,
        closing_always: false,
        on_time_always: false,
        last_by_trigger_only: false,
        allowed_lateness: 0,
        environment: None,
    }
}

/// Builds graphs: each call adds a stage that reads the PCollection of earlier ones.
#[derive(Default)]
struct Builder {
    stages: Vec<Stage>,
    pcollections: Vec<PCollection>,
}

impl Builder {
    fn add(&mut self, name: &str, kind: StageKind, inputs: &[u32], value: Option<Coder>) -> u32 {
        let id = StageId(self.stages.len() as u32);
        for input in inputs {
            self.pcollections[*input as usize].consumers.push(id);
        }
        let output = PCollectionId(self.pcollections.len() as u32);
        self.stages.push(Stage {
            name: name.to_owned(),
            kind,
            inputs: inputs.iter().copied().map(PCollectionId).collect(),
            outputs: value.iter().map(|_| output).collect(),
        });
        if let Some(value) = value {
            self.pcollections.push(PCollection {
                name: name.to_owned(),
                producer: id,
                consumers: Vec::new(),
                side_consumers: Vec::new(),
                coder: windowed(value, Coder::GlobalWindow),
                windowing: windowing(),
                bounded: true,
            });
        }
        output.0
    }

    fn impulse(&mut self) -> u32 {
        self.add("impulse", StageKind::Impulse, &[], Some(Coder::Bytes))
    }

    fn par_do(&mut self, name: &str, input: u32, value: Option<Coder>) -> u32 {
        self.add(
            name,
            StageKind::Executable(Box::new(executable())),
            &[input],
            value,
        )
    }

    fn side_input(&mut self, name: &str, input: u32, side: u32) -> u32 {
        let stage = StageId(self.stages.len() as u32);
        self.pcollections[side as usize]
            .side_consumers
            .push(SideInputUse { stage, index: 0 });
        let side_input = SideInput {
            pcollection: PCollectionId(side),
            transform: "t".to_owned(),
            name: "side".to_owned(),
            multimap: false,
            all_panes: false,
            coder: Coder::Bytes,
        };
        let kind = ExecutableStage {
            side_inputs: vec![side_input],
            ..executable()
        };
        self.add(
            name,
            StageKind::Executable(Box::new(kind)),
            &[input],
            Some(Coder::Bytes),
        )
    }

    /// A stage with user state, of which it declares these.
    fn stateful(&mut self, name: &str, input: u32, states: Vec<UserState>) -> u32 {
        let kind = ExecutableStage {
            keyed: true,
            user_states: states,
            ..executable()
        };
        self.add(
            name,
            StageKind::Executable(Box::new(kind)),
            &[input],
            Some(Coder::Bytes),
        )
    }

    fn splittable(&mut self, name: &str, input: u32) -> u32 {
        let splittable = SplittableStage {
            unbounded: false,
            transform: "process".to_owned(),
            input: "in".to_owned(),
            outputs: vec!["out".to_owned()],
            truncate: None,
        };
        let kind = ExecutableStage {
            splittable: Some(splittable),
            ..executable()
        };
        self.add(
            name,
            StageKind::Executable(Box::new(kind)),
            &[input],
            Some(Coder::Bytes),
        )
    }

    fn group(&mut self, name: &str, input: u32) -> u32 {
        let kind = StageKind::GroupByKey(GroupByKey {
            windowing: windowing(),
            merging: None,
        });
        let iterable = Coder::Iterable(Box::new(Coder::Bytes));
        let value = Coder::Kv(Box::new(Coder::Bytes), Box::new(iterable));
        self.add(name, kind, &[input], Some(value))
    }

    /// A group-by-key whose windows, of a kind that only the SDK knows, the stage `merge` merges.
    fn merging_group(&mut self, name: &str, input: u32) -> u32 {
        let windows = Coder::Iterable(Box::new(Coder::IntervalWindow));
        let pair = |left: Coder, right: Coder| Coder::Kv(Box::new(left), Box::new(right));
        let merges = Coder::Iterable(Box::new(pair(Coder::IntervalWindow, windows.clone())));
        let answer = pair(Coder::Bytes, pair(windows.clone(), merges));
        let group = self.group(name, input);
        let questions = PCollectionId(group + 1);
        self.pcollections.push(PCollection {
            name: "questions".to_owned(),
            producer: StageId(self.stages.len() as u32 - 1),
            coder: windowed(pair(Coder::Bytes, windows), Coder::GlobalWindow),
            ..self.pcollections[group as usize].clone()
        });
        let answers = self.par_do("merge", questions.0, Some(answer));
        let stage = self.stages.iter_mut().find(|stage| stage.name == name);
        let stage = stage.expect("the stage was added");
        stage.outputs.push(questions);
        let window_fn = WindowFn::Custom {
            urn: "own".to_owned(),
        };
        stage.kind = StageKind::GroupByKey(GroupByKey {
            windowing: WindowingStrategy {
                window_fn,
                needs_merge: true,
                window_coder: Coder::IntervalWindow,
                ..windowing()
            },
            merging: Some(WindowMerging {
                questions,
                answers: PCollectionId(answers),
            }),
        });
        for windowed_by_it in [input, group] {
            let node = &mut self.pcollections[windowed_by_it as usize];
            if let Coder::WindowedValue(value, _) = node.coder.clone() {
                node.coder = windowed(*value, Coder::IntervalWindow);
            }
        }
        group
    }

    fn graph(self) -> StageGraph {
        let scripted = |stage: &Stage| stage.kind == StageKind::TestStream;
        let script = self
            .stages
            .iter()
            .any(scripted)
            .then(|| Script::Events(Vec::new()));
        StageGraph {
            stages: self.stages,
            pcollections: self.pcollections,
            environments: 1,
            script,
        }
    }
}

fn executable() -> ExecutableStage {
    ExecutableStage {
        environment: EnvironmentId(0),
        descriptor: "d".to_owned(),
        source: "source".to_owned(),
        sinks: vec!["sink".to_owned()],
        side_inputs: Vec::new(),
        keyed: false,
        user_states: Vec::new(),
        timer_families: Vec::new(),
        splittable: None,
        finalizes: false,
        stable_input: false,
        time_sorted_input: false,
    }
}

fn windowed(value: Coder, window: Coder) -> Coder {
    Coder::WindowedValue(Box::new(value), Box::new(window))
}

fn interval(start: i64, end: i64) -> Window {
    Window::Interval {
        start: Timestamp::from_millis(start),
        end: Timestamp::from_millis(end),
    }
}

fn kv() -> Coder {
    Coder::Kv(Box::new(Coder::Bytes), Box::new(Coder::Bytes))
}

fn word_count() -> StageGraph {
    let mut builder = Builder::default();
    let impulse = builder.impulse();
    let words = builder.par_do("split", impulse, Some(kv()));
    let grouped = builder.group("group", words);
    builder.par_do("count", grouped, None);
    builder.graph()
}

#[test]
fn a_batch_job_runs_to_its_end() {
    let mut rig = Rig::new(word_count(), Settings::default());
    rig.finish(&[(5, "a:1"), (6, "b:2"), (7, "a:3")]);
    rig.finish(&[]);
    assert!(rig.done());
    rig.check(expect![[r#"
        watermark impulse MAX
        start b1 split [.@MIN]
        watermark split MAX
        watermark group GLOBAL_MAX
        watermark count GLOBAL_MAX
        start b2 count [.a.....1.3@9223371950454775 .b.....2@9223371950454775]
        watermark group MAX
        watermark count MAX
    "#]]);
}

#[test]
fn groups_that_nobody_reads_do_not_keep_the_job() {
    let mut builder = Builder::default();
    let impulse = builder.impulse();
    let words = builder.par_do("split", impulse, Some(kv()));
    let kind = StageKind::GroupByKey(GroupByKey {
        windowing: windowing(),
        merging: None,
    });
    builder.add("group", kind, &[words], None);
    let mut rig = Rig::new(builder.graph(), Settings::default());
    rig.finish(&[(5, "a:1"), (6, "b:2")]);
    assert!(rig.done());
}

#[test]
fn lanes_share_the_keys() {
    let settings = Settings {
        lanes: 4,
        parallelism: vec![4],
        ..Settings::default()
    };
    let mut rig = Rig::new(word_count(), settings);
    rig.finish(&[(5, "a:1"), (6, "b:2"), (7, "c:3"), (8, "d:4"), (9, "a:5")]);
    while !rig.started.is_empty() {
        rig.finish(&[]);
    }
    assert!(rig.done());
    rig.check(expect![[r#"
        watermark impulse MAX
        start b1 split [.@MIN]
        watermark split MAX
        watermark group GLOBAL_MAX
        start b2 count [.a.....1.5@9223371950454775]
        start b281474976710657 count [.d.....4@9223371950454775]
        start b562949953421313 count [.b.....2@9223371950454775]
        watermark count GLOBAL_MAX
        start b844424930131969 count [.c.....3@9223371950454775]
        watermark group MAX
        watermark count MAX
    "#]]);
}

#[test]
fn a_failed_bundle_leaves_nothing_and_is_tried_again() {
    let mut rig = Rig::new(word_count(), Settings::default());
    rig.put_out(encode(&[(5, "lost:1")]), false);
    rig.fail("boom");
    rig.finish(&[(5, "kept:1")]);
    rig.finish(&[]);
    assert!(rig.done());
    rig.check(expect![[r#"
        watermark impulse MAX
        start b1 split [.@MIN]
        Release(DiscardMetrics { bundle: BundleId(1) })
        Retrying { stage: StageId(1), failure: "boom", attempt: 1 }
        start b2 split [.@MIN]
        watermark split MAX
        watermark group GLOBAL_MAX
        watermark count GLOBAL_MAX
        start b3 count [.kept.....1@9223371950454775]
        watermark group MAX
        watermark count MAX
    "#]]);
}

#[test]
fn a_job_fails_after_four_tries() {
    let mut rig = Rig::new(word_count(), Settings::default());
    for _ in 0..4 {
        rig.fail("boom");
    }
    assert!(rig.started.is_empty(), "a failed job starts nothing");
    rig.check(expect![[r#"
        watermark impulse MAX
        start b1 split [.@MIN]
        Release(DiscardMetrics { bundle: BundleId(1) })
        Retrying { stage: StageId(1), failure: "boom", attempt: 1 }
        start b2 split [.@MIN]
        Release(DiscardMetrics { bundle: BundleId(2) })
        Retrying { stage: StageId(1), failure: "boom", attempt: 2 }
        start b3 split [.@MIN]
        Release(DiscardMetrics { bundle: BundleId(3) })
        Retrying { stage: StageId(1), failure: "boom", attempt: 3 }
        start b4 split [.@MIN]
        Release(DiscardMetrics { bundle: BundleId(4) })
        Fail { stage: StageId(1), failure: "boom" }
    "#]]);
}

#[test]
fn bytes_that_are_no_elements_fail_the_bundle() {
    let mut rig = Rig::new(word_count(), Settings::default());
    rig.put_out(Bytes::from_static(b"junk"), false);
    rig.finish(&[]);
    rig.check(expect![[r#"
        watermark impulse MAX
        start b1 split [.@MIN]
        Release(DiscardMetrics { bundle: BundleId(1) })
        Retrying { stage: StageId(1), failure: "output 0 cannot be read: encoding ends too early", attempt: 1 }
        start b2 split [.@MIN]
    "#]]);
}

#[test]
fn main_input_waits_for_its_side_input() {
    let mut builder = Builder::default();
    let impulse = builder.impulse();
    let main = builder.par_do("main", impulse, Some(Coder::Bytes));
    let side = builder.par_do("side", impulse, Some(Coder::Bytes));
    builder.side_input("join", main, side);
    let mut rig = Rig::new(builder.graph(), Settings::default());
    let names: BTreeMap<_, _> = rig
        .started
        .iter()
        .map(|start| (start.stage, start.bundle))
        .collect();
    assert_eq!(names.len(), 2, "main and side run, join does not");
    // `side` stands further down and was started first.
    rig.started
        .make_contiguous()
        .sort_by_key(|start| start.stage);
    rig.finish(&[(5, "x")]);
    rig.finish(&[(6, "s")]);
    rig.finish(&[]);
    assert!(rig.done());
    rig.check(expect![[r#"
        watermark impulse MAX
        start b1 side [.@MIN]
        start b2 main [.@MIN]
        watermark main MAX
        watermark join 5
        watermark side MAX
        start b3 join [.x@5]
        watermark join MAX
    "#]]);
}

#[test]
fn a_residual_holds_the_watermark_it_reported_until_its_delay_is_over() {
    let mut builder = Builder::default();
    let impulse = builder.impulse();
    let restrictions = builder.par_do("pair", impulse, Some(Coder::Bytes));
    let numbers = builder.splittable("process", restrictions);
    builder.par_do("after", numbers, None);
    let mut rig = Rig::new(builder.graph(), Settings::default());
    rig.finish(&[(Timestamp::MIN.millis(), "0-10")]);
    let residual = |text, watermark| Residual {
        application: BundleApplication {
            transform: "process".to_owned(),
            input: "in".to_owned(),
            element: encode(&[(Timestamp::MIN.millis(), text)]),
            output_watermarks: BTreeMap::from([(
                "out".to_owned(),
                Timestamp::from_millis(watermark),
            )]),
        },
        delay: 500,
    };
    rig.finish_with(&[(1, "0")], vec![residual("1-10", 100)]);
    rig.finish(&[]);
    rig.wake();
    rig.finish(&[(100, "1")]);
    rig.finish(&[]);
    assert!(rig.done());
    rig.check(expect![[r#"
        watermark impulse MAX
        start b1 pair [.@MIN]
        watermark pair MAX
        start b2 process [.0-10@MIN]
        watermark process 100
        watermark after 1
        start b3 after [.0@1]
        watermark after 100
        start b4 process [.1-10@MIN]
        watermark process MAX
        start b5 after [.1@100]
        watermark after MAX
    "#]]);
}

#[test]
fn a_split_gives_elements_back_once() {
    let mut builder = Builder::default();
    let impulse = builder.impulse();
    let elements = builder.par_do("make", impulse, Some(Coder::Bytes));
    builder.splittable("process", elements);
    let mut rig = Rig::new(builder.graph(), Settings::default());
    rig.finish(&[(1, "a"), (2, "b"), (3, "c"), (4, "d")]);
    let bundle = rig.started[0].bundle;
    let part = |text| BundleApplication {
        transform: "process".to_owned(),
        input: "in".to_owned(),
        element: encode(&[(2, text)]),
        output_watermarks: BTreeMap::new(),
    };
    let outcome = SplitOutcome {
        primaries: vec![part("b-first")],
        residuals: vec![Residual {
            application: part("b-rest"),
            delay: 0,
        }],
        channel_splits: vec![ChannelSplit {
            transform: "source".to_owned(),
            last_primary: 0,
            first_residual: 2,
        }],
    };
    rig.tell(bundle, Event::Split { bundle, outcome });
    // The primary fails: only its own elements come again.
    rig.fail("boom");
    while !rig.started.is_empty() {
        rig.finish(&[]);
    }
    assert!(rig.done());
    rig.check(expect![[r#"
        watermark impulse MAX
        start b1 make [.@MIN]
        watermark make MAX
        watermark process 1
        start b2 process [.a@1 .b@2 .c@3 .d@4]
        start b3 process [.b-rest@2 .c@3 .d@4]
        Release(DiscardMetrics { bundle: BundleId(2) })
        Retrying { stage: StageId(2), failure: "boom", attempt: 1 }
        start b4 process [.a@1 .b-first@2]
        watermark process MAX
    "#]]);
}

#[test]
fn an_sdk_merges_windows_of_its_own() {
    let mut builder = Builder::default();
    let impulse = builder.impulse();
    let pairs = builder.par_do("pairs", impulse, Some(kv()));
    let grouped = builder.merging_group("group", pairs);
    builder.par_do("after", grouped, None);
    let mut rig = Rig::new(builder.graph(), Settings::default());
    let windows = [interval(1, 4), interval(3, 9)];
    let mut elements = encode_in(&windows[..1], &[(1, "a:1")]);
    elements.extend(encode_in(&windows[1..], &[(3, "a:2")]));
    rig.answer(elements);
    // An answer that leaves somebody out fails, and the question is asked again.
    rig.answer(Vec::new());
    // What is asked bears the key as it is encoded.
    let mut answer = encode_in(&[Window::Global], &[(1, "\u{1}a")]);
    coder::iterable::write_count(&mut answer, 0);
    coder::iterable::write_count(&mut answer, 1);
    coder::window::write(&mut answer, &interval(1, 9));
    coder::iterable::write_count(&mut answer, 2);
    windows
        .iter()
        .for_each(|window| coder::window::write(&mut answer, window));
    rig.answer(answer);
    rig.answer(Vec::new());
    assert!(rig.done());
    rig.check(expect![[r#"
        watermark impulse MAX
        start b1 pairs [.@MIN]
        watermark pairs MAX
        watermark group 3
        start b2 merge [..a......................@MIN]
        watermark after 3
        Release(DiscardMetrics { bundle: BundleId(2) })
        Retrying { stage: StageId(3), failure: "the SDK was asked to merge the windows of 1 keys and answered 0", attempt: 1 }
        start b3 merge [..a......................@MIN]
        watermark group 8
        watermark merge 3
        watermark merge 8
        watermark after 8
        start b4 after [.a.....1.2@8]
        watermark group MAX
        watermark merge MAX
        watermark after MAX
    "#]]);
}
