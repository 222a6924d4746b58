//! Bundles of keyed stages: formed, committed, given up.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;

use crate::coder;
use crate::engine::Lane;
use crate::engine::action::{Action, Release, StartBundle};
use crate::engine::bundle::{KeyedBundle, Work};
use crate::engine::keyed::expiry::expiry;
use crate::engine::keyed::state::{self, Asking, StateChanges};
use crate::engine::keyed::{KeyWork, KeyedElement, KeyedElements, TakenKey, TimerChanges};
use crate::engine::queue::Limits;
use crate::engine::stages::{self, KeyedState};
use crate::engine::tables::{PayloadTable, Tables, TimerId, TimerTable, UserStateTable};
use crate::model::element::Chunk;
use crate::model::ids::{BundleId, StageId, WorkerId};
use crate::model::pane::PaneInfo;
use crate::model::state::{StateKey, StateOperation, StateReply};
use crate::model::time::{Millis, Timestamp};
use crate::model::timer::{TimeDomain, Timer, TimerFiring};
use crate::model::window::Window;

impl Lane {
    /// Queues committed elements of a keyed stage; those whose windows have all expired are dropped.
    pub(in crate::engine) fn accept_keyed(&mut self, stage: StageId, elements: KeyedElements) {
        let watermark = self.input_watermark(stage);
        let lateness = self.allowed_lateness(stage);
        let waits = !stages::side_inputs(&self.graph.stages[stage.index()]).is_empty();
        let sorted = stages::executable(&self.graph.stages[stage.index()])
            .is_some_and(|executable| executable.time_sorted_input);
        let mut dropped = 0;
        for element in elements {
            let late = |window: &Window| expiry(window, lateness) < watermark;
            if !element.windows.is_empty() && element.windows.iter().all(late) {
                dropped += 1;
                continue;
            }
            let needed = waits.then(|| self.needed_of_side_inputs(stage, &element.windows));
            let Some(keyed) = &mut self.stages[stage.index()].keyed else {
                return;
            };
            match needed {
                Some(needed) => keyed.blocked.entry(needed).or_default().push(element),
                None if sorted => keyed.push_unsorted(element),
                None => keyed.queue.push(element),
            }
        }
        if waits {
            self.unblock(stage);
        }
        self.release_sorted(stage);
        if dropped > 0 {
            let late = Release::DroppedLate {
                stage,
                count: dropped,
            };
            self.actions.push_back(Action::Release(late));
        }
    }

    /// Queues elements of a stage with sorted input that nothing earlier can precede any more.
    pub(in crate::engine) fn release_sorted(&mut self, stage: StageId) {
        let complete = self.sorted_until(stage);
        if let Some(keyed) = &mut self.stages[stage.index()].keyed {
            keyed.release_sorted(complete);
        }
    }

    /// Elements up to here are all there, late ones included.
    fn sorted_until(&self, stage: StageId) -> Timestamp {
        let watermark = self.input_watermark(stage);
        if watermark == Timestamp::MAX {
            watermark
        } else {
            watermark.plus(-self.allowed_lateness(stage))
        }
    }

    /// Starts a bundle of idle keys on `worker` if there is work for one.
    pub(in crate::engine) fn form_keyed_bundle(
        &mut self,
        now: Timestamp,
        stage: StageId,
        worker: WorkerId,
        tables: &mut impl Tables,
    ) -> bool {
        let watermark = self.input_watermark(stage);
        let elements_max = self.settings.bundle_elements_max;
        let Some(keyed) = &mut self.stages[stage.index()].keyed else {
            return false;
        };
        let mut keys = take_timers(keyed, stage, tables.timers(), watermark, now, elements_max);
        let limits = Limits {
            bytes: self.settings.bundle_bytes_max,
            elements: elements_max,
        };
        let elements = take_elements(keyed, stage, tables.timers(), watermark, limits);
        expect(&elements, tables.payload());
        keys.extend(elements);
        note_next_timers(keyed, stage, tables.timers());
        if keys.is_empty() {
            return false;
        }
        let hold = keys.iter().map(hold_of).min().unwrap_or(Timestamp::MAX);
        let (input, timers) = encode(&keys);
        let bundle = KeyedBundle {
            keys,
            state: StateChanges::default(),
            timers: TimerChanges::default(),
        };
        let bundle = self.note_running(stage, Some(worker), hold, Work::Keys(bundle));
        self.actions.push_back(Action::StartBundle(StartBundle {
            bundle,
            stage,
            worker,
            input,
            timers,
            state_epoch: self.state_epoch,
            settled_side_inputs: self.settled_side_inputs(stage),
            truncates: false,
        }));
        true
    }

    /// Takes timers that a running bundle sets or clears.
    pub(in crate::engine) fn take_timers(
        &mut self,
        bundle: BundleId,
        transform: &str,
        family: &str,
        bytes: Bytes,
    ) {
        let Some(running) = self.bundles.get_mut(&bundle) else {
            return;
        };
        let graph = Arc::clone(&self.graph);
        let node = &graph.stages[running.stage.index()];
        let families = stages::executable(node).map_or(&[][..], |stage| &stage.timer_families);
        let found = families
            .iter()
            .enumerate()
            .find(|(_, known)| known.transform == transform && known.family == family);
        let taken = match (found, &mut running.keyed) {
            (Some((index, family)), Some(keyed)) => keyed
                .timers
                .add(index, family, bytes)
                .map_err(|error| error.to_string()),
            _ => Err("the stage has no such timer family".to_owned()),
        };
        if let Err(error) = taken {
            running.broken = Some(format!("timers of {transform} in {family}: {error}"));
        }
    }

    /// Answers a request for user state of a running bundle.
    pub(in crate::engine) fn serve_user_state(
        &mut self,
        bundle: BundleId,
        key: StateKey,
        operation: StateOperation,
        tables: &mut impl Tables,
    ) -> StateReply {
        let Some(running) = self.bundles.get_mut(&bundle) else {
            return StateReply::Error(format!("{bundle} is not running"));
        };
        let Some(keyed) = &mut running.keyed else {
            return StateReply::Error("the stage of the bundle keeps no state".to_owned());
        };
        let executable = stages::executable(&self.graph.stages[running.stage.index()]);
        let asking = Asking {
            bundle,
            stage: running.stage,
            states: executable.map_or(&[], |executable| &executable.user_states),
        };
        let table = tables.user_state();
        let reply = state::serve(asking, &mut keyed.state, table, key, operation);
        reply.unwrap_or_else(|| StateReply::Error("there is no such state".to_owned()))
    }

    /// Commits what a bundle did to its keys.
    pub(in crate::engine) fn commit_keyed(
        &mut self,
        stage: StageId,
        bundle: KeyedBundle,
        tables: &mut impl Tables,
    ) {
        let graph = Arc::clone(&self.graph);
        let node = &graph.stages[stage.index()];
        let lateness = self.allowed_lateness(stage);
        let expiration = stages::executable(node).and_then(|executable| {
            executable
                .timer_families
                .iter()
                .position(|family| family.on_window_expiration)
        });
        let Some(keyed) = &mut self.stages[stage.index()].keyed else {
            return;
        };
        for taken in &bundle.keys {
            if let KeyWork::Timers(fired) = &taken.work {
                for (domain, id, _) in fired {
                    if let Some(firing) = tables.timers().clear(stage, *domain, id) {
                        keyed.timer_holds.remove(firing.hold);
                    }
                }
            }
        }
        for taken in &bundle.keys {
            let KeyWork::Elements(elements) = &taken.work else {
                continue;
            };
            for window in elements.iter().flat_map(|element| &element.windows) {
                keyed.windows.note(window, lateness);
                if let Some(family) = expiration {
                    let id = TimerId {
                        key: taken.key.clone(),
                        window: window.clone(),
                        family,
                        tag: Bytes::new(),
                    };
                    set_expiration(keyed, stage, tables.timers(), id, lateness);
                }
            }
        }
        bundle.state.apply(tables.user_state());
        let set = bundle.timers.apply(
            stage,
            self.processing_time.ahead(),
            tables.timers(),
            &mut keyed.timer_holds,
        );
        for (id, _) in set {
            keyed.windows.note(&id.window, lateness);
        }
        for taken in bundle.keys {
            keyed.failures.remove(&taken.key);
            keyed.queue.free(&taken.key, Vec::new());
        }
        note_next_timers(keyed, stage, tables.timers());
        self.expire_windows(stage, tables);
    }

    /// Forgets state and timers of windows that nothing can reach any more.
    pub(in crate::engine) fn expire_windows(&mut self, stage: StageId, tables: &mut impl Tables) {
        let lateness = self.allowed_lateness(stage);
        let input = self.input_watermark(stage);
        loop {
            let held = input.min(self.stages[stage.index()].hold());
            let Some(keyed) = &mut self.stages[stage.index()].keyed else {
                return;
            };
            // A timer need not hold the watermark to have its turn.
            let watermark = keyed.next_event_timer.map_or(held, |at| held.min(at));
            let Some(window) = keyed.windows.expired(watermark).cloned() else {
                return;
            };
            keyed.windows.forget(&window, lateness);
            let mut encoded = Vec::new();
            coder::window::write(&mut encoded, &window);
            tables.user_state().expire(stage, &Bytes::from(encoded));
            for firing in tables.timers().expire(stage, &window) {
                keyed.timer_holds.remove(firing.hold);
            }
            note_next_timers(keyed, stage, tables.timers());
            self.dirty.insert(stage);
        }
    }

    /// The most failed tries of any key of the bundle.
    pub(in crate::engine) fn key_failures(
        &self,
        stage: StageId,
        bundle: Option<&KeyedBundle>,
    ) -> u32 {
        let (Some(keyed), Some(bundle)) = (&self.stages[stage.index()].keyed, bundle) else {
            return 0;
        };
        let failures = bundle
            .keys
            .iter()
            .filter_map(|taken| keyed.failures.get(&taken.key));
        failures.copied().max().unwrap_or(0)
    }

    /// Gives the keys of a failed bundle back, after a rest where the job may go on for ever.
    pub(in crate::engine) fn rest_keys(
        &mut self,
        now: Timestamp,
        stage: StageId,
        attempt: u32,
        bundle: KeyedBundle,
    ) {
        let pause = self.pause(attempt);
        let Some(keyed) = &mut self.stages[stage.index()].keyed else {
            return;
        };
        for TakenKey { key, work } in bundle.keys {
            keyed.failures.insert(key.clone(), attempt);
            let back = match work {
                KeyWork::Elements(elements) => elements,
                // They are still set.
                KeyWork::Timers(_) => Vec::new(),
            };
            if pause == 0 {
                keyed.queue.free(&key, back);
            } else {
                keyed.resting.insert((now.plus(pause), key), back);
            }
        }
    }

    /// Frees keys whose rest is over.
    pub(in crate::engine) fn end_rests(&mut self, now: Timestamp, stage: StageId) {
        let Some(keyed) = &mut self.stages[stage.index()].keyed else {
            return;
        };
        while let Some(entry) = keyed.resting.first_entry()
            && entry.key().0 <= now
        {
            let ((_, key), back) = entry.remove_entry();
            keyed.queue.free(&key, back);
        }
    }

    fn allowed_lateness(&self, stage: StageId) -> Millis {
        let input = self.graph.stages[stage.index()].inputs.first();
        input.map_or(0, |input| {
            self.graph.pcollections[input.index()]
                .windowing
                .allowed_lateness
        })
    }
}

/// Takes, for idle keys, the timers that fire next.
fn take_timers(
    keyed: &mut KeyedState,
    stage: StageId,
    timers: &impl TimerTable,
    watermark: Timestamp,
    now: Timestamp,
    keys_max: usize,
) -> Vec<TakenKey> {
    let mut taken: Vec<TakenKey> = Vec::new();
    for (domain, until) in [
        (TimeDomain::EventTime, watermark),
        (TimeDomain::ProcessingTime, now),
    ] {
        let mut chosen: BTreeSet<Bytes> = BTreeSet::new();
        timers.due(stage, domain, until, &mut |at, id| {
            // What came before the timer, in event time, is seen before it fires.
            let after_elements = domain == TimeDomain::EventTime
                && keyed
                    .queue
                    .lowest(&id.key)
                    .is_some_and(|lowest| lowest <= at);
            if !keyed.queue.is_busy(&id.key) && !after_elements {
                chosen.insert(id.key.clone());
            }
            taken.len() + chosen.len() < keys_max
        });
        for key in chosen {
            // A key that failed is tried alone.
            if keyed.failures.contains_key(&key) && !taken.is_empty() {
                continue;
            }
            let fires = timers.first_of_key(stage, domain, &key, until);
            if fires.is_empty() {
                continue;
            }
            keyed.queue.occupy(&key);
            let alone = keyed.failures.contains_key(&key);
            let fires = fires
                .into_iter()
                .map(|(id, firing)| (domain, id, firing))
                .collect();
            taken.push(TakenKey {
                key,
                work: KeyWork::Timers(fires),
            });
            if alone {
                return taken;
            }
        }
    }
    taken
}

/// Takes elements of idle keys that have no timer to fire before them.
fn take_elements(
    keyed: &mut KeyedState,
    stage: StageId,
    timers: &impl TimerTable,
    watermark: Timestamp,
    limits: Limits,
) -> Vec<TakenKey> {
    let mut taken = Vec::new();
    let mut left = limits;
    while left.elements > 0 && left.bytes > 0 {
        let failures = &keyed.failures;
        let first = taken.is_empty();
        let next = keyed.queue.take(left, |key, lowest| {
            let timer = timers.first_of_key(stage, TimeDomain::EventTime, key, watermark);
            let timer_first = timer
                .first()
                .is_some_and(|(_, firing)| firing.fire_at < lowest);
            timer_first || (!first && failures.contains_key(key))
        });
        let Some(next) = next else { break };
        if let KeyWork::Elements(elements) = &next.work {
            let bytes: usize = elements.iter().map(|element| element.encoded.len()).sum();
            left.elements = left.elements.saturating_sub(elements.len());
            left.bytes = left.bytes.saturating_sub(bytes);
        }
        let alone = keyed.failures.contains_key(&next.key);
        taken.push(next);
        if alone {
            break;
        }
    }
    taken
}

/// These elements will be read soon: one that is not in memory is read while the others are.
fn expect(keys: &[TakenKey], payload: &impl PayloadTable) {
    for key in keys {
        if let KeyWork::Elements(elements) = &key.work {
            for element in elements {
                payload.expect(&element.encoded);
            }
        }
    }
}

fn note_next_timers(keyed: &mut KeyedState, stage: StageId, timers: &impl TimerTable) {
    keyed.next_timer = timers.next(stage, TimeDomain::ProcessingTime);
    keyed.next_event_timer = timers.next(stage, TimeDomain::EventTime);
}

/// Sets the timer by which user code hears of the window's expiry.
fn set_expiration(
    keyed: &mut KeyedState,
    stage: StageId,
    timers: &mut impl TimerTable,
    id: TimerId,
    lateness: Millis,
) {
    let firing = TimerFiring {
        fire_at: expiry(&id.window, lateness),
        hold: id.window.max_timestamp(),
        pane: PaneInfo::NO_FIRING,
    };
    keyed.timer_holds.add(firing.hold);
    if let Some(former) = timers.set(stage, TimeDomain::EventTime, id, firing) {
        keyed.timer_holds.remove(former.hold);
    }
}

/// What the stage may still emit for a key is not earlier than this.
fn hold_of(taken: &TakenKey) -> Timestamp {
    let lowest = match &taken.work {
        KeyWork::Elements(elements) => elements.iter().map(|element| element.timestamp).min(),
        KeyWork::Timers(timers) => timers.iter().map(|(_, _, firing)| firing.hold).min(),
    };
    lowest.unwrap_or(Timestamp::MAX)
}

/// The keys' elements as one chunk, and their timers by family.
fn encode(keys: &[TakenKey]) -> (Vec<Chunk>, Vec<(usize, Bytes)>) {
    let mut bytes = Vec::new();
    let mut count = 0;
    let mut lowest = Timestamp::MAX;
    let mut timers: std::collections::BTreeMap<usize, Vec<u8>> = std::collections::BTreeMap::new();
    for taken in keys {
        match &taken.work {
            KeyWork::Elements(elements) => {
                for KeyedElement {
                    timestamp, encoded, ..
                } in elements
                {
                    bytes.extend_from_slice(encoded);
                    count += 1;
                    lowest = lowest.min(*timestamp);
                }
            }
            KeyWork::Timers(fires) => {
                for (_, id, firing) in fires {
                    let timer = Timer {
                        key: id.key.clone(),
                        tag: id.tag.clone(),
                        windows: vec![id.window.clone()],
                        firing: Some(*firing),
                    };
                    coder::timer::write(timers.entry(id.family).or_default(), &timer);
                }
            }
        }
    }
    let chunk = Chunk {
        bytes: Bytes::from(bytes),
        count,
        min_timestamp: lowest,
    };
    let input = if count == 0 { Vec::new() } else { vec![chunk] };
    (
        input,
        timers
            .into_iter()
            .map(|(family, timers)| (family, Bytes::from(timers)))
            .collect(),
    )
}
