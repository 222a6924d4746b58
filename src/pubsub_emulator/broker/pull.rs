//! Pull and StreamingPull.

use std::time::Duration;

use googleapis_tonic_google_pubsub_v1::google::pubsub::v1 as pb;

use super::acks::AckReport;
use super::refusal::{Refusal, Result};
use super::resources::{Broker, Subscription};
use super::subscription_checks::check_deadline;
use super::topics::detached;
use crate::pubsub_emulator::delivery::{Consumer, ConsumerId, Delivery, Limit, Time};

/// Messages for one response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// The number of the subscription in ack ids.
    pub tag: u64,
    /// The messages; none means that the consumer sleeps now.
    pub deliveries: Vec<Delivery>,
    /// Whether the subscription delivers exactly once.
    pub exactly_once: bool,
    /// Whether it keeps the order of keys.
    pub ordering: bool,
}

/// What a request on a stream is answered with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamReply {
    /// What became of its acks.
    pub acks: AckReport,
    /// What became of its nacks and extensions.
    pub changes: AckReport,
    /// Whether the client waits for a sign of life.
    pub heartbeat: bool,
}

impl Broker {
    /// The first request of a StreamingPull.
    pub fn open_stream(
        &mut self,
        now: Time,
        request: &pb::StreamingPullRequest,
    ) -> Result<ConsumerId> {
        let deadline = request.stream_ack_deadline_seconds;
        if deadline == 0 {
            return Err(Refusal::invalid("stream_ack_deadline_seconds is missing"));
        }
        check_deadline(deadline)?;
        self.usable(now, &request.subscription)?;
        let mut consumer = Consumer::stream(
            &request.client_id,
            seconds(deadline),
            request.max_outstanding_messages,
            request.max_outstanding_bytes,
        );
        let life = self.streams.life;
        consumer.ends_at = life.map_or(Time::NEVER, |life| now.plus(life));
        consumer.idle_max = self.streams.idle_max;
        consumer.active_at = now;
        let id = self.new_consumer(&request.subscription);
        let subscription = self.use_subscription(now, &request.subscription)?;
        subscription.backlog.open(id, consumer);
        self.settle(now, &request.subscription);
        Ok(id)
    }

    /// A request on an open stream: acks, nacks, extensions, another deadline, or a ping. The first
    /// request may carry acks too, so it comes here again after `open_stream`.
    pub fn stream_request(
        &mut self,
        now: Time,
        id: ConsumerId,
        is_first: bool,
        request: pb::StreamingPullRequest,
    ) -> Result<StreamReply> {
        if !is_first {
            check_later_request(&request)?;
        }
        if request.modify_deadline_ack_ids.len() != request.modify_deadline_seconds.len() {
            return Err(Refusal::invalid(
                "modify_deadline_ack_ids and modify_deadline_seconds differ in length",
            ));
        }
        let name = self.stream_name(id)?;
        let subscription = self.use_subscription(now, &name)?;
        if let Some(consumer) = subscription.backlog.consumer_mut(id) {
            consumer.active_at = now;
            if request.stream_ack_deadline_seconds != 0 {
                check_deadline(request.stream_ack_deadline_seconds)?;
                consumer.ack_deadline = seconds(request.stream_ack_deadline_seconds);
            }
        }
        let heartbeat =
            !is_first && request.ack_ids.is_empty() && request.modify_deadline_ack_ids.is_empty();
        let acks = self.acknowledge_each(now, &name, request.ack_ids)?;
        let changes = request.modify_deadline_ack_ids.into_iter();
        let changes = changes.zip(request.modify_deadline_seconds);
        let changes = self.modify_each(now, &name, changes.collect())?;
        Ok(StreamReply {
            acks,
            changes,
            heartbeat,
        })
    }

    /// Registers a unary pull, which then takes messages like a stream.
    pub fn open_pull(&mut self, now: Time, request: &pb::PullRequest) -> Result<ConsumerId> {
        if request.max_messages <= 0 {
            return Err(Refusal::invalid("max_messages must be positive"));
        }
        self.usable(now, &request.subscription)?;
        let id = self.new_consumer(&request.subscription);
        let subscription = self.use_subscription(now, &request.subscription)?;
        let deadline = subscription.backlog.policy().ack_deadline;
        subscription.backlog.open(id, Consumer::pull(deadline));
        Ok(id)
    }

    /// The messages for a consumer now. An error says why its stream has ended.
    pub fn take(&mut self, now: Time, id: ConsumerId, limit: Limit) -> Result<Batch> {
        let name = self.stream_name(id)?;
        let Broker {
            subscriptions, rng, ..
        } = self;
        let Some(Subscription { backlog, .. }) = subscriptions.get_mut(&name) else {
            return Err(Refusal::not_found(&name));
        };
        let deliveries = backlog.take(now, id, limit, rng);
        let batch = Batch {
            tag: backlog.tag(),
            deliveries,
            exactly_once: backlog.policy().exactly_once,
            ordering: backlog.policy().ordering,
        };
        self.settle(now, &name);
        Ok(batch)
    }

    /// Whether a pull that asks now is to come back empty, as a fault.
    pub fn draws_empty_pull(&mut self, subscription: &str) -> bool {
        let rate = self.faults_for(subscription).empty_pull_rate;
        self.rng.chance(rate)
    }

    /// The stream or pull is over.
    pub fn close(&mut self, now: Time, id: ConsumerId) {
        self.ended.remove(&id);
        let give_back = self.streams.give_back;
        let Some(name) = self.consumers.remove(&id) else {
            return;
        };
        if let Some(subscription) = self.subscriptions.get_mut(&name) {
            subscription.backlog.close(id, give_back);
            subscription.active_at = now;
        }
        self.settle(now, &name);
    }

    /// The properties that responses of a stream carry: exactly once, and ordering.
    pub fn properties(&self, id: ConsumerId) -> (bool, bool) {
        let name = self.consumers.get(&id);
        let subscription = name.and_then(|name| self.subscriptions.get(name));
        subscription.map_or((false, false), |one| {
            let policy = one.backlog.policy();
            (policy.exactly_once, policy.ordering)
        })
    }

    /// The subscription of a consumer, unless it was ended.
    fn stream_name(&self, id: ConsumerId) -> Result<String> {
        if let Some(death) = self.ended.get(&id) {
            return Err(death.clone());
        }
        let name = self.consumers.get(&id);
        name.cloned()
            .ok_or_else(|| Refusal::precondition("the stream is closed"))
    }

    /// Refuses a subscription that is missing or detached.
    fn usable(&mut self, now: Time, name: &str) -> Result<()> {
        if name.is_empty() {
            return Err(Refusal::invalid("the subscription is missing"));
        }
        let subscription = self.use_subscription(now, name)?;
        if subscription.proto.detached {
            return Err(detached(name));
        }
        Ok(())
    }
}

fn check_later_request(request: &pb::StreamingPullRequest) -> Result<()> {
    if !request.subscription.is_empty() {
        return Err(Refusal::invalid(
            "only the first request of a stream may name a subscription",
        ));
    }
    if request.max_outstanding_messages != 0
        || request.max_outstanding_bytes != 0
        || request.protocol_version != 0
    {
        return Err(Refusal::invalid(
            "flow control and protocol version can only be set on the first request of a stream",
        ));
    }
    Ok(())
}

fn seconds(seconds: i32) -> Duration {
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}
