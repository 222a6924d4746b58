//! Updates of the fields that a mask names.

use googleapis_tonic_google_pubsub_v1::google::pubsub::v1 as pb;

use super::refusal::{Refusal, Result};

/// The paths of a mask, which must not be empty.
pub(super) fn paths(mask: Option<prost_types::FieldMask>) -> Result<Vec<String>> {
    let paths = mask.map_or_else(Vec::new, |mask| mask.paths);
    if paths.is_empty() {
        return Err(Refusal::invalid("the update mask is missing or empty"));
    }
    Ok(paths)
}

/// Takes the named fields of `wanted` over into `topic`.
pub(super) fn update_topic(
    topic: &mut pb::Topic,
    wanted: pb::Topic,
    paths: &[String],
) -> Result<()> {
    for path in paths {
        let from = wanted.clone();
        match head(path) {
            "labels" => topic.labels = from.labels,
            "message_storage_policy" => {
                topic.message_storage_policy = from.message_storage_policy;
            }
            "kms_key_name" => topic.kms_key_name = from.kms_key_name,
            "schema_settings" => topic.schema_settings = from.schema_settings,
            "message_retention_duration" => {
                topic.message_retention_duration = from.message_retention_duration;
            }
            "ingestion_data_source_settings" => {
                topic.ingestion_data_source_settings = from.ingestion_data_source_settings;
            }
            "message_transforms" => topic.message_transforms = from.message_transforms,
            _ => return Err(unknown(path)),
        }
    }
    Ok(())
}

/// Takes the named fields of `wanted` over into `subscription`.
pub(super) fn update_subscription(
    subscription: &mut pb::Subscription,
    wanted: pb::Subscription,
    paths: &[String],
) -> Result<()> {
    for path in paths {
        let from = wanted.clone();
        match path.as_str() {
            "ack_deadline_seconds" => {
                subscription.ack_deadline_seconds = from.ack_deadline_seconds;
            }
            "retain_acked_messages" => {
                subscription.retain_acked_messages = from.retain_acked_messages;
            }
            "message_retention_duration" => {
                subscription.message_retention_duration = from.message_retention_duration;
            }
            "labels" => subscription.labels = from.labels,
            "push_config" => subscription.push_config = from.push_config,
            "bigquery_config" => subscription.bigquery_config = from.bigquery_config,
            "cloud_storage_config" => {
                subscription.cloud_storage_config = from.cloud_storage_config;
            }
            "enable_exactly_once_delivery" => {
                subscription.enable_exactly_once_delivery = from.enable_exactly_once_delivery;
            }
            "message_transforms" => subscription.message_transforms = from.message_transforms,
            "filter" | "enable_message_ordering" | "topic" | "name" => {
                return Err(Refusal::invalid(format!("{path} cannot be changed")));
            }
            policy => update_policy(subscription, &from, policy)?,
        }
    }
    Ok(())
}

/// Takes the named fields of `wanted` over into `snapshot`.
pub(super) fn update_snapshot(
    snapshot: &mut pb::Snapshot,
    wanted: pb::Snapshot,
    paths: &[String],
) -> Result<()> {
    for path in paths {
        let from = wanted.clone();
        match path.as_str() {
            "labels" => snapshot.labels = from.labels,
            "expire_time" => snapshot.expire_time = from.expire_time,
            _ => return Err(unknown(path)),
        }
    }
    Ok(())
}

/// The policies, as a whole or field by field.
fn update_policy(
    subscription: &mut pb::Subscription,
    from: &pb::Subscription,
    path: &str,
) -> Result<()> {
    let letter = from.dead_letter_policy.clone().unwrap_or_default();
    let retry = from.retry_policy.unwrap_or_default();
    match path {
        "expiration_policy" => subscription.expiration_policy = from.expiration_policy,
        "expiration_policy.ttl" => {
            let ttl = from.expiration_policy.and_then(|policy| policy.ttl);
            subscription.expiration_policy = Some(pb::ExpirationPolicy { ttl });
        }
        "dead_letter_policy" => {
            subscription.dead_letter_policy = from.dead_letter_policy.clone();
        }
        "dead_letter_policy.dead_letter_topic" => {
            let policy = subscription.dead_letter_policy.get_or_insert_default();
            policy.dead_letter_topic = letter.dead_letter_topic;
        }
        "dead_letter_policy.max_delivery_attempts" => {
            let policy = subscription.dead_letter_policy.get_or_insert_default();
            policy.max_delivery_attempts = letter.max_delivery_attempts;
        }
        "retry_policy" => subscription.retry_policy = from.retry_policy,
        "retry_policy.minimum_backoff" => {
            let policy = subscription.retry_policy.get_or_insert_default();
            policy.minimum_backoff = retry.minimum_backoff;
        }
        "retry_policy.maximum_backoff" => {
            let policy = subscription.retry_policy.get_or_insert_default();
            policy.maximum_backoff = retry.maximum_backoff;
        }
        _ => return Err(unknown(path)),
    }
    Ok(())
}

/// The field of a path that may go deeper.
fn head(path: &str) -> &str {
    path.split('.').next().unwrap_or(path)
}

fn unknown(path: &str) -> Refusal {
    Refusal::invalid(format!(
        "the update mask names {path:?}, which cannot be updated"
    ))
}
