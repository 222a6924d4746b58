//! Topics that a job writes to.

use std::time::Duration;

use googleapis_tonic_google_pubsub_v1::google::pubsub::v1::GetTopicRequest;

use crate::source::pubsub::calls::retrying;
use crate::source::pubsub::client::Client;
use crate::source::pubsub::error::{Call, Error};
use crate::source::pubsub::keys::hash64;
use crate::source::pubsub::path;
use crate::source::pubsub::retry::Backoff;

/// Checks that a topic exists, so that a job does not find out only when it has something to write.
/// A server that does not let us look is no error, since publishing needs no such permission.
pub async fn check_topic(client: &Client, topic: &str) -> Result<(), Error> {
    let topic = path::topic(topic)?;
    if path::is_discard_topic(&topic) {
        return Ok(());
    }
    let publisher = client.publisher()?;
    let call = Call {
        name: "GetTopic",
        permission: "pubsub.topics.get",
        resource: &topic,
    };
    let attempt = || {
        let mut publisher = publisher.clone();
        let request = GetTopicRequest {
            topic: topic.clone(),
        };
        async move { publisher.get_topic(request).await }
    };
    let backoff = Backoff::new(hash64(topic.as_bytes()), BACKOFF_MAX);
    match retrying(call, CHECK_MAX, backoff, attempt).await {
        Ok(_) | Err(Error::PermissionDenied { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

const CHECK_MAX: Duration = Duration::from_secs(20);
const BACKOFF_MAX: Duration = Duration::from_secs(5);
