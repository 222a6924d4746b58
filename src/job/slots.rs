//! Room in harnesses: who may start a bundle where.

use std::collections::{BTreeMap, VecDeque};

use parking_lot::Mutex;

use crate::model::{EnvironmentId, LaneId, WorkerId};

/// Room for bundles in all harnesses of a job. Lanes ask, and wait in line where there is none.
#[derive(Debug, Default)]
pub struct Slots {
    environments: Mutex<BTreeMap<EnvironmentId, Environment>>,
}

#[derive(Debug, Default)]
struct Environment {
    workers: BTreeMap<WorkerId, Worker>,
    waiting: VecDeque<LaneId>,
}

#[derive(Debug)]
struct Worker {
    running: u32,
    bundles_max: u32,
}

/// Room that was found for a lane that waited.
pub type Grant = (LaneId, WorkerId);

impl Slots {
    /// A harness is ready; returns what lanes that wait may start in it.
    pub fn add(
        &self,
        environment: EnvironmentId,
        worker: WorkerId,
        bundles_max: u32,
    ) -> Vec<Grant> {
        let mut environments = self.environments.lock();
        let environment = environments.entry(environment).or_default();
        environment.workers.insert(
            worker,
            Worker {
                running: 0,
                bundles_max,
            },
        );
        std::iter::from_fn(|| environment.grant_waiting()).collect()
    }

    /// A harness is gone with all its room.
    pub fn remove(&self, environment: EnvironmentId, worker: WorkerId) {
        if let Some(environment) = self.environments.lock().get_mut(&environment) {
            environment.workers.remove(&worker);
        }
    }

    /// Asks for room; a lane that gets none now waits in line.
    pub fn request(&self, environment: EnvironmentId, lane: LaneId) -> Option<WorkerId> {
        let mut environments = self.environments.lock();
        let environment = environments.entry(environment).or_default();
        let worker = environment.take();
        if worker.is_none() {
            environment.waiting.push_back(lane);
        }
        worker
    }

    /// Gives room back, perhaps to somebody who waits.
    pub fn release(&self, environment: EnvironmentId, worker: WorkerId) -> Option<Grant> {
        let mut environments = self.environments.lock();
        let environment = environments.get_mut(&environment)?;
        let worker = environment.workers.get_mut(&worker)?;
        debug_assert!(worker.running > 0, "room was given back that nobody had");
        worker.running = worker.running.saturating_sub(1);
        environment.grant_waiting()
    }

    /// Whether the environment has room that nobody asks for, of the kind that makes a split worth it.
    pub fn has_idle_worker(&self, environment: EnvironmentId, useful_bundles: u32) -> bool {
        let environments = self.environments.lock();
        environments.get(&environment).is_some_and(|environment| {
            let running: u32 = environment
                .workers
                .values()
                .map(|worker| worker.running)
                .sum();
            environment.waiting.is_empty() && running < useful_bundles
        })
    }
}

impl Environment {
    /// Takes room in the harness that has the least to do.
    fn take(&mut self) -> Option<WorkerId> {
        let (id, worker) = self
            .workers
            .iter_mut()
            .filter(|(_, worker)| worker.running < worker.bundles_max)
            .min_by_key(|(_, worker)| worker.running)?;
        worker.running += 1;
        Some(*id)
    }

    fn grant_waiting(&mut self) -> Option<Grant> {
        if self.waiting.is_empty() {
            return None;
        }
        let worker = self.take()?;
        self.waiting.pop_front().map(|lane| (lane, worker))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENVIRONMENT: EnvironmentId = EnvironmentId(0);

    #[test]
    fn a_lane_waits_until_room_is_given_back() {
        let slots = Slots::default();
        assert_eq!(slots.add(ENVIRONMENT, WorkerId(1), 1), []);
        assert_eq!(slots.request(ENVIRONMENT, LaneId(0)), Some(WorkerId(1)));
        assert_eq!(slots.request(ENVIRONMENT, LaneId(1)), None);
        assert_eq!(
            slots.release(ENVIRONMENT, WorkerId(1)),
            Some((LaneId(1), WorkerId(1)))
        );
        assert_eq!(slots.release(ENVIRONMENT, WorkerId(1)), None);
    }

    #[test]
    fn a_new_harness_serves_those_who_wait() {
        let slots = Slots::default();
        assert_eq!(slots.request(ENVIRONMENT, LaneId(0)), None);
        assert_eq!(
            slots.add(ENVIRONMENT, WorkerId(7), 2),
            [(LaneId(0), WorkerId(7))]
        );
    }

    #[test]
    fn room_of_a_lost_harness_is_not_given_again() {
        let slots = Slots::default();
        slots.add(ENVIRONMENT, WorkerId(1), 1);
        slots.request(ENVIRONMENT, LaneId(0));
        slots.remove(ENVIRONMENT, WorkerId(1));
        assert_eq!(slots.release(ENVIRONMENT, WorkerId(1)), None);
        assert_eq!(slots.request(ENVIRONMENT, LaneId(0)), None);
    }
}
