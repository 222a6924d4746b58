//! One lane's share of one grouping stage, whatever the strategy.

use bytes::Bytes;

use crate::coder;
use crate::engine::group_by_key::backed::{Backing, Fired};
use crate::engine::group_by_key::cells::CellGrouper;
use crate::engine::group_by_key::encode::ChunkWriter;
use crate::engine::group_by_key::merging::KeyId;
use crate::engine::group_by_key::rules::At;
use crate::engine::group_by_key::windows::WindowGrouper;
use crate::engine::tables::group::{GroupTable, KeyedBatch, Layout};
use crate::engine::window::Merge;
use crate::model::ids::StageId;
use crate::model::time::Timestamp;
use crate::model::windowing::WindowingStrategy;

/// How often triggers are asked whether they are ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Evaluation {
    /// After each element.
    #[default]
    PerElement,
    /// After all elements of a batch, as batch pipelines expect.
    PerBatch,
}

/// One lane's share of one GroupByKey stage.
///
/// It keeps indexes only, which [`Grouper::rebuild`] derives from the table; what must survive is
/// in the table.
///
/// Invariant: no pane comes out later that is below [`Grouper::hold`], unless its window had ended
/// before its elements came. So the stage's output watermark may follow to `min(input watermark,
/// hold)` after each call, and no further. A higher input watermark must be told by
/// [`Grouper::absorb`] or [`Grouper::advance`] before the output watermark follows it.
#[derive(Debug)]
pub struct Grouper {
    kind: Kind,
    input_watermark: Timestamp,
    /// The highest that may have been reported.
    output_watermark: Timestamp,
    backing: Option<Backing>,
}

#[derive(Debug)]
enum Kind {
    Windows(Box<WindowGrouper>),
    Cells(Box<CellGrouper>),
}

impl Grouper {
    pub fn new(stage: StageId, windowing: WindowingStrategy) -> Self {
        Self::of(Layout::of(&windowing), stage, windowing)
    }

    /// Evaluates triggers that often instead of per element.
    #[must_use]
    pub fn with_evaluation(mut self, evaluation: Evaluation) -> Self {
        if let Kind::Cells(cells) = &mut self.kind {
            cells.set_evaluation(evaluation);
        }
        self
    }

    /// Lets the values of groups of more than `bytes_max` be read as state; the first such group is `next`.
    pub fn back_by_state(&mut self, stage: StageId, bytes_max: usize, next: u64) {
        self.backing = Some(Backing {
            bytes_max,
            stage,
            next,
        });
    }

    /// A grouper over what the table already holds; `output_watermark` is the last one that was
    /// reported.
    pub fn rebuild(
        stage: StageId,
        windowing: WindowingStrategy,
        tables: &mut impl GroupTable,
        output_watermark: Timestamp,
    ) -> Self {
        let mut grouper = Self::new(stage, windowing);
        grouper.output_watermark = output_watermark;
        match &mut grouper.kind {
            Kind::Windows(windows) => tables.visit(stage, windows.as_mut()),
            Kind::Cells(cells) => tables.visit(stage, cells.as_mut()),
        }
        grouper
    }

    /// Fires what is due, then adds the elements of a bundle that was committed and fires what that
    /// makes due.
    pub fn absorb(
        &mut self,
        tables: &mut impl GroupTable,
        now: Timestamp,
        input_watermark: Timestamp,
        batch: KeyedBatch,
    ) {
        let at = self.at(now, input_watermark);
        match &mut self.kind {
            Kind::Windows(windows) => {
                windows.advance(input_watermark);
                windows.absorb(tables, input_watermark, at.output_watermark, batch);
            }
            Kind::Cells(cells) => cells.absorb(tables, at, batch),
        }
    }

    /// Fires what is due by watermark or processing time.
    pub fn advance(
        &mut self,
        tables: &mut impl GroupTable,
        now: Timestamp,
        input_watermark: Timestamp,
    ) {
        let at = self.at(now, input_watermark);
        match &mut self.kind {
            Kind::Windows(windows) => windows.advance(input_watermark),
            Kind::Cells(cells) => cells.advance(tables, at),
        }
    }

    /// Takes encoded questions, about `max_bytes` of them, for the SDK that merges the strategy's windows; each
    /// is to be answered by [`Grouper::merge`]. `None` when nothing waits to be asked.
    pub fn poll_questions(
        &mut self,
        tables: &mut impl GroupTable,
        max_bytes: usize,
    ) -> Option<Bytes> {
        match &mut self.kind {
            Kind::Windows(_) => None,
            Kind::Cells(cells) => cells.poll_questions(tables, max_bytes),
        }
    }

    /// Merges windows of a key as an SDK answered, and fires what that makes due.
    pub fn merge(
        &mut self,
        tables: &mut impl GroupTable,
        now: Timestamp,
        input_watermark: Timestamp,
        key: &Bytes,
        merges: &[Merge],
    ) {
        let at = self.at(now, input_watermark);
        let id = KeyId {
            hash: coder::key_hash(key),
            key: key.clone(),
        };
        if let Kind::Cells(cells) = &mut self.kind {
            cells.merge(tables, &id, merges, at);
        }
    }

    /// Takes fired panes as encoded `windowed_value(kv(key, iterable(value)))`: whole panes, about
    /// `max_bytes` with what is read as state and at most `max_count` of them; `None` when none waits.
    pub fn poll_output(
        &mut self,
        tables: &mut impl GroupTable,
        max_bytes: usize,
        max_count: usize,
    ) -> Option<Fired> {
        if !self.has_output() {
            return None;
        }
        let expected = self.buffered_bytes();
        let mut chunk = ChunkWriter::new(max_bytes, max_count, expected, self.backing);
        match &mut self.kind {
            Kind::Windows(windows) => windows.poll_output(tables, &mut chunk),
            Kind::Cells(cells) => cells.poll_output(tables, &mut chunk),
        }
        self.backing = chunk.backing();
        chunk.finish()
    }

    /// A pane waits to be polled.
    pub fn has_output(&self) -> bool {
        match &self.kind {
            Kind::Windows(windows) => windows.has_output(),
            Kind::Cells(cells) => cells.has_output(),
        }
    }

    /// The lowest output timestamp of anything buffered or fired and not polled yet;
    /// [`Timestamp::MAX`] when there is none. What is late already holds where it would be dropped
    /// downstream.
    pub fn hold(&self) -> Timestamp {
        match &self.kind {
            Kind::Windows(windows) => windows.hold(),
            Kind::Cells(cells) => cells.hold(),
        }
    }

    /// When [`Grouper::advance`] is due although no watermark moves.
    pub fn next_processing_time(&self) -> Option<Timestamp> {
        match &self.kind {
            Kind::Windows(_) => None,
            Kind::Cells(cells) => cells.next_processing_time(),
        }
    }

    /// Elements dropped because their window had expired (`droppedDueToLateness`).
    pub fn dropped_late(&self) -> u64 {
        match &self.kind {
            Kind::Windows(windows) => windows.dropped_late(),
            Kind::Cells(cells) => cells.dropped_late(),
        }
    }

    /// Elements dropped because their window's trigger had finished (`droppedDueToClosedWindow`).
    pub fn dropped_closed(&self) -> u64 {
        match &self.kind {
            Kind::Windows(_) => 0,
            Kind::Cells(cells) => cells.dropped_closed(),
        }
    }

    /// Nothing is kept: no element, no pane that waits, no window that is remembered.
    pub fn is_empty(&self) -> bool {
        match &self.kind {
            Kind::Windows(windows) => windows.is_empty(),
            Kind::Cells(cells) => cells.is_empty(),
        }
    }

    /// About how much memory buffered elements and waiting panes take.
    pub fn buffered_bytes(&self) -> usize {
        match &self.kind {
            Kind::Windows(windows) => windows.buffered_bytes(),
            Kind::Cells(cells) => cells.buffered_bytes(),
        }
    }

    fn of(layout: Layout, stage: StageId, windowing: WindowingStrategy) -> Self {
        Self {
            kind: match layout {
                Layout::Windows => Kind::Windows(Box::new(WindowGrouper::new(stage, windowing))),
                Layout::Cells => Kind::Cells(Box::new(CellGrouper::new(stage, &windowing))),
            },
            input_watermark: Timestamp::MIN,
            output_watermark: Timestamp::MIN,
            backing: None,
        }
    }

    /// Takes notice of the input watermark, behind which the output watermark may have followed by
    /// now.
    fn at(&mut self, now: Timestamp, input_watermark: Timestamp) -> At {
        debug_assert!(
            input_watermark >= self.input_watermark,
            "watermarks never go back"
        );
        self.input_watermark = input_watermark;
        let reported = input_watermark.min(self.hold());
        self.output_watermark = self.output_watermark.max(reported);
        At {
            now,
            input_watermark,
            output_watermark: self.output_watermark,
        }
    }
}
