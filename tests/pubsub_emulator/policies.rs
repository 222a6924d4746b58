//! Ordering keys, filters, dead letters and backoff.

use googleapis_tonic_google_pubsub_v1::google::pubsub::v1 as pb;

use crate::rig::{Rig, labels, message, payloads, seconds};

fn keyed(payload: &str, key: &str) -> pb::PubsubMessage {
    pb::PubsubMessage {
        ordering_key: key.to_owned(),
        ..message(payload)
    }
}

#[tokio::test]
async fn an_ordering_key_stays_in_order_on_one_stream() {
    let ordered = pb::Subscription {
        enable_message_ordering: true,
        ..Default::default()
    };
    let mut rig = Rig::with(ordered).await;
    let mut one = rig
        .stream(pb::StreamingPullRequest::default())
        .await
        .expect("open");
    rig.publish_messages(vec![keyed("a1", "a"), keyed("a2", "a")])
        .await
        .expect("published");
    let out = one.receive(2).await;
    let mut two = rig
        .stream(pb::StreamingPullRequest::default())
        .await
        .expect("open");
    rig.publish_messages(vec![keyed("a3", "a")])
        .await
        .expect("published");
    assert_eq!(payloads(&one.receive(1).await), ["a3"]);
    assert!(two.is_silent().await);
    rig.modify(&out[..1], 0).await.expect("nacked");
    // The key is free now: either stream may have it, but all of it.
    let again = tokio::select! {
        again = one.receive(3) => again,
        again = two.receive(3) => again,
    };
    assert_eq!(payloads(&again), ["a1", "a2", "a3"]);
}

#[tokio::test]
async fn a_filter_keeps_out_what_it_does_not_match() {
    let filtered = pb::Subscription {
        filter: "attributes.kind = \"a\" OR hasPrefix(attributes.kind, \"b\")".to_owned(),
        ..Default::default()
    };
    let mut rig = Rig::with(filtered).await;
    let kinds = ["a", "bx", "c"];
    let messages = kinds.map(|kind| pb::PubsubMessage {
        attributes: labels(&[("kind", kind)]),
        ..message(kind)
    });
    rig.publish_messages(messages.to_vec())
        .await
        .expect("published");
    rig.publish(&["none"]).await;
    assert_eq!(payloads(&rig.pull(9).await), ["a", "bx"]);
}

#[tokio::test]
async fn a_message_that_fails_five_times_is_a_dead_letter() {
    let letters = "projects/test/topics/letters";
    let mut rig = Rig::start(Default::default()).await;
    let topic = pb::Topic {
        name: letters.to_owned(),
        ..Default::default()
    };
    rig.publisher.create_topic(topic).await.expect("created");
    let reader = "projects/test/subscriptions/letters";
    rig.create(pb::Subscription {
        name: reader.to_owned(),
        topic: letters.to_owned(),
        ..Default::default()
    })
    .await
    .expect("created");
    let policy = pb::DeadLetterPolicy {
        dead_letter_topic: letters.to_owned(),
        max_delivery_attempts: 0,
    };
    rig.create(pb::Subscription {
        dead_letter_policy: Some(policy),
        ..Default::default()
    })
    .await
    .expect("created");
    let original = pb::PubsubMessage {
        attributes: labels(&[("own", "1")]),
        ..message("a")
    };
    rig.publish_messages(vec![original])
        .await
        .expect("published");
    for attempt in 1..=5 {
        let out = rig.pull(1).await;
        assert_eq!(out[0].delivery_attempt, attempt);
        rig.modify(&out, 0).await.expect("nacked");
    }
    assert!(rig.pull(1).await.is_empty());
    let letters = rig.pull_from(reader, 5).await.expect("pulled");
    let letter = letters[0].message.as_ref().expect("there");
    assert_eq!(
        (&letter.data[..], letter.attributes["own"].as_str()),
        (&b"a"[..], "1")
    );
    let source =
        |name: &str| letter.attributes[&format!("CloudPubSubDeadLetterSource{name}")].as_str();
    assert_eq!(source("DeliveryCount"), "5");
    assert_eq!(source("Subscription"), "orders");
    assert_eq!(source("SubscriptionProject"), "test");
    assert!(
        source("TopicPublishTime").starts_with("20"),
        "{}",
        source("TopicPublishTime")
    );
}

#[tokio::test]
async fn a_retry_policy_spaces_the_attempts() {
    let retry_policy = Some(pb::RetryPolicy {
        minimum_backoff: Some(seconds(8)),
        maximum_backoff: Some(seconds(30)),
    });
    let mut rig = Rig::with(pb::Subscription {
        retry_policy,
        ..Default::default()
    })
    .await;
    rig.publish(&["a"]).await;
    for wait in [8, 16, 30, 30] {
        let out = rig.pull(1).await;
        assert_eq!(out.len(), 1);
        rig.modify(&out, 0).await.expect("nacked");
        rig.advance(wait - 1);
        assert!(rig.pull(1).await.is_empty(), "too early, wait is {wait}");
        rig.advance(1);
    }
}
