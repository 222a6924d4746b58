//! The job's view of watermarks: the minimum over lanes, carried through stages that hold nothing.

use std::sync::Arc;

use crate::model::ids::{LaneId, StageId};
use crate::model::stage::{StageGraph, StageKind};
use crate::model::time::Timestamp;

/// Collects the lanes' output watermarks and says what changed for the whole job.
///
/// Flatten and reshuffle keep nothing back themselves (their elements wait in the queues of their
/// consumers), so their watermark is computed here rather than reported.
///
/// Invariant: a stage's watermark never goes back.
#[derive(Debug)]
pub struct Aggregator {
    graph: Arc<StageGraph>,
    /// By lane, then stage.
    reports: Vec<Vec<Timestamp>>,
    outputs: Vec<Timestamp>,
}

impl Aggregator {
    /// An aggregator of a job that has not started: everything is at [`Timestamp::MIN`].
    pub fn new(graph: Arc<StageGraph>, lanes: u32) -> Self {
        let stages = graph.stages.len();
        Self {
            graph,
            reports: vec![vec![Timestamp::MIN; stages]; lanes as usize],
            outputs: vec![Timestamp::MIN; stages],
        }
    }

    /// Takes one lane's report; returns the stages whose watermark rose, in topological order.
    pub fn report(
        &mut self,
        lane: LaneId,
        watermarks: &[(StageId, Timestamp)],
    ) -> Vec<(StageId, Timestamp)> {
        let Some(row) = self.reports.get_mut(lane.index()) else {
            debug_assert!(false, "{lane} reports but the job does not have it");
            return Vec::new();
        };
        for &(stage, watermark) in watermarks {
            debug_assert!(
                row[stage.index()] <= watermark,
                "{stage} on {lane} goes back"
            );
            row[stage.index()] = watermark;
        }
        self.propagate()
    }

    /// Whether every stage is at [`Timestamp::MAX`]: nothing is left to do.
    pub fn is_done(&self) -> bool {
        self.outputs
            .iter()
            .all(|&watermark| watermark == Timestamp::MAX)
    }

    /// The output watermark of a stage.
    pub fn output(&self, stage: StageId) -> Timestamp {
        self.outputs[stage.index()]
    }

    fn propagate(&mut self) -> Vec<(StageId, Timestamp)> {
        let mut risen = Vec::new();
        for (index, stage) in self.graph.stages.iter().enumerate() {
            let watermark = match stage.kind {
                StageKind::Flatten | StageKind::Reshuffle => stage
                    .inputs
                    .iter()
                    .map(|input| {
                        let producer = self.graph.pcollections[input.index()].producer;
                        self.outputs[producer.index()]
                    })
                    .min()
                    .unwrap_or(Timestamp::MAX),
                StageKind::Impulse
                | StageKind::TestStream
                | StageKind::GroupByKey(_)
                | StageKind::Executable(_)
                | StageKind::PubsubRead(_)
                | StageKind::PubsubWrite(_) => self
                    .reports
                    .iter()
                    .map(|row| row[index])
                    .min()
                    .unwrap_or(Timestamp::MAX),
            };
            if watermark > self.outputs[index] {
                self.outputs[index] = watermark;
                risen.push((StageId(index as u32), watermark));
            }
        }
        risen
    }
}
