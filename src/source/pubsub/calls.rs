//! Unary calls: raw ones for the hot path, and retries for all.

use std::time::Duration;

use bytes::Bytes;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::{Code, Request, Response, Status};

use crate::source::pubsub::client::{Client, MESSAGE_BYTES_MAX, Transport};
use crate::source::pubsub::error::{Call, Error};
use crate::source::pubsub::retry::{Backoff, passes};
use crate::source::pubsub::wire::BytesCodec;

/// A connection for calls whose messages are bytes already; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct RawCalls {
    grpc: Grpc<Transport>,
}

impl RawCalls {
    /// Over a connection of its own.
    pub(crate) fn new(client: &Client) -> Result<Self, Error> {
        let grpc = Grpc::new(client.transport()?)
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        Ok(Self { grpc })
    }

    /// Makes one call and waits for its answer for at most `timeout`.
    pub(crate) async fn unary(
        &self,
        path: &'static str,
        request: Bytes,
        timeout: Duration,
    ) -> Result<Bytes, Status> {
        let mut grpc = self.grpc.clone();
        let mut request = Request::new(request);
        request.set_timeout(timeout);
        let path = PathAndQuery::from_static(path);
        let call = async move {
            grpc.ready().await.map_err(unreachable)?;
            grpc.unary(request, path, BytesCodec).await
        };
        within(timeout, call).await.map(Response::into_inner)
    }

    /// The stub itself, for a streaming call.
    pub(crate) async fn ready(&self) -> Result<Grpc<Transport>, Status> {
        let mut grpc = self.grpc.clone();
        grpc.ready().await.map_err(unreachable)?;
        Ok(grpc)
    }
}

/// Makes a call again, with backoff, for as long as its failures are such as pass and `limit`
/// has not gone by.
pub(crate) async fn retrying<T, F>(
    call: Call<'_>,
    limit: Duration,
    mut backoff: Backoff,
    mut attempt: impl FnMut() -> F,
) -> Result<T, Error>
where
    F: Future<Output = Result<T, Status>>,
{
    let started = tokio::time::Instant::now();
    loop {
        let status = match within(ATTEMPT_MAX.min(limit), attempt()).await {
            Ok(response) => return Ok(response),
            Err(status) => status,
        };
        if !passes(status.code()) {
            return Err(Error::permanent(&call, &status));
        }
        let delay = backoff.fail();
        if started.elapsed() + delay > limit {
            return Err(Error::unavailable(&call, &status, started.elapsed()));
        }
        tracing::debug!(call = call.name, code = ?status.code(), ?delay, "will be tried again");
        tokio::time::sleep(delay).await;
    }
}

async fn within<T>(
    timeout: Duration,
    call: impl Future<Output = Result<T, Status>>,
) -> Result<T, Status> {
    match tokio::time::timeout(timeout, call).await {
        Ok(result) => result,
        Err(_) => Err(Status::deadline_exceeded("no answer in time")),
    }
}

fn unreachable(error: tonic::codegen::StdError) -> Status {
    Status::new(Code::Unavailable, error.to_string())
}

/// An attempt that takes longer is given up and made again.
const ATTEMPT_MAX: Duration = Duration::from_secs(60);
