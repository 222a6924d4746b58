//! A bundle ends well: its effects become one delta, and the delta is applied.

use bytes::Bytes;

use crate::engine::Lane;
use crate::engine::action::{Action, Release};
use crate::engine::bundle::{Ended, InFlight};
use crate::engine::delta::Delta;
use crate::engine::queue::Item;
use crate::engine::stages;
use crate::engine::tables::Tables;
use crate::model::bundle::Residual;
use crate::model::ids::BundleId;
use crate::model::time::Timestamp;

impl Lane {
    /// Stages output of a running bundle.
    pub(in crate::engine) fn stage_output(
        &mut self,
        bundle: BundleId,
        output: usize,
        bytes: Bytes,
        cut: bool,
        tables: &mut impl Tables,
    ) {
        // A bundle that was given up may still send.
        let Some(running) = self.bundles.get_mut(&bundle) else {
            return;
        };
        running.moved = true;
        if let Some(left) = &mut running.truncation {
            left.push(bytes, cut);
            return;
        }
        let Some(staged) = running.staged.get_mut(output) else {
            running.broken = Some(format!("the harness sent data for output {output}"));
            return;
        };
        if let Err(error) = staged.add(&self.graph, bytes, cut, tables.payload()) {
            running.broken = Some(format!("output {output} {error}"));
        }
    }

    /// The harness has done a bundle. With a split under way that waits for the answer.
    pub(in crate::engine) fn finish(
        &mut self,
        now: Timestamp,
        bundle: BundleId,
        residuals: Vec<Residual>,
        finalize: bool,
        tables: &mut impl Tables,
    ) {
        if let Some(running) = self.bundles.get_mut(&bundle)
            && running.splitting
        {
            running.ended = Some(Ended {
                residuals,
                finalize,
            });
            return;
        }
        let Some(running) = self.bundles.get(&bundle) else {
            return;
        };
        let broken = running.broken.clone().or_else(|| running.cut_output());
        if let Some(broken) = broken.or_else(|| self.unanswered(running)) {
            self.fail_bundle(now, bundle, broken);
            return;
        }
        let given_back = match &running.truncation {
            Some(left) => self.truncated(now, running, &left.pieces),
            None => self.delayed(now, running, residuals),
        };
        let residuals = match given_back {
            Ok(residuals) => residuals,
            Err(error) => {
                self.fail_bundle(now, bundle, error);
                return;
            }
        };
        let Some(running) = self.end(bundle) else {
            return;
        };
        let stage = running.stage;
        let mut releases = Vec::new();
        if let Some(worker) = running.worker {
            releases.push(Release::Metrics { bundle });
            if finalize {
                releases.push(Release::Finalize { bundle, worker });
            }
        }
        let lanes = self.settings.lanes;
        let deliveries = running.staged.into_iter().flat_map(|staged| {
            staged.into_deliveries(&self.routes, self.id, lanes, &mut self.turn)
        });
        let delta = Delta {
            stage,
            deliveries: deliveries.collect(),
            residuals,
            keyed: running.keyed,
            consumed: running
                .input
                .into_iter()
                .filter_map(|item| item.source)
                .collect(),
            releases,
        };
        self.apply(now, delta, tables);
    }

    /// Applies everything a bundle changes.
    pub(in crate::engine) fn apply(
        &mut self,
        now: Timestamp,
        delta: Delta,
        tables: &mut impl Tables,
    ) {
        self.dirty.insert(delta.stage);
        for (lane, delivery) in delta.deliveries {
            if lane == self.id {
                self.accept(now, delivery, tables);
            } else {
                self.actions.push_back(Action::Deliver { lane, delivery });
            }
        }
        for (due, item) in delta.residuals {
            let queue = &mut self.stages[delta.stage.index()].queue;
            if due <= now {
                queue.push(item);
            } else {
                queue.push_delayed(due, item);
            }
        }
        if let Some(keyed) = delta.keyed {
            self.commit_keyed(delta.stage, keyed, tables);
        }
        for work in delta.consumed {
            let stage = work.stage;
            self.dirty.insert(stage);
            let state = &mut self.stages[stage.index()];
            let Some(read) = &mut state.read else {
                continue;
            };
            let receipts = read.committed(tables.dedup(), now, work);
            self.dirty.extend(state.drawn_by);
            self.actions
                .push_back(Action::Release(Release::Ack { stage, receipts }));
        }
        self.actions
            .extend(delta.releases.into_iter().map(Action::Release));
    }

    /// Takes a bundle off the running ones and gives its room back.
    pub(in crate::engine) fn end(&mut self, bundle: BundleId) -> Option<InFlight> {
        let running = self.bundles.remove(&bundle)?;
        let stage = running.stage;
        let state = &mut self.stages[stage.index()];
        state.running.remove(running.hold);
        state.bundles -= 1;
        self.dirty.insert(stage);
        let environment = stages::environment(&self.graph.stages[stage.index()]);
        if let (Some(environment), Some(worker)) = (environment, running.worker) {
            if running.dormant {
                self.actions.push_back(Action::ReclaimRoom {
                    environment,
                    worker,
                });
            }
            self.actions.push_back(Action::ReturnSlot {
                environment,
                worker,
            });
        }
        Some(running)
    }

    /// Residuals as work for the same stage, with when it is due.
    pub(in crate::engine) fn delayed(
        &self,
        now: Timestamp,
        running: &InFlight,
        residuals: Vec<Residual>,
    ) -> Result<Vec<(Timestamp, Item)>, String> {
        residuals
            .into_iter()
            .map(|residual| {
                let due = now.plus(residual.delay.max(0));
                Ok((due, self.residual_item(running, residual.application)?))
            })
            .collect()
    }
}
