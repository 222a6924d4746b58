//! The messages of one subscription and who holds them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::consumer::{Consumer, ConsumerId, ConsumerKind};
use super::faults::DeliveryFaults;
use super::message::Message;
use super::policy::Policy;
use super::ready::Ready;
use super::rng::Rng;
use super::stats::{Counters, Stats};
use super::time::Time;
use super::timetable::Timetable;

/// The unacknowledged messages of one subscription.
///
/// Invariants: a message is in exactly one [`Standing`]; what is leased or waiting has a row in the
/// timetable at exactly its moment; a consumer's outstanding count is the number of messages leased
/// to it.
#[derive(Debug)]
pub struct Backlog {
    pub(super) tag: u64,
    pub(super) policy: Policy,
    pub(super) faults: DeliveryFaults,
    pub(super) entries: BTreeMap<u64, Entry>,
    /// Acknowledged messages kept for seek.
    pub(super) acked: BTreeMap<u64, Arc<Message>>,
    pub(super) ready: Ready,
    pub(super) timetable: Timetable,
    /// Second deliveries to come, and those that are due.
    pub(super) duplicates: BTreeMap<Time, Vec<u64>>,
    pub(super) duplicates_due: VecDeque<u64>,
    pub(super) consumers: BTreeMap<ConsumerId, Consumer>,
    pub(super) next_generation: u64,
    pub(super) tally: Tally,
    pub(super) counters: Counters,
    pub(super) stalled_until: Option<Time>,
    pub(super) actions: VecDeque<Action>,
}

/// One message's place in the backlog.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) message: Arc<Message>,
    pub(super) standing: Standing,
    /// Nacks and expired leases.
    pub(super) failures: u32,
    /// The newest delivery, 0 before the first.
    pub(super) generation: u64,
    /// Ack ids of older deliveries than this one mean nothing any more.
    pub(super) valid_from: u64,
}

/// Where a message stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It may go out.
    Ready,
    /// It may not go out before that moment.
    Waiting { until: Time },
    /// A consumer has it.
    Leased {
        consumer: ConsumerId,
        deadline: Time,
    },
    /// Acknowledged, while an earlier message of its ordering key is not.
    Behind,
}

/// How many messages are in which standing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) leased: usize,
    pub(super) waiting: usize,
    pub(super) behind: usize,
    pub(super) bytes: u64,
}

/// What a backlog wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// There may be messages for this consumer, which got none when it last asked.
    Wake(ConsumerId),
    /// Publish the message to the dead-letter topic; it has failed that often.
    DeadLetter {
        message: Arc<Message>,
        failures: u32,
    },
    /// The stream's life is over.
    End(ConsumerId),
}

/// One message on its way to a consumer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The number of this delivery within the subscription.
    pub generation: u64,
    /// The message.
    pub message: Arc<Message>,
    /// 1 for the first attempt; 0 where the subscription has no dead-letter policy.
    pub attempt: u32,
}

/// How much may go out in one response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Messages.
    pub messages: usize,
    /// No message is added once this many bytes are in it.
    pub bytes: u64,
}

impl Backlog {
    /// An empty backlog. `tag` goes into its ack ids and is never used for another one.
    pub fn new(tag: u64, policy: Policy) -> Backlog {
        Backlog {
            tag,
            policy,
            faults: DeliveryFaults::default(),
            entries: BTreeMap::new(),
            acked: BTreeMap::new(),
            ready: Ready::default(),
            timetable: Timetable::default(),
            duplicates: BTreeMap::new(),
            duplicates_due: VecDeque::new(),
            consumers: BTreeMap::new(),
            next_generation: 1,
            tally: Tally::default(),
            counters: Counters::default(),
            stalled_until: None,
            actions: VecDeque::new(),
        }
    }

    /// Takes other settings; messages that are out keep the deadlines they have.
    pub fn set_policy(&mut self, policy: Policy) {
        self.policy = policy;
    }

    /// Misbehaves like that from now on.
    pub fn set_faults(&mut self, faults: DeliveryFaults) {
        self.faults = faults;
        self.rouse();
    }

    /// Delivers nothing until then.
    pub fn stall(&mut self, until: Time) {
        self.stalled_until = Some(until);
        self.rouse();
    }

    /// A message of the topic.
    pub fn publish(&mut self, now: Time, message: &Arc<Message>, rng: &mut Rng) {
        if !self.policy.filter.accepts(message) {
            self.counters.filtered += 1;
            return;
        }
        self.counters.published += 1;
        self.insert(message, Standing::Ready);
        let delay = self.faults.delay(|| rng.fraction());
        if delay.is_zero() || self.is_ordered(message) {
            self.offer_fresh(message);
        } else {
            let until = now.plus(delay);
            self.stand(message.id, Standing::Waiting { until });
        }
        self.rouse();
    }

    /// Registers a stream or pull.
    pub fn open(&mut self, id: ConsumerId, consumer: Consumer) {
        assert!(id != ConsumerId::GONE, "consumers count from 1");
        self.consumers.insert(id, consumer);
    }

    /// The messages that go to `consumer` now. If there are none, the consumer sleeps until
    /// [`Action::Wake`].
    pub fn take(
        &mut self,
        now: Time,
        consumer: ConsumerId,
        limit: Limit,
        rng: &mut Rng,
    ) -> Vec<Delivery> {
        let mut deliveries = Vec::new();
        if self.stalls(now) {
            self.put_to_sleep(consumer);
            return deliveries;
        }
        let share = limit.messages.min(self.fair_share(consumer));
        let mut bytes = 0;
        while deliveries.len() < share && bytes < limit.bytes && self.has_credit(consumer) {
            let Some(id) = self.next_for(consumer, rng) else {
                break;
            };
            let Some(delivery) = self.lease(now, consumer, id, rng) else {
                continue;
            };
            bytes += delivery.message.size();
            deliveries.push(delivery);
        }
        match self.consumers.get_mut(&consumer) {
            Some(state) if !deliveries.is_empty() => state.active_at = now,
            Some(_) | None => {}
        }
        if deliveries.is_empty() {
            self.put_to_sleep(consumer);
        }
        deliveries
    }

    /// Drops every message.
    pub fn clear(&mut self) {
        self.forget_messages();
        self.acked.clear();
    }

    /// What the backlog wants done next.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// The number in this subscription's ack ids.
    pub fn tag(&self) -> u64 {
        self.tag
    }

    /// The settings in force.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// A registered consumer.
    pub fn consumer(&self, id: ConsumerId) -> Option<&Consumer> {
        self.consumers.get(&id)
    }

    /// Changes a registered consumer: it was heard of, or wants another deadline.
    pub fn consumer_mut(&mut self, id: ConsumerId) -> Option<&mut Consumer> {
        self.consumers.get_mut(&id)
    }

    /// The registered consumers.
    pub fn consumers(&self) -> impl Iterator<Item = (ConsumerId, &Consumer)> {
        self.consumers.iter().map(|(id, consumer)| (*id, consumer))
    }

    /// When the oldest unacknowledged message was published.
    pub fn oldest_unacked(&self) -> Option<Time> {
        let live = |entry: &&Entry| entry.standing != Standing::Behind;
        let oldest = self.entries.values().find(live)?;
        Some(oldest.message.publish_time)
    }

    /// Totals and present state.
    pub fn stats(&self, now: Time) -> Stats {
        let is_stream = |consumer: &&Consumer| consumer.kind == ConsumerKind::Stream;
        Stats {
            counters: self.counters,
            backlog: self.entries.len() - self.tally.behind,
            outstanding: self.tally.leased,
            backlog_bytes: self.tally.bytes,
            retained: self.acked.len(),
            oldest_unacked_seconds: self
                .oldest_unacked()
                .map(|published| now.since(published).as_secs_f64()),
            streams: self.consumers.values().filter(is_stream).count(),
        }
    }

    /// Adds a message in the given standing, and nothing else.
    pub(super) fn insert(&mut self, message: &Arc<Message>, standing: Standing) {
        self.tally.bytes += message.size();
        let entry = Entry {
            message: Arc::clone(message),
            standing,
            failures: 0,
            generation: 0,
            valid_from: self.next_generation,
        };
        let before = self.entries.insert(message.id, entry);
        debug_assert!(before.is_none(), "message ids are unique");
    }

    /// Moves a message to another standing, keeping timetable, counts and credit.
    pub(super) fn stand(&mut self, id: u64, standing: Standing) {
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        let before = std::mem::replace(&mut entry.standing, standing);
        let size = entry.message.size();
        self.leave(before, size);
        match standing {
            Standing::Ready => {}
            Standing::Waiting { until } => {
                self.tally.waiting += 1;
                self.timetable.add(until, id);
            }
            Standing::Leased { consumer, deadline } => {
                self.tally.leased += 1;
                self.timetable.add(deadline, id);
                if let Some(consumer) = self.consumers.get_mut(&consumer) {
                    consumer.charge(size);
                }
            }
            Standing::Behind => self.tally.behind += 1,
        }
    }

    /// Removes a message.
    pub(super) fn remove(&mut self, id: u64) -> Option<Entry> {
        let entry = self.entries.remove(&id)?;
        let size = entry.message.size();
        self.leave(entry.standing, size);
        self.tally.bytes = self.tally.bytes.saturating_sub(size);
        Some(entry)
    }

    fn leave(&mut self, standing: Standing, size: u64) {
        match standing {
            Standing::Ready => {}
            Standing::Waiting { until } => {
                self.tally.waiting -= 1;
                self.timetable.remove(until);
            }
            Standing::Leased { consumer, deadline } => {
                self.tally.leased -= 1;
                self.timetable.remove(deadline);
                if let Some(consumer) = self.consumers.get_mut(&consumer) {
                    consumer.refund(size);
                }
            }
            Standing::Behind => self.tally.behind -= 1,
        }
    }

    /// Queues a message that was never delivered.
    pub(super) fn offer_fresh(&mut self, message: &Message) {
        if self.is_ordered(message) {
            self.ready.lines.push(&message.ordering_key, message.id);
        } else {
            self.ready.push_fresh(message.id);
        }
    }

    /// Whether the message has to keep its place in a line.
    pub(super) fn is_ordered(&self, message: &Message) -> bool {
        self.policy.ordering && !message.ordering_key.is_empty()
    }

    /// Wakes the consumers that sleep although there may be messages for them.
    pub(super) fn rouse(&mut self) {
        if self.ready_len() == 0 && self.duplicates_due.is_empty() {
            return;
        }
        for (id, consumer) in &mut self.consumers {
            if consumer.asleep && consumer.has_credit() {
                consumer.asleep = false;
                self.actions.push_back(Action::Wake(*id));
            }
        }
    }

    /// How many messages may go out now.
    pub(super) fn ready_len(&self) -> usize {
        let Tally {
            leased,
            waiting,
            behind,
            ..
        } = self.tally;
        self.entries.len() - leased - waiting - behind
    }

    fn put_to_sleep(&mut self, consumer: ConsumerId) {
        if let Some(consumer) = self.consumers.get_mut(&consumer) {
            consumer.asleep = true;
        }
    }

    fn has_credit(&self, consumer: ConsumerId) -> bool {
        self.consumers
            .get(&consumer)
            .is_some_and(Consumer::has_credit)
    }

    /// So many messages that the other streams with credit get as many.
    fn fair_share(&self, consumer: ConsumerId) -> usize {
        let is_pull = |consumer: &Consumer| consumer.kind == ConsumerKind::Pull;
        if self.consumers.get(&consumer).is_some_and(is_pull) {
            return usize::MAX;
        }
        let able = self.consumers.values().filter(|one| one.has_credit());
        let ready = self.ready_len() + self.duplicates_due.len();
        ready.div_ceil(able.count().max(1)).max(1)
    }

    /// Whether nothing goes out now; if so, `stalled_until` says how long.
    fn stalls(&mut self, now: Time) -> bool {
        if let Some((every, lasting)) = self.faults.stall() {
            let phase = phase(now, every);
            if phase < lasting {
                self.stalled_until = Some(now.plus(lasting.saturating_sub(phase)));
            }
        }
        self.stalled_until.is_some_and(|until| now < until)
    }
}

/// How far `now` is into its period.
fn phase(now: Time, every: Duration) -> Duration {
    let nanos = now.since(Time::default()).as_nanos() % every.as_nanos().max(1);
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))
}
