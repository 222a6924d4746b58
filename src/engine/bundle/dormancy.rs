//! Bundles that do nothing for a while: they wait for a source or a service, and others may run beside them.

use crate::engine::Lane;
use crate::engine::action::Action;
use crate::engine::stages;
use crate::model::ids::BundleId;

impl Lane {
    /// Takes a harness's word on how far a bundle is.
    ///
    /// Bundles are asked when they are looked at, so one that has not moved since the last answer, or since
    /// its start, has done nothing for a while. It may also compute for long on one element: running others
    /// beside it costs memory then, but no time.
    pub(in crate::engine) fn note_progress(&mut self, bundle: BundleId, taken: Option<u64>) {
        // The bundle may have ended meanwhile.
        let Some(running) = self.bundles.get_mut(&bundle) else {
            return;
        };
        let Some(taken) = taken else { return };
        let moved = std::mem::take(&mut running.moved) || taken > running.taken;
        running.taken = running.taken.max(taken);
        if running.dormant != moved {
            return;
        }
        running.dormant = !moved;
        let node = &self.graph.stages[running.stage.index()];
        let (Some(environment), Some(worker)) = (stages::environment(node), running.worker) else {
            return;
        };
        self.actions.push_back(if moved {
            Action::ReclaimRoom {
                environment,
                worker,
            }
        } else {
            Action::LendRoom {
                environment,
                worker,
            }
        });
    }
}
