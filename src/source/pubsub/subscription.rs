//! Subscriptions that a job makes for itself, and their removal.

use std::time::Duration;

use googleapis_tonic_google_pubsub_v1::google::pubsub::v1::{
    DeleteSubscriptionRequest, ExpirationPolicy, GetSubscriptionRequest, ListSubscriptionsRequest,
    Subscription,
};

use crate::source::pubsub::calls::retrying;
use crate::source::pubsub::client::Client;
use crate::source::pubsub::error::{Call, Error};
use crate::source::pubsub::keys::hash64;
use crate::source::pubsub::path;
use crate::source::pubsub::retry::Backoff;

/// What a temporary subscription is made for.
#[derive(Clone, Debug)]
pub struct Temporary {
    /// Path of the topic to subscribe to.
    pub topic: String,
    /// The project that the subscription is made in: the pipeline's, not the topic's.
    pub project: String,
    /// Names the server that owns the job, so that servers do not sweep each other's.
    pub server_id: String,
    /// The job's id.
    pub job_id: String,
    /// The job's name, for people.
    pub job_name: String,
    /// Tells apart several reads of one topic in a job.
    pub read: String,
}

impl Temporary {
    /// The path that the subscription has, or will have.
    pub fn path(&self) -> Result<String, Error> {
        Ok(describe(self)?.name)
    }
}

/// Makes the subscription, or finds it if this job made it before; returns its path.
pub async fn create_temporary_subscription(
    client: &Client,
    temporary: &Temporary,
) -> Result<String, Error> {
    let subscription = describe(temporary)?;
    let subscriber = client.subscriber()?;
    let call = Call {
        name: "CreateSubscription",
        permission: "pubsub.subscriptions.create and pubsub.topics.attachSubscription",
        resource: &subscription.topic,
    };
    let attempt = || {
        let (mut subscriber, subscription) = (subscriber.clone(), subscription.clone());
        async move { created(subscriber.create_subscription(subscription).await) }
    };
    retrying(call, ADMIN_MAX, backoff(&subscription.name), attempt).await?;
    Ok(subscription.name)
}

/// Checks that a subscription exists and can be pulled from, and says what about it does not go well
/// with a pipeline. A server that does not let us look at it is no error, since reading needs no such
/// permission.
pub async fn check_subscription(client: &Client, path: &str) -> Result<Vec<String>, Error> {
    let subscriber = client.subscriber()?;
    let call = Call {
        name: "GetSubscription",
        permission: "pubsub.subscriptions.get",
        resource: path,
    };
    let attempt = || {
        let mut subscriber = subscriber.clone();
        let request = GetSubscriptionRequest {
            subscription: path.to_owned(),
        };
        async move { subscriber.get_subscription(request).await }
    };
    match retrying(call, ADMIN_MAX, backoff(path), attempt).await {
        Ok(found) => match hindrance(found.get_ref()) {
            Some(reason) => Err(Error::Unreadable {
                subscription: path.to_owned(),
                reason,
            }),
            None => Ok(warnings(found.get_ref())),
        },
        Err(error @ Error::PermissionDenied { .. }) => Ok(vec![format!(
            "the subscription could not be checked: {error}"
        )]),
        Err(error) => Err(error),
    }
}

/// Why nothing can be pulled from a subscription, ever.
fn hindrance(subscription: &Subscription) -> Option<&'static str> {
    let push = subscription.push_config.as_ref();
    if subscription.detached {
        Some("it is detached from its topic: make another")
    } else if push.is_some_and(|push| !push.push_endpoint.is_empty()) {
        Some("it pushes its messages to an endpoint: make one without")
    } else if subscription.bigquery_config.is_some() || subscription.cloud_storage_config.is_some()
    {
        Some("it exports its messages: make one that does not")
    } else {
        None
    }
}

/// What about a subscription a user should know before a pipeline reads it.
fn warnings(subscription: &Subscription) -> Vec<String> {
    let found = [
        (
            subscription.retry_policy.is_some(),
            "has a retry policy: messages that are given back are delayed by its backoff, and the \
             watermark with them; use immediate retry",
        ),
        (
            subscription.dead_letter_policy.is_some(),
            "has a dead-letter policy: a message is acknowledged once its first effects are \
             durable, so what fails later never gets there, and what is given back at a shutdown \
             counts as an attempt; dead-letter in the pipeline",
        ),
        (
            subscription.enable_exactly_once_delivery,
            "has exactly-once delivery: it is slower, and not needed, since messages are \
             deduplicated here",
        ),
        (
            subscription.enable_message_ordering,
            "has message ordering: it is slower, and a pipeline does not preserve order",
        ),
        (
            !subscription.message_transforms.is_empty(),
            "has message transforms: what they filter out counts as backlog until then",
        ),
        (
            retention_seconds(subscription).is_some_and(|seconds| seconds < RETENTION_SECONDS_MIN),
            "keeps messages for less than an hour: they are lost if the pipeline is down or behind \
             for longer than it says",
        ),
        (
            subscription.topic == DELETED_TOPIC,
            "belongs to a topic that was deleted: only its backlog will be delivered",
        ),
    ];
    let name = &subscription.name;
    found
        .into_iter()
        .filter(|(applies, _)| *applies)
        .map(|(_, warning)| format!("{name} {warning}"))
        .collect()
}

fn retention_seconds(subscription: &Subscription) -> Option<i64> {
    let retention = subscription.message_retention_duration.as_ref()?;
    Some(retention.seconds)
}

/// Deletes a subscription; one that is gone already is fine.
pub async fn delete_subscription(client: &Client, subscription: &str) -> Result<(), Error> {
    let subscriber = client.subscriber()?;
    let call = Call {
        name: "DeleteSubscription",
        permission: "pubsub.subscriptions.delete",
        resource: subscription,
    };
    let attempt = || {
        let mut subscriber = subscriber.clone();
        let request = DeleteSubscriptionRequest {
            subscription: subscription.to_owned(),
        };
        async move { subscriber.delete_subscription(request).await }
    };
    match retrying(call, ADMIN_MAX, backoff(subscription), attempt).await {
        Ok(_) | Err(Error::NotFound { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Deletes the temporary subscriptions in `project` that `server_id` made for jobs that are not
/// `live`; returns their paths.
pub async fn sweep_temporary_subscriptions(
    client: &Client,
    project: &str,
    server_id: &str,
    live: impl Fn(&str) -> bool,
) -> Result<Vec<String>, Error> {
    let left_over: Vec<String> = list(client, project)
        .await?
        .into_iter()
        .filter(|subscription| {
            let label = |key: &str| subscription.labels.get(key).map(String::as_str);
            label(SERVER_LABEL) == Some(label_value(server_id).as_str())
                && label(JOB_LABEL).is_some_and(|job| !live(job))
        })
        .map(|subscription| subscription.name)
        .collect();
    for subscription in &left_over {
        delete_subscription(client, subscription).await?;
    }
    Ok(left_over)
}

/// A label's value as Pub/Sub allows it: lower-case letters, digits, `-` and `_`, at most 63. The
/// job ids that `live` of [`sweep_temporary_subscriptions`] is asked about have this form.
pub fn label_value(text: &str) -> String {
    text.chars()
        .map(|char| match char.to_ascii_lowercase() {
            allowed @ ('a'..='z' | '0'..='9' | '-' | '_') => allowed,
            _ => '-',
        })
        .take(LABEL_CHARS_MAX)
        .collect()
}

async fn list(client: &Client, project: &str) -> Result<Vec<Subscription>, Error> {
    let subscriber = client.subscriber()?;
    let resource = format!("projects/{project}");
    let call = Call {
        name: "ListSubscriptions",
        permission: "pubsub.subscriptions.list",
        resource: &resource,
    };
    let mut found = Vec::new();
    let mut page_token = String::new();
    loop {
        let attempt = || {
            let mut subscriber = subscriber.clone();
            let request = ListSubscriptionsRequest {
                project: resource.clone(),
                page_size: 1_000,
                page_token: page_token.clone(),
            };
            async move { subscriber.list_subscriptions(request).await }
        };
        let page = retrying(call, ADMIN_MAX, backoff(project), attempt)
            .await?
            .into_inner();
        found.extend(page.subscriptions);
        if page.next_page_token.is_empty() {
            return Ok(found);
        }
        page_token = page.next_page_token;
    }
}

/// An earlier attempt, or an earlier run of the same job, may have made it.
fn created(
    result: Result<tonic::Response<Subscription>, tonic::Status>,
) -> Result<(), tonic::Status> {
    match result {
        Ok(_) => Ok(()),
        Err(status) if status.code() == tonic::Code::AlreadyExists => Ok(()),
        Err(status) => Err(status),
    }
}

fn describe(temporary: &Temporary) -> Result<Subscription, Error> {
    let topic = path::topic(&temporary.topic)?;
    let identity = format!("{} {} {}", temporary.job_id, temporary.read, topic);
    let name = format!(
        "projects/{}/subscriptions/tidemill-{}-{:016x}",
        temporary.project,
        label_value(&temporary.job_name),
        hash64(identity.as_bytes())
    );
    let labels = [
        (SERVER_LABEL, &temporary.server_id),
        (JOB_LABEL, &temporary.job_id),
    ];
    Ok(Subscription {
        name,
        topic,
        ack_deadline_seconds: 60,
        message_retention_duration: Some(seconds(RETENTION)),
        expiration_policy: Some(ExpirationPolicy {
            ttl: Some(seconds(TIME_TO_LIVE)),
        }),
        labels: labels
            .map(|(key, value)| (key.to_owned(), label_value(value)))
            .into(),
        ..Subscription::default()
    })
}

fn seconds(duration: Duration) -> prost_types::Duration {
    prost_types::Duration {
        seconds: duration.as_secs() as i64,
        nanos: 0,
    }
}

fn backoff(resource: &str) -> Backoff {
    Backoff::new(hash64(resource.as_bytes()), Duration::from_secs(5))
}

const SERVER_LABEL: &str = "tidemill-server";
const JOB_LABEL: &str = "tidemill-job";
const DELETED_TOPIC: &str = "_deleted-topic_";
const LABEL_CHARS_MAX: usize = 63;
/// A subscription that nobody reads for a day is deleted by the service: the least it allows.
const TIME_TO_LIVE: Duration = Duration::from_secs(24 * 3_600);
/// Messages may not outlive the subscription.
const RETENTION: Duration = Duration::from_secs(23 * 3_600);
/// An hour: restarting a pipeline takes a person some time.
const RETENTION_SECONDS_MIN: i64 = 3_600;
const ADMIN_MAX: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use googleapis_tonic_google_pubsub_v1::google::pubsub::v1::PushConfig;

    use super::*;

    fn temporary(job_id: &str, read: &str) -> Temporary {
        Temporary {
            topic: "/topics/other/Orders".into(),
            project: "mine".into(),
            server_id: "Server 1".into(),
            job_id: job_id.into(),
            job_name: "Words & Counts".into(),
            read: read.into(),
        }
    }

    #[test]
    fn lives_in_the_pipelines_project_for_a_day() {
        let subscription = describe(&temporary("job-1", "read")).unwrap();
        let name = "projects/mine/subscriptions/tidemill-words---counts-";
        assert!(subscription.name.starts_with(name), "{}", subscription.name);
        assert_eq!(subscription.topic, "projects/other/topics/Orders");
        assert_eq!(subscription.labels[SERVER_LABEL], "server-1");
        assert_eq!(subscription.labels[JOB_LABEL], "job-1");
        let ttl = subscription.expiration_policy.unwrap().ttl.unwrap();
        assert_eq!(ttl.seconds, 86_400);
    }

    #[test]
    fn warns_of_what_does_not_go_well() {
        let plain = Subscription {
            name: "s".into(),
            ..Subscription::default()
        };
        assert_eq!(warnings(&plain), [""; 0]);
        let odd = Subscription {
            enable_exactly_once_delivery: true,
            message_retention_duration: Some(seconds(Duration::from_secs(600))),
            topic: DELETED_TOPIC.into(),
            ..plain
        };
        let warnings = warnings(&odd);
        assert!(
            warnings[0].starts_with("s has exactly-once delivery:"),
            "{warnings:?}"
        );
        assert!(
            warnings[1].starts_with("s keeps messages for less"),
            "{warnings:?}"
        );
        assert!(
            warnings[2].starts_with("s belongs to a topic"),
            "{warnings:?}"
        );
    }

    #[test]
    fn refuses_what_nothing_can_be_pulled_from() {
        let plain = Subscription::default();
        assert_eq!(hindrance(&plain), None);
        let detached = Subscription {
            detached: true,
            ..plain.clone()
        };
        let pushing = Subscription {
            push_config: Some(PushConfig {
                push_endpoint: "https://example.com".into(),
                ..PushConfig::default()
            }),
            ..plain.clone()
        };
        // What a server shows for a subscription that is pulled from.
        let pulled = Subscription {
            push_config: Some(PushConfig::default()),
            ..plain
        };
        assert!(hindrance(&detached).is_some_and(|why| why.starts_with("it is detached")));
        assert!(hindrance(&pushing).is_some_and(|why| why.starts_with("it pushes")));
        assert_eq!(hindrance(&pulled), None);
    }

    #[test]
    fn each_read_of_each_job_has_its_own() {
        let name = |job: &str, read: &str| describe(&temporary(job, read)).unwrap().name;
        assert_eq!(
            name("a", "r"),
            name("a", "r"),
            "found again after a restart"
        );
        assert_ne!(name("a", "r"), name("b", "r"));
        assert_ne!(name("a", "r"), name("a", "s"));
    }
}
