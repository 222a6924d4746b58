//! Everything the emulator holds.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use googleapis_tonic_google_pubsub_v1::google::pubsub::v1 as pb;

use super::refusal::{Refusal, Result};
use crate::pubsub_emulator::delivery::{
    Backlog, ConsumerId, DeliveryFaults, Message, Rng, Stats, Time,
};

/// All topics, subscriptions and snapshots.
///
/// After each call the owner drains [`Broker::take_wakes`] and sees to it that
/// [`Broker::advance`] is called at [`Broker::next_wakeup`].
#[derive(Debug)]
pub struct Broker {
    pub(super) rng: Rng,
    pub(super) streams: StreamRules,
    pub(super) faults: DeliveryFaults,
    pub(super) faults_of: BTreeMap<String, DeliveryFaults>,
    pub(super) topics: BTreeMap<String, Topic>,
    pub(super) subscriptions: BTreeMap<String, Subscription>,
    pub(super) snapshots: BTreeMap<String, Snapshot>,
    /// The subscription of each open stream and pull.
    pub(super) consumers: BTreeMap<ConsumerId, String>,
    /// Streams that were ended and have not been told yet.
    pub(super) ended: BTreeMap<ConsumerId, Refusal>,
    pub(super) next_message: u64,
    pub(super) next_tag: u64,
    pub(super) next_consumer: u64,
    pub(super) wakes: Vec<ConsumerId>,
    pub(super) soonest: Time,
    pub(super) access: BTreeMap<String, Bytes>,
}

/// What the server does with streams.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamRules {
    /// A stream is ended after this time; none means never.
    pub life: Option<Duration>,
    /// A stream without any traffic is ended after this time.
    pub idle_max: Option<Duration>,
    /// What a stream ends with.
    pub death: Refusal,
    /// Whether the messages of a closed stream come back at once.
    pub give_back: bool,
}

#[derive(Debug)]
pub(super) struct Topic {
    pub(super) proto: pb::Topic,
    pub(super) subscriptions: BTreeSet<String>,
    /// Published messages, as far as retention or a snapshot needs them.
    pub(super) log: VecDeque<Arc<Message>>,
}

#[derive(Debug)]
pub(super) struct Subscription {
    pub(super) proto: pb::Subscription,
    pub(super) backlog: Backlog,
    /// When it was last used.
    pub(super) active_at: Time,
}

#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) proto: pb::Snapshot,
    pub(super) unacked: Vec<Arc<Message>>,
    /// Messages with this id or a later one were published after the snapshot.
    pub(super) position: u64,
    pub(super) expires: Time,
}

/// How long a run must have lasted for each message it has published, for its ids not to meet those
/// of a run that begins after it.
const NANOS_PER_ID: u64 = 1_000;

impl Broker {
    /// An empty broker whose chance comes from `seed`.
    pub fn new(seed: u64, started: Time, streams: StreamRules) -> Broker {
        Broker {
            rng: Rng::new(seed),
            streams,
            faults: DeliveryFaults::default(),
            faults_of: BTreeMap::new(),
            topics: BTreeMap::new(),
            subscriptions: BTreeMap::new(),
            snapshots: BTreeMap::new(),
            consumers: BTreeMap::new(),
            ended: BTreeMap::new(),
            // A subscriber that outlives an emulator must not take a message of the next one for one
            // that it knows, nor may its late acks hit one: no two emulators give the same ids.
            next_message: started.nanos().unsigned_abs() / NANOS_PER_ID,
            next_tag: 1,
            next_consumer: 1,
            wakes: Vec::new(),
            soonest: Time::NEVER,
            access: BTreeMap::new(),
        }
    }

    /// Misbehaves like that on all subscriptions, or on one only. `None` takes the exception of that
    /// subscription back.
    pub fn set_faults(
        &mut self,
        now: Time,
        subscription: Option<&str>,
        faults: Option<DeliveryFaults>,
    ) {
        match (subscription, faults) {
            (Some(name), Some(faults)) => {
                self.faults_of.insert(name.to_owned(), faults);
            }
            (Some(name), None) => {
                self.faults_of.remove(name);
            }
            (None, faults) => self.faults = faults.unwrap_or_default(),
        }
        for name in self.names_of_subscriptions() {
            let faults = self.faults_for(&name);
            if let Some(subscription) = self.subscriptions.get_mut(&name) {
                subscription.backlog.set_faults(faults);
            }
            self.settle(now, &name);
        }
    }

    /// How a subscription misbehaves.
    pub fn faults_for(&self, subscription: &str) -> DeliveryFaults {
        let exception = self.faults_of.get(subscription);
        exception.copied().unwrap_or(self.faults)
    }

    /// How streams are treated from the next one on.
    pub fn set_streams(&mut self, streams: StreamRules) {
        self.streams = streams;
    }

    /// How streams are treated.
    pub fn streams(&self) -> &StreamRules {
        &self.streams
    }

    /// Forgets every resource; open streams end.
    pub fn reset(&mut self, now: Time) {
        for name in self.names_of_subscriptions() {
            self.remove_subscription(now, &name);
        }
        self.topics.clear();
        self.snapshots.clear();
        self.access.clear();
        self.faults_of.clear();
        self.faults = DeliveryFaults::default();
    }

    /// The consumers to wake, and nobody else.
    pub fn take_wakes(&mut self) -> Vec<ConsumerId> {
        std::mem::take(&mut self.wakes)
    }

    /// When [`Broker::advance`] must be called at the latest.
    pub fn next_wakeup(&self) -> Time {
        self.soonest
    }

    /// Totals and present state of each subscription.
    pub fn stats(&self, now: Time) -> BTreeMap<String, Stats> {
        let all = self.subscriptions.iter();
        all.map(|(name, one)| (name.clone(), one.backlog.stats(now)))
            .collect()
    }

    /// A resource's access policy as it was set, in encoded form.
    pub fn access(&self, resource: &str) -> Result<Bytes> {
        self.check_resource(resource)?;
        Ok(self.access.get(resource).cloned().unwrap_or_default())
    }

    /// Keeps a resource's access policy. It grants and denies nothing.
    pub fn set_access(&mut self, resource: &str, policy: Bytes) -> Result<()> {
        self.check_resource(resource)?;
        self.access.insert(resource.to_owned(), policy);
        Ok(())
    }

    /// Refuses a resource that does not exist.
    pub fn check_resource(&self, resource: &str) -> Result<()> {
        let exists = self.topics.contains_key(resource)
            || self.subscriptions.contains_key(resource)
            || self.snapshots.contains_key(resource);
        exists
            .then_some(())
            .ok_or_else(|| Refusal::not_found(resource))
    }

    pub(super) fn topic(&self, name: &str) -> Result<&Topic> {
        self.topics
            .get(name)
            .ok_or_else(|| Refusal::not_found(name))
    }

    pub(super) fn subscription(&self, name: &str) -> Result<&Subscription> {
        self.subscriptions
            .get(name)
            .ok_or_else(|| Refusal::not_found(name))
    }

    /// The subscription, marked as used now.
    pub(super) fn use_subscription(&mut self, now: Time, name: &str) -> Result<&mut Subscription> {
        let subscription = self
            .subscriptions
            .get_mut(name)
            .ok_or_else(|| Refusal::not_found(name))?;
        subscription.active_at = now;
        Ok(subscription)
    }

    pub(super) fn names_of_subscriptions(&self) -> Vec<String> {
        self.subscriptions.keys().cloned().collect()
    }

    pub(super) fn new_consumer(&mut self, subscription: &str) -> ConsumerId {
        let id = ConsumerId(self.next_consumer);
        self.next_consumer += 1;
        self.consumers.insert(id, subscription.to_owned());
        id
    }
}
