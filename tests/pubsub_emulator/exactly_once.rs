//! Exactly-once delivery.

use googleapis_tonic_google_pubsub_v1::google::pubsub::v1 as pb;
use tonic::Code;

use crate::rig::Rig;

fn exactly_once() -> pb::Subscription {
    pb::Subscription {
        enable_exactly_once_delivery: true,
        ..Default::default()
    }
}

#[tokio::test]
async fn a_stream_confirms_acks_and_extensions() {
    let mut rig = Rig::with(exactly_once()).await;
    let mut stream = rig
        .stream(pb::StreamingPullRequest::default())
        .await
        .expect("open");
    rig.publish(&["a"]).await;
    let response = stream.next().await.expect("no error").expect("a message");
    let properties = response.subscription_properties.expect("there");
    assert!(properties.exactly_once_delivery_enabled);
    let ack_id = response.received_messages[0].ack_id.clone();
    stream.send(pb::StreamingPullRequest {
        modify_deadline_ack_ids: vec![ack_id.clone(), "1-63-1".to_owned()],
        modify_deadline_seconds: vec![30, 30],
        ..Default::default()
    });
    let response = stream
        .next()
        .await
        .expect("no error")
        .expect("a confirmation");
    let confirmed = response.modify_ack_deadline_confirmation.expect("there");
    assert_eq!(confirmed.ack_ids, std::slice::from_ref(&ack_id));
    assert_eq!(confirmed.invalid_ack_ids, ["1-63-1"]);
    for invalid in [false, true] {
        stream.send(pb::StreamingPullRequest {
            ack_ids: vec![ack_id.clone()],
            ..Default::default()
        });
        let response = stream
            .next()
            .await
            .expect("no error")
            .expect("a confirmation");
        let confirmed = response.acknowledge_confirmation.expect("there");
        assert_eq!(confirmed.ack_ids.is_empty(), invalid);
        assert_eq!(confirmed.invalid_ack_ids.is_empty(), !invalid);
    }
}

#[tokio::test]
async fn a_stale_ack_is_refused_with_its_id() {
    let mut rig = Rig::with(exactly_once()).await;
    rig.publish(&["a"]).await;
    let first = rig.pull(1).await;
    rig.advance(11);
    let second = rig.pull(1).await;
    let status = rig.ack(&first).await.expect_err("stale");
    assert_eq!(status.code(), Code::FailedPrecondition);
    let details = String::from_utf8_lossy(status.details()).into_owned();
    assert!(details.contains(&first[0].ack_id), "{details}");
    assert!(
        details.contains("PERMANENT_FAILURE_INVALID_ACK_ID"),
        "{details}"
    );
    rig.ack(&second).await.expect("the newest id counts");
    rig.advance(1000);
    assert!(rig.pull(1).await.is_empty());
}
