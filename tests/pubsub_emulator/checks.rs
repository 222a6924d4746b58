//! What is refused, and with which status.

use googleapis_tonic_google_pubsub_v1::google::pubsub::v1 as pb;
use tidemill::pubsub_emulator::Settings;
use tonic::Code::{self, AlreadyExists, InvalidArgument, NotFound, Unimplemented};

use crate::rig::{Rig, SUBSCRIPTION, TOPIC, labels, message, seconds};

fn code<T>(result: Result<T, tonic::Status>) -> Code {
    result.err().map_or(Code::Ok, |status| status.code())
}

#[tokio::test]
async fn names() {
    let mut rig = Rig::start(Settings::default()).await;
    let table = [
        ("projects/p/topics/abc", Code::Ok),
        ("projects/p/topics/abc", AlreadyExists),
        ("projects/example.com:p/topics/a-b_c.d~e+f%g", Code::Ok),
        ("projects/p/topics/ab", InvalidArgument),
        ("projects/p/topics/1abc", InvalidArgument),
        ("projects/p/topics/goog-abc", InvalidArgument),
        ("projects/p/topics/a/b", InvalidArgument),
        ("projects/p/topics/a b", InvalidArgument),
        ("projects/p/subscriptions/abc", InvalidArgument),
        ("abc", InvalidArgument),
        ("", InvalidArgument),
    ];
    for (name, expected) in table {
        let topic = pb::Topic {
            name: name.to_owned(),
            ..Default::default()
        };
        assert_eq!(
            code(rig.publisher.create_topic(topic).await),
            expected,
            "{name}"
        );
    }
    let long = format!("projects/p/topics/{}", "a".repeat(256));
    let topic = pb::Topic {
        name: long,
        ..Default::default()
    };
    assert_eq!(
        code(rig.publisher.create_topic(topic).await),
        InvalidArgument
    );
}

/// Creates each of these, over the topic that is there, and compares the status.
async fn check(table: &[(&str, pb::Subscription, Code)]) {
    let mut rig = Rig::with(pb::Subscription::default()).await;
    for (what, subscription, expected) in table {
        let mut subscription = subscription.clone();
        if subscription.name.is_empty() {
            "projects/test/subscriptions/other".clone_into(&mut subscription.name);
        }
        assert_eq!(code(rig.create(subscription).await), *expected, "{what}");
    }
}

#[tokio::test]
async fn subscriptions() {
    let default = pb::Subscription::default;
    let deadline = |ack_deadline_seconds| pb::Subscription {
        ack_deadline_seconds,
        ..default()
    };
    let retention = |duration: i64| pb::Subscription {
        message_retention_duration: Some(seconds(duration)),
        ..default()
    };
    let ttl = |ttl: i64| pb::Subscription {
        expiration_policy: Some(pb::ExpirationPolicy {
            ttl: Some(seconds(ttl)),
        }),
        ..default()
    };
    let topic = pb::Subscription {
        topic: "projects/test/topics/none".to_owned(),
        ..default()
    };
    let push = pb::PushConfig {
        push_endpoint: "http://x".to_owned(),
        ..Default::default()
    };
    check(&[
        (
            "taken",
            pb::Subscription {
                name: SUBSCRIPTION.to_owned(),
                ..default()
            },
            AlreadyExists,
        ),
        ("topic", topic, NotFound),
        ("deadline 9", deadline(9), InvalidArgument),
        ("deadline 601", deadline(601), InvalidArgument),
        ("retention 599", retention(599), InvalidArgument),
        ("retention 32 d", retention(32 * 86_400), InvalidArgument),
        ("ttl 1 h", ttl(3600), InvalidArgument),
        (
            "filter",
            pb::Subscription {
                filter: "attributes".to_owned(),
                ..default()
            },
            InvalidArgument,
        ),
        (
            "labels",
            pb::Subscription {
                labels: labels(&[("Upper", "x")]),
                ..default()
            },
            InvalidArgument,
        ),
        (
            "push",
            pb::Subscription {
                push_config: Some(push),
                ..default()
            },
            Unimplemented,
        ),
    ])
    .await;
}

#[tokio::test]
async fn policies() {
    let retry = |minimum: i64, maximum: i64| pb::Subscription {
        retry_policy: Some(pb::RetryPolicy {
            minimum_backoff: Some(seconds(minimum)),
            maximum_backoff: Some(seconds(maximum)),
        }),
        ..Default::default()
    };
    let letters = |topic: &str, max_delivery_attempts: i32| pb::Subscription {
        dead_letter_policy: Some(pb::DeadLetterPolicy {
            dead_letter_topic: topic.to_owned(),
            max_delivery_attempts,
        }),
        ..Default::default()
    };
    check(&[
        ("backoff 601", retry(1, 601), InvalidArgument),
        ("backoff order", retry(9, 1), InvalidArgument),
        ("attempts 4", letters(TOPIC, 4), InvalidArgument),
        ("attempts 101", letters(TOPIC, 101), InvalidArgument),
        (
            "no letters",
            letters("projects/test/topics/none", 5),
            NotFound,
        ),
        ("good", letters(TOPIC, 5), Code::Ok),
    ])
    .await;
}

#[tokio::test]
async fn publishing() {
    let mut rig = Rig::with(pb::Subscription::default()).await;
    let with = |key: &str, value: &str| pb::PubsubMessage {
        attributes: labels(&[(key, value)]),
        ..Default::default()
    };
    let many = (0..101).map(|n| (n.to_string(), String::new())).collect();
    let keyed = |key: &str| pb::PubsubMessage {
        ordering_key: key.to_owned(),
        ..message("x")
    };
    let big = pb::PubsubMessage {
        data: vec![0; 10 * 1024 * 1024 + 1].into(),
        ..Default::default()
    };
    let table = [
        ("1000", vec![message("x"); 1000], Code::Ok),
        ("attribute only", vec![with("k", "")], Code::Ok),
        ("none", vec![], InvalidArgument),
        ("1001", vec![message("x"); 1001], InvalidArgument),
        ("empty", vec![pb::PubsubMessage::default()], InvalidArgument),
        ("10 MB", vec![big], InvalidArgument),
        (
            "101 attributes",
            vec![pb::PubsubMessage {
                attributes: many,
                ..Default::default()
            }],
            InvalidArgument,
        ),
        ("key 257", vec![with(&"k".repeat(257), "")], InvalidArgument),
        (
            "value 1025",
            vec![with("k", &"v".repeat(1025))],
            InvalidArgument,
        ),
        ("goog", vec![with("google", "v")], InvalidArgument),
        (
            "ordering key 1025",
            vec![keyed(&"k".repeat(1025))],
            InvalidArgument,
        ),
        ("two keys", vec![keyed("a"), keyed("b")], InvalidArgument),
    ];
    for (what, messages, expected) in table {
        assert_eq!(
            code(rig.publish_messages(messages).await),
            expected,
            "{what}"
        );
    }
    let request = pb::PublishRequest {
        topic: "projects/test/topics/none".to_owned(),
        messages: vec![message("x")],
    };
    assert_eq!(code(rig.publisher.publish(request).await), NotFound);
}

#[tokio::test]
async fn pulling_and_acknowledging() {
    let mut rig = Rig::with(pb::Subscription::default()).await;
    assert_eq!(code(rig.pull_from(SUBSCRIPTION, 0).await), InvalidArgument);
    assert_eq!(
        code(rig.pull_from("projects/test/subscriptions/none", 1).await),
        NotFound
    );
    let ack = |ack_ids: Vec<String>| pb::AcknowledgeRequest {
        subscription: SUBSCRIPTION.to_owned(),
        ack_ids,
    };
    assert_eq!(
        code(rig.subscriber.acknowledge(ack(vec![])).await),
        InvalidArgument
    );
    let malformed = ack(vec!["nonsense".to_owned()]);
    assert_eq!(
        code(rig.subscriber.acknowledge(malformed).await),
        InvalidArgument
    );
    rig.publish(&["a"]).await;
    let out = rig.pull(1).await;
    assert_eq!(code(rig.modify(&out, 601).await), InvalidArgument);
    assert_eq!(code(rig.modify(&out, -1).await), InvalidArgument);
    let long = ack(vec![out[0].ack_id.clone(); 100_000]);
    assert_eq!(
        code(rig.subscriber.acknowledge(long).await),
        InvalidArgument
    );
    assert_eq!(code(rig.ack(&out).await), Code::Ok);
    assert_eq!(
        code(rig.ack(&out).await),
        Code::Ok,
        "acking twice is no error"
    );
}

#[tokio::test]
async fn streams() {
    let mut rig = Rig::with(pb::Subscription::default()).await;
    for deadline in [5, 601] {
        let request = pb::StreamingPullRequest {
            subscription: SUBSCRIPTION.to_owned(),
            stream_ack_deadline_seconds: deadline,
            ..Default::default()
        };
        let requests = tokio_stream::once(request);
        assert_eq!(
            code(rig.subscriber.streaming_pull(requests).await),
            InvalidArgument
        );
    }
    let first = pb::StreamingPullRequest {
        subscription: "projects/test/subscriptions/none".to_owned(),
        stream_ack_deadline_seconds: 10,
        ..Default::default()
    };
    let requests = tokio_stream::once(first);
    assert_eq!(
        code(rig.subscriber.streaming_pull(requests).await),
        NotFound
    );
    let later = [
        pb::StreamingPullRequest {
            subscription: SUBSCRIPTION.to_owned(),
            ..Default::default()
        },
        pb::StreamingPullRequest {
            max_outstanding_messages: 5,
            ..Default::default()
        },
        pb::StreamingPullRequest {
            ack_ids: vec!["nonsense".to_owned()],
            ..Default::default()
        },
        pb::StreamingPullRequest {
            modify_deadline_seconds: vec![1],
            ..Default::default()
        },
        pb::StreamingPullRequest {
            stream_ack_deadline_seconds: 5,
            ..Default::default()
        },
        pb::StreamingPullRequest {
            modify_deadline_ack_ids: vec!["1-1-1".to_owned()],
            modify_deadline_seconds: vec![-1],
            ..Default::default()
        },
    ];
    for request in later {
        let mut stream = rig
            .stream(pb::StreamingPullRequest::default())
            .await
            .expect("open");
        stream.send(request.clone());
        assert_eq!(code(stream.next().await), InvalidArgument, "{request:?}");
    }
}

#[tokio::test]
async fn methods_that_are_not_there() {
    let rig = Rig::start(Settings::default()).await;
    let endpoint =
        tonic::transport::Endpoint::from_shared(format!("http://{}", rig.emulator.addr()));
    let channel = endpoint
        .expect("an address")
        .connect()
        .await
        .expect("connects");
    let mut schemas = pb::schema_service_client::SchemaServiceClient::new(channel);
    assert_eq!(
        code(
            schemas
                .list_schemas(pb::ListSchemasRequest::default())
                .await
        ),
        Unimplemented
    );
}
