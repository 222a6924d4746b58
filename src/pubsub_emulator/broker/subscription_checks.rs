//! What a subscription may look like, and what its delivery makes of it.

use std::time::Duration;

use googleapis_tonic_google_pubsub_v1::google::pubsub::v1 as pb;
use tonic::Code;

use super::clock_work::retention;
use super::names;
use super::refusal::{Refusal, Result};
use crate::pubsub_emulator::delivery::{Filter, Policy, Retry};

const DAY: i64 = 24 * 3600;
const DEADLINE_SECONDS: std::ops::RangeInclusive<i32> = 10..=600;
const RETENTION_SECONDS: std::ops::RangeInclusive<i64> = 600..=31 * DAY;
const BACKOFF_SECONDS: std::ops::RangeInclusive<i64> = 0..=600;
const ATTEMPTS: std::ops::RangeInclusive<i32> = 5..=100;

/// Fills in what the client left open.
pub(super) fn fill_in(proto: &mut pb::Subscription) {
    if proto.ack_deadline_seconds == 0 {
        proto.ack_deadline_seconds = 10;
    }
    proto
        .message_retention_duration
        .get_or_insert(seconds(7 * DAY));
    proto.expiration_policy.get_or_insert(pb::ExpirationPolicy {
        ttl: Some(seconds(31 * DAY)),
    });
    proto.push_config.get_or_insert_default();
    if let Some(policy) = &mut proto.dead_letter_policy
        && policy.max_delivery_attempts == 0
    {
        policy.max_delivery_attempts = 5;
    }
    if let Some(policy) = &mut proto.retry_policy {
        policy.minimum_backoff.get_or_insert(seconds(10));
        policy.maximum_backoff.get_or_insert(seconds(600));
    }
}

/// Checks a subscription that has been filled in, and gives what delivery acts on.
pub(super) fn check(proto: &pb::Subscription) -> Result<Policy> {
    names::check_labels(proto.labels.iter())?;
    check_supported(proto)?;
    check_deadline(proto.ack_deadline_seconds)?;
    check_retention(proto.message_retention_duration.as_ref())?;
    let ttl = proto.expiration_policy.and_then(|policy| policy.ttl);
    if ttl.is_some_and(|ttl| ttl.seconds < DAY) {
        return Err(Refusal::invalid(
            "the expiration ttl must be at least 1 day",
        ));
    }
    let retry = proto.retry_policy.as_ref().map(check_retry).transpose()?;
    let attempts_max = proto.dead_letter_policy.as_ref();
    let attempts_max = attempts_max.map(check_attempts).transpose()?;
    let filter =
        Filter::parse(&proto.filter).map_err(|error| Refusal::invalid(error.to_string()))?;
    let ack_deadline = u64::try_from(proto.ack_deadline_seconds).unwrap_or(10);
    Ok(Policy {
        ack_deadline: Duration::from_secs(ack_deadline),
        retention: retention(proto.message_retention_duration.as_ref())
            .unwrap_or(Policy::default().retention),
        retain_acked: proto.retain_acked_messages,
        ordering: proto.enable_message_ordering,
        exactly_once: proto.enable_exactly_once_delivery,
        retry,
        attempts_max,
        filter,
    })
}

/// Checks an ack deadline of a subscription or stream.
pub(super) fn check_deadline(seconds: i32) -> Result<()> {
    if DEADLINE_SECONDS.contains(&seconds) {
        return Ok(());
    }
    Err(Refusal::invalid(format!(
        "ack deadline of {seconds} s is not between 10 and 600"
    )))
}

/// Checks how long messages are kept.
pub(super) fn check_retention(duration: Option<&prost_types::Duration>) -> Result<()> {
    if duration.is_none_or(|duration| within(duration, &RETENTION_SECONDS)) {
        return Ok(());
    }
    Err(Refusal::invalid(
        "message_retention_duration must be between 10 minutes and 31 days",
    ))
}

fn check_supported(proto: &pb::Subscription) -> Result<()> {
    let pushes = proto
        .push_config
        .as_ref()
        .is_some_and(|push| !push.push_endpoint.is_empty());
    let exports = proto.bigquery_config.is_some()
        || proto.cloud_storage_config.is_some()
        || proto.bigtable_config.is_some();
    if pushes || exports {
        return Err(Refusal::unsupported(
            "this emulator has pull subscriptions only, no push and no export",
        ));
    }
    if !proto.message_transforms.is_empty() {
        tracing::warn!(
            subscription = proto.name,
            "message transforms are kept but not applied"
        );
    }
    Ok(())
}

fn check_retry(policy: &pb::RetryPolicy) -> Result<Retry> {
    let bounds = [policy.minimum_backoff, policy.maximum_backoff];
    let are_within = bounds
        .iter()
        .flatten()
        .all(|bound| within(bound, &BACKOFF_SECONDS));
    if !are_within {
        return Err(Refusal::invalid(
            "a backoff must be between 0 and 600 seconds",
        ));
    }
    let [minimum, maximum] = bounds.map(|bound| retention(bound.as_ref()).unwrap_or_default());
    if minimum > maximum {
        return Err(Refusal::invalid(
            "minimum_backoff must not be longer than maximum_backoff",
        ));
    }
    Ok(Retry { minimum, maximum })
}

fn check_attempts(policy: &pb::DeadLetterPolicy) -> Result<u32> {
    names::check(&policy.dead_letter_topic, "topics")?;
    let attempts = policy.max_delivery_attempts;
    u32::try_from(attempts)
        .ok()
        .filter(|_| ATTEMPTS.contains(&attempts))
        .ok_or_else(|| {
            Refusal::new(
                Code::InvalidArgument,
                format!("max_delivery_attempts of {attempts} is not between 5 and 100"),
            )
        })
}

fn within(duration: &prost_types::Duration, seconds: &std::ops::RangeInclusive<i64>) -> bool {
    let over = i64::from(duration.nanos > 0);
    seconds.contains(&duration.seconds) && duration.seconds + over <= *seconds.end()
}

fn seconds(seconds: i64) -> prost_types::Duration {
    prost_types::Duration { seconds, nanos: 0 }
}
