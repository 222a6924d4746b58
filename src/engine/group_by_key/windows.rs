//! Whole windows that fire once: elements stay as they came until the window has ended, and are
//! grouped as they are read.

use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;

use crate::engine::group_by_key::encode::{ChunkWriter, Header};
use crate::engine::group_by_key::holds::Holds;
use crate::engine::tables::group::{
    BackedValues, Drained, FiredPane, GroupHead, GroupSink, GroupTable, GroupVisitor, KeyCells,
    KeyedBatch, WindowContents,
};
use crate::engine::window;
use crate::model::ids::StageId;
use crate::model::pane::{PaneInfo, PaneTiming};
use crate::model::time::Timestamp;
use crate::model::window::Window;
use crate::model::windowing::{OutputTime, Trigger, WindowingStrategy};

/// Windows of one stage on one lane.
#[derive(Debug)]
pub(super) struct WindowGrouper {
    stage: StageId,
    strategy: WindowingStrategy,
    /// Windows that have not ended.
    collecting: BTreeMap<Window, Held>,
    /// Windows that have ended, to be read in this order.
    due: VecDeque<(Window, Held)>,
    holds: Holds,
    bytes: usize,
    dropped_late: u64,
}

/// What a window waits with.
#[derive(Clone, Copy, Debug)]
struct Held {
    bytes: usize,
    hold: Timestamp,
}

impl WindowGrouper {
    pub(super) fn new(stage: StageId, strategy: WindowingStrategy) -> Self {
        Self {
            stage,
            strategy,
            collecting: BTreeMap::new(),
            due: VecDeque::new(),
            holds: Holds::default(),
            bytes: 0,
            dropped_late: 0,
        }
    }

    /// `output_watermark` may have been reported.
    pub(super) fn absorb(
        &mut self,
        tables: &mut impl GroupTable,
        input_watermark: Timestamp,
        output_watermark: Timestamp,
        batch: KeyedBatch,
    ) {
        let element_bytes = batch.bytes() / batch.len().max(1);
        for run in batch.into_windows() {
            let expiry = window::expiry(&run.window, self.strategy.allowed_lateness);
            if input_watermark > expiry {
                self.dropped_late += run.entries.len() as u64;
                continue;
            }
            let contents = WindowContents {
                count: run.entries.len(),
                bytes: run.entries.len() * element_bytes,
                min_timestamp: run.min_timestamp_from(output_watermark),
            };
            self.collect(&run.window, contents);
            tables.append(self.stage, run, output_watermark);
        }
    }

    pub(super) fn advance(&mut self, input_watermark: Timestamp) {
        while let Some(first) = self.collecting.first_entry() {
            if input_watermark <= window::end(first.key()) {
                break;
            }
            self.due.push_back(first.remove_entry());
        }
    }

    pub(super) fn poll_output(&mut self, tables: &mut impl GroupTable, chunk: &mut ChunkWriter) {
        while let Some((window, held)) = self.due.front_mut() {
            let mut sink = PaneSink::new(chunk, window, &self.strategy);
            let drained = tables.drain(self.stage, window, &mut sink);
            let taken = sink.taken.min(held.bytes);
            held.bytes -= taken;
            self.bytes -= taken;
            match drained {
                Drained::Whole => {
                    self.bytes -= held.bytes;
                    self.holds.remove(held.hold);
                    self.due.pop_front();
                }
                Drained::Partly => break,
            }
        }
    }

    pub(super) fn has_output(&self) -> bool {
        !self.due.is_empty()
    }

    pub(super) fn hold(&self) -> Timestamp {
        self.holds.lowest()
    }

    pub(super) fn dropped_late(&self) -> u64 {
        self.dropped_late
    }

    pub(super) fn is_empty(&self) -> bool {
        self.collecting.is_empty() && self.due.is_empty()
    }

    pub(super) fn buffered_bytes(&self) -> usize {
        self.bytes
    }

    fn collect(&mut self, window: &Window, contents: WindowContents) {
        self.bytes += contents.bytes;
        let hold = self.window_hold(window, contents.min_timestamp);
        match self.collecting.get_mut(window) {
            Some(held) => {
                held.bytes += contents.bytes;
                if hold < held.hold {
                    self.holds.remove(held.hold);
                    self.holds.add(hold);
                    held.hold = hold;
                }
            }
            None => {
                self.holds.add(hold);
                let bytes = contents.bytes;
                self.collecting.insert(window.clone(), Held { bytes, hold });
            }
        }
    }

    /// The lowest timestamp that a group of the window can have.
    fn window_hold(&self, window: &Window, lowest_element: Option<Timestamp>) -> Timestamp {
        let end = window::end(window);
        match (self.strategy.output_time, lowest_element) {
            (OutputTime::Earliest | OutputTime::Latest, Some(lowest)) => lowest.min(end),
            (OutputTime::EndOfWindow, _) | (_, None) => end,
        }
    }
}

/// Derives what is collected from the table.
impl GroupVisitor for WindowGrouper {
    fn window(&mut self, window: &Window, contents: WindowContents) {
        self.collect(window, contents);
    }

    fn key(&mut self, _: &mut KeyCells) {}

    fn pane(&mut self, _: &FiredPane) {}
}

/// Writes the groups of one window as panes.
struct PaneSink<'a> {
    chunk: &'a mut ChunkWriter,
    window: &'a Window,
    output_time: OutputTime,
    pane: PaneInfo,
    end: Timestamp,
    /// For groups at the end of the window.
    header: Header,
    count: u64,
    taken: usize,
}

impl<'a> PaneSink<'a> {
    fn new(chunk: &'a mut ChunkWriter, window: &'a Window, strategy: &WindowingStrategy) -> Self {
        let end = window::end(window);
        let pane = PaneInfo {
            is_last: !strategy.last_by_trigger_only || finishes(&strategy.trigger),
            ..ONLY_PANE
        };
        Self {
            chunk,
            window,
            output_time: strategy.output_time,
            pane,
            end,
            header: Header::new(end, window, pane),
            count: 0,
            taken: 0,
        }
    }
}

impl PaneSink<'_> {
    /// Writes a group with the header of its pane.
    fn take(
        &mut self,
        head: &GroupHead<'_>,
        write: impl FnOnce(&mut ChunkWriter, u64, (Timestamp, &Header)),
    ) {
        self.taken += head.count * (ELEMENT_OVERHEAD + head.key.len()) + head.value_bytes;
        let timestamp = match (self.output_time, head.timestamps) {
            (OutputTime::Earliest, Some((earliest, _))) => earliest.min(self.end),
            (OutputTime::Latest, Some((_, latest))) => latest.min(self.end),
            (OutputTime::EndOfWindow, _) | (_, None) => self.end,
        };
        if timestamp == self.end {
            write(self.chunk, self.count, (timestamp, &self.header));
        } else {
            let header = Header::new(timestamp, self.window, self.pane);
            write(self.chunk, self.count, (timestamp, &header));
        }
    }

    fn flow(&self) -> ControlFlow<()> {
        if self.chunk.is_full() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

impl GroupSink for PaneSink<'_> {
    fn begin(&mut self, head: GroupHead<'_>) {
        self.count = head.count as u64;
        self.take(&head, |chunk, count, header| {
            chunk.begin(header, head.key, count, head.value_bytes);
        });
    }

    fn values(&mut self, values: &[u8]) {
        self.chunk.value_bytes().extend_from_slice(values);
    }

    fn end(&mut self) -> ControlFlow<()> {
        self.chunk.end(self.count);
        self.flow()
    }

    #[inline]
    fn backs(&self, head: &GroupHead<'_>) -> bool {
        self.chunk.backs(head.value_bytes)
    }

    fn back(&mut self, head: GroupHead<'_>, values: BackedValues) -> ControlFlow<()> {
        self.take(&head, |chunk, _, header| {
            chunk.write_backed(header, head.key, head.value_bytes, values);
        });
        self.flow()
    }
}

/// Whether a trigger has nothing to do after the end of the window.
fn finishes(trigger: &Trigger) -> bool {
    matches!(trigger, Trigger::AfterEndOfWindow { late: None, .. })
}

/// The one pane of a window that fires once.
const ONLY_PANE: PaneInfo = PaneInfo {
    timing: PaneTiming::OnTime,
    is_first: true,
    is_last: true,
    index: 0,
    non_speculative_index: 0,
};
/// What an element takes beside its key and value.
const ELEMENT_OVERHEAD: usize = 10;
