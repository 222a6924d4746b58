//! Drain: nothing new is read, restrictions are cut short by the SDK, and what was read is finished.
//!
//! Native sources end by raising their watermark to the end once their last messages are there.

use bytes::Bytes;

use crate::coder;
use crate::engine::Lane;
use crate::engine::bundle::InFlight;
use crate::engine::queue::Item;
use crate::engine::stages;
use crate::model::ids::StageId;
use crate::model::time::Timestamp;

impl Lane {
    /// Begins the drain: a script ends, delayed restrictions are due, and running ones are given back.
    pub(super) fn drain(&mut self) {
        self.draining = true;
        self.end_script();
        for stage in (0..self.stages.len() as u32).map(StageId) {
            if self.truncates(stage) {
                self.stages[stage.index()].queue.wake(Timestamp::MAX);
                self.dirty.insert(stage);
            }
        }
        self.checkpoint_restrictions();
    }

    /// Whether restrictions of the stage are truncated before they are processed any further.
    ///
    /// An SDK without a truncate step processes its restrictions to their end.
    pub(super) fn truncates(&self, stage: StageId) -> bool {
        let executable = stages::executable(&self.graph.stages[stage.index()]);
        let splittable = executable.and_then(|executable| executable.splittable.as_ref());
        self.draining && splittable.is_some_and(|splittable| splittable.truncate.is_some())
    }

    /// What a truncation left of its restrictions, as work for the same stage.
    pub(super) fn truncated(
        &self,
        now: Timestamp,
        running: &InFlight,
        left: &[Bytes],
    ) -> Result<Vec<(Timestamp, Item)>, String> {
        let input = self.graph.stages[running.stage.index()].inputs[0];
        let coder = &self.graph.pcollections[input.index()].coder;
        let item = |bytes: &Bytes| {
            let chunk = coder::windowed_value::scan(coder, bytes.clone())
                .map_err(|error| format!("a truncated restriction cannot be read: {error}"))?;
            let item = Item {
                // The watermark that their estimators had reached stays.
                hold: running.hold.max(chunk.min_timestamp),
                truncated: true,
                ..Item::new(chunk)
            };
            Ok((now, item))
        };
        left.iter().map(item).collect()
    }
}
