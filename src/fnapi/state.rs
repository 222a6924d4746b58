//! The state service: requests of running bundles, and their answers.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::Stream;
use tokio::sync::{Semaphore, mpsc};
use tonic::{Request, Response, Status, Streaming};

use crate::fnapi::bundle::StateDelivery;
use crate::fnapi::connection::Connection;
use crate::fnapi::instruction::Instruction;
use crate::fnapi::registry::Registry;
use crate::fnapi::wire;
use crate::model::{BundleId, StateReply};
use crate::proto::fn_execution::beam_fn_state_server::BeamFnState;
use crate::proto::fn_execution::{StateRequest, StateResponse};

/// `BeamFnState`.
pub(crate) struct StateService {
    pub(crate) registry: Arc<Registry>,
}

/// Answers on their way to the harness.
///
/// Not bounded: there are at most as many as requests, and those are.
pub(crate) type ReplySender = mpsc::UnboundedSender<Result<Reply, Status>>;

/// An answer, and whether room for a request gets free when it leaves.
pub(crate) struct Reply {
    response: StateResponse,
    counted: bool,
}

/// The sending half of a state stream.
pub(crate) struct ReplyStream {
    replies: mpsc::UnboundedReceiver<Result<Reply, Status>>,
    room: Arc<Semaphore>,
}

#[tonic::async_trait]
impl BeamFnState for StateService {
    type StateStream = ReplyStream;

    async fn state(
        &self,
        request: Request<Streaming<StateRequest>>,
    ) -> Result<Response<ReplyStream>, Status> {
        let connection = self.registry.caller(request.metadata())?;
        let stream = connection
            .open_state()
            .ok_or_else(|| Status::already_exists("this worker_id has a state stream already"))?;
        tokio::spawn(read(connection, request.into_inner()));
        Ok(Response::new(stream))
    }
}

impl Connection {
    fn open_state(&self) -> Option<ReplyStream> {
        let mut sender = self.replies.lock();
        if sender.as_ref().is_some_and(|sender| !sender.is_closed()) {
            return None;
        }
        let (new, replies) = mpsc::unbounded_channel();
        *sender = Some(new);
        Some(ReplyStream {
            replies,
            room: Arc::clone(&self.state_room),
        })
    }

    /// Sends the answer to a request of a bundle.
    pub(crate) fn reply_state(&self, bundle: BundleId, request: &str, reply: StateReply) {
        let counted = self.bundle(bundle).is_some_and(|b| b.state_answered());
        self.send_reply(wire::state_response(request, reply), counted);
    }

    fn send_reply(&self, response: StateResponse, counted: bool) {
        let sent = match &*self.replies.lock() {
            Some(replies) => replies.send(Ok(Reply { response, counted })).is_ok(),
            None => false,
        };
        if counted && !sent {
            self.state_room.add_permits(1);
        }
    }
}

async fn read(connection: Arc<Connection>, mut requests: Streaming<StateRequest>) {
    loop {
        let Ok(room) = connection.state_room.acquire().await else {
            return;
        };
        room.forget();
        let error = match requests.message().await {
            Ok(Some(request)) => {
                let Err(status) = handle(&connection, request) else {
                    continue;
                };
                let reason = format!("its state stream made no sense: {}", status.message());
                if let Some(replies) = connection.replies.lock().take() {
                    let _ = replies.send(Err(status));
                }
                return connection.lose(reason);
            }
            Ok(None) => None,
            Err(status) => Some(status),
        };
        connection.state_room.add_permits(1);
        connection.replies.lock().take();
        return connection.stream_ended("state", error.as_ref());
    }
}

pub(super) fn handle(connection: &Connection, request: StateRequest) -> Result<(), Status> {
    let id = request.id.clone();
    let instruction = &request.instruction_id;
    let bundle = Instruction::parse_bundle(instruction)
        .ok_or_else(|| Status::invalid_argument(format!("{instruction:?} is no bundle's id")))?;
    let refuse = |error: String| {
        let response = StateResponse {
            id,
            error,
            response: None,
        };
        connection.send_reply(response, true);
    };
    let Some(running) = connection.bundle(bundle) else {
        refuse(format!("{bundle} is not running"));
        return Ok(());
    };
    match wire::state_request(request) {
        Err(error) => refuse(error),
        Ok(request) => {
            let id = request.id.clone();
            match running.deliver_state(|| connection.events.state(bundle, request)) {
                StateDelivery::Answered(reply) => {
                    connection.send_reply(wire::state_response(&id, reply), true);
                }
                StateDelivery::Waiting => {}
                StateDelivery::Refused => refuse(format!("{bundle} is not running")),
            }
        }
    }
    Ok(())
}

impl Stream for ReplyStream {
    type Item = Result<StateResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.replies.poll_recv(context).map(|reply| {
            let reply = reply?.map(|reply| {
                if reply.counted {
                    self.room.add_permits(1);
                }
                reply.response
            });
            Some(reply)
        })
    }
}
