//! Flow control, pings, deadlines and the end of streams.

use std::time::Duration;

use googleapis_tonic_google_pubsub_v1::google::pubsub::v1 as pb;
use tidemill::pubsub_emulator::Settings;
use tonic::Code;

use crate::rig::{Rig, SUBSCRIPTION, Stream, payloads};

#[tokio::test]
async fn flow_control_counts_messages_and_bytes() {
    let mut rig = Rig::with(pb::Subscription::default()).await;
    rig.publish(&["a", "b", "c", "dd", "ee", "f"]).await;
    let mut stream = rig
        .stream(pb::StreamingPullRequest {
            max_outstanding_messages: 2,
            ..Default::default()
        })
        .await
        .expect("open");
    let two = stream.receive(2).await;
    assert!(stream.is_silent().await);
    stream.ack(&two[..1]);
    assert_eq!(payloads(&stream.receive(1).await), ["c"]);
    assert!(stream.is_silent().await);
    drop(stream);
    while rig.emulator.stats(SUBSCRIPTION).expect("there").streams > 0 {
        tokio::task::yield_now().await;
    }
    let mut stream = rig
        .stream(pb::StreamingPullRequest {
            max_outstanding_bytes: 3,
            ..Default::default()
        })
        .await
        .expect("open");
    let some = stream.receive(3).await;
    assert_eq!(
        payloads(&some),
        ["b", "c", "dd"],
        "closed streams give back"
    );
    assert!(stream.is_silent().await);
    rig.ack(&some).await.expect("a unary ack gives credit too");
    assert_eq!(payloads(&stream.receive(2).await), ["ee", "f"]);
}

#[tokio::test]
async fn pings_are_answered_where_the_client_understands_it() {
    let mut rig = Rig::with(pb::Subscription::default()).await;
    let mut old = rig
        .stream(pb::StreamingPullRequest::default())
        .await
        .expect("open");
    old.send(pb::StreamingPullRequest::default());
    assert!(old.is_silent().await);
    let first = pb::StreamingPullRequest {
        protocol_version: 1,
        ..Default::default()
    };
    let mut new = rig.stream(first).await.expect("open");
    assert!(new.is_silent().await);
    new.send(pb::StreamingPullRequest::default());
    let beat = new.next().await.expect("no error").expect("a heartbeat");
    assert!(beat.received_messages.is_empty());
    assert!(beat.subscription_properties.is_some());
}

#[tokio::test]
async fn streams_die_of_age_and_of_silence() {
    let settings = Settings {
        stream_life: Some(Duration::from_secs(1800)),
        stream_idle_max: Some(Duration::from_secs(90)),
        ..Settings::default()
    };
    let mut rig = Rig::start(settings).await;
    rig.create(pb::Subscription::default())
        .await
        .expect("created");
    let mut silent = rig.stream(beating()).await.expect("open");
    let mut lively = rig.stream(beating()).await.expect("open");
    rig.advance(60);
    ping(&mut lively, pb::StreamingPullRequest::default()).await;
    rig.advance(40);
    assert_eq!(
        silent.next().await.expect_err("dead").code(),
        Code::Unavailable
    );
    for _ in 0..21 {
        ping(&mut lively, pb::StreamingPullRequest::default()).await;
        rig.advance(80);
    }
    ping(&mut lively, pb::StreamingPullRequest::default()).await;
    rig.advance(25);
    let end = lively.next().await.expect_err("dead");
    assert_eq!(end.code(), Code::Unavailable);
    assert_eq!(rig.emulator.stats(SUBSCRIPTION).expect("there").streams, 0);
}

/// The first request of a client that understands heartbeats.
fn beating() -> pb::StreamingPullRequest {
    pb::StreamingPullRequest {
        protocol_version: 1,
        ..Default::default()
    }
}

/// Sends a request without acks, and waits for the heartbeat that answers it.
async fn ping(stream: &mut Stream, request: pb::StreamingPullRequest) {
    stream.send(request);
    let beat = stream.next().await.expect("no error").expect("a heartbeat");
    assert!(beat.received_messages.is_empty());
}

#[tokio::test]
async fn a_stream_brings_its_own_deadline_and_may_change_it() {
    let mut rig = Rig::with(pb::Subscription::default()).await;
    let first = pb::StreamingPullRequest {
        stream_ack_deadline_seconds: 20,
        ..beating()
    };
    let mut stream = rig.stream(first).await.expect("open");
    rig.publish(&["a"]).await;
    stream.receive(1).await;
    rig.advance(15);
    let longer = pb::StreamingPullRequest {
        stream_ack_deadline_seconds: 60,
        ..Default::default()
    };
    // The answer is a heartbeat, not the message: that has 5 s left.
    ping(&mut stream, longer).await;
    rig.advance(6);
    stream.receive(1).await;
    rig.advance(59);
    ping(&mut stream, pb::StreamingPullRequest::default()).await;
    rig.advance(2);
    stream.receive(1).await;
}

#[tokio::test]
async fn a_stream_ends_with_its_subscription() {
    let mut rig = Rig::with(pb::Subscription::default()).await;
    let mut stream = rig
        .stream(pb::StreamingPullRequest::default())
        .await
        .expect("open");
    let request = pb::DeleteSubscriptionRequest {
        subscription: SUBSCRIPTION.to_owned(),
    };
    rig.subscriber
        .delete_subscription(request)
        .await
        .expect("deleted");
    assert_eq!(
        stream.next().await.expect_err("ended").code(),
        Code::NotFound
    );
}

#[tokio::test]
async fn large_messages_go_through() {
    let mut rig = Rig::with(pb::Subscription::default()).await;
    let mut stream = rig
        .stream(pb::StreamingPullRequest::default())
        .await
        .expect("open");
    for n in 0..5_u8 {
        let message = pb::PubsubMessage {
            data: vec![n; 9_000_000].into(),
            ..Default::default()
        };
        rig.publish_messages(vec![message])
            .await
            .expect("published");
    }
    let received = stream.receive(5).await;
    let sizes = received
        .iter()
        .filter_map(|one| Some(one.message.as_ref()?.data.len()));
    assert_eq!(sizes.collect::<Vec<_>>(), [9_000_000; 5]);
}
