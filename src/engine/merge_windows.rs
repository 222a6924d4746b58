//! Windows that only an SDK can merge: the questions that a group-by-key has, and the answers to them.
//!
//! Questions are elements for a stage of their own, which runs in bundles, fails and is tried again like any
//! other. Its output is the answers; they come back to the lane that asked.

use std::sync::Arc;

use bytes::Bytes;

use crate::coder;
use crate::engine::Lane;
use crate::engine::bundle::InFlight;
use crate::engine::routing::Staged;
use crate::engine::tables::Tables;
use crate::engine::window::Merge;
use crate::model::coder::Coder;
use crate::model::ids::StageId;
use crate::model::time::Timestamp;

/// What an SDK says of the windows of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergedKey {
    pub key: Bytes,
    pub merges: Vec<Merge>,
}

/// Reads answers, and adds them to `answers`.
///
/// # Errors
///
/// When the bytes are not elements of `coder`, or those are no answers.
pub fn read_answers(
    coder: &Coder,
    bytes: &Bytes,
    answers: &mut Vec<MergedKey>,
) -> Result<(), coder::Error> {
    let (value_coder, _) = coder::windowed_value::parts(coder)?;
    for element in coder::windowed_value::Elements::new(coder, bytes) {
        let mut value = &bytes[element?.value];
        let (key, merged) = coder::merge_windows::read_answer(value_coder, &mut value)?;
        let merges = merged.into_iter();
        answers.push(MergedKey {
            key: bytes.slice_ref(key),
            merges: merges
                .map(|(result, merged)| Merge { result, merged })
                .collect(),
        });
    }
    Ok(())
}

impl Lane {
    /// Sends on what a group-by-key has to ask.
    pub(super) fn ask_to_merge(
        &mut self,
        now: Timestamp,
        stage: StageId,
        tables: &mut impl Tables,
    ) {
        let Some(merging) = self.graph.stages[stage.index()].window_merging() else {
            return;
        };
        while let Some(grouper) = &mut self.stages[stage.index()].grouper
            && let Some(questions) = grouper.poll_questions(tables.groups(), QUESTIONS_BYTES)
        {
            self.emit(now, stage, merging.questions, &questions, tables);
        }
    }

    /// Takes committed answers.
    pub(super) fn accept_merged(
        &mut self,
        now: Timestamp,
        stage: StageId,
        answers: &[MergedKey],
        tables: &mut impl Tables,
    ) {
        let watermark = self.input_watermark(stage);
        if let Some(grouper) = &mut self.stages[stage.index()].grouper {
            for answer in answers {
                let (key, merges) = (&answer.key, &answer.merges);
                grouper.merge(tables.groups(), now, watermark, key, merges);
            }
        }
        self.push_groups(now, stage, tables);
    }

    /// What is wrong with a bundle that was to answer and has not answered everything.
    pub(super) fn unanswered(&self, running: &InFlight) -> Option<String> {
        let graph = Arc::clone(&self.graph);
        let input = graph.stages[running.stage.index()].inputs.first()?;
        let asks = &graph.stages[graph.pcollections[input.index()].producer.index()];
        if asks.window_merging()?.questions != *input {
            return None;
        }
        let answers: usize = running.staged.iter().filter_map(Staged::answers).sum();
        let asked = running.elements();
        (answers as u64 != asked).then(|| {
            format!("the SDK was asked to merge the windows of {asked} keys and answered {answers}")
        })
    }
}

/// About how many bytes of questions become one chunk.
const QUESTIONS_BYTES: usize = 1 << 20;
