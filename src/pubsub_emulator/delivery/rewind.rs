//! Time passes; and is turned back by seek.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::backlog::{Action, Backlog, Standing};
use super::consumer::{Consumer, ConsumerId};
use super::message::Message;
use super::time::Time;

impl Backlog {
    /// Does everything whose moment has come.
    pub fn advance(&mut self, now: Time) {
        self.drop_old(now);
        self.stalled_until = self.stalled_until.filter(|until| *until > now);
        while let Some((at, ids)) = self.timetable.pop_due(now) {
            for id in ids {
                self.fall_due(now, at, id);
            }
        }
        while let Some(first) = self.duplicates.first_entry() {
            if *first.key() > now {
                break;
            }
            self.duplicates_due.extend(first.remove());
        }
        self.end_streams(now);
        self.rouse();
    }

    /// When [`Backlog::advance`] has something to do next.
    pub fn next_wakeup(&self) -> Time {
        let oldest = self.entries.first_key_value();
        let oldest = oldest.map(|(_, entry)| entry.message.publish_time);
        let retained = self.acked.first_key_value();
        let retained = retained.map(|(_, message)| message.publish_time);
        let ends = self.consumers.values().map(Consumer::over_at);
        let dropped = [oldest, retained].into_iter().flatten();
        let dropped = dropped.map(|published| published.plus(self.policy.retention));
        [
            self.timetable.next(),
            self.next_duplicate(),
            self.stalled_until,
        ]
        .into_iter()
        .flatten()
        .chain(ends)
        .chain(dropped)
        .min()
        .unwrap_or(Time::NEVER)
    }

    /// The unacknowledged messages, oldest first.
    pub fn unacked(&self) -> Vec<Arc<Message>> {
        let entries = self.entries.values();
        let unacked = entries.filter(|entry| entry.standing != Standing::Behind);
        unacked.map(|entry| Arc::clone(&entry.message)).collect()
    }

    /// Marks everything published before `time` as acknowledged, and everything since as not:
    /// messages retained here, and those of `topic_log`.
    pub fn seek_to_time(&mut self, time: Time, topic_log: &[Arc<Message>]) {
        let mut known = self.known();
        for message in topic_log {
            known.insert(message.id, Arc::clone(message));
        }
        let unacked = known
            .values()
            .filter(|message| message.publish_time >= time);
        let unacked: Vec<_> = unacked.map(Arc::clone).collect();
        self.restart(known, &unacked);
    }

    /// Makes exactly these messages unacknowledged, as far as the filter lets them in.
    pub fn seek_to_messages(&mut self, unacked: &[Arc<Message>]) {
        let known = self.known();
        self.restart(known, unacked);
    }

    /// Every message at hand, acknowledged or not.
    fn known(&self) -> BTreeMap<u64, Arc<Message>> {
        let mut known = self.acked.clone();
        let entries = self.entries.iter();
        known.extend(entries.map(|(id, entry)| (*id, Arc::clone(&entry.message))));
        known
    }

    fn restart(&mut self, known: BTreeMap<u64, Arc<Message>>, unacked: &[Arc<Message>]) {
        self.forget_messages();
        for message in unacked {
            if self.policy.filter.accepts(message) && !self.entries.contains_key(&message.id) {
                self.insert(message, Standing::Ready);
                self.offer_fresh(message);
            }
        }
        self.acked.clear();
        if self.policy.retain_acked {
            let Backlog {
                entries, policy, ..
            } = &*self;
            let acked = known.into_iter().filter(|(id, message)| {
                !entries.contains_key(id) && policy.filter.accepts(message)
            });
            self.acked = acked.collect();
        }
        self.rouse();
    }

    /// Forgets the unacknowledged messages; ack ids given out so far mean nothing any more.
    pub(super) fn forget_messages(&mut self) {
        let ids: Vec<u64> = self.entries.keys().copied().collect();
        for id in ids {
            self.remove(id);
        }
        self.ready.clear();
        self.timetable.clear();
        self.duplicates.clear();
        self.duplicates_due.clear();
        debug_assert_eq!(self.tally.leased, 0, "nothing is out any more");
    }

    /// Drops messages older than the retention, whoever holds them.
    fn drop_old(&mut self, now: Time) {
        let horizon = now.minus(self.policy.retention);
        while let Some(first) = self.acked.first_entry() {
            if first.get().publish_time > horizon {
                break;
            }
            first.remove();
        }
        while let Some((id, entry)) = self.entries.first_key_value() {
            if entry.message.publish_time > horizon {
                break;
            }
            let (id, message) = (*id, Arc::clone(&entry.message));
            self.remove(id);
            self.counters.dropped += 1;
            if self.is_ordered(&message) {
                for id in self.ready.lines.settle(&message.ordering_key, id) {
                    self.remove(id);
                }
            }
        }
    }

    fn fall_due(&mut self, now: Time, at: Time, id: u64) {
        let Some(entry) = self.entries.get(&id) else {
            return;
        };
        match entry.standing {
            Standing::Leased { deadline, .. } if deadline == at => {
                self.counters.expired += 1;
                self.fail(now, id);
            }
            Standing::Waiting { until } if until == at => {
                let (message, is_new) = (Arc::clone(&entry.message), entry.generation == 0);
                self.stand(id, Standing::Ready);
                if self.is_ordered(&message) {
                    self.ready.lines.push(&message.ordering_key, id);
                    self.ready.lines.resume(&message.ordering_key, id);
                } else if is_new {
                    self.ready.push_fresh(id);
                } else {
                    self.ready.push_again(id);
                }
            }
            // The row was of an earlier standing.
            Standing::Leased { .. }
            | Standing::Waiting { .. }
            | Standing::Ready
            | Standing::Behind => {}
        }
    }

    fn next_duplicate(&self) -> Option<Time> {
        self.duplicates.first_key_value().map(|(at, _)| *at)
    }

    fn end_streams(&mut self, now: Time) {
        let over = self.consumers.iter();
        let over = over.filter(|(_, consumer)| consumer.over_at() <= now);
        let over: Vec<ConsumerId> = over.map(|(id, _)| *id).collect();
        for id in over {
            self.actions.push_back(Action::End(id));
        }
    }
}
