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
use crate::fnapi::section::{Section, sections_of};
use crate::model::BundleId;
use crate::proto::fn_execution::Elements;
use crate::proto::fn_execution::beam_fn_data_server;
use crate::telemetry::clock;

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

pub(super) async fn read(connection: Arc<Connection>, mut messages: Received<Body>) {
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

async fn receive(connection: &Connection, sections: Vec<Section>) -> Result<(), Status> {
    for section in sections {
        if let Some(bundle) = find(connection, section.instruction())? {
            for (piece, cut) in pieces(&section) {
                let credit = credit(connection, piece.len()).await;
                deliver(connection, &bundle, &section, piece, cut, credit);
            }
            end(connection, &bundle, &section);
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
    let sections = sections_of(elements);
    if let Some(foreign) = sections
        .iter()
        .find(|section| Instruction::parse_bundle(section.instruction()) != Some(bundle))
    {
        let id = foreign.instruction();
        return Err(format!("the response of {bundle} holds elements of {id:?}"));
    }
    for section in sections {
        for (piece, cut) in pieces(&section) {
            deliver(
                connection,
                &running,
                &section,
                piece,
                cut,
                Credit::default(),
            );
        }
        end(connection, &running, &section);
    }
    Ok(())
}

/// The pieces of a payload, and whether the cut behind each may lie inside an element.
fn pieces(section: &Section) -> impl Iterator<Item = (Bytes, bool)> {
    let last = section.pieces.len().saturating_sub(1);
    let pieces = section.pieces.iter().cloned().enumerate();
    pieces.map(move |(index, piece)| (piece, index < last))
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
        connection.reception.lock().receive(clock::instant());
        return Credit::default();
    }
    let received = Arc::clone(&connection.received);
    connection.reception.lock().wait();
    // Fails only when the semaphore is closed, which nobody does.
    let permit = received.acquire_many_owned(permits).await.ok();
    connection.reception.lock().receive(clock::instant());
    Credit { _permit: permit }
}

fn deliver(
    connection: &Connection,
    bundle: &RunningBundle,
    section: &Section,
    piece: Bytes,
    cut: bool,
    credit: Credit,
) {
    if end_of(bundle, section).is_none() {
        return;
    }
    let (transform, events) = (section.transform(), &connection.events);
    bundle.deliver(|| match section.timer_family() {
        None => events.data(bundle.id, transform, piece, cut, credit),
        Some(family) => events.timers(bundle.id, transform, family, piece, credit),
    });
}

/// Notes that a section has been delivered.
fn end(connection: &Connection, bundle: &RunningBundle, section: &Section) {
    let Some(end) = end_of(bundle, section) else {
        let what = section.timer_family().unwrap_or("data");
        let transform = section.transform();
        let error = format!(
            "the harness sent output ({what}) of {transform:?}, which the bundle does not have"
        );
        return connection.fail(bundle, error);
    };
    if section.is_last() {
        let step = bundle.output_ended(end);
        connection.advance(bundle.id, step);
    }
}

/// The place of a section's output among those that the bundle must end.
fn end_of(bundle: &RunningBundle, section: &Section) -> Option<usize> {
    match section.timer_family() {
        None => bundle.shape.sink_end(section.transform()),
        Some(family) => bundle.shape.timer_end(section.transform(), family),
    }
}
