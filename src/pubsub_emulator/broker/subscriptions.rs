//! The subscription half of the API, but for messages.

use googleapis_tonic_google_pubsub_v1::google::pubsub::v1 as pb;

use super::mask;
use super::names;
use super::page::page;
use super::refusal::{Refusal, Result};
use super::resources::{Broker, Subscription};
use super::subscription_checks::{check, fill_in};
use crate::pubsub_emulator::delivery::{Backlog, Time};

impl Broker {
    /// CreateSubscription: it gets what is published from now on.
    pub fn create_subscription(
        &mut self,
        now: Time,
        mut proto: pb::Subscription,
    ) -> Result<pb::Subscription> {
        names::check(&proto.name, "subscriptions")?;
        names::check(&proto.topic, "topics")?;
        if self.subscriptions.contains_key(&proto.name) {
            return Err(Refusal::exists(&proto.name));
        }
        let topic = self.topic(&proto.topic)?;
        proto.topic_message_retention_duration = topic.proto.message_retention_duration;
        proto.state = pb::subscription::State::Active.into();
        proto.detached = false;
        proto.tags.clear();
        fill_in(&mut proto);
        let policy = check(&proto)?;
        self.check_dead_letter_topic(&proto)?;
        let mut backlog = Backlog::new(self.next_tag, policy);
        backlog.set_faults(self.faults_for(&proto.name));
        self.next_tag += 1;
        let subscription = Subscription {
            proto: proto.clone(),
            backlog,
            active_at: now,
        };
        self.subscriptions.insert(proto.name.clone(), subscription);
        if let Some(topic) = self.topics.get_mut(&proto.topic) {
            topic.subscriptions.insert(proto.name.clone());
        }
        self.settle(now, &proto.name);
        Ok(proto)
    }

    /// UpdateSubscription.
    pub fn update_subscription(
        &mut self,
        now: Time,
        request: pb::UpdateSubscriptionRequest,
    ) -> Result<pb::Subscription> {
        let wanted = request
            .subscription
            .ok_or_else(|| Refusal::invalid("the subscription is missing"))?;
        let paths = mask::paths(request.update_mask)?;
        let mut proto = self.subscription(&wanted.name)?.proto.clone();
        mask::update_subscription(&mut proto, wanted, &paths)?;
        fill_in(&mut proto);
        let policy = check(&proto)?;
        self.check_dead_letter_topic(&proto)?;
        let subscription = self.use_subscription(now, &proto.name)?;
        subscription.proto = proto.clone();
        subscription.backlog.set_policy(policy);
        self.settle(now, &proto.name);
        Ok(proto)
    }

    /// GetSubscription.
    pub fn get_subscription(&mut self, now: Time, name: &str) -> Result<pb::Subscription> {
        Ok(self.use_subscription(now, name)?.proto.clone())
    }

    /// ListSubscriptions.
    pub fn list_subscriptions(
        &self,
        request: &pb::ListSubscriptionsRequest,
    ) -> Result<pb::ListSubscriptionsResponse> {
        let prefix = names::collection(&request.project, "subscriptions")?;
        let all = self.subscriptions.keys();
        let names = all.filter(|name| name.starts_with(&prefix));
        let (names, next_page_token) = page(names, request.page_size, &request.page_token)?;
        let subscriptions = names.into_iter();
        let subscriptions = subscriptions.filter_map(|name| self.subscriptions.get(name));
        Ok(pb::ListSubscriptionsResponse {
            subscriptions: subscriptions.map(|one| one.proto.clone()).collect(),
            next_page_token,
        })
    }

    /// DeleteSubscription: its streams end.
    pub fn delete_subscription(&mut self, now: Time, name: &str) -> Result<()> {
        self.subscription(name)?;
        self.remove_subscription(now, name);
        Ok(())
    }

    /// ModifyPushConfig: only the change to pull is possible.
    pub fn modify_push_config(
        &mut self,
        now: Time,
        request: pb::ModifyPushConfigRequest,
    ) -> Result<()> {
        let push_config = request
            .push_config
            .ok_or_else(|| Refusal::invalid("the push config is missing"))?;
        let mut proto = self.subscription(&request.subscription)?.proto.clone();
        proto.push_config = Some(push_config);
        check(&proto)?;
        self.use_subscription(now, &request.subscription)?.proto = proto;
        Ok(())
    }

    /// Removes a subscription that was deleted or has expired.
    pub(super) fn remove_subscription(&mut self, now: Time, name: &str) {
        let of_it = self.consumers.iter().filter(|(_, one)| *one == name);
        let consumers: Vec<_> = of_it.map(|(id, _)| *id).collect();
        for consumer in consumers {
            self.end(now, consumer, Refusal::not_found(name));
        }
        if let Some(removed) = self.subscriptions.remove(name)
            && let Some(topic) = self.topics.get_mut(&removed.proto.topic)
        {
            topic.subscriptions.remove(name);
        }
        self.access.remove(name);
    }

    fn check_dead_letter_topic(&self, proto: &pb::Subscription) -> Result<()> {
        proto.dead_letter_policy.as_ref().map_or(Ok(()), |policy| {
            self.topic(&policy.dead_letter_topic).map(|_| ())
        })
    }
}
