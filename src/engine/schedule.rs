//! Which stage runs next: room is asked for while there is work, and used for the stage furthest down.

use std::cmp::Reverse;
use std::sync::Arc;

use crate::engine::Lane;
use crate::engine::action::{Action, SplitBundle, SplitIf};
use crate::engine::bundle::InFlight;
use crate::engine::queue::Limits;
use crate::engine::stages;
use crate::engine::tables::Tables;
use crate::model::ids::{BundleId, EnvironmentId, StageId, WorkerId};
use crate::model::stage::StageKind;
use crate::model::time::Timestamp;

impl Lane {
    /// Asks for room for every bundle that could be formed now.
    pub(super) fn schedule(&mut self, now: Timestamp) {
        let dirty = std::mem::take(&mut self.dirty);
        if self.failed {
            return;
        }
        let graph = Arc::clone(&self.graph);
        let mut environments: Vec<EnvironmentId> = Vec::new();
        for stage in dirty {
            let node = &graph.stages[stage.index()];
            match stages::environment(node) {
                Some(environment) if !environments.contains(&environment) => {
                    environments.push(environment);
                }
                Some(_) => {}
                None if matches!(node.kind, StageKind::PubsubWrite(_)) => {
                    self.publish_ready(stage);
                }
                None => {}
            }
        }
        for environment in environments {
            self.request_slots(now, environment);
        }
    }

    fn request_slots(&mut self, now: Timestamp, environment: EnvironmentId) {
        let wanted: u32 = self
            .by_environment
            .get(&environment)
            .into_iter()
            .flatten()
            .map(|stage| self.formable_bundles(now, *stage))
            .sum();
        let most = self.lane_parallelism(environment) + 1;
        let requested = self.requested.entry(environment).or_insert(0);
        while *requested < wanted.min(most) {
            *requested += 1;
            self.actions.push_back(Action::RequestSlot { environment });
        }
    }

    /// About how many bundles the stage's waiting work makes.
    pub(super) fn formable_bundles(&self, now: Timestamp, stage: StageId) -> u32 {
        let state = &self.stages[stage.index()];
        let drawn = state
            .draws_on
            .is_some_and(|producer| self.stages[producer.index()].has_output());
        if let Some(keyed) = &state.keyed {
            let by_elements = keyed
                .queue
                .elements()
                .div_ceil(self.settings.bundle_elements_max as u64);
            let elements = if keyed.queue.has_ready() {
                by_elements.clamp(1, 64) as u32
            } else {
                0
            };
            let watermark = self.input_watermark(stage);
            let fires = keyed.next_event_timer.is_some_and(|at| at <= watermark)
                || keyed.next_timer.is_some_and(|at| at <= now);
            return elements + u32::from(fires);
        }
        let queued = if state.queue.has_ready() {
            let limits = self.limits(stage);
            let by_elements = state
                .queue
                .ready_elements()
                .div_ceil(limits.elements as u64);
            let by_bytes = state.queue.ready_bytes().div_ceil(limits.bytes as u64);
            by_elements.max(by_bytes).clamp(1, 64) as u32
        } else {
            0
        };
        queued + u32::from(drawn)
    }

    /// Uses room that was granted, or gives it back.
    pub(super) fn use_slot(
        &mut self,
        now: Timestamp,
        environment: EnvironmentId,
        worker: WorkerId,
        tables: &mut impl Tables,
    ) {
        if let Some(requested) = self.requested.get_mut(&environment) {
            *requested = requested.saturating_sub(1);
        }
        if !self.failed {
            let candidates = self
                .by_environment
                .get(&environment)
                .cloned()
                .unwrap_or_default();
            for stage in candidates {
                if self.form_bundle(now, stage, worker, tables) {
                    self.dirty.insert(stage);
                    return;
                }
            }
        }
        self.actions.push_back(Action::ReturnSlot {
            environment,
            worker,
        });
    }

    /// Limits of the stage's next bundle: work that may be spread is parted over all workers.
    pub(super) fn limits(&self, stage: StageId) -> Limits {
        let state = &self.stages[stage.index()];
        let environment = stages::environment(&self.graph.stages[stage.index()]);
        let parallelism = environment.map_or(1, |environment| self.lane_parallelism(environment));
        let share = |ready: u64| ready.div_ceil(u64::from(parallelism)) as usize;
        let mut limits = Limits {
            bytes: self.settings.bundle_bytes_max,
            elements: self.settings.bundle_elements_max,
        };
        if parallelism > 1 {
            limits.bytes = limits
                .bytes
                .min(share(state.queue.ready_bytes()).max(SHARE_BYTES_MIN));
            if state.spread {
                limits.elements = limits
                    .elements
                    .min(share(state.queue.ready_elements()).max(1));
            }
        }
        limits
    }

    fn lane_parallelism(&self, environment: EnvironmentId) -> u32 {
        let parallelism = self
            .settings
            .parallelism
            .get(environment.index())
            .copied()
            .unwrap_or(1);
        parallelism.div_ceil(self.settings.lanes).max(1)
    }

    /// When, by the wall clock, a running bundle should be looked at for a split.
    pub(super) fn next_look_at(&self, bundle: &InFlight) -> Timestamp {
        let age = if self.is_cut_short(bundle) {
            self.settings.checkpoint_after
        } else {
            self.settings.split_after
        };
        bundle.split_asked.unwrap_or(bundle.started).plus(age)
    }

    /// Asks harnesses how far what has run for long is, and to give back part of it.
    pub(super) fn look_at_bundles(&mut self) {
        let now = self.processing_time.wall();
        let mut due: Vec<(u64, BundleId)> = self
            .bundles
            .iter()
            .filter(|(_, bundle)| self.next_look_at(bundle) <= now)
            .map(|(id, bundle)| (bundle.elements(), *id))
            .collect();
        // The largest first: few are split at a time.
        due.sort_by_key(|(elements, id)| (Reverse(*elements), *id));
        for (_, id) in due {
            let Some(bundle) = self.bundles.get(&id) else {
                continue;
            };
            let checkpoint = self.is_cut_short(bundle);
            // What truncates has no part to give back, and keys are in one bundle as a whole.
            let splits = !bundle.splitting && bundle.truncation.is_none() && bundle.keyed.is_none();
            let ask = splits && (checkpoint || self.has_use_for_part_of(bundle));
            let Some(bundle) = self.bundles.get_mut(&id) else {
                continue;
            };
            bundle.split_asked = Some(now);
            let Some(worker) = bundle.worker else {
                continue;
            };
            self.actions
                .push_back(Action::ReportProgress { bundle: id, worker });
            if ask {
                let split = ask_split(id, bundle, worker, checkpoint);
                self.actions.push_back(Action::SplitBundle(split));
            }
        }
    }

    /// Whether half of a running bundle could start soon, as far as this lane knows.
    fn has_use_for_part_of(&self, bundle: &InFlight) -> bool {
        let node = &self.graph.stages[bundle.stage.index()];
        let Some(environment) = stages::environment(node) else {
            return false;
        };
        // Each answer makes a bundle: asking for more of them at once would give them all to one.
        let asked = self.bundles.values().filter(|bundle| bundle.splitting);
        self.requested.get(&environment).copied() == Some(0)
            && asked.count() <= self.lane_parallelism(environment) as usize
    }

    /// Asks for the rest of every restriction that is processed now.
    pub(super) fn checkpoint_restrictions(&mut self) {
        let now = self.processing_time.wall();
        for (&id, bundle) in &mut self.bundles {
            let node = &self.graph.stages[bundle.stage.index()];
            let splittable =
                stages::executable(node).is_some_and(|executable| executable.splittable.is_some());
            if let (true, false, Some(worker)) = (splittable, bundle.splitting, bundle.worker) {
                bundle.split_asked = Some(now);
                let split = ask_split(id, bundle, worker, true);
                self.actions.push_back(Action::SplitBundle(split));
            }
        }
    }

    /// Whether a bundle is to end before its restrictions do.
    fn is_cut_short(&self, bundle: &InFlight) -> bool {
        let node = &self.graph.stages[bundle.stage.index()];
        let executable = stages::executable(node);
        let splittable = executable.and_then(|executable| executable.splittable.as_ref());
        splittable.is_some_and(|splittable| splittable.unbounded)
            || (self.truncates(bundle.stage) && !bundle.truncated && bundle.truncation.is_none())
    }
}

/// Asks for half of what is left, if somebody idles; or for all of it, which is a checkpoint.
fn ask_split(
    id: BundleId,
    bundle: &mut InFlight,
    worker: WorkerId,
    checkpoint: bool,
) -> SplitBundle {
    bundle.splitting = true;
    SplitBundle {
        bundle: id,
        stage: bundle.stage,
        worker,
        keep: if checkpoint { 0.0 } else { 0.5 },
        elements: bundle.elements() as u32,
        only_if: match (checkpoint, bundle.dormant) {
            (true, _) => SplitIf::Always,
            (false, true) => SplitIf::IdleOrDormant,
            (false, false) => SplitIf::Idle,
        },
    }
}

/// Work below this size is not parted over workers for its bytes.
const SHARE_BYTES_MIN: usize = 1 << 20;
