//! The emulator is told to misbehave.

use std::time::Duration;

use googleapis_tonic_google_pubsub_v1::google::pubsub::v1 as pb;
use tidemill::pubsub_emulator::delivery::DeliveryFaults;
use tidemill::pubsub_emulator::{Error, Faults, RpcRule};
use tidemill::telemetry::clock;
use tonic::Code;

use crate::rig::{Rig, SUBSCRIPTION, message, payloads};

fn rule(method: &str, status: &str) -> RpcRule {
    RpcRule {
        method: method.to_owned(),
        status: status.to_owned(),
        ..RpcRule::default()
    }
}

fn rules(rpcs: Vec<RpcRule>) -> Faults {
    Faults {
        rpcs,
        ..Faults::default()
    }
}

#[tokio::test]
async fn calls_are_refused_as_often_as_asked() {
    let mut rig = Rig::with(pb::Subscription::default()).await;
    let twice = RpcRule {
        count: Some(2),
        ..rule("Publish", "UNAVAILABLE")
    };
    rig.emulator.set_faults(rules(vec![twice])).expect("set");
    for expected in [Code::Unavailable, Code::Unavailable, Code::Ok] {
        let result = rig.publish_messages(vec![message("x")]).await;
        assert_eq!(
            result.err().map_or(Code::Ok, |status| status.code()),
            expected
        );
    }
    assert_eq!(rig.pull(9).await.len(), 1);
    let open = rule("StreamingPull", "RESOURCE_EXHAUSTED");
    rig.emulator.set_faults(rules(vec![open])).expect("set");
    let refused = rig
        .stream(pb::StreamingPullRequest::default())
        .await
        .err()
        .expect("refused");
    assert_eq!(refused.code(), Code::ResourceExhausted);
    let wrong = rig
        .emulator
        .set_faults(rules(vec![rule("Pull", "NONSENSE")]));
    assert!(matches!(wrong, Err(Error::UnknownStatus(_))));
}

#[tokio::test]
async fn an_answer_is_lost_although_the_call_took_effect() {
    let mut rig = Rig::with(pb::Subscription::default()).await;
    let lost = RpcRule {
        takes_effect: true,
        ..rule("Publish", "DEADLINE_EXCEEDED")
    };
    rig.emulator.set_faults(rules(vec![lost])).expect("set");
    rig.publish_messages(vec![message("x")])
        .await
        .expect_err("lost");
    assert_eq!(payloads(&rig.pull(9).await), ["x"]);
}

#[tokio::test]
async fn calls_are_delayed() {
    let mut rig = Rig::with(pb::Subscription::default()).await;
    let slow = RpcRule {
        delay_seconds: 0.2,
        ..rule("Publish", "")
    };
    rig.emulator.set_faults(rules(vec![slow])).expect("set");
    let before = clock::instant();
    rig.publish(&["x"]).await;
    assert!(before.elapsed() >= Duration::from_millis(200));
}

#[tokio::test]
async fn streams_die_on_request_and_stall_for_a_while() {
    let mut rig = Rig::with(pb::Subscription::default()).await;
    let mut stream = rig
        .stream(pb::StreamingPullRequest::default())
        .await
        .expect("open");
    let killed = rig
        .emulator
        .kill_streams(Some(SUBSCRIPTION), "INTERNAL")
        .expect("a status");
    assert_eq!(killed, 1);
    assert_eq!(
        stream.next().await.expect_err("killed").code(),
        Code::Internal
    );
    assert_eq!(
        rig.emulator
            .kill_streams(None, "INTERNAL")
            .expect("a status"),
        0
    );
    let mut stream = rig
        .stream(pb::StreamingPullRequest::default())
        .await
        .expect("open");
    rig.emulator.stall(None, Duration::from_secs(30));
    rig.publish(&["a"]).await;
    assert!(stream.is_silent().await);
    rig.advance(31);
    assert_eq!(payloads(&stream.receive(1).await), ["a"]);
}

#[tokio::test]
async fn one_subscription_misbehaves_in_its_own_way() {
    let mut rig = Rig::with(pb::Subscription::default()).await;
    let other = "projects/test/subscriptions/other";
    rig.create(pb::Subscription {
        name: other.to_owned(),
        ..Default::default()
    })
    .await
    .expect("created");
    let faults = DeliveryFaults {
        duplicate_rate: 1.0,
        ..DeliveryFaults::default()
    };
    rig.emulator.set_faults_of(SUBSCRIPTION, Some(faults));
    rig.publish(&["a"]).await;
    let mut twice = rig.pull(9).await;
    rig.advance(0);
    twice.extend(rig.pull(9).await);
    assert_eq!(payloads(&twice), ["a", "a"]);
    rig.ack(&twice[..1]).await.expect("either id acks it");
    rig.advance(11);
    assert!(rig.pull(9).await.is_empty());
    assert_eq!(rig.pull_from(other, 9).await.expect("pulled").len(), 1);
    assert!(rig.pull_from(other, 9).await.expect("pulled").is_empty());
}
