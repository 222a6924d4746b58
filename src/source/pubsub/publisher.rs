//! Publishes batches of messages.

use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use googleapis_tonic_google_pubsub_v1::google::pubsub::v1::PublishResponse;
use prost::Message as _;
use tonic::Status;

use crate::source::pubsub::calls::{RawCalls, retrying};
use crate::source::pubsub::client::Client;
use crate::source::pubsub::error::{Call, Error};
use crate::source::pubsub::outgoing::{Outgoing, PublishSettings, Sequence, check, pack};
use crate::source::pubsub::retry::Backoff;

/// Publishes messages to any topics over one connection; cheap to clone.
#[derive(Clone, Debug)]
pub struct Publisher {
    calls: RawCalls,
    settings: PublishSettings,
}

impl Publisher {
    /// A publisher over a connection of its own.
    pub fn new(client: &Client, settings: PublishSettings) -> Result<Self, Error> {
        Ok(Self {
            calls: RawCalls::new(client)?,
            settings,
        })
    }

    /// Says whether Pub/Sub would accept each of these; call it before the elements are committed,
    /// since afterwards one that it does not accept can neither be published nor taken back.
    pub fn check(&self, messages: &[Outgoing]) -> Result<(), Error> {
        for (index, message) in messages.iter().enumerate() {
            check(index, message, &self.settings)?;
        }
        Ok(())
    }

    /// Publishes all of `messages`, those of one topic and ordering key in the order given, and
    /// returns once the server has accepted every one. After an error some may have been accepted;
    /// publishing the same list again is safe for readers that deduplicate by the id attribute.
    pub async fn publish(&self, messages: Vec<Outgoing>) -> Result<(), Error> {
        let checked: Result<Vec<_>, Error> = messages
            .into_iter()
            .enumerate()
            .map(|(index, message)| check(index, &message, &self.settings))
            .collect();
        stream::iter(pack(checked?))
            .map(|sequence| self.publish_sequence(sequence))
            .buffer_unordered(REQUESTS_IN_FLIGHT_MAX)
            .try_collect()
            .await
    }

    async fn publish_sequence(&self, sequence: Sequence) -> Result<(), Error> {
        let call = Call {
            name: "Publish",
            permission: "pubsub.topics.publish",
            resource: &sequence.topic,
        };
        for (request, count) in &sequence.requests {
            let backoff = Backoff::new(self.settings.seed ^ request.len() as u64, BACKOFF_MAX);
            let attempt = || self.publish_once(request.clone(), *count);
            retrying(call, self.settings.give_up_after, backoff, attempt).await?;
        }
        Ok(())
    }

    async fn publish_once(&self, request: Bytes, count: usize) -> Result<(), Status> {
        let answer = self.calls.unary(PUBLISH, request, CALL_MAX).await?;
        let accepted = PublishResponse::decode(answer)
            .map_err(|error| Status::internal(format!("unreadable response: {error}")))?
            .message_ids
            .len();
        if accepted == count {
            Ok(())
        } else {
            let message = format!("{accepted} of {count} messages were given ids");
            Err(Status::internal(message))
        }
    }
}

const PUBLISH: &str = "/google.pubsub.v1.Publisher/Publish";
const REQUESTS_IN_FLIGHT_MAX: usize = 8;
const CALL_MAX: Duration = Duration::from_secs(60);
const BACKOFF_MAX: Duration = Duration::from_secs(30);
