//! The topic half of the API, but for Publish.

use std::collections::{BTreeSet, VecDeque};

use googleapis_tonic_google_pubsub_v1::google::pubsub::v1 as pb;

use super::mask;
use super::names::{self, DELETED_TOPIC};
use super::page::page;
use super::refusal::{Refusal, Result};
use super::resources::{Broker, Topic};
use super::subscription_checks::check_retention;
use crate::pubsub_emulator::delivery::Time;

impl Broker {
    /// CreateTopic.
    pub fn create_topic(&mut self, mut proto: pb::Topic) -> Result<pb::Topic> {
        names::check(&proto.name, "topics")?;
        if self.topics.contains_key(&proto.name) {
            return Err(Refusal::exists(&proto.name));
        }
        check_topic(&proto)?;
        proto.state = pb::topic::State::Active.into();
        proto.tags.clear();
        let topic = Topic {
            proto: proto.clone(),
            subscriptions: BTreeSet::new(),
            log: VecDeque::new(),
        };
        self.topics.insert(proto.name.clone(), topic);
        Ok(proto)
    }

    /// UpdateTopic.
    pub fn update_topic(&mut self, request: pb::UpdateTopicRequest) -> Result<pb::Topic> {
        let wanted = request
            .topic
            .ok_or_else(|| Refusal::invalid("the topic is missing"))?;
        let paths = mask::paths(request.update_mask)?;
        let mut proto = self.topic(&wanted.name)?.proto.clone();
        mask::update_topic(&mut proto, wanted, &paths)?;
        check_topic(&proto)?;
        let retention = proto.message_retention_duration;
        for subscription in self.subscriptions.values_mut() {
            if subscription.proto.topic == proto.name {
                subscription.proto.topic_message_retention_duration = retention;
            }
        }
        if let Some(topic) = self.topics.get_mut(&proto.name) {
            topic.proto = proto.clone();
        }
        Ok(proto)
    }

    /// GetTopic.
    pub fn get_topic(&self, name: &str) -> Result<pb::Topic> {
        Ok(self.topic(name)?.proto.clone())
    }

    /// ListTopics.
    pub fn list_topics(&self, request: &pb::ListTopicsRequest) -> Result<pb::ListTopicsResponse> {
        let prefix = names::collection(&request.project, "topics")?;
        let names = self.topics.keys().filter(|name| name.starts_with(&prefix));
        let (names, next_page_token) = page(names, request.page_size, &request.page_token)?;
        let topics = names.into_iter().filter_map(|name| self.topics.get(name));
        Ok(pb::ListTopicsResponse {
            topics: topics.map(|topic| topic.proto.clone()).collect(),
            next_page_token,
        })
    }

    /// ListTopicSubscriptions.
    pub fn list_topic_subscriptions(
        &self,
        request: &pb::ListTopicSubscriptionsRequest,
    ) -> Result<pb::ListTopicSubscriptionsResponse> {
        let names = self.topic(&request.topic)?.subscriptions.iter();
        let (names, next_page_token) = page(names, request.page_size, &request.page_token)?;
        Ok(pb::ListTopicSubscriptionsResponse {
            subscriptions: names.into_iter().cloned().collect(),
            next_page_token,
        })
    }

    /// ListTopicSnapshots.
    pub fn list_topic_snapshots(
        &self,
        request: &pb::ListTopicSnapshotsRequest,
    ) -> Result<pb::ListTopicSnapshotsResponse> {
        self.topic(&request.topic)?;
        let of_topic = self
            .snapshots
            .iter()
            .filter(|(_, snapshot)| snapshot.proto.topic == request.topic);
        let names = of_topic.map(|(name, _)| name);
        let (names, next_page_token) = page(names, request.page_size, &request.page_token)?;
        Ok(pb::ListTopicSnapshotsResponse {
            snapshots: names.into_iter().cloned().collect(),
            next_page_token,
        })
    }

    /// DeleteTopic: its subscriptions stay, with what they hold.
    pub fn delete_topic(&mut self, name: &str) -> Result<()> {
        if self.topics.remove(name).is_none() {
            return Err(Refusal::not_found(name));
        }
        for subscription in self.subscriptions.values_mut() {
            if subscription.proto.topic == name {
                DELETED_TOPIC.clone_into(&mut subscription.proto.topic);
            }
        }
        for snapshot in self.snapshots.values_mut() {
            if snapshot.proto.topic == name {
                DELETED_TOPIC.clone_into(&mut snapshot.proto.topic);
            }
        }
        self.access.remove(name);
        Ok(())
    }

    /// DetachSubscription: what it holds is dropped, its streams end.
    pub fn detach_subscription(&mut self, now: Time, name: &str) -> Result<()> {
        let subscription = self.use_subscription(now, name)?;
        subscription.proto.detached = true;
        let topic = subscription.proto.topic.clone();
        let consumers: Vec<_> = subscription.backlog.consumers().map(|(id, _)| id).collect();
        subscription.backlog.clear();
        for consumer in consumers {
            self.end(now, consumer, detached(name));
        }
        if let Some(topic) = self.topics.get_mut(&topic) {
            topic.subscriptions.remove(name);
        }
        self.settle(now, name);
        Ok(())
    }
}

/// What a detached subscription answers.
pub(super) fn detached(name: &str) -> Refusal {
    Refusal::precondition(format!("subscription is detached: {name}"))
}

fn check_topic(proto: &pb::Topic) -> Result<()> {
    names::check_labels(proto.labels.iter())?;
    if proto.ingestion_data_source_settings.is_some() {
        return Err(Refusal::unsupported(
            "this emulator does not ingest from other sources",
        ));
    }
    check_retention(proto.message_retention_duration.as_ref())
}
