//! Timers in memory.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use crate::engine::tables::{TimerId, TimerTable};
use crate::model::ids::StageId;
use crate::model::time::Timestamp;
use crate::model::timer::{TimeDomain, TimerFiring};
use crate::model::window::Window;

/// Timers by stage and domain.
#[derive(Debug, Default)]
pub struct MemoryTimers {
    stages: BTreeMap<(StageId, TimeDomain), Timers>,
}

/// Invariant: both views hold the same timers.
#[derive(Debug, Default)]
struct Timers {
    by_id: BTreeMap<TimerId, TimerFiring>,
    by_time: BTreeSet<(Timestamp, TimerId)>,
}

impl Timers {
    fn clear(&mut self, id: &TimerId) -> Option<TimerFiring> {
        let firing = self.by_id.remove(id)?;
        let was_there = self.by_time.remove(&(firing.fire_at, id.clone()));
        debug_assert!(was_there, "a timer stands in one view only");
        Some(firing)
    }

    fn of_key(&self, key: &Bytes) -> impl Iterator<Item = (&TimerId, &TimerFiring)> {
        // Ids are ordered by key first; the empty-most id of the key comes before all of its ids.
        let first = TimerId {
            key: key.clone(),
            window: Window::Custom {
                max_timestamp: Timestamp::MIN,
                encoded: Bytes::new(),
            },
            family: 0,
            tag: Bytes::new(),
        };
        let window = Window::Interval {
            start: Timestamp::MIN,
            end: Timestamp::MIN,
        };
        let first = first.clone().min(TimerId { window, ..first });
        self.by_id
            .range(first..)
            .take_while(move |(id, _)| id.key == *key)
    }
}

impl TimerTable for MemoryTimers {
    fn set(
        &mut self,
        stage: StageId,
        domain: TimeDomain,
        id: TimerId,
        firing: TimerFiring,
    ) -> Option<TimerFiring> {
        let timers = self.stages.entry((stage, domain)).or_default();
        let former = timers.clear(&id);
        timers.by_time.insert((firing.fire_at, id.clone()));
        timers.by_id.insert(id, firing);
        former
    }

    fn clear(&mut self, stage: StageId, domain: TimeDomain, id: &TimerId) -> Option<TimerFiring> {
        self.stages.get_mut(&(stage, domain))?.clear(id)
    }

    fn next(&self, stage: StageId, domain: TimeDomain) -> Option<Timestamp> {
        let timers = self.stages.get(&(stage, domain))?;
        timers.by_time.first().map(|(at, _)| *at)
    }

    fn due(
        &self,
        stage: StageId,
        domain: TimeDomain,
        until: Timestamp,
        visit: &mut dyn FnMut(Timestamp, &TimerId) -> bool,
    ) {
        let Some(timers) = self.stages.get(&(stage, domain)) else {
            return;
        };
        for (at, id) in timers.by_time.iter().take_while(|(at, _)| *at <= until) {
            if !visit(*at, id) {
                return;
            }
        }
    }

    fn first_of_key(
        &self,
        stage: StageId,
        domain: TimeDomain,
        key: &Bytes,
        until: Timestamp,
    ) -> Vec<(TimerId, TimerFiring)> {
        let Some(timers) = self.stages.get(&(stage, domain)) else {
            return Vec::new();
        };
        let first = timers.of_key(key).map(|(_, firing)| firing.fire_at).min();
        let Some(first) = first.filter(|first| *first <= until) else {
            return Vec::new();
        };
        timers
            .of_key(key)
            .filter(|(_, firing)| firing.fire_at == first)
            .map(|(id, firing)| (id.clone(), *firing))
            .collect()
    }

    fn expire(&mut self, stage: StageId, window: &Window) -> Vec<TimerFiring> {
        let mut cleared = Vec::new();
        for domain in [TimeDomain::EventTime, TimeDomain::ProcessingTime] {
            let Some(timers) = self.stages.get_mut(&(stage, domain)) else {
                continue;
            };
            let expired: Vec<TimerId> = timers
                .by_id
                .keys()
                .filter(|id| id.window == *window)
                .cloned()
                .collect();
            cleared.extend(expired.iter().filter_map(|id| timers.clear(id)));
        }
        cleared
    }
}
