//! The worker status service: what a harness says about itself when asked.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::Stream;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use crate::fnapi::connection::Connection;
use crate::fnapi::registry::Registry;
use crate::proto::fn_execution::beam_fn_worker_status_server::BeamFnWorkerStatus;
use crate::proto::fn_execution::{WorkerStatusRequest, WorkerStatusResponse};

/// `BeamFnWorkerStatus`.
pub(crate) struct StatusService {
    pub(crate) registry: Arc<Registry>,
}

/// Questions of one harness that are not answered yet.
#[derive(Default)]
pub(crate) struct StatusCalls {
    /// Not bounded: a question waits for its answer or gives up.
    questions: Option<mpsc::UnboundedSender<Result<WorkerStatusRequest, Status>>>,
    waiting: BTreeMap<String, oneshot::Sender<String>>,
}

impl StatusCalls {
    /// Ends the stream; whoever waits gets no answer.
    pub(crate) fn close(&mut self) {
        *self = Self::default();
    }
}

impl Connection {
    /// Asks; `None` when the harness has not opened a status stream.
    pub(crate) fn ask_status(&self) -> Option<oneshot::Receiver<String>> {
        let id = format!("status-{}", self.next_number());
        let mut calls = self.status_calls.lock();
        let request = WorkerStatusRequest { id: id.clone() };
        calls.questions.as_ref()?.send(Ok(request)).ok()?;
        calls.waiting.retain(|_, waiting| !waiting.is_closed());
        let (sender, receiver) = oneshot::channel();
        calls.waiting.insert(id, sender);
        Some(receiver)
    }
}

#[tonic::async_trait]
impl BeamFnWorkerStatus for StatusService {
    type WorkerStatusStream =
        Pin<Box<dyn Stream<Item = Result<WorkerStatusRequest, Status>> + Send + 'static>>;

    async fn worker_status(
        &self,
        request: Request<Streaming<WorkerStatusResponse>>,
    ) -> Result<Response<Self::WorkerStatusStream>, Status> {
        let connection = self.registry.caller(request.metadata())?;
        let mut answers = request.into_inner();
        let (sender, questions) = mpsc::unbounded_channel();
        connection.status_calls.lock().questions = Some(sender);
        tokio::spawn(async move {
            while let Ok(Some(answer)) = answers.message().await {
                let waiting = connection.status_calls.lock().waiting.remove(&answer.id);
                if let Some(waiting) = waiting {
                    let failed = !answer.error.is_empty();
                    let text = if failed {
                        answer.error
                    } else {
                        answer.status_info
                    };
                    let _ = waiting.send(text);
                }
            }
        });
        let questions = UnboundedReceiverStream::new(questions);
        Ok(Response::new(Box::pin(questions)))
    }
}
