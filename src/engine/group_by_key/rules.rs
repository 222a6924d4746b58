//! What happens to one cell: elements, firings, the end and the expiry of its window, merging.
//!
//! Watermark holds follow Beam's Java runner library. A cell with elements holds at their combined
//! timestamp, or, where that comes too late, at the window's end or at its expiry, so that its pane
//! is never late downstream for having waited here.

use crate::engine::group_by_key::pane;
use crate::engine::tables::group::{Cell, CellRow, Element, FiredPane, TriggerState, Values};
use crate::engine::trigger::{Moment, TriggerMachine};
use crate::engine::window;
use crate::model::pane::PaneTiming;
use crate::model::time::{Millis, Timestamp};
use crate::model::window::Window;
use crate::model::windowing::{AccumulationMode, OutputTime, WindowingStrategy};

/// What a strategy says about a single cell.
#[derive(Debug)]
pub(super) struct CellRules {
    trigger: TriggerMachine,
    accumulation: AccumulationMode,
    output_time: OutputTime,
    closing_always: bool,
    on_time_always: bool,
    last_by_trigger_only: bool,
    allowed_lateness: Millis,
}

/// The time at which something happens.
#[derive(Clone, Copy, Debug)]
pub(super) struct At {
    pub(super) now: Timestamp,
    pub(super) input_watermark: Timestamp,
    /// The output watermark may have got this far.
    pub(super) output_watermark: Timestamp,
}

impl At {
    fn is_beyond_end(&self, window: &Window) -> bool {
        self.input_watermark > window::end(window)
    }
}

impl CellRules {
    pub(super) fn new(strategy: &WindowingStrategy) -> Self {
        Self {
            trigger: TriggerMachine::new(&strategy.trigger),
            accumulation: strategy.accumulation,
            output_time: strategy.output_time,
            closing_always: strategy.closing_always,
            on_time_always: strategy.on_time_always,
            last_by_trigger_only: strategy.last_by_trigger_only,
            allowed_lateness: strategy.allowed_lateness,
        }
    }

    pub(super) fn expiry(&self, window: &Window) -> Timestamp {
        window::expiry(window, self.allowed_lateness)
    }

    /// A cell for a window that had none.
    pub(super) fn new_row(window: Window, at: At) -> CellRow {
        let ended = at.is_beyond_end(&window);
        let mut row = CellRow::new(window);
        row.cell.ended = ended;
        row
    }

    /// Adds an element to a cell that is not closed.
    pub(super) fn add(&self, row: &mut CellRow, element: &Element<'_>, at: At) {
        debug_assert!(!row.cell.closed, "a closed window takes no elements");
        let cell = &mut row.cell;
        cell.fresh += 1;
        match element.kept_value() {
            Some(kept) => cell.values.append_shared(kept),
            None => cell.values.append(element.value),
        }
        let hold = match self.output_time {
            OutputTime::EndOfWindow => window::end(&row.window),
            OutputTime::Earliest | OutputTime::Latest => {
                element.timestamp.min(window::end(&row.window))
            }
        };
        if hold >= at.output_watermark && !at.is_beyond_end(&row.window) {
            cell.element_hold = Some(match cell.element_hold {
                Some(before) => self.combine(before, hold),
                None => hold,
            });
        } else {
            cell.window_hold = self.window_hold(&row.window, cell.window_hold, false, at);
        }
        if !row.cell.unmerged {
            let moment = moment(row, at);
            self.trigger.on_element(&mut row.cell.trigger, moment);
        }
    }

    /// The window of an unmerged cell stays as it is: the trigger hears of its elements now.
    pub(super) fn settle(&self, row: &mut CellRow, at: At) {
        if std::mem::take(&mut row.cell.unmerged) {
            self.tell_trigger(row, row.cell.fresh, at);
        }
    }

    /// Fires if the trigger is ready.
    pub(super) fn fire_if_ready(&self, row: &mut CellRow, at: At) -> Option<Pane> {
        let moment = moment(row, at);
        if row.cell.closed || row.cell.unmerged || !self.trigger.is_ready(&row.cell.trigger, moment)
        {
            return None;
        }
        let finished = self.trigger.fire(&mut row.cell.trigger, moment);
        let expires = at.input_watermark > self.expiry(&row.window);
        let pane = self.emit(row, finished, finished || expires, at);
        if finished {
            row.cell = Cell {
                ended: row.cell.ended,
                closed: true,
                ..Cell::default()
            };
        }
        pane
    }

    /// The watermark has passed the end of the window, not its expiry.
    pub(super) fn end(&self, row: &mut CellRow, at: At) -> Option<Pane> {
        let pane = self.fire_if_ready(row, at);
        row.cell.ended = true;
        if !row.cell.closed && row.cell.element_hold.is_none() {
            let empty = row.cell.fresh == 0;
            let before = row.cell.window_hold.filter(|_| !empty);
            row.cell.window_hold = self.window_hold(&row.window, before, empty, at);
        }
        pane
    }

    /// The watermark has passed the expiry of the window: whatever is left comes out, and the cell
    /// is to be removed.
    pub(super) fn expire(&self, row: &mut CellRow, at: At) -> Option<Pane> {
        if row.cell.closed {
            return None;
        }
        // An on-time trigger that has not had its turn yet has it now.
        let moment = moment(row, at);
        let due = !row.cell.ended && self.trigger.is_ready(&row.cell.trigger, moment);
        if due || row.cell.fresh > 0 || self.closing_always {
            let finished = due && self.trigger.fire(&mut row.cell.trigger, moment);
            self.emit(row, finished, true, at)
        } else {
            None
        }
    }

    /// Makes one cell of several, for the window into which theirs are merged.
    pub(super) fn merge(&self, rows: Vec<CellRow>, result: Window, at: At) -> CellRow {
        debug_assert!(
            rows.iter().all(|row| !row.cell.closed),
            "closed windows do not merge"
        );
        let mut merged = Self::new_row(result, at);
        let mut triggers: Vec<TriggerState> = Vec::with_capacity(rows.len());
        let mut waits_for_window = false;
        let mut untold = 0;
        for row in rows {
            let cell = row.cell;
            // What a window that is no more has fired does not count: the new one starts afresh.
            if row.window == merged.window {
                merged.cell.pane = cell.pane;
                merged.cell.ended = cell.ended;
            }
            waits_for_window |= cell.window_hold.is_some();
            merged.cell.element_hold = match (merged.cell.element_hold, cell.element_hold) {
                (Some(one), Some(other)) => Some(self.combine(one, other)),
                (one, other) => one.or(other),
            };
            merged.cell.fresh += cell.fresh;
            merged.cell.values.merge(cell.values);
            if cell.unmerged {
                untold += cell.fresh;
            } else {
                triggers.push(cell.trigger);
            }
        }
        if self.output_time == OutputTime::EndOfWindow {
            let end = window::end(&merged.window);
            merged.cell.element_hold = merged.cell.element_hold.map(|_| end);
        }
        if waits_for_window {
            let empty = merged.cell.fresh == 0;
            merged.cell.window_hold = self.window_hold(&merged.window, None, empty, at);
        }
        if !triggers.is_empty() {
            let moment = moment(&merged, at);
            merged.cell.trigger = self.trigger.merge(&triggers, moment);
        }
        self.tell_trigger(&mut merged, untold, at);
        merged
    }

    /// When the cell is to be looked at next.
    pub(super) fn wake_ups(&self, row: &CellRow, now: Timestamp) -> (Timestamp, Option<Timestamp>) {
        if row.cell.closed {
            return (self.expiry(&row.window), None);
        }
        debug_assert!(!row.cell.unmerged, "an unmerged window waits for the SDK");
        let event = if row.cell.ended {
            self.expiry(&row.window)
        } else {
            window::end(&row.window)
        };
        (
            event,
            self.trigger.next_processing_time(&row.cell.trigger, now),
        )
    }

    fn tell_trigger(&self, row: &mut CellRow, elements: u64, at: At) {
        let moment = moment(row, at);
        for _ in 0..elements {
            self.trigger.on_element(&mut row.cell.trigger, moment);
        }
    }

    /// Emits a pane if there is something to tell; holds are released either way. No other follows if the
    /// trigger has `finished`, or if the pane `is_last` because the window expires.
    fn emit(&self, row: &mut CellRow, finished: bool, is_last: bool, at: At) -> Option<Pane> {
        let end = window::end(&row.window);
        let expiry = self.expiry(&row.window);
        let cell = &mut row.cell;
        let timestamp = cell.hold().unwrap_or(end).min(end);
        let can_be_on_time = cell.hold().is_some_and(|hold| hold <= end);
        let marked = finished || (is_last && !self.last_by_trigger_only);
        let info = pane::next(cell.pane, at.input_watermark > end, can_be_on_time, marked);
        let must_emit = cell.fresh > 0
            || (info.timing == PaneTiming::OnTime && self.on_time_always)
            || (is_last && self.closing_always);
        let pane = must_emit.then(|| {
            cell.pane = Some(info);
            Pane {
                timestamp,
                info,
                values: match self.accumulation {
                    AccumulationMode::Accumulating if !is_last => cell.values.snapshot(),
                    AccumulationMode::Accumulating | AccumulationMode::Discarding => {
                        std::mem::take(&mut cell.values)
                    }
                },
                hold: if timestamp >= at.output_watermark {
                    timestamp
                } else {
                    expiry
                },
            }
        });
        cell.fresh = 0;
        cell.element_hold = None;
        cell.window_hold = self.window_hold(&row.window, None, true, at);
        pane
    }

    fn combine(&self, one: Timestamp, other: Timestamp) -> Timestamp {
        match self.output_time {
            OutputTime::Latest => one.max(other),
            OutputTime::EndOfWindow | OutputTime::Earliest => one.min(other),
        }
    }

    /// The hold for a pane that does not follow from an element: the window's end as long as that
    /// can be held, else its expiry.
    fn window_hold(
        &self,
        window: &Window,
        before: Option<Timestamp>,
        empty: bool,
        at: At,
    ) -> Option<Timestamp> {
        let (end, expiry) = (window::end(window), self.expiry(window));
        let hold = if at.input_watermark <= end && end >= at.output_watermark {
            (!empty || self.on_time_always).then_some(end)
        } else {
            let wanted = !empty || self.closing_always;
            (wanted && expiry > end && expiry >= at.input_watermark).then_some(expiry)
        };
        match (before, hold) {
            (Some(before), Some(hold)) => Some(before.min(hold)),
            (before, hold) => before.or(hold),
        }
    }
}

/// A pane as a cell gives it.
#[derive(Debug)]
pub(super) struct Pane {
    timestamp: Timestamp,
    info: crate::model::pane::PaneInfo,
    values: Values,
    hold: Timestamp,
}

impl Pane {
    /// The pane of this key and window.
    pub(super) fn of(self, hash: u64, key: bytes::Bytes, window: Window) -> FiredPane {
        FiredPane {
            hash,
            key,
            window,
            timestamp: self.timestamp,
            pane: self.info,
            values: self.values,
            hold: self.hold,
        }
    }
}

fn moment(row: &CellRow, at: At) -> Moment {
    Moment {
        now: at.now,
        window_ended: at.is_beyond_end(&row.window),
        fresh: row.cell.fresh > 0,
    }
}
