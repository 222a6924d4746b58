//! TestStream: a script of elements, watermarks and time, each settled before the next.

use bytes::Bytes;

use crate::coder;
use crate::engine::Lane;
use crate::engine::stages::StageState;
use crate::engine::tables::Tables;
use crate::model::ids::StageId;
use crate::model::pane::PaneInfo;
use crate::model::stage::{ScriptEvent, StageKind};
use crate::model::time::{Millis, Timestamp};
use crate::model::window::Window;

impl Lane {
    /// Whether everything so far has settled on this lane: no bundle runs and none could be formed.
    ///
    /// Work that waits for time is settled. The job must also see that nothing is on its way to the lane.
    pub fn is_quiet(&self, now: Timestamp) -> bool {
        let now = self.processing_time.at(now);
        self.bundles.is_empty()
            && self.dirty.is_empty()
            && self.actions.is_empty()
            && self.wakeups.first().is_none_or(|(due, _)| *due > now)
            && self
                .by_environment
                .values()
                .flatten()
                .all(|stage| self.formable_bundles(now, *stage) == 0)
    }

    /// How long until a timer or a trigger of processing time fires; a finished script lets that time fly.
    pub fn until_next_firing(&self, now: Timestamp) -> Option<Millis> {
        let now = self.processing_time.at(now);
        let firings = self.stages.iter().filter_map(StageState::next_firing);
        let next = firings.filter(|at| *at > now).min()?;
        Some(next.millis().saturating_sub(now.millis()))
    }

    /// Does one step.
    pub(super) fn follow_script(
        &mut self,
        now: Timestamp,
        event: ScriptEvent,
        tables: &mut impl Tables,
    ) {
        match event {
            ScriptEvent::Elements { stage, elements } => {
                let Some(&output) = self.graph.stages[stage.index()].outputs.first() else {
                    return;
                };
                let bytes = encode(&elements);
                self.emit(now, stage, output, &bytes, tables);
            }
            ScriptEvent::Watermark { stage, to } => self.raise_source_watermark(stage, to),
            ScriptEvent::ProcessingTime { by } => {
                // Infinity is far, but time goes on after it.
                let left = Timestamp::GLOBAL_WINDOW_MAX.millis() - now.millis();
                let by = by.clamp(0, left.max(0));
                self.processing_time.advance(by);
                self.wake(now.plus(by), tables);
                self.mark_all_dirty();
            }
        }
    }

    /// The script is over: its outputs are complete, and time passes by itself.
    pub(super) fn end_script(&mut self) {
        self.processing_time.flow();
        let graph = std::sync::Arc::clone(&self.graph);
        for (id, stage) in (0..).map(StageId).zip(&graph.stages) {
            if stage.kind == StageKind::TestStream {
                self.raise_source_watermark(id, Timestamp::MAX);
            }
        }
    }

    fn mark_all_dirty(&mut self) {
        self.dirty
            .extend((0..self.stages.len() as u32).map(StageId));
    }
}

/// The elements as the stage's output has them: each in the global window, behind its length.
fn encode(elements: &[(Timestamp, Bytes)]) -> Bytes {
    let mut bytes = Vec::new();
    for (timestamp, element) in elements {
        coder::windowed_value::write_header(
            &mut bytes,
            *timestamp,
            &[Window::Global],
            PaneInfo::NO_FIRING,
        );
        coder::length_prefix::write(&mut bytes, element);
    }
    Bytes::from(bytes)
}
