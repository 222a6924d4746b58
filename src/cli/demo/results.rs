//! What the demo's pipeline published.

use std::collections::VecDeque;
use std::time::Duration;

use googleapis_tonic_google_pubsub_v1::google::pubsub::v1::subscriber_client::SubscriberClient;
use googleapis_tonic_google_pubsub_v1::google::pubsub::v1::{AcknowledgeRequest, PullRequest};
use serde::Deserialize;
use tonic::transport::Channel;

use crate::cli::demo::orders::connect;
use crate::cli::demo::{Error, SUBSCRIPTION_RESULTS};
use crate::telemetry::clock;

/// One result with when it came.
#[derive(Clone, Debug)]
pub struct Received {
    /// Names the message: a second delivery of it is no second result.
    pub message_id: String,
    pub total: Total,
    pub at: i64,
}

/// The message that the pipeline publishes.
#[derive(Clone, Debug, Deserialize)]
pub struct Total {
    pub window_end: i64,
    pub shop: String,
    pub units: u64,
}

/// A reader of results.
pub struct Results {
    subscriber: SubscriberClient<Channel>,
    received: VecDeque<Received>,
}

impl Results {
    /// Connects.
    pub async fn start(address: &str) -> Result<Self, Error> {
        let subscriber = SubscriberClient::new(connect(address).await?);
        Ok(Self {
            subscriber,
            received: VecDeque::new(),
        })
    }

    /// The next result; safe to give up while it waits.
    pub async fn next(&mut self) -> Result<Received, Error> {
        loop {
            if let Some(received) = self.received.pop_front() {
                return Ok(received);
            }
            self.pull().await?;
        }
    }

    async fn pull(&mut self) -> Result<(), Error> {
        let request = PullRequest {
            subscription: SUBSCRIPTION_RESULTS.to_owned(),
            max_messages: 1000,
            ..PullRequest::default()
        };
        let mut request = tonic::Request::new(request);
        request.set_timeout(Duration::from_secs(5));
        let response = match self.subscriber.pull(request).await {
            Ok(response) => response.into_inner(),
            Err(status) if status.code() == tonic::Code::DeadlineExceeded => return Ok(()),
            Err(status) if status.code() == tonic::Code::Cancelled => return Ok(()),
            Err(status) => return Err(status.into()),
        };
        let at = clock::unix_millis();
        let mut ack_ids = Vec::new();
        for received in response.received_messages {
            ack_ids.push(received.ack_id);
            let Some(message) = received.message else {
                continue;
            };
            match serde_json::from_slice(&message.data) {
                Ok(total) => {
                    let message_id = message.message_id;
                    self.received.push_back(Received {
                        message_id,
                        total,
                        at,
                    });
                }
                Err(error) => eprintln!("a result is not understood: {error}"),
            }
        }
        if !ack_ids.is_empty() {
            let subscription = SUBSCRIPTION_RESULTS.to_owned();
            self.subscriber
                .acknowledge(AcknowledgeRequest {
                    subscription,
                    ack_ids,
                })
                .await?;
        }
        Ok(())
    }
}
