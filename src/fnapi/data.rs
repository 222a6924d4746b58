//! The data service: elements and timers, both ways.

use std::convert::Infallible;
use std::future::Ready;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use tonic::Status;
use tonic::body::Body;
use tonic::metadata::MetadataMap;
use tonic::server::NamedService;

use crate::fnapi::bundle::RunningBundle;
use crate::fnapi::connection::Connection;
use crate::fnapi::events::Credit;
use crate::fnapi::framing::{Received, Sent};
use crate::fnapi::instruction::Instruction;
use crate::fnapi::registry::Registry;
use crate::model::BundleId;
use crate::proto::fn_execution::Elements;
use crate::proto::fn_execution::beam_fn_data_server;

/// `BeamFnData`. Not the generated service, which copies every message once when it comes and once when it goes.
#[derive(Clone)]
pub(crate) struct DataService {
    pub(crate) registry: Arc<Registry>,
}

impl NamedService for DataService {
    const NAME: &'static str = beam_fn_data_server::SERVICE_NAME;
}

impl tower::Service<http::Request<Body>> for DataService {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let answer = self.data(request).unwrap_or_else(Status::into_http);
        std::future::ready(Ok(answer))
    }
}

impl DataService {
    /// `Data`, the only call of the service.
    fn data(&self, request: http::Request<Body>) -> Result<http::Response<Body>, Status> {
        let (head, body) = request.into_parts();
        if head.uri.path().rsplit('/').next() != Some("Data") {
            return Err(Status::unimplemented("BeamFnData has the call Data only"));
        }
        let connection = self
            .registry
            .caller(&MetadataMap::from_headers(head.headers))?;
        let stream = connection
            .outbox
            .open()
            .ok_or_else(|| Status::already_exists("this worker_id has a data stream already"))?;
        tokio::spawn(read(connection, Received::new(body)));
        let mut answer = http::Response::new(Body::new(Sent::new(stream)));
        let content_type = tonic::metadata::GRPC_CONTENT_TYPE;
        answer.headers_mut().insert(CONTENT_TYPE, content_type);
        Ok(answer)
    }
}

/// Some output of a bundle, without its ids.
struct Output<'a> {
    transform: &'a str,
    /// `None`: elements for a data sink; else timers of this family.
    family: Option<&'a str>,
    data: Bytes,
    is_last: bool,
}

async fn read(connection: Arc<Connection>, mut messages: Received<Body>) {
    let _open = connection.streams.open_data();
    let error = loop {
        match messages.message().await {
            Ok(Some(elements)) => {
                if let Err(status) = receive(&connection, elements).await {
                    let reason = format!("its data stream made no sense: {}", status.message());
                    connection.outbox.close(Some(status));
                    return connection.lose(reason);
                }
            }
            Ok(None) => break None,
            Err(status) => break Some(status),
        }
    };
    connection.outbox.end_stream();
    connection.stream_ended("data", error.as_ref());
}

async fn receive(connection: &Connection, elements: Elements) -> Result<(), Status> {
    for data in elements.data {
        let output = Output {
            transform: &data.transform_id,
            family: None,
            data: data.data,
            is_last: data.is_last,
        };
        if let Some(bundle) = find(connection, &data.instruction_id)? {
            let credit = credit(connection, output.data.len()).await;
            deliver(connection, &bundle, output, credit);
        }
    }
    for timers in elements.timers {
        let output = Output {
            transform: &timers.transform_id,
            family: Some(&timers.timer_family_id),
            data: timers.timers,
            is_last: timers.is_last,
        };
        if let Some(bundle) = find(connection, &timers.instruction_id)? {
            let credit = credit(connection, output.data.len()).await;
            deliver(connection, &bundle, output, credit);
        }
    }
    Ok(())
}

/// Takes elements that came inside the response of their bundle, which is not marked as answered yet.
pub(crate) fn embedded(
    connection: &Connection,
    bundle: BundleId,
    elements: Elements,
) -> Result<(), String> {
    let Some(running) = connection.bundle(bundle) else {
        return Ok(());
    };
    let outputs = elements.data.iter().map(|data| Output {
        transform: &data.transform_id,
        family: None,
        data: data.data.clone(),
        is_last: data.is_last,
    });
    let timers = elements.timers.iter().map(|timers| Output {
        transform: &timers.transform_id,
        family: Some(&timers.timer_family_id),
        data: timers.timers.clone(),
        is_last: timers.is_last,
    });
    let data_ids = elements.data.iter().map(|data| &data.instruction_id);
    let timer_ids = elements.timers.iter().map(|timers| &timers.instruction_id);
    if let Some(id) = data_ids
        .chain(timer_ids)
        .find(|id| Instruction::parse_bundle(id) != Some(bundle))
    {
        return Err(format!("the response of {bundle} holds elements of {id:?}"));
    }
    for output in outputs.chain(timers) {
        deliver(connection, &running, output, Credit::default());
    }
    Ok(())
}

/// The bundle that an instruction id names; `None` when it is not running (any more).
fn find(connection: &Connection, id: &str) -> Result<Option<Arc<RunningBundle>>, Status> {
    let bundle = Instruction::parse_bundle(id)
        .ok_or_else(|| Status::invalid_argument(format!("{id:?} is no bundle's id")))?;
    let running = connection.bundle(bundle);
    if running.is_none() {
        tracing::debug!(%bundle, worker = connection.id, "dropped output of a bundle that is not running");
    }
    Ok(running)
}

/// Waits for room for a message; one that is larger than all room waits for all of it.
async fn credit(connection: &Connection, bytes: usize) -> Credit {
    let bytes = bytes.min(connection.settings.received_bytes_max);
    let permits = u32::try_from(bytes).unwrap_or(u32::MAX);
    if permits == 0 {
        return Credit::default();
    }
    let received = Arc::clone(&connection.received);
    // Fails only when the semaphore is closed, which nobody does.
    Credit {
        _permit: received.acquire_many_owned(permits).await.ok(),
    }
}

fn deliver(connection: &Connection, bundle: &RunningBundle, output: Output<'_>, credit: Credit) {
    let end = match output.family {
        None => bundle.shape.sink_end(output.transform),
        Some(family) => bundle.shape.timer_end(output.transform, family),
    };
    let Some(end) = end else {
        let what = output.family.unwrap_or("data");
        let error = format!(
            "the harness sent output ({what}) of {:?}, which the bundle does not have",
            output.transform
        );
        return connection.fail(bundle, error);
    };
    if !output.data.is_empty() {
        let events = &connection.events;
        bundle.deliver(|| match output.family {
            None => events.data(bundle.id, output.transform, output.data, credit),
            Some(family) => {
                events.timers(bundle.id, output.transform, family, output.data, credit);
            }
        });
    }
    if output.is_last {
        let step = bundle.output_ended(end);
        connection.advance(bundle.id, step);
    }
}
