//! What group-by-key keeps, in memory.

mod keys;
mod range_reader;
#[cfg(test)]
mod tests;
mod window_buffer;

use std::collections::{BTreeMap, VecDeque};

use crate::engine::tables::group::{
    Drained, FiredPane, GroupSink, GroupTable, GroupVisitor, KeyCells, WindowRun,
};
use crate::model::ids::StageId;
use crate::model::time::Timestamp;
use crate::model::window::Window;
use keys::Keys;
use window_buffer::WindowBuffer;

/// All grouping stages of one lane.
#[derive(Debug, Default)]
pub struct MemoryGroupTable {
    stages: BTreeMap<StageId, StageRows>,
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
        match windows.get_mut(&run.window) {
            Some(buffer) => buffer.append(run, floor),
            None => {
                let window = run.window.clone();
                windows.entry(window).or_default().append(run, floor);
            }
        }
    }

    fn drain(&mut self, stage: StageId, window: &Window, sink: &mut impl GroupSink) -> Drained {
        let Some(rows) = self.stages.get_mut(&stage) else {
            return Drained::Whole;
        };
        let drained = match rows.windows.get_mut(window) {
            Some(buffer) => buffer.drain(sink),
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
        self.stages
            .entry(stage)
            .or_default()
            .keys
            .change(hash, key, change)
    }

    fn push_pane(&mut self, stage: StageId, pane: FiredPane) {
        self.stages.entry(stage).or_default().panes.push_back(pane);
    }

    fn pop_pane(&mut self, stage: StageId) -> Option<FiredPane> {
        self.stages.get_mut(&stage)?.panes.pop_front()
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
