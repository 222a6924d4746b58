//! A bundle ends badly: nothing of it stays, and its input is tried again.

use crate::engine::Lane;
use crate::engine::action::{Action, Release};
use crate::engine::queue::Item;
use crate::model::ids::{BundleId, StageId, WorkerId};
use crate::model::time::{Millis, Timestamp};

/// The first pause before a streaming bundle is tried again.
const RETRY_PAUSE: Millis = 100;

impl Lane {
    /// A bundle failed.
    pub(in crate::engine) fn fail_bundle(
        &mut self,
        now: Timestamp,
        bundle: BundleId,
        failure: String,
    ) {
        let Some(running) = self.end(bundle) else {
            return;
        };
        self.state_epoch += 1;
        let stage = running.stage;
        let attempt = running
            .attempts()
            .max(self.key_failures(stage, running.keyed.as_ref()))
            + 1;
        self.actions
            .push_back(Action::Release(Release::DiscardMetrics { bundle }));
        let last = self
            .settings
            .attempts_max
            .is_some_and(|most| attempt >= most);
        if last {
            self.fail_job(stage, failure);
        } else if !self.failed {
            self.actions.push_back(Action::Retrying {
                stage,
                failure,
                attempt,
            });
        }
        match running.keyed {
            Some(keyed) => self.rest_keys(now, stage, attempt, keyed),
            None => self.requeue(now, stage, attempt, running.input),
        }
    }

    fn requeue(&mut self, now: Timestamp, stage: StageId, attempts: u32, input: Vec<Item>) {
        let graph = std::sync::Arc::clone(&self.graph);
        let main = graph.stages[stage.index()].inputs[0];
        let coder = &graph.pcollections[main.index()].coder;
        let elements: usize = input.iter().map(|item| item.chunk.count as usize).sum();
        let pause = self.pause(attempts);
        let queue = &mut self.stages[stage.index()].queue;
        for item in input.into_iter().rev() {
            let item = Item { attempts, ..item };
            if pause == 0 {
                queue.push_front(item);
                continue;
            }
            // Halving what fails again and again finds the element that is to blame.
            let half = item.chunk.count as usize / 2;
            let halve = attempts > 1 && elements > 1 && half > 0;
            let parts = if halve {
                item.clone().cut(half, usize::MAX, coder)
            } else {
                Ok((item.clone(), None))
            };
            let (first, second) = parts.unwrap_or((item, None));
            queue.push_delayed(now.plus(pause), first);
            if let Some(second) = second {
                // The halves differ in their tries, so that they do not meet in one bundle.
                queue.push_delayed(
                    now.plus(pause + 1),
                    Item {
                        attempts: attempts + 1,
                        ..second
                    },
                );
            }
        }
    }

    /// How long work rests after this many failed tries.
    pub(in crate::engine) fn pause(&self, attempts: u32) -> Millis {
        if self.settings.attempts_max.is_some() {
            return 0;
        }
        let doubled = RETRY_PAUSE.saturating_mul(1 << attempts.min(16).saturating_sub(1));
        doubled.min(self.settings.retry_pause_max)
    }

    /// A harness is gone: its bundles are tried again.
    pub(in crate::engine) fn lose_worker(
        &mut self,
        now: Timestamp,
        worker: WorkerId,
        reason: &str,
    ) {
        let lost: Vec<BundleId> = self
            .bundles
            .iter()
            .filter(|(_, bundle)| bundle.worker == Some(worker))
            .map(|(id, _)| *id)
            .collect();
        for bundle in lost {
            self.fail_bundle(now, bundle, format!("the SDK harness was lost: {reason}"));
        }
    }
}
