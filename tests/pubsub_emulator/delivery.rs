//! Messages go out, come back and are acknowledged.

use googleapis_tonic_google_pubsub_v1::google::pubsub::v1 as pb;

use crate::rig::{Rig, SUBSCRIPTION, payloads};

#[tokio::test]
async fn a_pulled_message_is_acknowledged_or_comes_again() {
    let mut rig = Rig::with(pb::Subscription::default()).await;
    let ids = rig.publish(&["a", "b", "c"]).await;
    assert_eq!(ids.len(), 3);
    let first = rig.pull(2).await;
    assert_eq!(payloads(&first), ["a", "b"]);
    assert_eq!(first[0].delivery_attempt, 0);
    rig.ack(&first[..1]).await.expect("acked");
    rig.modify(&first[1..], 0).await.expect("nacked");
    assert_eq!(payloads(&rig.pull(10).await), ["b", "c"]);
    assert!(rig.pull(10).await.is_empty());
    rig.advance(11);
    let again = rig.pull(10).await;
    assert_eq!(payloads(&again), ["b", "c"]);
    rig.modify(&again, 30).await.expect("extended");
    rig.advance(20);
    assert!(rig.pull(10).await.is_empty());
    rig.ack(&again).await.expect("acked");
    let stats = rig.emulator.stats(SUBSCRIPTION).expect("is there");
    assert_eq!(
        (stats.backlog, stats.counters.acked, stats.counters.expired),
        (0, 3, 2)
    );
}

#[tokio::test]
async fn a_stream_delivers_at_once_and_takes_acks() {
    let mut rig = Rig::with(pb::Subscription::default()).await;
    let mut stream = rig
        .stream(pb::StreamingPullRequest::default())
        .await
        .expect("open");
    assert!(stream.is_silent().await);
    rig.publish(&["a", "b"]).await;
    let received = stream.receive(2).await;
    assert_eq!(payloads(&received), ["a", "b"]);
    stream.ack(&received);
    rig.publish(&["c"]).await;
    let received = stream.receive(1).await;
    stream.send(pb::StreamingPullRequest {
        modify_deadline_ack_ids: vec![received[0].ack_id.clone()],
        modify_deadline_seconds: vec![0],
        ..Default::default()
    });
    let again = stream.receive(1).await;
    assert_eq!(payloads(&again), ["c"]);
    assert_ne!(again[0].ack_id, received[0].ack_id);
    stream.ack(&again);
    stream.requests = None;
    assert_eq!(stream.next().await.expect("ends well"), None);
    let stats = rig.emulator.stats(SUBSCRIPTION).expect("is there");
    assert_eq!((stats.backlog, stats.counters.acked), (0, 3));
    rig.emulator.shutdown().await.expect("stops");
}

#[tokio::test]
async fn no_other_run_gives_the_same_ids() {
    let mut first = Rig::with(pb::Subscription::default()).await;
    let ids = first.publish(&["a", "b"]).await;
    assert_ne!(ids[0], ids[1]);
    let mut second = Rig::with(pb::Subscription::default()).await;
    let later = second.publish(&["a", "b"]).await;
    assert!(
        ids.iter().all(|id| !later.contains(id)),
        "{ids:?} {later:?}"
    );
    // A late ack to the first run means nothing to the second.
    let stale = first.pull(1).await;
    let _ = second.ack(&stale).await;
    assert_eq!(payloads(&second.pull(10).await), ["a", "b"]);
}
