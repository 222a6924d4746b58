//! Messages go out, come back, and are acknowledged.

use std::sync::Arc;

use super::ack_id::AckId;
use super::backlog::{Action, Backlog, Delivery, Entry, Standing};
use super::consumer::{Consumer, ConsumerId, ConsumerKind};
use super::message::Message;
use super::rng::Rng;
use super::time::Time;

/// What became of an ack, a nack or an extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckOutcome {
    /// It counts.
    Done,
    /// The ack id means nothing any more, or never did.
    Invalid,
    /// An earlier message of the ordering key has to be acknowledged before.
    Unordered,
    /// It failed for now; the client should try again.
    Failed,
}

impl Backlog {
    /// Acknowledges a delivery.
    pub fn acknowledge(&mut self, ack_id: AckId, rng: &mut Rng) -> AckOutcome {
        let Some(entry) = self.entry_of(ack_id) else {
            self.counters.acks_ignored += 1;
            return AckOutcome::Invalid;
        };
        let message = Arc::clone(&entry.message);
        let (is_behind, exactly_once) =
            (entry.standing == Standing::Behind, self.policy.exactly_once);
        if is_behind {
            return AckOutcome::Done;
        }
        if exactly_once && rng.chance(self.faults.failed_ack_rate) {
            return AckOutcome::Failed;
        }
        if rng.chance(self.faults.lost_ack_rate) {
            self.counters.acks_lost += 1;
            return AckOutcome::Done;
        }
        if self.is_ordered(&message) {
            if !self.ready.lines.is_first(&message.ordering_key, message.id) {
                if exactly_once {
                    return AckOutcome::Unordered;
                }
                self.ready
                    .lines
                    .leave_behind(&message.ordering_key, message.id);
                self.stand(message.id, Standing::Behind);
                self.rouse();
                return AckOutcome::Done;
            }
            for id in self.ready.lines.settle(&message.ordering_key, message.id) {
                self.finish(id);
            }
        }
        self.finish(message.id);
        self.rouse();
        AckOutcome::Done
    }

    /// Extends the lease of a delivery, or with zero seconds gives the message back.
    pub fn modify_deadline(&mut self, now: Time, ack_id: AckId, seconds: u64) -> AckOutcome {
        let Some(entry) = self.entry_of(ack_id) else {
            return AckOutcome::Invalid;
        };
        let (id, standing) = (entry.message.id, entry.standing);
        if seconds == 0 {
            return self.nack(now, id, standing);
        }
        let deadline = now.plus(std::time::Duration::from_secs(seconds));
        let consumer = match standing {
            Standing::Leased { consumer, .. } => consumer,
            Standing::Behind | Standing::Waiting { .. } => return AckOutcome::Done,
            Standing::Ready => {
                if !self.reclaim(id) {
                    return AckOutcome::Invalid;
                }
                ConsumerId::GONE
            }
        };
        self.counters.extended += 1;
        self.stand(id, Standing::Leased { consumer, deadline });
        AckOutcome::Done
    }

    /// Unregisters a consumer. The messages of a stream go to another stream of the same client, or
    /// come back at once if `give_back` says so, or stay out until their deadline.
    pub fn close(&mut self, id: ConsumerId, give_back: bool) {
        let Some(closed) = self.consumers.remove(&id) else {
            return;
        };
        if closed.kind == ConsumerKind::Stream && closed.messages > 0 {
            let heir = self.heir(&closed);
            let give_back = give_back && !self.policy.exactly_once;
            if heir.is_some() || give_back {
                self.pass_on(id, heir);
            }
        }
        self.rouse();
    }

    /// The next message that `consumer` may have.
    pub(super) fn next_for(&mut self, consumer: ConsumerId, rng: &mut Rng) -> Option<u64> {
        while let Some(id) = self.duplicates_due.pop_front() {
            let is_out = |entry: &Entry| matches!(entry.standing, Standing::Leased { .. });
            if self.entries.get(&id).is_some_and(is_out) {
                return Some(id);
            }
        }
        loop {
            let id = self.ready.pop(consumer, self.faults.reorder_window, rng)?;
            let is_ready = |entry: &Entry| entry.standing == Standing::Ready;
            if self.entries.get(&id).is_some_and(is_ready) {
                return Some(id);
            }
        }
    }

    /// Sends a message out.
    pub(super) fn lease(
        &mut self,
        now: Time,
        consumer: ConsumerId,
        id: u64,
        rng: &mut Rng,
    ) -> Option<Delivery> {
        let ack_deadline = self.consumers.get(&consumer)?.ack_deadline;
        let deadline = now.plus(ack_deadline);
        let entry = self.entries.get_mut(&id)?;
        let is_duplicate = matches!(entry.standing, Standing::Leased { .. });
        let generation = self.next_generation;
        self.next_generation += 1;
        self.counters.delivered += 1;
        if entry.generation != 0 {
            self.counters.redelivered += 1;
        }
        entry.generation = generation;
        if self.policy.exactly_once {
            entry.valid_from = generation;
        }
        let message = Arc::clone(&entry.message);
        let attempt = self.policy.attempts_max.map_or(0, |_| entry.failures + 1);
        self.stand(id, Standing::Leased { consumer, deadline });
        if !is_duplicate {
            self.draw_duplicate(now, id, rng);
        }
        Some(Delivery {
            generation,
            message,
            attempt,
        })
    }

    /// A delivery failed: the message comes again, now or later, or becomes a dead letter.
    pub(super) fn fail(&mut self, now: Time, id: u64) {
        let next_generation = self.next_generation;
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        entry.failures += 1;
        entry.valid_from = next_generation;
        let (failures, message) = (entry.failures, Arc::clone(&entry.message));
        if self.policy.attempts_max.is_some_and(|max| failures >= max) {
            self.bury(id, failures);
            return;
        }
        let wait = self.policy.retry.map(|retry| retry.wait(failures));
        let until = wait
            .filter(|wait| !wait.is_zero())
            .map(|wait| now.plus(wait));
        if self.is_ordered(&message) {
            self.rewind_line(&message.ordering_key, id);
            if until.is_some() {
                self.ready.lines.pause(&message.ordering_key, id);
            }
        } else if until.is_none() {
            self.ready.push_again(id);
        }
        let standing = until.map_or(Standing::Ready, |until| Standing::Waiting { until });
        self.stand(id, standing);
    }

    /// Puts back a dead letter that nobody took.
    pub fn restore(&mut self, now: Time, message: &Arc<Message>, failures: u32) {
        self.insert(message, Standing::Ready);
        let wait = self.policy.retry.map(|retry| retry.wait(failures));
        if let Some(entry) = self.entries.get_mut(&message.id) {
            entry.failures = failures.saturating_sub(1);
        }
        match wait.filter(|wait| !wait.is_zero()) {
            Some(wait) => {
                let until = now.plus(wait);
                self.stand(message.id, Standing::Waiting { until });
            }
            None => self.offer_again(message),
        }
        self.rouse();
    }

    /// Removes an acknowledged message.
    fn finish(&mut self, id: u64) {
        let Some(entry) = self.remove(id) else {
            return;
        };
        self.counters.acked += 1;
        if self.policy.retain_acked {
            self.acked.insert(id, entry.message);
        }
    }

    /// The message that a still meaningful ack id names.
    fn entry_of(&self, ack_id: AckId) -> Option<&Entry> {
        let entry = self.entries.get(&ack_id.message)?;
        let known = ack_id.subscription == self.tag
            && ack_id.generation >= entry.valid_from
            && ack_id.generation <= entry.generation;
        let is_out = matches!(entry.standing, Standing::Leased { .. });
        (known && (is_out || !self.policy.exactly_once)).then_some(entry)
    }

    fn nack(&mut self, now: Time, id: u64, standing: Standing) -> AckOutcome {
        match standing {
            Standing::Leased { .. } => {
                self.counters.nacked += 1;
                self.fail(now, id);
                self.rouse();
            }
            // It is back already, or acknowledged.
            Standing::Ready | Standing::Waiting { .. } | Standing::Behind => {}
        }
        AckOutcome::Done
    }

    /// Gives a message that failed too often to the dead-letter topic.
    fn bury(&mut self, id: u64, failures: u32) {
        let Some(entry) = self.remove(id) else {
            return;
        };
        if self.is_ordered(&entry.message) {
            for id in self.ready.lines.settle(&entry.message.ordering_key, id) {
                self.finish(id);
            }
        }
        self.counters.dead_lettered += 1;
        self.actions.push_back(Action::DeadLetter {
            message: entry.message,
            failures,
        });
    }

    /// Puts the messages of a line from `id` on back to ready, acknowledged ones included.
    fn rewind_line(&mut self, key: &str, id: u64) {
        for other in self.ready.lines.rewind(key, id) {
            if let Some(entry) = self.entries.get_mut(&other) {
                entry.valid_from = self.next_generation;
            }
            self.stand(other, Standing::Ready);
        }
    }

    /// Queues a message that was out.
    pub(super) fn offer_again(&mut self, message: &Message) {
        if self.is_ordered(message) {
            self.ready.lines.push(&message.ordering_key, message.id);
        } else {
            self.ready.push_again(message.id);
        }
    }

    /// Whether a message that came back may go out again on its old ack id.
    fn reclaim(&mut self, id: u64) -> bool {
        let Some(entry) = self.entries.get(&id) else {
            return false;
        };
        let message = Arc::clone(&entry.message);
        !self.is_ordered(&message) || self.ready.lines.reclaim(&message.ordering_key, id)
    }

    /// Another stream of the same client.
    fn heir(&self, closed: &Consumer) -> Option<ConsumerId> {
        let is_heir = |consumer: &Consumer| {
            !closed.client.is_empty()
                && consumer.kind == ConsumerKind::Stream
                && consumer.client == closed.client
        };
        let mut heirs = self.consumers.iter().filter(|(_, one)| is_heir(one));
        heirs.next_back().map(|(id, _)| *id)
    }

    /// Moves the messages of a closed stream to its heir, or back to the queue.
    fn pass_on(&mut self, closed: ConsumerId, heir: Option<ConsumerId>) {
        let mut held = Vec::new();
        for (id, entry) in &self.entries {
            if let Standing::Leased { consumer, deadline } = entry.standing
                && consumer == closed
            {
                held.push((*id, deadline, Arc::clone(&entry.message)));
            }
        }
        for (id, deadline, message) in held {
            if let Some(heir) = heir {
                self.stand(
                    id,
                    Standing::Leased {
                        consumer: heir,
                        deadline,
                    },
                );
                if self.is_ordered(&message) {
                    self.ready.lines.adopt(&message.ordering_key, heir);
                }
                continue;
            }
            let is_out = |entry: &Entry| matches!(entry.standing, Standing::Leased { .. });
            if !self.entries.get(&id).is_some_and(is_out) {
                continue; // A rewind of its line has put it back.
            }
            self.counters.returned += 1;
            if self.is_ordered(&message) {
                self.rewind_line(&message.ordering_key, id);
            } else {
                self.stand(id, Standing::Ready);
                self.ready.push_again(id);
            }
        }
    }

    /// Perhaps plans a second delivery. Ordered messages have none: it would break their order.
    fn draw_duplicate(&mut self, now: Time, id: u64, rng: &mut Rng) {
        if self.policy.exactly_once || !rng.chance(self.faults.duplicate_rate) {
            return;
        }
        let is_ordered = |entry: &Entry| self.is_ordered(&entry.message);
        if self.entries.get(&id).is_some_and(is_ordered) {
            return;
        }
        let at = now.plus(self.faults.duplicate_delay());
        self.duplicates.entry(at).or_default().push(id);
    }
}
