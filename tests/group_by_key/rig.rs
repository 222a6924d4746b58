//! A grouper with its table and clocks, driven by text.
//!
//! A script has a step per line: `KEY: T T …` absorbs a batch of elements with these timestamps as
//! values too, `wm T` moves the input watermark, `now T` the clock; `+`-joined keys (`a+b: 1`) put
//! elements of several keys into one batch. After each step all panes are polled and shown, then
//! the hold where it differs from before.

use std::collections::VecDeque;

use bytes::Bytes;
use expect_test::Expect;
use tidemill::coder::{self, key_hash, length_prefix, windowed_value};
use tidemill::engine::group_by_key::{Evaluation, Grouper, KeyedBatch};
use tidemill::engine::window::{self, Merge, Merger, StandardMerger};
use tidemill::model::{
    AccumulationMode, Chunk, Coder, OutputTime, PaneInfo, PaneTiming, StageId, Timestamp, Trigger,
    Window, WindowFn, WindowingStrategy,
};
use tidemill::store::memory::MemoryGroupTable;

pub const STAGE: StageId = StageId(7);

/// One pane as it came out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pane {
    pub key: String,
    pub window: Window,
    pub values: Vec<i64>,
    pub timestamp: Timestamp,
    pub info: PaneInfo,
}

/// Fixed windows of 10, the default trigger, no lateness.
pub fn strategy() -> WindowingStrategy {
    WindowingStrategy {
        window_fn: WindowFn::Fixed {
            size: 10,
            offset: 0,
        },
        needs_merge: false,
        window_coder: Coder::IntervalWindow,
        trigger: Trigger::Default,
        accumulation: AccumulationMode::Discarding,
        output_time: OutputTime::EndOfWindow,
        closing_always: false,
        on_time_always: true,
        last_by_trigger_only: false,
        allowed_lateness: 0,
        environment: None,
    }
}

pub fn sessions(gap: i64) -> WindowingStrategy {
    WindowingStrategy {
        window_fn: WindowFn::Sessions { gap },
        needs_merge: true,
        ..strategy()
    }
}

pub fn global() -> WindowingStrategy {
    WindowingStrategy {
        window_fn: WindowFn::Global,
        window_coder: Coder::GlobalWindow,
        ..strategy()
    }
}

/// A strategy that fires like the default one, but in a form that needs a cell per key and window.
pub fn default_in_cells() -> Trigger {
    Trigger::Repeat(Box::new(Trigger::AfterAny(vec![
        Trigger::AfterEndOfWindow {
            early: None,
            late: None,
        },
    ])))
}

pub struct Rig {
    pub strategy: WindowingStrategy,
    pub grouper: Grouper,
    pub table: MemoryGroupTable,
    pub now: Timestamp,
    pub watermark: Timestamp,
    /// How elements get their windows.
    pub assigns: WindowFn,
    /// Keys that were asked about and not answered, with their windows.
    pub questions: VecDeque<(Bytes, Vec<Window>)>,
}

impl Rig {
    pub fn new(strategy: &WindowingStrategy) -> Self {
        Self {
            strategy: strategy.clone(),
            grouper: Grouper::new(STAGE, strategy.clone()),
            table: MemoryGroupTable::default(),
            now: Timestamp::from_millis(0),
            watermark: Timestamp::MIN,
            assigns: strategy.window_fn.clone(),
            questions: VecDeque::new(),
        }
    }

    /// A rig for windows that only an SDK knows, which `assigns` stands for.
    pub fn assigning(strategy: &WindowingStrategy, assigns: WindowFn) -> Self {
        Self {
            assigns,
            ..Self::new(strategy)
        }
    }

    pub fn per_batch(strategy: &WindowingStrategy) -> Self {
        let mut rig = Self::new(strategy);
        rig.grouper = rig.grouper.with_evaluation(Evaluation::PerBatch);
        rig
    }

    /// Absorbs elements; the value of each is its timestamp.
    pub fn absorb<'a>(&mut self, elements: impl IntoIterator<Item = (&'a str, i64)>) {
        let valued = elements.into_iter().map(|(key, time)| (key, time, time));
        self.absorb_valued(valued);
    }

    /// Absorbs elements of key, timestamp and value.
    pub fn absorb_valued<'a>(&mut self, elements: impl IntoIterator<Item = (&'a str, i64, i64)>) {
        let mut batch = KeyedBatch::new(&self.strategy);
        for (key, time, value) in elements {
            let timestamp = Timestamp::from_millis(time);
            let windows = window::assign(&self.assigns, timestamp);
            let key = encode(key);
            let value = encode(&value.to_string());
            batch.push(&windows, timestamp, key_hash(&key), &key, &value);
        }
        self.grouper
            .absorb(&mut self.table, self.now, self.watermark, batch);
    }

    pub fn advance(&mut self, watermark: i64) {
        self.watermark = Timestamp::from_millis(watermark);
        self.tick();
    }

    pub fn advance_now(&mut self, now: i64) {
        self.now = Timestamp::from_millis(now);
        self.tick();
    }

    /// Builds the grouper again from the table, after this output watermark was reported.
    pub fn restart(&mut self, output_watermark: Timestamp) {
        self.grouper = Grouper::rebuild(
            STAGE,
            self.strategy.clone(),
            &mut self.table,
            output_watermark,
        );
    }

    pub fn poll_all(&mut self) -> Vec<Pane> {
        let mut panes = Vec::new();
        while let Some(chunk) = self.poll(usize::MAX, usize::MAX) {
            panes.extend(chunk);
        }
        panes
    }

    pub fn poll(&mut self, max_bytes: usize, max_count: usize) -> Option<Vec<Pane>> {
        let chunk = self
            .grouper
            .poll_output(&mut self.table, max_bytes, max_count)?
            .chunk;
        let panes = decode(&self.strategy.window_coder, &chunk);
        assert_eq!(panes.len(), chunk.count as usize);
        let lowest = panes.iter().map(|pane| pane.timestamp).min();
        assert_eq!(lowest, Some(chunk.min_timestamp));
        Some(panes)
    }

    /// Takes the questions that wait.
    pub fn ask(&mut self) {
        while let Some(bytes) = self.grouper.poll_questions(&mut self.table, 1) {
            let mut rest = &bytes[..];
            windowed_value::read_header(&Coder::GlobalWindow, &mut rest).expect("a header");
            let key = length_prefix::read(&mut rest).expect("a key");
            let (count, after) = rest.split_first_chunk::<4>().expect("a count");
            rest = after;
            let windows = (0..u32::from_be_bytes(*count))
                .map(|_| coder::window::read(&Coder::IntervalWindow, &mut rest).expect("a window"))
                .collect();
            self.questions.push_back((bytes.slice_ref(key), windows));
        }
    }

    /// Answers the oldest question as if the windows were sessions.
    pub fn answer(&mut self) {
        let (key, windows) = self.questions.pop_front().expect("a question");
        let mut merges: Vec<Merge> = Vec::new();
        for window in &windows {
            let results: Vec<Window> = merges.iter().map(|merge| merge.result.clone()).collect();
            let mut merge = StandardMerger::Sessions.merge(results.iter(), window);
            let parts = merges.extract_if(.., |part| merge.merged.contains(&part.result));
            let mut merged: Vec<Window> = parts.flat_map(|part| part.merged).collect();
            merged.push(window.clone());
            merge.merged = merged;
            merges.push(merge);
        }
        // Windows that stay alone are none of the merged ones.
        merges.retain(|merge| merge.merged.len() > 1);
        self.grouper
            .merge(&mut self.table, self.now, self.watermark, &key, &merges);
    }

    fn tick(&mut self) {
        self.grouper
            .advance(&mut self.table, self.now, self.watermark);
    }

    fn step(&mut self, line: &str) {
        if let Some(time) = line.strip_prefix("wm ") {
            self.advance(parse_time(time));
        } else if let Some(time) = line.strip_prefix("now ") {
            self.advance_now(parse_time(time));
        } else if line == "ask" {
            self.ask();
        } else if line == "answer" {
            self.answer();
        } else if let Some((keys, times)) = line.split_once(':') {
            let times: Vec<i64> = times.split_whitespace().map(parse_time).collect();
            let elements: Vec<(&str, i64)> = keys
                .split('+')
                .flat_map(|key| times.iter().map(move |time| (key, *time)))
                .collect();
            self.absorb(elements);
        } else {
            panic!("not a step: {line}");
        }
    }
}

/// Runs the script and compares the steps and what came of each.
pub fn check(strategy: &WindowingStrategy, script: &str, expected: Expect) {
    check_rig(Rig::new(strategy), script, expected);
}

pub fn check_rig(rig: Rig, script: &str, expected: Expect) {
    expected.assert_eq(&run(rig, script));
}

/// Runs the script and shows the steps and what came of each.
pub fn run(mut rig: Rig, script: &str) -> String {
    let mut shown = String::new();
    let mut hold = Timestamp::MAX;
    for line in script
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
    {
        rig.step(line);
        shown += &format!("{line}\n");
        for pane in rig.poll_all() {
            shown += &format!("  {}\n", show(&pane));
        }
        if hold != rig.grouper.hold() {
            hold = rig.grouper.hold();
            shown += &format!("  hold {hold}\n");
        }
    }
    let (late, closed) = (rig.grouper.dropped_late(), rig.grouper.dropped_closed());
    if late + closed > 0 {
        shown += &format!("dropped: {late} late, {closed} closed\n");
    }
    shown
}

pub fn show(pane: &Pane) -> String {
    let window = match &pane.window {
        Window::Interval { start, end } => format!("[{start},{end})"),
        other => format!("{other:?}"),
    };
    let timing = match pane.info.timing {
        PaneTiming::Early => "early",
        PaneTiming::OnTime => "on time",
        PaneTiming::Late => "late",
        PaneTiming::Unknown => "unknown",
    };
    let first = if pane.info.is_first { " first" } else { "" };
    let last = if pane.info.is_last { " last" } else { "" };
    format!(
        "{} {window} {:?} at {}: {timing}, {}/{}{first}{last}",
        pane.key, pane.values, pane.timestamp, pane.info.index, pane.info.non_speculative_index,
    )
}

fn parse_time(text: &str) -> i64 {
    match text.trim() {
        "max" => Timestamp::MAX.millis(),
        text => text.parse().expect("a number"),
    }
}

fn encode(text: &str) -> Vec<u8> {
    let mut bytes = vec![text.len() as u8];
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

fn take_text(bytes: &mut &[u8]) -> String {
    let (text, rest) = bytes[1..].split_at(usize::from(bytes[0]));
    *bytes = rest;
    String::from_utf8(text.to_vec()).expect("what was encoded")
}

fn decode(window_coder: &Coder, chunk: &Chunk) -> Vec<Pane> {
    let bytes: Bytes = chunk.bytes.clone();
    let mut rest = &bytes[..];
    let mut panes = Vec::new();
    while !rest.is_empty() {
        let header = windowed_value::read_header(window_coder, &mut rest).expect("a header");
        let key = take_text(&mut rest);
        let (count, after) = rest.split_first_chunk::<4>().expect("a count");
        rest = after;
        let values = (0..u32::from_be_bytes(*count))
            .map(|_| take_text(&mut rest).parse().expect("a number"))
            .collect();
        let [window] = header.windows.try_into().expect("one window");
        panes.push(Pane {
            key,
            window,
            values,
            timestamp: header.timestamp,
            info: header.pane,
        });
    }
    panes
}
