//! What group-by-key keeps, in memory.

mod keys;
mod range_reader;
#[cfg(test)]
mod tests;
mod window_buffer;

use std::collections::{BTreeMap, VecDeque};

use crate::engine::tables::PayloadTable;
use crate::engine::tables::group::{
    Drained, FiredPane, GroupSink, GroupTable, GroupVisitor, KeyCells, WindowRun,
};
use crate::model::ids::StageId;
use crate::model::time::Timestamp;
use crate::model::window::Window;
use crate::store::overflow::Keeper;
use keys::Keys;
use window_buffer::WindowBuffer;

/// All grouping stages of one lane.
#[derive(Debug, Default)]
pub struct MemoryGroupTable {
    stages: BTreeMap<StageId, StageRows>,
    payload: Keeper,
}

impl MemoryGroupTable {
    /// An empty table; payload goes where `payload` keeps it, once memory is short.
    pub fn new(payload: Keeper) -> Self {
        Self {
            stages: BTreeMap::new(),
            payload,
        }
    }
}

#[derive(Debug, Default)]
struct StageRows {
    windows: BTreeMap<Window, WindowBuffer>,
    keys: Keys,
    panes: VecDeque<FiredPane>,
}

impl GroupTable for MemoryGroupTable {
    fn append(&mut self, stage: StageId, run: WindowRun, floor: Timestamp) {
        let windows = &mut self.stages.entry(stage).or_default().windows;
        let buffer = match windows.get_mut(&run.window) {
            Some(buffer) => buffer,
            None => windows.entry(run.window.clone()).or_default(),
        };
        if self.payload.is_short() {
            buffer.append_off_heap(run, floor, &mut self.payload);
        } else {
            buffer.append(run, floor);
        }
    }

    fn drain(&mut self, stage: StageId, window: &Window, sink: &mut impl GroupSink) -> Drained {
        let Some(rows) = self.stages.get_mut(&stage) else {
            return Drained::Whole;
        };
        let drained = match rows.windows.get_mut(window) {
            Some(buffer) => buffer.drain(sink, &self.payload),
            None => Drained::Whole,
        };
        if drained == Drained::Whole {
            rows.windows.remove(window);
        }
        drained
    }

    fn with_key<R>(
        &mut self,
        stage: StageId,
        hash: u64,
        key: &[u8],
        change: impl FnOnce(&mut KeyCells) -> R,
    ) -> R {
        let keys = &mut self.stages.entry(stage).or_default().keys;
        let payload = &mut self.payload;
        keys.change(hash, key, |cells| {
            let result = change(cells);
            if payload.is_short() {
                keep_values(cells, payload);
            }
            result
        })
    }

    fn push_pane(&mut self, stage: StageId, pane: FiredPane) {
        self.stages.entry(stage).or_default().panes.push_back(pane);
    }

    fn pop_pane(&mut self, stage: StageId) -> Option<FiredPane> {
        let pane = self.stages.get_mut(&stage)?.panes.pop_front()?;
        pane.values.expect(&self.payload);
        Some(pane)
    }

    fn visit(&mut self, stage: StageId, visitor: &mut impl GroupVisitor) {
        let Some(rows) = self.stages.get_mut(&stage) else {
            return;
        };
        for (window, buffer) in &mut rows.windows {
            visitor.window(window, buffer.contents());
        }
        rows.keys.visit(visitor);
        for pane in &rows.panes {
            visitor.pane(pane);
        }
    }
}

/// Keeps values off the heap as far as there is room: they have been committed, and stay in memory else. Whatever comes
/// next fails for want of room, before it is committed.
fn keep_values(cells: &mut KeyCells, payload: &mut Keeper) {
    for row in &mut cells.rows {
        if let Err(error) = row.cell.values.keep(payload) {
            tracing::debug!(%error, "values of a group stay in memory");
        }
    }
}
