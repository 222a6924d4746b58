//! The unary Pull.

use std::sync::Arc;
use std::time::Duration;

use googleapis_tonic_google_pubsub_v1::google::pubsub::v1 as pb;
use http::Response;
use tonic::Status;
use tonic::body::Body;
use tonic::metadata::MetadataMap;

use crate::pubsub_emulator::delivery::Limit;

use super::call::Call;
use super::shared::Shared;
use super::status::status;
use super::wire::{self, PullResponse};

/// Most payload in a response; one more message may overshoot it.
const RESPONSE_BYTES_MAX: u64 = 3 * 1024 * 1024;
/// A pull without messages is answered after this time at the latest.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// Answers a Pull.
pub(super) async fn pull(call: Call) -> Response<Body> {
    let shared = Arc::clone(&call.shared);
    call.answer_later(move |request| wait_for_messages(Arc::clone(&shared), request))
        .await
}

async fn wait_for_messages(
    shared: Arc<Shared>,
    request: tonic::Request<pb::PullRequest>,
) -> Result<PullResponse, Status> {
    let wait = wait(request.metadata());
    let request = request.into_inner();
    let id = shared
        .with(|broker, now| broker.open_pull(now, &request))
        .map_err(status)?;
    let guard = shared.guard(id);
    if shared.with(|broker, _| broker.draws_empty_pull(&request.subscription)) {
        return Ok(PullResponse::default());
    }
    let limit = Limit {
        messages: usize::try_from(request.max_messages).unwrap_or(0),
        bytes: RESPONSE_BYTES_MAX,
    };
    #[expect(deprecated, reason = "clients still set it")]
    let at_once = request.return_immediately;
    let timeout = tokio::time::sleep(wait);
    tokio::pin!(timeout);
    loop {
        let batch = shared.with(|broker, now| broker.take(now, id, limit));
        let batch = batch.map_err(status)?;
        if at_once || !batch.deliveries.is_empty() {
            let received_messages = wire::received(batch, shared.settings.ack_id_bytes);
            return Ok(PullResponse { received_messages });
        }
        tokio::select! {
            () = guard.sleeper.notified() => {}
            () = &mut timeout => return Ok(PullResponse::default()),
        }
    }
}

/// How long a pull may wait, so that the answer comes before the client's deadline.
fn wait(metadata: &MetadataMap) -> Duration {
    let timeout = metadata.get("grpc-timeout");
    let timeout = timeout.and_then(|value| parse_timeout(value.to_str().ok()?));
    timeout.map_or(WAIT_MAX, |timeout| {
        let margin = (timeout / 10).min(Duration::from_secs(1));
        timeout.saturating_sub(margin).min(WAIT_MAX)
    })
}

/// Reads a `grpc-timeout` header: up to eight digits and a unit.
fn parse_timeout(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let count: u64 = digits.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(count.saturating_mul(3600))),
        "M" => Some(Duration::from_secs(count.saturating_mul(60))),
        "S" => Some(Duration::from_secs(count)),
        "m" => Some(Duration::from_millis(count)),
        "u" => Some(Duration::from_micros(count)),
        "n" => Some(Duration::from_nanos(count)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_timeouts() {
        assert_eq!(parse_timeout("5S"), Some(Duration::from_secs(5)));
        assert_eq!(parse_timeout("1500m"), Some(Duration::from_millis(1500)));
        assert_eq!(parse_timeout("2H"), Some(Duration::from_secs(7200)));
        for wrong in ["", "5", "S", "5s", "-1S", "é"] {
            assert_eq!(parse_timeout(wrong), None, "{wrong}");
        }
    }
}
