//! Seek.

use std::sync::Arc;

use googleapis_tonic_google_pubsub_v1::google::pubsub::v1 as pb;

use super::refusal::{Refusal, Result};
use super::resources::Broker;
use super::snapshots::time;
use super::topics::detached;
use crate::pubsub_emulator::delivery::{Message, Time};

impl Broker {
    /// Seek, to a time or to a snapshot of the same topic. Open streams stay.
    pub fn seek(&mut self, now: Time, request: &pb::SeekRequest) -> Result<()> {
        let name = &request.subscription;
        let subscription = self.use_subscription(now, name)?;
        if subscription.proto.detached {
            return Err(detached(name));
        }
        let topic = subscription.proto.topic.clone();
        match &request.target {
            None => return Err(Refusal::invalid("a seek needs a time or a snapshot")),
            Some(pb::seek_request::Target::Time(to)) => {
                let log = self.retained(&topic);
                let subscription = self.use_subscription(now, name)?;
                subscription.backlog.seek_to_time(time(*to), &log);
            }
            Some(pb::seek_request::Target::Snapshot(snapshot)) => {
                let unacked = self.unacked_of(snapshot, &topic)?;
                let subscription = self.use_subscription(now, name)?;
                subscription.backlog.seek_to_messages(&unacked);
            }
        }
        self.settle(now, name);
        Ok(())
    }

    /// The messages that a topic keeps for any subscription.
    fn retained(&self, topic: &str) -> Vec<Arc<Message>> {
        let topic = self.topics.get(topic);
        let retains = topic.filter(|topic| topic.proto.message_retention_duration.is_some());
        retains.map_or_else(Vec::new, |topic| topic.log.iter().map(Arc::clone).collect())
    }

    /// What a snapshot holds: the backlog at its time, and all that was published since.
    fn unacked_of(&self, snapshot: &str, topic: &str) -> Result<Vec<Arc<Message>>> {
        let found = self.snapshots.get(snapshot);
        let found = found.ok_or_else(|| Refusal::not_found(snapshot))?;
        if found.proto.topic != topic {
            return Err(Refusal::precondition(format!(
                "snapshot {snapshot} is of topic {}, the subscription of {topic}",
                found.proto.topic
            )));
        }
        let mut unacked: Vec<_> = found.unacked.iter().map(Arc::clone).collect();
        if let Some(topic) = self.topics.get(topic) {
            let since = topic.log.iter().filter(|one| one.id >= found.position);
            unacked.extend(since.map(Arc::clone));
        }
        Ok(unacked)
    }
}
