//! The message and the state stream of a job: its whole history, then what comes, then the end.

use std::{pin::Pin, sync::Arc};

use tokio::sync::mpsc;
use tokio_stream::{Stream, wrappers::ReceiverStream};
use tonic::Status;

use crate::job::messages::JobEvent;
use crate::job::record::JobRecord;
use crate::job_api::wire;
use crate::proto::job_management::{JobMessagesResponse, JobStateEvent};

/// A stream of a gRPC answer.
pub(super) type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// Events between a job and a slow client; further ones stay in the job's history.
const BUFFER: usize = 64;

/// Every message and state. Ends after the terminal state.
pub(super) fn messages(job: &Arc<JobRecord>) -> Answers<JobMessagesResponse> {
    let mut number = 0;
    follow(job, move |event| {
        number += 1;
        Some(wire::event(event, number))
    })
}

/// Every state. Ends after the terminal one.
pub(super) fn states(job: &Arc<JobRecord>) -> Answers<JobStateEvent> {
    follow(job, |event| match event {
        JobEvent::State(state, time) => Some(wire::state_event(*state, *time)),
        JobEvent::Message(_) => None,
    })
}

fn follow<T: Send + 'static>(
    job: &Arc<JobRecord>,
    mut convert: impl FnMut(&JobEvent) -> Option<T> + Send + 'static,
) -> Answers<T> {
    let mut follower = job.follow();
    let (to, stream) = mpsc::channel(BUFFER);
    tokio::spawn(async move {
        loop {
            let events = tokio::select! {
                events = follower.next() => events,
                () = to.closed() => return,
            };
            let Some(events) = events else { return };
            for answer in events.iter().filter_map(&mut convert) {
                if to.send(Ok(answer)).await.is_err() {
                    return;
                }
            }
        }
    });
    Box::pin(ReceiverStream::new(stream))
}
