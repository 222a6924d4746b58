//! Reading by unary `Pull` calls, for servers and proxies on which streams do not work well.

use std::time::Duration;

use googleapis_tonic_google_pubsub_v1::google::pubsub::v1::PullRequest;
use prost::Message as _;
use tonic::{Code, Status};

use crate::source::pubsub::error::{Call, Error};
use crate::source::pubsub::retry::{Backoff, passes};
use crate::source::pubsub::shared::{StreamCondition, add};
use crate::source::pubsub::stream::Stream;
use crate::source::pubsub::wire::Response;

/// Pulls until the reader closes.
pub(crate) async fn run(stream: Stream) {
    let shared = stream.shared.clone();
    let seed = shared.settings.seed.wrapping_add(stream.index as u64);
    let mut backoff = Backoff::new(seed, BACKOFF_MAX);
    shared.set_condition(stream.index, StreamCondition::Receptive);
    loop {
        let pulled = tokio::select! {
            () = shared.closing.cancelled() => return,
            pulled = pull(&stream) => pulled,
        };
        let delay = match pulled {
            Ok(()) => {
                backoff.succeed();
                continue;
            }
            Err(status) if passes(status.code()) => backoff.fail(),
            Err(status) => {
                let call = Call {
                    name: "Pull",
                    permission: "pubsub.subscriptions.consume",
                    resource: &shared.settings.subscription,
                };
                let error = Error::permanent(&call, &status);
                shared.report(error, &stream.batches).await;
                AFTER_PERMANENT_ERROR
            }
        };
        shared.stream_broke();
        shared.set_condition(stream.index, StreamCondition::Closed);
        tokio::select! {
            () = shared.closing.cancelled() => return,
            () = tokio::time::sleep(delay) => {}
        }
        shared.set_condition(stream.index, StreamCondition::Receptive);
    }
}

/// One call, once there is room. An empty answer says nothing about the backlog.
async fn pull(stream: &Stream) -> Result<(), Status> {
    let shared = &stream.shared;
    shared.await_room(stream.index).await;
    let request = PullRequest {
        subscription: shared.settings.subscription.clone(),
        max_messages: MESSAGES_MAX,
        ..PullRequest::default()
    };
    add(&shared.counters.streams_opened, 1);
    let request = request.encode_to_vec().into();
    let frame = match stream.calls.unary(PULL, request, CALL_MAX).await {
        Ok(frame) => frame,
        Err(status) if status.code() == Code::DeadlineExceeded => return Ok(()),
        Err(status) => return Err(status),
    };
    let response = Response::parse(frame)
        .map_err(|error| Status::internal(format!("unreadable response: {error}")))?;
    let batch = shared.take_in(response);
    if !batch.is_empty() {
        shared.hand_over(stream.index, batch, &stream.batches).await;
    }
    Ok(())
}

const PULL: &str = "/google.pubsub.v1.Subscriber/Pull";
const MESSAGES_MAX: i32 = 1_000;
const CALL_MAX: Duration = Duration::from_secs(30);
const BACKOFF_MAX: Duration = Duration::from_secs(20);
const AFTER_PERMANENT_ERROR: Duration = Duration::from_secs(30);
