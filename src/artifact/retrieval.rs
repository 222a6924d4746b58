//! The retrieval service: harnesses fetch what their job staged.

use std::{io::Read, pin::Pin};

use bytes::Bytes;
use prost::Message;
use tokio::sync::mpsc;
use tokio_stream::{Stream, wrappers::ReceiverStream};
use tonic::{Request, Response, Status};

use crate::artifact::{ArtifactAddress, Error, Repository};
use crate::proto::job_management::{
    GetArtifactRequest, GetArtifactResponse, ResolveArtifactsRequest, ResolveArtifactsResponse,
    artifact_retrieval_service_server,
};
use crate::proto::pipeline::{ArtifactFilePayload, ArtifactInformation, EmbeddedFilePayload};
use crate::proto::urn::types;

/// Answers `ResolveArtifacts` and `GetArtifact`.
#[derive(Clone, Debug)]
pub struct RetrievalService {
    repository: Repository,
}

impl RetrievalService {
    /// Below the 4 MiB that gRPC clients take unless told otherwise.
    const CHUNK_BYTES: usize = 1 << 20;

    /// Serves what is in `repository`.
    pub fn new(repository: Repository) -> Self {
        Self { repository }
    }

    fn find(&self, artifact: &ArtifactInformation) -> Result<Content, Error> {
        match artifact.type_urn.as_str() {
            types::FILE => {
                let file = ArtifactFilePayload::decode(artifact.type_payload.clone())
                    .map_err(|error| Error::Protocol(format!("unreadable FILE: {error}")))?;
                let address = ArtifactAddress::parse(&file.path)
                    .ok_or_else(|| Error::NotFound(format!("{:?}", file.path)))?;
                Ok(Content::File(self.repository.open_file(&address)?))
            }
            types::EMBEDDED => {
                let embedded = EmbeddedFilePayload::decode(artifact.type_payload.clone())
                    .map_err(|error| Error::Protocol(format!("unreadable EMBEDDED: {error}")))?;
                Ok(Content::Bytes(embedded.data))
            }
            other => Err(Error::NotFound(format!("of type {other:?}"))),
        }
    }
}

/// What is sent.
enum Content {
    File(std::fs::File),
    Bytes(Bytes),
}

#[tonic::async_trait]
impl artifact_retrieval_service_server::ArtifactRetrievalService for RetrievalService {
    type GetArtifactStream =
        Pin<Box<dyn Stream<Item = Result<GetArtifactResponse, Status>> + Send>>;

    async fn resolve_artifacts(
        &self,
        request: Request<ResolveArtifactsRequest>,
    ) -> Result<Response<ResolveArtifactsResponse>, Status> {
        // Everything was resolved when it was staged.
        Ok(Response::new(ResolveArtifactsResponse {
            replacements: request.into_inner().artifacts,
        }))
    }

    async fn get_artifact(
        &self,
        request: Request<GetArtifactRequest>,
    ) -> Result<Response<Self::GetArtifactStream>, Status> {
        let artifact = request
            .into_inner()
            .artifact
            .ok_or_else(|| Status::invalid_argument("the request names no artifact"))?;
        let content = self.find(&artifact)?;
        let (chunks, stream) = mpsc::channel(4);
        tokio::task::spawn_blocking(move || send(content, &chunks));
        Ok(Response::new(Box::pin(ReceiverStream::new(stream))))
    }
}

/// Sends content in chunks, until the end or until nobody listens.
fn send(content: Content, to: &mpsc::Sender<Result<GetArtifactResponse, Status>>) {
    match content {
        Content::Bytes(mut bytes) => {
            while !bytes.is_empty() {
                let chunk = bytes.split_to(bytes.len().min(RetrievalService::CHUNK_BYTES));
                if to
                    .blocking_send(Ok(GetArtifactResponse { data: chunk }))
                    .is_err()
                {
                    return;
                }
            }
        }
        Content::File(mut file) => loop {
            let mut chunk = Vec::with_capacity(RetrievalService::CHUNK_BYTES);
            let limit = RetrievalService::CHUNK_BYTES as u64;
            let sent = match file.by_ref().take(limit).read_to_end(&mut chunk) {
                Ok(0) => return,
                Ok(_) => to.blocking_send(Ok(GetArtifactResponse { data: chunk.into() })),
                Err(error) => {
                    let status = Status::internal(format!("cannot read an artifact: {error}"));
                    let _ = to.blocking_send(Err(status));
                    return;
                }
            };
            if sent.is_err() {
                return;
            }
        },
    }
}
