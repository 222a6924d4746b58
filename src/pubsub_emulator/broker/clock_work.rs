//! Performing what backlogs ask for, and the passing of time.

use std::time::Duration;

use super::refusal::Refusal;
use super::resources::{Broker, Subscription};
use crate::pubsub_emulator::delivery::{Action, ConsumerId, ConsumerKind, Time};

impl Broker {
    /// Does everything whose moment has come.
    pub fn advance(&mut self, now: Time) {
        self.soonest = Time::NEVER;
        for name in self.names_of_subscriptions() {
            if self.is_expired(now, &name) {
                self.remove_subscription(now, &name);
                continue;
            }
            if let Some(subscription) = self.subscriptions.get_mut(&name) {
                subscription.backlog.advance(now);
            }
            self.settle(now, &name);
        }
        self.snapshots.retain(|_, snapshot| snapshot.expires > now);
        let expiries = self.snapshots.values().map(|snapshot| snapshot.expires);
        self.soonest = expiries.fold(self.soonest, Time::min);
        self.trim_logs(now);
    }

    /// Ends the streams of one subscription or of all.
    pub fn kill_streams(
        &mut self,
        now: Time,
        subscription: Option<&str>,
        death: &Refusal,
    ) -> usize {
        let is_hit = |name: &String| subscription.is_none_or(|wanted| wanted == name);
        let hit = self.consumers.iter().filter(|(_, name)| is_hit(name));
        let hit: Vec<ConsumerId> = hit.map(|(id, _)| *id).collect();
        let streams = hit.into_iter().filter(|id| self.is_stream(*id));
        let streams: Vec<ConsumerId> = streams.collect();
        for id in &streams {
            self.end(now, *id, death.clone());
        }
        streams.len()
    }

    /// Delivers nothing on one subscription, or on all, for that long; streams stay open.
    pub fn stall(&mut self, now: Time, subscription: Option<&str>, lasting: Duration) {
        for name in self.names_of_subscriptions() {
            if subscription.is_some_and(|wanted| wanted != name) {
                continue;
            }
            if let Some(subscription) = self.subscriptions.get_mut(&name) {
                subscription.backlog.stall(now.plus(lasting));
            }
            self.settle(now, &name);
        }
    }

    /// Performs what a subscription's backlog asks for.
    pub(super) fn settle(&mut self, now: Time, name: &str) {
        loop {
            let Some(subscription) = self.subscriptions.get_mut(name) else {
                return;
            };
            let Some(action) = subscription.backlog.poll_action() else {
                let due = subscription.backlog.next_wakeup();
                let expiry = expiry(subscription);
                self.soonest = self.soonest.min(due).min(expiry);
                return;
            };
            match action {
                Action::Wake(consumer) => self.wakes.push(consumer),
                Action::DeadLetter { message, failures } => {
                    self.dead_letter(now, name, &message, failures);
                }
                Action::End(consumer) => {
                    let death = self.streams.death.clone();
                    self.end(now, consumer, death);
                }
            }
        }
    }

    /// Ends a stream: its task learns of it when it wakes.
    pub(super) fn end(&mut self, now: Time, consumer: ConsumerId, death: Refusal) {
        self.ended.entry(consumer).or_insert(death);
        self.wakes.push(consumer);
        let give_back = self.streams.give_back;
        let Some(name) = self.consumers.remove(&consumer) else {
            return;
        };
        if let Some(subscription) = self.subscriptions.get_mut(&name) {
            subscription.backlog.close(consumer, give_back);
            self.settle(now, &name);
        }
    }

    fn is_stream(&self, id: ConsumerId) -> bool {
        let name = self.consumers.get(&id);
        let subscription = name.and_then(|name| self.subscriptions.get(name));
        let consumer = subscription.and_then(|subscription| subscription.backlog.consumer(id));
        consumer.is_some_and(|consumer| consumer.kind == ConsumerKind::Stream)
    }

    /// Whether nobody used the subscription for as long as its policy allows.
    fn is_expired(&mut self, now: Time, name: &str) -> bool {
        let Some(subscription) = self.subscriptions.get_mut(name) else {
            return false;
        };
        if subscription.backlog.consumers().next().is_some() {
            subscription.active_at = now;
        }
        expiry(subscription) <= now
    }

    /// Drops what neither the retention of a topic nor a snapshot needs.
    fn trim_logs(&mut self, now: Time) {
        let snapshots = &self.snapshots;
        for (name, topic) in &mut self.topics {
            let of_topic = snapshots.values().filter(|one| one.proto.topic == *name);
            let position = of_topic.map(|one| one.position).min().unwrap_or(u64::MAX);
            let retention = retention(topic.proto.message_retention_duration.as_ref());
            let horizon = retention.map(|retention| now.minus(retention));
            while let Some(first) = topic.log.front() {
                let is_recent = horizon.is_some_and(|horizon| first.publish_time > horizon);
                if first.id >= position || is_recent {
                    break;
                }
                topic.log.pop_front();
            }
        }
    }
}

/// When the subscription expires unless it is used.
fn expiry(subscription: &Subscription) -> Time {
    let policy = subscription.proto.expiration_policy.as_ref();
    let ttl = retention(policy.and_then(|policy| policy.ttl.as_ref()));
    ttl.map_or(Time::NEVER, |ttl| subscription.active_at.plus(ttl))
}

/// A duration of a resource, which has been checked to be positive.
pub(super) fn retention(duration: Option<&prost_types::Duration>) -> Option<Duration> {
    duration.and_then(|duration| Duration::try_from(*duration).ok())
}
