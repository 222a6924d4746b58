//! A cell per key and window: every trigger, panes, lateness, sessions.

use std::collections::BTreeSet;

use bytes::Bytes;

use crate::engine::group_by_key::encode::{ChunkWriter, Header};
use crate::engine::group_by_key::grouper::Evaluation;
use crate::engine::group_by_key::holds::Holds;
use crate::engine::group_by_key::merging::{KeyId, UnmergedKeys};
use crate::engine::group_by_key::rules::{At, CellRules, Pane};
use crate::engine::tables::group::{
    BackedValues, CellRow, Element, FiredPane, GroupTable, GroupVisitor, KeyCells, KeyedBatch,
    Schedule, WindowContents,
};
use crate::engine::window::{Merge, Merger, StandardMerger};
use crate::model::ids::StageId;
use crate::model::time::Timestamp;
use crate::model::window::{Window, WindowFn};
use crate::model::windowing::WindowingStrategy;

/// Cells of one stage on one lane.
#[derive(Debug)]
pub(super) struct CellGrouper {
    stage: StageId,
    rules: CellRules,
    merger: StandardMerger,
    /// Where the SDK merges windows.
    unmerged: Option<UnmergedKeys>,
    evaluation: Evaluation,
    index: Index,
    panes_waiting: usize,
    dropped_late: u64,
    dropped_closed: u64,
}

/// What a cell is found by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct CellId {
    hash: u64,
    key: Bytes,
    window: Window,
}

/// What is known of all cells, from each one's [`Schedule`], and of panes that wait.
#[derive(Debug, Default)]
struct Index {
    /// By the watermark that must be passed.
    event: BTreeSet<(Timestamp, CellId)>,
    /// By the processing time that must be reached.
    processing: BTreeSet<(Timestamp, CellId)>,
    holds: Holds,
    bytes: usize,
    cells: usize,
}

impl CellGrouper {
    pub(super) fn new(stage: StageId, strategy: &WindowingStrategy) -> Self {
        let merger = if strategy.needs_merge {
            StandardMerger::of(&strategy.window_fn)
        } else {
            StandardMerger::None
        };
        Self {
            stage,
            rules: CellRules::new(strategy),
            merger,
            unmerged: merges_in_sdk(strategy).then(UnmergedKeys::default),
            evaluation: Evaluation::default(),
            index: Index::default(),
            panes_waiting: 0,
            dropped_late: 0,
            dropped_closed: 0,
        }
    }

    pub(super) fn set_evaluation(&mut self, evaluation: Evaluation) {
        self.evaluation = evaluation;
    }

    pub(super) fn absorb(&mut self, tables: &mut impl GroupTable, at: At, batch: KeyedBatch) {
        self.advance(tables, at);
        let lowest = batch.min_timestamp();
        let elements = batch.into_elements();
        let mut touched = BTreeSet::new();
        for element in elements.iter() {
            if at.input_watermark > self.rules.expiry(element.window) {
                self.dropped_late += 1;
                continue;
            }
            let cell = if self.unmerged.is_some() {
                self.add_unmerged(tables, &element, lowest, at)
            } else {
                self.add(tables, &element, at)
            };
            if self.evaluation == Evaluation::PerBatch {
                touched.extend(cell);
            }
        }
        for cell in touched {
            let at = self.at_of(&cell, at);
            self.change(tables, &cell, at, |rules, row| rules.fire_if_ready(row, at));
        }
    }

    pub(super) fn advance(&mut self, tables: &mut impl GroupTable, at: At) {
        while let Some((due, cell)) =
            pop_if(&mut self.index.event, |time| time < at.input_watermark)
        {
            let at = self.at_of(&cell, at);
            if due >= at.input_watermark {
                self.put_off(tables, &cell);
            } else if at.input_watermark > self.rules.expiry(&cell.window) {
                self.expire(tables, &cell, at);
            } else {
                self.change(tables, &cell, at, |rules, row| rules.end(row, at));
            }
        }
        while let Some((_, cell)) = pop_if(&mut self.index.processing, |time| time <= at.now) {
            let at = self.at_of(&cell, at);
            self.change(tables, &cell, at, |rules, row| rules.fire_if_ready(row, at));
        }
    }

    pub(super) fn poll_output(&mut self, tables: &mut impl GroupTable, chunk: &mut ChunkWriter) {
        while !chunk.is_full() {
            let Some(fired) = tables.pop_pane(self.stage) else {
                break;
            };
            self.index.holds.remove(fired.hold);
            self.index.bytes -= pane_bytes(&fired);
            self.panes_waiting -= 1;
            let header = Header::new(fired.timestamp, &fired.window, fired.pane);
            let header = (fired.timestamp, &header);
            let bytes = fired.values.bytes();
            if chunk.backs(bytes) {
                let values = BackedValues::of_parts(fired.values.into_parts().collect());
                chunk.write_backed(header, &fired.key, bytes, values);
                continue;
            }
            let count = fired.values.count();
            chunk.begin(header, &fired.key, count, bytes);
            fired.values.write_to(chunk.value_bytes());
            chunk.end(count);
        }
    }

    /// Takes questions to the SDK about windows that are new to their keys: as many as make about
    /// `max_bytes`.
    pub(super) fn poll_questions(
        &mut self,
        tables: &mut impl GroupTable,
        max_bytes: usize,
    ) -> Option<Bytes> {
        let unmerged = self.unmerged.as_mut()?;
        let mut questions = Vec::new();
        while questions.len() < max_bytes
            && let Some(id) = unmerged.next_to_ask()
        {
            tables.with_key(self.stage, id.hash, &id.key, |cells| {
                unmerged.ask(cells, &id, &mut questions);
            });
        }
        (!questions.is_empty()).then(|| Bytes::from(questions))
    }

    /// Merges windows of a key as the SDK answered, and fires what that makes due.
    pub(super) fn merge(
        &mut self,
        tables: &mut impl GroupTable,
        id: &KeyId,
        merges: &[Merge],
        at: At,
    ) {
        let Some(unmerged) = &mut self.unmerged else {
            return;
        };
        let at_key = unmerged.at(id.hash, &id.key, at);
        let Some(asked) = unmerged.answered(id) else {
            return;
        };
        unmerged.live_on(id, at.input_watermark);
        let (rules, index) = (&self.rules, &mut self.index);
        let panes = tables.with_key(self.stage, id.hash, &id.key, |cells| {
            for merge in merges {
                apply_answer(cells, merge, &asked, rules, index, at_key);
            }
            settle(cells, &asked, rules, index, at_key)
        });
        for (cell, pane) in panes {
            self.push_pane(tables, &cell, Some(pane));
        }
        self.advance(tables, at);
    }

    pub(super) fn has_output(&self) -> bool {
        self.panes_waiting > 0
    }

    pub(super) fn hold(&self) -> Timestamp {
        self.index.holds.lowest()
    }

    pub(super) fn next_processing_time(&self) -> Option<Timestamp> {
        self.index.processing.first().map(|(time, _)| *time)
    }

    pub(super) fn dropped_late(&self) -> u64 {
        self.dropped_late
    }

    pub(super) fn dropped_closed(&self) -> u64 {
        self.dropped_closed
    }

    pub(super) fn is_empty(&self) -> bool {
        self.index.cells == 0 && self.panes_waiting == 0
    }

    pub(super) fn buffered_bytes(&self) -> usize {
        self.index.bytes
    }

    /// Adds an element and fires, if that is evaluated now; else gives its cell, unless that is
    /// closed.
    fn add(
        &mut self,
        tables: &mut impl GroupTable,
        element: &Element<'_>,
        at: At,
    ) -> Option<CellId> {
        let (rules, index, merger) = (&self.rules, &mut self.index, self.merger);
        let evaluation = self.evaluation;
        let added = tables.with_key(self.stage, element.hash, element.key, |cells| {
            let position = place(cells, element.window, merger, rules, index, at)?;
            let row = &mut cells.rows[position];
            rules.add(row, element, at);
            let fired = match evaluation {
                Evaluation::PerElement => {
                    let pane = rules.fire_if_ready(row, at);
                    pane.map(|pane| (cell_id(cells, position), Some(pane)))
                }
                Evaluation::PerBatch => Some((cell_id(cells, position), None)),
            };
            index.update(cells, position, rules, at.now);
            Some(fired)
        });
        match added {
            None => {
                self.dropped_closed += 1;
                None
            }
            Some(None) => None,
            Some(Some((cell, pane))) => {
                self.push_pane(tables, &cell, pane);
                Some(cell)
            }
        }
    }

    /// Adds an element to the cell of its own window, which is unmerged if it is new to the key; else
    /// like [`Self::add`].
    fn add_unmerged(
        &mut self,
        tables: &mut impl GroupTable,
        element: &Element<'_>,
        lowest: Timestamp,
        at: At,
    ) -> Option<CellId> {
        let (rules, index, evaluation) = (&self.rules, &mut self.index, self.evaluation);
        let unmerged = self.unmerged.get_or_insert_default();
        let added = tables.with_key(self.stage, element.hash, element.key, |cells| {
            let at = unmerged.at(cells.hash, &cells.key, at);
            let position = match cells.position(element.window) {
                Ok(position) => (!cells.rows[position].cell.closed).then_some(position)?,
                Err(_) => {
                    let mut row = CellRules::new_row(element.window.clone(), at);
                    row.cell.unmerged = true;
                    index.insert(cells, row)
                }
            };
            let row = &mut cells.rows[position];
            rules.add(row, element, at);
            if row.cell.unmerged {
                let id = KeyId {
                    hash: cells.hash,
                    key: cells.key.clone(),
                };
                unmerged.wait(id, lowest, at.input_watermark);
            }
            let pane = match evaluation {
                Evaluation::PerElement => rules.fire_if_ready(&mut cells.rows[position], at),
                Evaluation::PerBatch => None,
            };
            index.update(cells, position, rules, at.now);
            Some((cell_id(cells, position), pane))
        });
        let Some((cell, pane)) = added else {
            self.dropped_closed += 1;
            return None;
        };
        self.push_pane(tables, &cell, pane);
        Some(cell)
    }

    /// The time as the cell's key sees it.
    fn at_of(&self, cell: &CellId, at: At) -> At {
        match &self.unmerged {
            Some(unmerged) => unmerged.at(cell.hash, &cell.key, at),
            None => at,
        }
    }

    /// The cell's key does not live at the watermark yet at which the cell is due; the cell is
    /// scheduled again when the key lives on.
    fn put_off(&mut self, tables: &mut impl GroupTable, cell: &CellId) {
        tables.with_key(self.stage, cell.hash, &cell.key, |cells| {
            if let Ok(position) = cells.position(&cell.window) {
                cells.rows[position].schedule.event = None;
            }
        });
    }

    /// Changes a cell, if there still is one.
    fn change(
        &mut self,
        tables: &mut impl GroupTable,
        cell: &CellId,
        at: At,
        change: impl FnOnce(&CellRules, &mut CellRow) -> Option<Pane>,
    ) {
        let (rules, index) = (&self.rules, &mut self.index);
        let pane = tables.with_key(self.stage, cell.hash, &cell.key, |cells| {
            let position = cells.position(&cell.window).ok()?;
            let pane = change(rules, &mut cells.rows[position]);
            index.update(cells, position, rules, at.now);
            pane
        });
        self.push_pane(tables, cell, pane);
    }

    fn expire(&mut self, tables: &mut impl GroupTable, cell: &CellId, at: At) {
        let (rules, index) = (&self.rules, &mut self.index);
        let pane = tables.with_key(self.stage, cell.hash, &cell.key, |cells| {
            let position = cells.position(&cell.window).ok()?;
            let mut row = index.remove(cells, position);
            rules.expire(&mut row, at)
        });
        self.push_pane(tables, cell, pane);
    }

    fn push_pane(&mut self, tables: &mut impl GroupTable, cell: &CellId, pane: Option<Pane>) {
        if let Some(pane) = pane {
            let fired = pane.of(cell.hash, cell.key.clone(), cell.window.clone());
            self.index_pane(&fired);
            tables.push_pane(self.stage, fired);
        }
    }

    fn index_pane(&mut self, pane: &FiredPane) {
        self.index.holds.add(pane.hold);
        self.index.bytes += pane_bytes(pane);
        self.panes_waiting += 1;
    }
}

/// Derives the index from the table.
impl GroupVisitor for CellGrouper {
    fn window(&mut self, _: &Window, _: WindowContents) {}

    fn key(&mut self, cells: &mut KeyCells) {
        for position in 0..cells.rows.len() {
            cells.rows[position].schedule = Schedule::default();
            self.index.cells += 1;
            // Whatever has become due by now is found by the first advance.
            self.index
                .update(cells, position, &self.rules, Timestamp::MIN);
            if cells.rows[position].cell.unmerged {
                let id = KeyId {
                    hash: cells.hash,
                    key: cells.key.clone(),
                };
                let unmerged = self.unmerged.get_or_insert_default();
                unmerged.wait(id, Timestamp::MIN, Timestamp::MIN);
            }
        }
    }

    fn pane(&mut self, pane: &FiredPane) {
        self.index_pane(pane);
    }
}

impl Index {
    /// Follows a change of a cell.
    fn update(&mut self, cells: &mut KeyCells, position: usize, rules: &CellRules, now: Timestamp) {
        let row = &cells.rows[position];
        let (event, processing) = if row.cell.unmerged {
            (None, None)
        } else {
            let (event, processing) = rules.wake_ups(row, now);
            (Some(event), processing)
        };
        let new = Schedule {
            event,
            processing,
            hold: row.cell.hold(),
            bytes: CELL_SIZE + cells.key.len() + row.cell.values.bytes(),
        };
        self.replace(cells, position, new);
    }

    /// Removes a cell.
    fn remove(&mut self, cells: &mut KeyCells, position: usize) -> CellRow {
        self.replace(cells, position, Schedule::default());
        self.cells -= 1;
        cells.rows.remove(position)
    }

    /// Adds a cell where its window belongs.
    fn insert(&mut self, cells: &mut KeyCells, row: CellRow) -> usize {
        let position = cells.position(&row.window);
        debug_assert!(position.is_err(), "a window has one cell");
        let position = position.unwrap_or_else(|place| place);
        cells.rows.insert(position, row);
        self.cells += 1;
        position
    }

    fn replace(&mut self, cells: &mut KeyCells, position: usize, new: Schedule) {
        let old = std::mem::replace(&mut cells.rows[position].schedule, new);
        let id = || cell_id(cells, position);
        if old.event != new.event {
            old.event.map(|time| self.event.remove(&(time, id())));
            new.event.map(|time| self.event.insert((time, id())));
        }
        if old.processing != new.processing {
            old.processing
                .map(|time| self.processing.remove(&(time, id())));
            new.processing
                .map(|time| self.processing.insert((time, id())));
        }
        if old.hold != new.hold {
            // In this order, so that the lowest does not jump in between.
            new.hold.into_iter().for_each(|hold| self.holds.add(hold));
            old.hold
                .into_iter()
                .for_each(|hold| self.holds.remove(hold));
        }
        self.bytes = self.bytes + new.bytes - old.bytes;
    }
}

/// The cell that an element of this window goes to, after merging; `None` when its window is
/// closed.
fn place(
    cells: &mut KeyCells,
    window: &Window,
    merger: StandardMerger,
    rules: &CellRules,
    index: &mut Index,
    at: At,
) -> Option<usize> {
    if merger == StandardMerger::None {
        return match cells.position(window) {
            Ok(position) => (!cells.rows[position].cell.closed).then_some(position),
            Err(_) => Some(index.insert(cells, CellRules::new_row(window.clone(), at))),
        };
    }
    let open = cells.rows.iter().filter(|row| !row.cell.closed);
    let merge = merger.merge(open.map(|row| &row.window), window);
    match (cells.position(&merge.result), merge.merged.as_slice()) {
        (Ok(position), [] | [_]) => (!cells.rows[position].cell.closed).then_some(position),
        (Err(_), []) => Some(index.insert(cells, CellRules::new_row(merge.result, at))),
        _ => Some(apply(cells, merge, rules, index, at)),
    }
}

/// Makes one cell of those whose windows are merged.
fn apply(
    cells: &mut KeyCells,
    merge: Merge,
    rules: &CellRules,
    index: &mut Index,
    at: At,
) -> usize {
    let mut rows = Vec::with_capacity(merge.merged.len());
    for window in &merge.merged {
        if let Ok(position) = cells.position(window) {
            rows.push(index.remove(cells, position));
        }
    }
    // A window that closed with the very bounds of the new one makes room for it.
    if let Ok(position) = cells.position(&merge.result) {
        index.remove(cells, position);
    }
    index.insert(cells, rules.merge(rows, merge.result, at))
}

/// Merges what the SDK says become one window, as far as the key still has it.
fn apply_answer(
    cells: &mut KeyCells,
    merge: &Merge,
    asked: &[Window],
    rules: &CellRules,
    index: &mut Index,
    at: At,
) {
    let rows = cells.rows.iter().filter(|row| {
        !row.cell.closed && (row.window == merge.result || merge.merged.contains(&row.window))
    });
    let merged: Vec<Window> = rows.map(|row| row.window.clone()).collect();
    if merged.is_empty() || merged == [merge.result.clone()] {
        return;
    }
    let result = merge.result.clone();
    // The result may be the window of an element that came after the question.
    let unasked = cells.position(&result).is_ok_and(|position| {
        let row = &cells.rows[position];
        row.cell.unmerged && !asked.contains(&result)
    });
    let merge = Merge { result, merged };
    let position = apply(cells, merge, rules, index, at);
    cells.rows[position].cell.unmerged = unasked;
}

/// After an answer: cells whose window stays are told so, all of the key fire if they are ready, and
/// are scheduled as the key now sees time.
fn settle(
    cells: &mut KeyCells,
    asked: &[Window],
    rules: &CellRules,
    index: &mut Index,
    at: At,
) -> Vec<(CellId, Pane)> {
    let mut panes = Vec::new();
    for position in 0..cells.rows.len() {
        let row = &mut cells.rows[position];
        if asked.contains(&row.window) {
            rules.settle(row, at);
        }
        let pane = rules.fire_if_ready(row, at);
        index.update(cells, position, rules, at.now);
        panes.extend(pane.map(|pane| (cell_id(cells, position), pane)));
    }
    panes
}

/// Whether the windows of a strategy are merged by an SDK.
fn merges_in_sdk(strategy: &WindowingStrategy) -> bool {
    strategy.needs_merge && matches!(strategy.window_fn, WindowFn::Custom { .. })
}

fn cell_id(cells: &KeyCells, position: usize) -> CellId {
    CellId {
        hash: cells.hash,
        key: cells.key.clone(),
        window: cells.rows[position].window.clone(),
    }
}

fn pop_if<T: Ord>(
    set: &mut BTreeSet<(Timestamp, T)>,
    due: impl Fn(Timestamp) -> bool,
) -> Option<(Timestamp, T)> {
    if set.first().is_some_and(|(time, _)| due(*time)) {
        set.pop_first()
    } else {
        None
    }
}

fn pane_bytes(pane: &FiredPane) -> usize {
    CELL_SIZE + pane.key.len() + pane.values.bytes()
}

/// About what a cell takes in the table and the index, beside key and values.
const CELL_SIZE: usize = 256;
