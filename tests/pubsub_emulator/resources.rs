//! Topics, subscriptions and snapshots are created, found, changed and deleted.

use googleapis_tonic_google_pubsub_v1::google::pubsub::v1 as pb;
use tidemill::pubsub_emulator::Settings;
use tonic::Code;

use crate::rig::{Rig, SUBSCRIPTION, TOPIC, labels, seconds};

#[tokio::test]
async fn a_subscription_gets_the_defaults_of_the_service() {
    let mut rig = Rig::with(pb::Subscription::default()).await;
    let request = pb::GetSubscriptionRequest {
        subscription: SUBSCRIPTION.to_owned(),
    };
    let got = rig
        .subscriber
        .get_subscription(request)
        .await
        .expect("there")
        .into_inner();
    assert_eq!(got.ack_deadline_seconds, 10);
    assert_eq!(got.message_retention_duration, Some(seconds(7 * 86_400)));
    assert_eq!(
        got.expiration_policy.and_then(|policy| policy.ttl),
        Some(seconds(31 * 86_400))
    );
    assert_eq!(got.state(), pb::subscription::State::Active);
    assert_eq!((got.topic.as_str(), got.detached), (TOPIC, false));
    let request = pb::GetTopicRequest {
        topic: TOPIC.to_owned(),
    };
    let topic = rig
        .publisher
        .get_topic(request)
        .await
        .expect("there")
        .into_inner();
    assert_eq!(topic.state(), pb::topic::State::Active);
}

#[tokio::test]
async fn every_field_comes_back() {
    let mut rig = Rig::start(Settings::default()).await;
    let letters = "projects/test/topics/letters";
    let topic = pb::Topic {
        name: letters.to_owned(),
        labels: labels(&[("team", "a")]),
        kms_key_name: "key".to_owned(),
        message_retention_duration: Some(seconds(3600)),
        ..Default::default()
    };
    rig.publisher
        .create_topic(topic.clone())
        .await
        .expect("created");
    let wanted = pb::Subscription {
        topic: letters.to_owned(),
        ack_deadline_seconds: 77,
        retain_acked_messages: true,
        message_retention_duration: Some(seconds(700)),
        labels: labels(&[("job", "x")]),
        enable_message_ordering: true,
        expiration_policy: Some(pb::ExpirationPolicy { ttl: None }),
        filter: "attributes:a".to_owned(),
        dead_letter_policy: Some(pb::DeadLetterPolicy {
            dead_letter_topic: letters.to_owned(),
            max_delivery_attempts: 7,
        }),
        retry_policy: Some(pb::RetryPolicy {
            minimum_backoff: Some(seconds(1)),
            maximum_backoff: Some(seconds(2)),
        }),
        enable_exactly_once_delivery: true,
        message_transforms: vec![pb::MessageTransform::default()],
        ..Default::default()
    };
    let created = rig.create(wanted.clone()).await.expect("created");
    assert_eq!(
        created.topic_message_retention_duration,
        Some(seconds(3600))
    );
    let expected = pb::Subscription {
        name: SUBSCRIPTION.to_owned(),
        push_config: Some(pb::PushConfig::default()),
        state: pb::subscription::State::Active.into(),
        topic_message_retention_duration: Some(seconds(3600)),
        ..wanted
    };
    assert_eq!(created, expected);
    let request = pb::GetTopicRequest {
        topic: letters.to_owned(),
    };
    let got = rig
        .publisher
        .get_topic(request)
        .await
        .expect("there")
        .into_inner();
    assert_eq!(got, pb::Topic { state: 1, ..topic });
}

#[tokio::test]
async fn lists_come_in_pages() {
    let mut rig = Rig::start(Settings::default()).await;
    for name in ["aaa", "bbb", "ccc"] {
        let subscription = pb::Subscription {
            name: format!("projects/test/subscriptions/{name}"),
            ..Default::default()
        };
        rig.create(subscription).await.expect("created");
    }
    let mut request = pb::ListSubscriptionsRequest {
        project: "projects/test".to_owned(),
        page_size: 2,
        page_token: String::new(),
    };
    let first = rig
        .subscriber
        .list_subscriptions(request.clone())
        .await
        .expect("listed")
        .into_inner();
    assert_eq!(first.subscriptions.len(), 2);
    request.page_token = first.next_page_token;
    let last = rig
        .subscriber
        .list_subscriptions(request)
        .await
        .expect("listed")
        .into_inner();
    assert_eq!(
        last.subscriptions[0].name,
        "projects/test/subscriptions/ccc"
    );
    assert_eq!(
        (last.subscriptions.len(), last.next_page_token.as_str()),
        (1, "")
    );
    let request = pb::ListTopicSubscriptionsRequest {
        topic: TOPIC.to_owned(),
        ..Default::default()
    };
    let names = rig
        .publisher
        .list_topic_subscriptions(request)
        .await
        .expect("listed")
        .into_inner();
    assert_eq!(names.subscriptions.len(), 3);
    let request = pb::ListTopicsRequest {
        project: "projects/other".to_owned(),
        ..Default::default()
    };
    let topics = rig
        .publisher
        .list_topics(request)
        .await
        .expect("listed")
        .into_inner();
    assert!(topics.topics.is_empty());
}

#[tokio::test]
async fn an_update_changes_what_its_mask_names() {
    let mut rig = Rig::with(pb::Subscription::default()).await;
    let wanted = pb::Subscription {
        name: SUBSCRIPTION.to_owned(),
        ack_deadline_seconds: 60,
        labels: labels(&[("a", "b")]),
        expiration_policy: Some(pb::ExpirationPolicy {
            ttl: Some(seconds(86_400)),
        }),
        retain_acked_messages: true,
        ..Default::default()
    };
    let update = |paths: &[&str]| pb::UpdateSubscriptionRequest {
        subscription: Some(wanted.clone()),
        update_mask: Some(prost_types::FieldMask {
            paths: paths.iter().map(|path| (*path).to_owned()).collect(),
        }),
    };
    let paths = ["ack_deadline_seconds", "labels", "expiration_policy.ttl"];
    let updated = rig
        .subscriber
        .update_subscription(update(&paths))
        .await
        .expect("updated");
    let updated = updated.into_inner();
    assert_eq!(
        (updated.ack_deadline_seconds, updated.labels.len()),
        (60, 1)
    );
    assert_eq!(
        updated.expiration_policy.and_then(|policy| policy.ttl),
        Some(seconds(86_400))
    );
    assert!(!updated.retain_acked_messages);
    for wrong in [
        &["filter"][..],
        &["enable_message_ordering"],
        &["nonsense"],
        &[],
    ] {
        let status = rig
            .subscriber
            .update_subscription(update(wrong))
            .await
            .expect_err("refused");
        assert_eq!(status.code(), Code::InvalidArgument, "{wrong:?}");
    }
    rig.publish(&["a"]).await;
    let out = rig.pull(1).await;
    rig.advance(50);
    assert!(rig.pull(1).await.is_empty(), "the new deadline counts");
    rig.ack(&out).await.expect("acked");

    let request = pb::UpdateTopicRequest {
        topic: Some(pb::Topic {
            name: TOPIC.to_owned(),
            labels: labels(&[("x", "y")]),
            ..Default::default()
        }),
        update_mask: Some(prost_types::FieldMask {
            paths: vec!["labels".to_owned()],
        }),
    };
    let topic = rig
        .publisher
        .update_topic(request)
        .await
        .expect("updated")
        .into_inner();
    assert_eq!(topic.labels.len(), 1);
}

#[tokio::test]
async fn a_deleted_topic_leaves_its_subscriptions() {
    let mut rig = Rig::with(pb::Subscription::default()).await;
    rig.publish(&["a"]).await;
    let delete = pb::DeleteTopicRequest {
        topic: TOPIC.to_owned(),
    };
    rig.publisher
        .delete_topic(delete.clone())
        .await
        .expect("deleted");
    let again = rig.publisher.delete_topic(delete).await.expect_err("gone");
    assert_eq!(again.code(), Code::NotFound);
    let request = pb::GetSubscriptionRequest {
        subscription: SUBSCRIPTION.to_owned(),
    };
    let got = rig
        .subscriber
        .get_subscription(request)
        .await
        .expect("there")
        .into_inner();
    assert_eq!(got.topic, "_deleted-topic_");
    assert_eq!(rig.pull(5).await.len(), 1);
    let status = rig
        .publish_messages(vec![crate::rig::message("b")])
        .await
        .expect_err("gone");
    assert_eq!(status.code(), Code::NotFound);
}

#[tokio::test]
async fn a_detached_subscription_is_of_no_use() {
    let mut rig = Rig::with(pb::Subscription::default()).await;
    rig.publish(&["a"]).await;
    let mut stream = rig
        .stream(pb::StreamingPullRequest::default())
        .await
        .expect("open");
    stream.receive(1).await;
    let detach = pb::DetachSubscriptionRequest {
        subscription: SUBSCRIPTION.to_owned(),
    };
    rig.publisher
        .detach_subscription(detach)
        .await
        .expect("detached");
    let end = stream.next().await.expect_err("ended");
    assert_eq!(end.code(), Code::FailedPrecondition);
    let status = rig.pull_from(SUBSCRIPTION, 1).await.expect_err("detached");
    assert_eq!(status.code(), Code::FailedPrecondition);
    let request = pb::GetSubscriptionRequest {
        subscription: SUBSCRIPTION.to_owned(),
    };
    assert!(
        rig.subscriber
            .get_subscription(request)
            .await
            .expect("there")
            .into_inner()
            .detached
    );
}

#[tokio::test]
async fn an_unused_subscription_expires() {
    let ttl = Some(pb::ExpirationPolicy {
        ttl: Some(seconds(86_400)),
    });
    let mut rig = Rig::with(pb::Subscription {
        expiration_policy: ttl,
        ..Default::default()
    })
    .await;
    let get = pb::GetSubscriptionRequest {
        subscription: SUBSCRIPTION.to_owned(),
    };
    rig.advance(86_000);
    rig.subscriber
        .get_subscription(get.clone())
        .await
        .expect("used in time");
    rig.advance(86_000);
    rig.subscriber
        .get_subscription(get.clone())
        .await
        .expect("used again");
    rig.advance(86_401);
    let status = rig
        .subscriber
        .get_subscription(get)
        .await
        .expect_err("expired");
    assert_eq!(status.code(), Code::NotFound);
}

#[tokio::test]
async fn messages_are_kept_for_the_retention() {
    let retention = Some(seconds(600));
    let mut rig = Rig::with(pb::Subscription {
        message_retention_duration: retention,
        ..Default::default()
    })
    .await;
    rig.publish(&["a"]).await;
    rig.advance(599);
    rig.publish(&["b"]).await;
    rig.advance(2);
    assert_eq!(crate::rig::payloads(&rig.pull(5).await), ["b"]);
}
