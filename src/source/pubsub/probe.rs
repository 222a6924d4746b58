//! Asks the server for the publish time of its oldest unacknowledged message.
//!
//! The API has no call for that, but a snapshot tells: it lives seven days less the age of the
//! oldest unacknowledged message in it, so its expiry minus seven days is that message's publish
//! time, or now if there is none. The snapshot is deleted at once.

use std::sync::Arc;
use std::time::Duration;

use googleapis_tonic_google_pubsub_v1::google::pubsub::v1::subscriber_client::SubscriberClient;
use googleapis_tonic_google_pubsub_v1::google::pubsub::v1::{
    CreateSnapshotRequest, DeleteSnapshotRequest, Snapshot,
};
use tonic::{Code, Status};

use crate::model::Timestamp;
use crate::source::pubsub::client::Transport;
use crate::source::pubsub::keys::hash64;
use crate::source::pubsub::path;
use crate::source::pubsub::shared::Shared;

/// Probes the subscription of a reader.
#[derive(Debug)]
pub(crate) struct Probe {
    pub(crate) shared: Arc<Shared>,
    pub(crate) subscriber: SubscriberClient<Transport>,
    pub(crate) interval: Duration,
}

/// What to do after a failed probe.
enum Failure {
    /// The watermark stays; try again as usual.
    Passing,
    /// The watermark stays; try again in a while.
    Slow,
    /// The server cannot be asked; estimate from now on.
    Final(&'static str),
}

impl Probe {
    /// Probes until the reader closes or the server turns out not to answer.
    pub(crate) async fn run(mut self) {
        let subscription = self.shared.settings.subscription.clone();
        let snapshot = snapshot_name(&subscription);
        let mut delay = Duration::ZERO;
        loop {
            tokio::select! {
                () = self.shared.closing.cancelled() => return,
                () = tokio::time::sleep(delay) => {}
            }
            let started = tokio::time::Instant::now();
            let oldest = self.oldest_unacknowledged(&subscription, &snapshot).await;
            delay = self.interval.max(started.elapsed() * PAUSE);
            match oldest {
                Ok(oldest) => self.shared.probed(Some(oldest)),
                Err(status) => match failure(&status) {
                    Failure::Passing => {}
                    Failure::Slow => delay = SLOW,
                    Failure::Final(reason) => {
                        let message = status.message();
                        tracing::info!(subscription, reason, message, "the watermark is estimated");
                        self.shared.probed(None);
                        return;
                    }
                },
            }
        }
    }

    async fn oldest_unacknowledged(
        &mut self,
        subscription: &str,
        snapshot: &str,
    ) -> Result<Timestamp, Status> {
        let request = CreateSnapshotRequest {
            name: snapshot.to_owned(),
            subscription: subscription.to_owned(),
            labels: [(LABEL.to_owned(), "probe".to_owned())].into(),
            ..CreateSnapshotRequest::default()
        };
        let created = within(self.subscriber.create_snapshot(request)).await;
        let is_left_over = |status: &Status| status.code() == Code::AlreadyExists;
        if created.is_ok() || created.as_ref().is_err_and(is_left_over) {
            let request = DeleteSnapshotRequest {
                snapshot: snapshot.to_owned(),
            };
            if let Err(status) = within(self.subscriber.delete_snapshot(request)).await {
                tracing::debug!(snapshot, %status, "a snapshot stays until it expires");
            }
        }
        oldest_in(&created?.into_inner())
            .ok_or_else(|| Status::unimplemented("the snapshot has no expiry"))
    }
}

fn oldest_in(snapshot: &Snapshot) -> Option<Timestamp> {
    let expires = snapshot.expire_time?;
    let millis = expires.seconds * 1_000 + i64::from(expires.nanos) / 1_000_000;
    Some(Timestamp::from_millis(millis - SNAPSHOT_LIFE - MARGIN))
}

fn failure(status: &Status) -> Failure {
    match status.code() {
        Code::Unimplemented => Failure::Final("the server has no snapshots"),
        Code::PermissionDenied | Code::Unauthenticated => {
            Failure::Final("pubsub.snapshots.create or delete is not granted")
        }
        Code::InvalidArgument | Code::NotFound => Failure::Final("the server makes no snapshot"),
        // Also the answer where the oldest message is almost as old as a snapshot may get.
        Code::FailedPrecondition => Failure::Slow,
        Code::ResourceExhausted => Failure::Slow,
        _ => Failure::Passing,
    }
}

fn snapshot_name(subscription: &str) -> String {
    let project = path::project(subscription);
    let hash = hash64(subscription.as_bytes());
    format!("projects/{project}/snapshots/tidemill-probe-{hash:016x}")
}

async fn within<T>(call: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
    match tokio::time::timeout(CALL_MAX, call).await {
        Ok(result) => result,
        Err(_) => Err(Status::deadline_exceeded("no answer in time")),
    }
}

const LABEL: &str = "tidemill";
/// How long a snapshot of nothing lives, milliseconds.
const SNAPSHOT_LIFE: i64 = 7 * 24 * 3_600 * 1_000;
/// What the servers' clocks may differ by, milliseconds: a message may be stamped by one and
/// become visible after another stamped the snapshot.
const MARGIN: i64 = 100;
const CALL_MAX: Duration = Duration::from_secs(10);
/// A server that needs long for a snapshot is asked less often: it rests for so many times as long.
const PAUSE: u32 = 10;
const SLOW: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_expiry_tells_the_age() {
        let snapshot = |seconds: i64, nanos: i32| Snapshot {
            expire_time: Some(prost_types::Timestamp { seconds, nanos }),
            ..Snapshot::default()
        };
        let oldest = oldest_in(&snapshot(604_800 + 20, 500_999_999)).unwrap();
        assert_eq!(oldest.millis(), 20_500 - MARGIN);
        assert_eq!(oldest_in(&Snapshot::default()), None);
    }
}
