//! Snapshots.

use std::time::Duration;

use googleapis_tonic_google_pubsub_v1::google::pubsub::v1 as pb;

use super::mask;
use super::names;
use super::page::page;
use super::refusal::{Refusal, Result};
use super::resources::{Broker, Snapshot};
use super::topics::detached;
use crate::pubsub_emulator::delivery::Time;

const LIFE_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
const LIFE_MIN: Duration = Duration::from_secs(3600);

impl Broker {
    /// CreateSnapshot. It lives for 7 days less the age of the oldest unacknowledged message.
    pub fn create_snapshot(
        &mut self,
        now: Time,
        request: pb::CreateSnapshotRequest,
    ) -> Result<pb::Snapshot> {
        let name = self.snapshot_name(&request)?;
        names::check(&name, "snapshots")?;
        names::check_labels(request.labels.iter())?;
        let position = self.next_message;
        let subscription = self.use_subscription(now, &request.subscription)?;
        if subscription.proto.detached {
            return Err(detached(&request.subscription));
        }
        let oldest = subscription.backlog.oldest_unacked().unwrap_or(now);
        let life = LIFE_MAX.saturating_sub(now.since(oldest));
        if life < LIFE_MIN {
            return Err(Refusal::precondition(
                "the snapshot would live for less than an hour, its backlog is too old",
            ));
        }
        let topic = subscription.proto.topic.clone();
        let unacked = subscription.backlog.unacked();
        if self.snapshots.contains_key(&name) {
            return Err(Refusal::exists(&name));
        }
        let expires = now.plus(life);
        let proto = pb::Snapshot {
            name: name.clone(),
            topic,
            expire_time: Some(timestamp(expires)),
            labels: request.labels,
        };
        let snapshot = Snapshot {
            proto: proto.clone(),
            unacked,
            position,
            expires,
        };
        self.snapshots.insert(name, snapshot);
        self.soonest = self.soonest.min(expires);
        Ok(proto)
    }

    /// GetSnapshot.
    pub fn get_snapshot(&self, name: &str) -> Result<pb::Snapshot> {
        let snapshot = self.snapshots.get(name);
        let snapshot = snapshot.ok_or_else(|| Refusal::not_found(name))?;
        Ok(snapshot.proto.clone())
    }

    /// ListSnapshots.
    pub fn list_snapshots(
        &self,
        request: &pb::ListSnapshotsRequest,
    ) -> Result<pb::ListSnapshotsResponse> {
        let prefix = names::collection(&request.project, "snapshots")?;
        let all = self.snapshots.keys();
        let names = all.filter(|name| name.starts_with(&prefix));
        let (names, next_page_token) = page(names, request.page_size, &request.page_token)?;
        let snapshots = names.into_iter();
        let snapshots = snapshots.filter_map(|name| self.snapshots.get(name));
        Ok(pb::ListSnapshotsResponse {
            snapshots: snapshots.map(|snapshot| snapshot.proto.clone()).collect(),
            next_page_token,
        })
    }

    /// UpdateSnapshot.
    pub fn update_snapshot(&mut self, request: pb::UpdateSnapshotRequest) -> Result<pb::Snapshot> {
        let wanted = request
            .snapshot
            .ok_or_else(|| Refusal::invalid("the snapshot is missing"))?;
        let paths = mask::paths(request.update_mask)?;
        let snapshot = self
            .snapshots
            .get_mut(&wanted.name)
            .ok_or_else(|| Refusal::not_found(&wanted.name))?;
        let mut proto = snapshot.proto.clone();
        mask::update_snapshot(&mut proto, wanted, &paths)?;
        names::check_labels(proto.labels.iter())?;
        if let Some(expires) = proto.expire_time {
            snapshot.expires = time(expires).min(snapshot.expires);
            proto.expire_time = Some(timestamp(snapshot.expires));
        }
        snapshot.proto = proto.clone();
        self.soonest = self.soonest.min(snapshot.expires);
        Ok(proto)
    }

    /// DeleteSnapshot.
    pub fn delete_snapshot(&mut self, name: &str) -> Result<()> {
        self.access.remove(name);
        self.snapshots
            .remove(name)
            .map(|_| ())
            .ok_or_else(|| Refusal::not_found(name))
    }

    /// The name asked for, or a new one.
    fn snapshot_name(&mut self, request: &pb::CreateSnapshotRequest) -> Result<String> {
        if !request.name.is_empty() {
            return Ok(request.name.clone());
        }
        names::check(&request.subscription, "subscriptions")?;
        let project = names::project(&request.subscription);
        let drawn = self.rng.next_u64();
        Ok(format!(
            "projects/{project}/snapshots/snapshot-{drawn:016x}"
        ))
    }
}

/// A moment as protobuf has it.
pub(super) fn timestamp(time: Time) -> prost_types::Timestamp {
    let nanos = time.nanos();
    prost_types::Timestamp {
        seconds: nanos.div_euclid(1_000_000_000),
        nanos: i32::try_from(nanos.rem_euclid(1_000_000_000)).unwrap_or(0),
    }
}

/// The moment of a protobuf timestamp.
pub(super) fn time(timestamp: prost_types::Timestamp) -> Time {
    let nanos = timestamp.seconds.saturating_mul(1_000_000_000);
    Time::from_nanos(nanos.saturating_add(i64::from(timestamp.nanos)))
}
