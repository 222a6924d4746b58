//! Room in harnesses: who may start a bundle where.

use std::collections::{BTreeMap, VecDeque};

use parking_lot::Mutex;

use crate::job::room::Room;
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
    /// How many of them are dormant.
    dormant: u32,
    room: Room,
}

/// Room that was found for a lane that waited.
pub type Grant = (LaneId, WorkerId);

impl Slots {
    /// A harness is ready; returns what lanes that wait may start in it.
    pub fn add(&self, environment: EnvironmentId, worker: WorkerId, room: Room) -> Vec<Grant> {
        let mut environments = self.environments.lock();
        let environment = environments.entry(environment).or_default();
        environment.workers.insert(
            worker,
            Worker {
                running: 0,
                dormant: 0,
                room,
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

    /// A bundle of the harness went dormant: its room is lent, perhaps to somebody who waits.
    pub fn lend(&self, environment: EnvironmentId, worker: WorkerId) -> Option<Grant> {
        let mut environments = self.environments.lock();
        let environment = environments.get_mut(&environment)?;
        environment.workers.get_mut(&worker)?.dormant += 1;
        environment.grant_waiting()
    }

    /// A dormant bundle moves again, or is about to end. Who borrowed its room keeps it while it runs.
    pub fn reclaim(&self, environment: EnvironmentId, worker: WorkerId) {
        let mut environments = self.environments.lock();
        let environment = environments.get_mut(&environment);
        if let Some(worker) = environment.and_then(|found| found.workers.get_mut(&worker)) {
            debug_assert!(worker.dormant > 0, "room was reclaimed that was not lent");
            worker.dormant = worker.dormant.saturating_sub(1);
        }
    }

    /// Whether a bundle would start at once in a harness where dormant bundles lend their room.
    pub fn has_lendable_room(&self, environment: EnvironmentId) -> bool {
        let environments = self.environments.lock();
        environments.get(&environment).is_some_and(|environment| {
            let mut workers = environment.workers.values();
            environment.waiting.is_empty()
                && workers.any(|worker| worker.room.dormant_max > 0 && worker.has_room())
        })
    }

    /// Whether the environment has room that nobody asks for, of the kind that makes a split worth it.
    pub fn has_idle_worker(&self, environment: EnvironmentId, useful_bundles: u32) -> bool {
        let environments = self.environments.lock();
        environments.get(&environment).is_some_and(|environment| {
            let working: u32 = environment.workers.values().map(Worker::working).sum();
            environment.waiting.is_empty() && working < useful_bundles
        })
    }
}

impl Environment {
    /// Takes room in the harness that has the least to do.
    fn take(&mut self) -> Option<WorkerId> {
        let (id, worker) = self
            .workers
            .iter_mut()
            .filter(|(_, worker)| worker.has_room())
            .min_by_key(|(_, worker)| worker.working())?;
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

impl Worker {
    /// Bundles that take room.
    fn working(&self) -> u32 {
        let lent = self.dormant.min(self.room.dormant_max);
        self.running.saturating_sub(lent)
    }

    fn has_room(&self) -> bool {
        self.working() < self.room.bundles_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENVIRONMENT: EnvironmentId = EnvironmentId(0);

    fn room(bundles_max: u32, dormant_max: u32) -> Room {
        Room {
            bundles_max,
            dormant_max,
        }
    }

    #[test]
    fn a_lane_waits_until_room_is_given_back() {
        let slots = Slots::default();
        assert_eq!(slots.add(ENVIRONMENT, WorkerId(1), room(1, 0)), []);
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
            slots.add(ENVIRONMENT, WorkerId(7), room(2, 0)),
            [(LaneId(0), WorkerId(7))]
        );
    }

    #[test]
    fn room_of_a_lost_harness_is_not_given_again() {
        let slots = Slots::default();
        slots.add(ENVIRONMENT, WorkerId(1), room(1, 0));
        slots.request(ENVIRONMENT, LaneId(0));
        slots.remove(ENVIRONMENT, WorkerId(1));
        assert_eq!(slots.release(ENVIRONMENT, WorkerId(1)), None);
        assert_eq!(slots.request(ENVIRONMENT, LaneId(0)), None);
    }
    #[test]
    fn a_dormant_bundle_lends_its_room_up_to_a_limit() {
        let slots = Slots::default();
        let worker = WorkerId(1);
        slots.add(ENVIRONMENT, worker, room(1, 1));
        let lanes = [LaneId(0), LaneId(1), LaneId(2)];
        assert_eq!(slots.request(ENVIRONMENT, lanes[0]), Some(worker));
        assert!(!slots.has_idle_worker(ENVIRONMENT, 1));
        assert_eq!(slots.request(ENVIRONMENT, lanes[1]), None);
        assert_eq!(slots.lend(ENVIRONMENT, worker), Some((lanes[1], worker)));
        assert_eq!(slots.request(ENVIRONMENT, lanes[2]), None);
        // The second one is dormant too, beyond what may be.
        assert_eq!(slots.lend(ENVIRONMENT, worker), None);
        slots.reclaim(ENVIRONMENT, worker);
        assert_eq!(
            slots.release(ENVIRONMENT, worker),
            Some((lanes[2], worker)),
            "one that ended makes room for one"
        );
    }

    #[test]
    fn who_borrowed_room_keeps_it_while_it_runs() {
        let slots = Slots::default();
        let worker = WorkerId(1);
        slots.add(ENVIRONMENT, worker, room(1, 4));
        assert_eq!(slots.request(ENVIRONMENT, LaneId(0)), Some(worker));
        assert_eq!(slots.lend(ENVIRONMENT, worker), None);
        assert!(slots.has_idle_worker(ENVIRONMENT, 1), "a split has a use");
        assert!(slots.has_lendable_room(ENVIRONMENT));
        assert_eq!(slots.request(ENVIRONMENT, LaneId(1)), Some(worker));
        slots.reclaim(ENVIRONMENT, worker);
        assert_eq!(slots.request(ENVIRONMENT, LaneId(2)), None);
        assert_eq!(
            slots.release(ENVIRONMENT, worker),
            None,
            "two are one too many"
        );
        assert_eq!(
            slots.release(ENVIRONMENT, worker),
            Some((LaneId(2), worker))
        );
    }
}
