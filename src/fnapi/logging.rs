//! The logging service: lines of the harness's log.

use std::pin::Pin;
use std::sync::Arc;

use futures_util::{Stream, StreamExt};
use tonic::{Request, Response, Status, Streaming};

use crate::fnapi::registry::Registry;
use crate::fnapi::wire;
use crate::proto::fn_execution::beam_fn_logging_server::BeamFnLogging;
use crate::proto::fn_execution::{LogControl, log_entry};

/// `BeamFnLogging`.
pub(crate) struct LoggingService {
    pub(crate) registry: Arc<Registry>,
}

#[tonic::async_trait]
impl BeamFnLogging for LoggingService {
    type LoggingStream = Pin<Box<dyn Stream<Item = Result<LogControl, Status>> + Send + 'static>>;

    async fn logging(
        &self,
        request: Request<Streaming<log_entry::List>>,
    ) -> Result<Response<Self::LoggingStream>, Status> {
        let connection = self.registry.caller(request.metadata())?;
        let open = connection.streams.open_log();
        let mut lines = request.into_inner();
        // There is nothing to say back: the response stream reads the log and ends with it.
        let stream = futures_util::stream::once(async move {
            while let Ok(Some(list)) = lines.message().await {
                for entry in list.log_entries {
                    connection.events.log(wire::log_entry(entry));
                }
            }
            drop(open);
        });
        let stream = stream.filter_map(|()| std::future::ready(None));
        Ok(Response::new(Box::pin(stream)))
    }
}
