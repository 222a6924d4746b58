//! Pub/Sub reads run by the runner: a leaf of Python and Go, a composite of Java.

use prost::Message;

use crate::model::stage::PubsubRead;
use crate::plan::build::Settings;
use crate::plan::error::Error;
use crate::plan::rewrite::pubsub_path;
use crate::proto::pipeline as pb;

/// Reads the payload of a `pubsub_read` transform.
pub(crate) fn payload(proto: &pb::PTransform, settings: &Settings) -> Result<PubsubRead, Error> {
    let spec = proto.spec.clone().unwrap_or_default();
    let payload = pb::PubSubReadPayload::decode(spec.payload)
        .map_err(|_| Error::malformed("its payload cannot be read").urn(&spec.urn))?;
    let topic = settings.resolve(&payload.topic, &payload.topic_runtime_overridden)?;
    let subscription = settings.resolve(
        &payload.subscription,
        &payload.subscription_runtime_overridden,
    )?;
    if topic.is_none() && subscription.is_none() {
        return Err(Error::malformed("it names neither a topic nor a subscription").urn(&spec.urn));
    }
    let path = |path: Option<String>, what| {
        path.map(|path| pubsub_path::canonical(&path, what))
            .transpose()
    };
    Ok(PubsubRead {
        transform: proto.unique_name.clone(),
        topic: path(topic, "topics")?,
        subscription: path(subscription, "subscriptions")?,
        timestamp_attribute: set(payload.timestamp_attribute),
        id_attribute: set(payload.id_attribute),
        with_attributes: payload.with_attributes,
    })
}

/// Protos say "" for "none".
pub(super) fn set(value: String) -> Option<String> {
    Some(value).filter(|value| !value.is_empty())
}
