//! Snapshots and seek.

use googleapis_tonic_google_pubsub_v1::google::pubsub::v1 as pb;
use pb::seek_request::Target;
use tonic::Code;

use crate::rig::{Rig, SUBSCRIPTION, TOPIC, payloads, seconds};

const SNAPSHOT: &str = "projects/test/snapshots/one";
const WEEK: i64 = 7 * 86_400;

async fn snapshot(rig: &mut Rig) -> Result<pb::Snapshot, tonic::Status> {
    let request = pb::CreateSnapshotRequest {
        name: SNAPSHOT.to_owned(),
        subscription: SUBSCRIPTION.to_owned(),
        ..Default::default()
    };
    Ok(rig.subscriber.create_snapshot(request).await?.into_inner())
}

async fn seek(rig: &mut Rig, subscription: &str, target: Target) -> Result<(), tonic::Status> {
    let request = pb::SeekRequest {
        subscription: subscription.to_owned(),
        target: Some(target),
    };
    rig.subscriber.seek(request).await.map(|_| ())
}

fn to_snapshot() -> Target {
    Target::Snapshot(SNAPSHOT.to_owned())
}

#[tokio::test]
async fn a_snapshot_restores_its_own_and_any_fresh_subscription() {
    let mut rig = Rig::with(pb::Subscription::default()).await;
    rig.publish(&["a", "b", "c"]).await;
    let out = rig.pull(2).await;
    rig.ack(&out[..1]).await.expect("acked");
    let made = snapshot(&mut rig).await.expect("made");
    assert_eq!((made.name.as_str(), made.topic.as_str()), (SNAPSHOT, TOPIC));
    let taken = snapshot(&mut rig).await.expect_err("taken");
    assert_eq!(taken.code(), Code::AlreadyExists);
    rig.publish(&["d"]).await;
    rig.advance(11);
    let all = rig.pull(9).await;
    rig.ack(&all).await.expect("acked");
    assert!(rig.pull(9).await.is_empty());
    seek(&mut rig, SUBSCRIPTION, to_snapshot())
        .await
        .expect("sought");
    assert_eq!(payloads(&rig.pull(9).await), ["b", "c", "d"]);
    let fresh = "projects/test/subscriptions/fresh";
    rig.create(pb::Subscription {
        name: fresh.to_owned(),
        ..Default::default()
    })
    .await
    .expect("created");
    assert!(rig.pull_from(fresh, 9).await.expect("pulled").is_empty());
    seek(&mut rig, fresh, to_snapshot()).await.expect("sought");
    assert_eq!(
        payloads(&rig.pull_from(fresh, 9).await.expect("pulled")),
        ["b", "c", "d"]
    );
}

#[tokio::test]
async fn a_snapshot_lives_a_week_less_the_age_of_the_backlog() {
    let mut rig = Rig::with(pb::Subscription::default()).await;
    let life = |snapshot: &pb::Snapshot, published: &prost_types::Timestamp| {
        snapshot.expire_time.as_ref().expect("there").seconds - published.seconds
    };
    rig.publish(&["old"]).await;
    rig.advance(100);
    rig.publish(&["new"]).await;
    let out = rig.pull(9).await;
    let published = |n: usize| {
        out[n]
            .message
            .as_ref()
            .expect("there")
            .publish_time
            .expect("there")
    };
    let probe = snapshot(&mut rig).await.expect("made");
    assert_eq!(life(&probe, &published(0)), WEEK, "what is out counts");
    let delete = pb::DeleteSnapshotRequest {
        snapshot: SNAPSHOT.to_owned(),
    };
    rig.subscriber
        .delete_snapshot(delete.clone())
        .await
        .expect("deleted");
    rig.ack(&out[..1]).await.expect("acked");
    let probe = snapshot(&mut rig).await.expect("made");
    assert_eq!(life(&probe, &published(1)), WEEK);
    rig.subscriber
        .delete_snapshot(delete)
        .await
        .expect("deleted");
    rig.modify(&out[1..], 600).await.expect("extended");
    let retention = prost_types::FieldMask {
        paths: vec!["message_retention_duration".to_owned()],
    };
    rig.subscriber
        .update_subscription(pb::UpdateSubscriptionRequest {
            subscription: Some(pb::Subscription {
                name: SUBSCRIPTION.to_owned(),
                message_retention_duration: Some(seconds(30 * 86_400)),
                ..Default::default()
            }),
            update_mask: Some(retention),
        })
        .await
        .expect("updated");
    rig.advance(7 * 86_400 - 3000);
    let status = snapshot(&mut rig).await.expect_err("too old a backlog");
    assert_eq!(status.code(), Code::FailedPrecondition);
}

#[tokio::test]
async fn snapshots_are_listed_changed_and_expire() {
    let mut rig = Rig::with(pb::Subscription::default()).await;
    snapshot(&mut rig).await.expect("made");
    let list = pb::ListSnapshotsRequest {
        project: "projects/test".to_owned(),
        ..Default::default()
    };
    let listed = rig
        .subscriber
        .list_snapshots(list)
        .await
        .expect("listed")
        .into_inner();
    assert_eq!(listed.snapshots.len(), 1);
    let of_topic = pb::ListTopicSnapshotsRequest {
        topic: TOPIC.to_owned(),
        ..Default::default()
    };
    let names = rig
        .publisher
        .list_topic_snapshots(of_topic)
        .await
        .expect("listed")
        .into_inner();
    assert_eq!(names.snapshots, [SNAPSHOT]);
    let update = pb::UpdateSnapshotRequest {
        snapshot: Some(pb::Snapshot {
            name: SNAPSHOT.to_owned(),
            labels: crate::rig::labels(&[("a", "b")]),
            ..Default::default()
        }),
        update_mask: Some(prost_types::FieldMask {
            paths: vec!["labels".to_owned()],
        }),
    };
    let updated = rig
        .subscriber
        .update_snapshot(update)
        .await
        .expect("updated")
        .into_inner();
    assert_eq!(updated.labels.len(), 1);
    rig.advance(7 * 86_400 + 1);
    let get = pb::GetSnapshotRequest {
        snapshot: SNAPSHOT.to_owned(),
    };
    let status = rig.subscriber.get_snapshot(get).await.expect_err("expired");
    assert_eq!(status.code(), Code::NotFound);
}

#[tokio::test]
async fn seek_to_a_time_needs_retained_messages() {
    for retain_acked_messages in [false, true] {
        let subscription = pb::Subscription {
            retain_acked_messages,
            ..Default::default()
        };
        let mut rig = Rig::with(subscription).await;
        rig.publish(&["one"]).await;
        rig.advance(10);
        rig.publish(&["two"]).await;
        let out = rig.pull(9).await;
        rig.ack(&out).await.expect("acked");
        let since = out[1]
            .message
            .as_ref()
            .expect("there")
            .publish_time
            .expect("there");
        seek(&mut rig, SUBSCRIPTION, Target::Time(since))
            .await
            .expect("sought");
        let again = payloads(&rig.pull(9).await);
        assert_eq!(
            again,
            if retain_acked_messages {
                vec!["two"]
            } else {
                vec![]
            }
        );
        let ahead = prost_types::Timestamp {
            seconds: since.seconds + 3600,
            nanos: 0,
        };
        rig.publish(&["three"]).await;
        seek(&mut rig, SUBSCRIPTION, Target::Time(ahead))
            .await
            .expect("sought");
        assert!(rig.pull(9).await.is_empty(), "a seek ahead purges");
        rig.publish(&["four"]).await;
        assert_eq!(payloads(&rig.pull(9).await), ["four"]);
    }
}

#[tokio::test]
async fn a_topic_with_retention_serves_any_subscription() {
    let mut rig = Rig::start(Default::default()).await;
    let topic = pb::Topic {
        name: TOPIC.to_owned(),
        message_retention_duration: Some(seconds(3600)),
        ..Default::default()
    };
    rig.publisher.create_topic(topic).await.expect("created");
    rig.publish(&["a", "b"]).await;
    rig.create(pb::Subscription::default())
        .await
        .expect("created");
    assert!(rig.pull(9).await.is_empty());
    let start = prost_types::Timestamp::default();
    seek(&mut rig, SUBSCRIPTION, Target::Time(start))
        .await
        .expect("sought");
    assert_eq!(payloads(&rig.pull(9).await), ["a", "b"]);
    rig.advance(3601);
    seek(&mut rig, SUBSCRIPTION, Target::Time(start))
        .await
        .expect("sought");
    let left = rig.pull(9).await;
    assert_eq!(
        payloads(&left),
        ["a", "b"],
        "the subscription keeps them longer"
    );
    rig.ack(&left).await.expect("acked");
    seek(&mut rig, SUBSCRIPTION, Target::Time(start))
        .await
        .expect("sought");
    assert!(rig.pull(9).await.is_empty(), "the topic has dropped them");
}

#[tokio::test]
async fn a_seek_reaches_open_streams() {
    let mut rig = Rig::with(pb::Subscription {
        retain_acked_messages: true,
        ..Default::default()
    })
    .await;
    let mut stream = rig
        .stream(pb::StreamingPullRequest::default())
        .await
        .expect("open");
    rig.publish(&["a"]).await;
    let out = stream.receive(1).await;
    stream.ack(&out);
    assert!(stream.is_silent().await);
    let start = prost_types::Timestamp::default();
    seek(&mut rig, SUBSCRIPTION, Target::Time(start))
        .await
        .expect("sought");
    assert_eq!(payloads(&stream.receive(1).await), ["a"]);
}

#[tokio::test]
async fn wrong_seeks_are_refused() {
    let mut rig = Rig::with(pb::Subscription::default()).await;
    let status = seek(&mut rig, SUBSCRIPTION, to_snapshot())
        .await
        .expect_err("no snapshot");
    assert_eq!(status.code(), Code::NotFound);
    let request = pb::SeekRequest {
        subscription: SUBSCRIPTION.to_owned(),
        target: None,
    };
    let status = rig.subscriber.seek(request).await.expect_err("no target");
    assert_eq!(status.code(), Code::InvalidArgument);
    snapshot(&mut rig).await.expect("made");
    let other = "projects/test/topics/other";
    let topic = pb::Topic {
        name: other.to_owned(),
        ..Default::default()
    };
    rig.publisher.create_topic(topic).await.expect("created");
    let foreign = "projects/test/subscriptions/foreign";
    rig.create(pb::Subscription {
        name: foreign.to_owned(),
        topic: other.to_owned(),
        ..Default::default()
    })
    .await
    .expect("created");
    let status = seek(&mut rig, foreign, to_snapshot())
        .await
        .expect_err("another topic");
    assert_eq!(status.code(), Code::FailedPrecondition);
}
