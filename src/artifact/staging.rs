//! The staging service: the server asks, the client answers.
//!
//! For every environment we let the client resolve its dependencies to files, fetch each of them,
//! and rewrite the environment so that it names what we hold. The stream is ours to end: clients
//! wait for that even when there is nothing to stage.

use std::{collections::BTreeMap, pin::Pin, sync::Arc};

use bytes::Bytes;
use prost::Message;
use tokio::sync::mpsc;
use tokio_stream::{Stream, wrappers::ReceiverStream};
use tonic::{Request, Response, Status, Streaming};

use crate::artifact::sessions::Environments;
use crate::artifact::{ArtifactAddress, Error, Repository, Sessions, name};
use crate::proto::job_management::{
    ArtifactRequestWrapper, ArtifactResponseWrapper, GetArtifactRequest, ResolveArtifactsRequest,
    artifact_request_wrapper, artifact_response_wrapper, artifact_staging_service_server,
};
use crate::proto::pipeline::{
    AnyOfEnvironmentPayload, ArtifactFilePayload, ArtifactInformation, EmbeddedFilePayload,
    Environment,
};
use crate::proto::urn::{environments, types};

/// Answers `ReverseArtifactRetrievalService`.
#[derive(Clone, Debug)]
pub struct StagingService {
    repository: Repository,
    sessions: Arc<Sessions>,
}

impl StagingService {
    /// Most bytes of artifacts of a job.
    const JOB_BYTES_MAX: u64 = 32 << 30;
    /// How deep environments may nest.
    const NESTING_MAX: usize = 8;
    /// Chunks between the network and the disk.
    const CHUNKS_MAX: usize = 8;

    /// A service for the jobs in `sessions`.
    pub fn new(repository: Repository, sessions: Arc<Sessions>) -> Self {
        Self {
            repository,
            sessions,
        }
    }
}

type Requests = Result<ArtifactRequestWrapper, Status>;

#[tonic::async_trait]
impl artifact_staging_service_server::ArtifactStagingService for StagingService {
    type ReverseArtifactRetrievalServiceStream = Pin<Box<dyn Stream<Item = Requests> + Send>>;

    async fn reverse_artifact_retrieval_service(
        &self,
        request: Request<Streaming<ArtifactResponseWrapper>>,
    ) -> Result<Response<Self::ReverseArtifactRetrievalServiceStream>, Status> {
        let (requests, stream) = mpsc::channel(1);
        let service = self.clone();
        tokio::spawn(async move {
            if let Err(status) = service.serve(request.into_inner(), &requests).await {
                tracing::warn!(error = %status.message(), "artifact staging failed");
                // The client may be gone; then nobody needs to know.
                let _ = requests.send(Err(status)).await;
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(stream))))
    }
}

impl StagingService {
    async fn serve(
        &self,
        mut responses: Streaming<ArtifactResponseWrapper>,
        requests: &mpsc::Sender<Requests>,
    ) -> Result<(), Status> {
        let first = responses.message().await?.ok_or_else(|| {
            Error::Protocol("the stream ended before it named a staging token".to_owned())
        })?;
        let token = first.staging_token;
        let (job, environments) = self.sessions.find(&token)?;
        let mut client = Client {
            repository: &self.repository,
            job: &job,
            responses,
            requests,
            bytes_left: Self::JOB_BYTES_MAX,
        };
        match client.stage(environments).await {
            Ok(staged) => {
                self.sessions.finish(&token, Ok(staged));
                Ok(())
            }
            Err(status) => {
                self.sessions
                    .finish(&token, Err(status.message().to_owned()));
                Err(status)
            }
        }
    }
}

/// One client's stream.
struct Client<'a> {
    repository: &'a Repository,
    job: &'a str,
    responses: Streaming<ArtifactResponseWrapper>,
    requests: &'a mpsc::Sender<Requests>,
    bytes_left: u64,
}

impl Client<'_> {
    async fn stage(&mut self, environments: Environments) -> Result<Environments, Status> {
        let mut staged = BTreeMap::new();
        for (id, environment) in environments {
            let environment = self.environment(&id, environment, 0).await?;
            staged.insert(id, environment);
        }
        Ok(staged)
    }

    /// Stages what an environment and the alternatives in it depend on.
    fn environment<'b>(
        &'b mut self,
        id: &'b str,
        mut environment: Environment,
        depth: usize,
    ) -> Pin<Box<dyn Future<Output = Result<Environment, Status>> + Send + 'b>> {
        Box::pin(async move {
            let dependencies = std::mem::take(&mut environment.dependencies);
            environment.dependencies = self.dependencies(id, dependencies).await?;
            if environment.urn != environments::ANYOF {
                return Ok(environment);
            }
            if depth == StagingService::NESTING_MAX {
                return Err(Status::invalid_argument(format!(
                    "environment {id}: alternatives nest deeper than {depth} levels"
                )));
            }
            let payload =
                AnyOfEnvironmentPayload::decode(environment.payload).map_err(|error| {
                    Status::invalid_argument(format!(
                        "environment {id}: the alternatives cannot be read: {error}"
                    ))
                })?;
            let mut alternatives = Vec::new();
            for alternative in payload.environments {
                alternatives.push(self.environment(id, alternative, depth + 1).await?);
            }
            environment.payload = AnyOfEnvironmentPayload {
                environments: alternatives,
            }
            .encode_to_vec()
            .into();
            Ok(environment)
        })
    }

    /// Fetches dependencies in their order, which is the class path's order for Java.
    async fn dependencies(
        &mut self,
        environment: &str,
        dependencies: Vec<ArtifactInformation>,
    ) -> Result<Vec<ArtifactInformation>, Status> {
        if dependencies.is_empty() {
            return Ok(dependencies);
        }
        let mut staged = Vec::new();
        for artifact in self.resolve(dependencies).await? {
            let refuse = |reason: String| Error::Refused {
                environment: environment.to_owned(),
                artifact: name::describe(&artifact),
                reason,
            };
            name::check_role(&artifact).map_err(refuse)?;
            check_type(&artifact).map_err(refuse)?;
            let address = self.fetch(&artifact).await.map_err(|error| match error {
                Failed::Status(status) => status,
                Failed::Content(error) => refuse_content(environment, &artifact, error).into(),
            })?;
            staged.push(held(artifact, &address));
        }
        Ok(staged)
    }

    async fn resolve(
        &mut self,
        artifacts: Vec<ArtifactInformation>,
    ) -> Result<Vec<ArtifactInformation>, Status> {
        let request = ResolveArtifactsRequest {
            artifacts,
            preferred_urns: vec![types::FILE.to_owned()],
        };
        self.ask(artifact_request_wrapper::Request::ResolveArtifact(request))
            .await?;
        match self.answer().await?.response {
            Some(artifact_response_wrapper::Response::ResolveArtifactResponse(response)) => {
                Ok(response.replacements)
            }
            Some(artifact_response_wrapper::Response::GetArtifactResponse(_)) | None => {
                Err(Error::Protocol("resolve_artifact was not answered".to_owned()).into())
            }
        }
    }

    async fn fetch(&mut self, artifact: &ArtifactInformation) -> Result<ArtifactAddress, Failed> {
        let mut expected = None;
        if artifact.type_urn == types::EMBEDDED {
            let embedded = EmbeddedFilePayload::decode(artifact.type_payload.clone())
                .map_err(|error| Failed::Content(unreadable(&error)))?;
            let content = Content::begin(self.repository, self.job, None)?;
            content.send(embedded.data).await;
            return content.finish().await;
        }
        if artifact.type_urn == types::FILE {
            let file = ArtifactFilePayload::decode(artifact.type_payload.clone())
                .map_err(|error| Failed::Content(unreadable(&error)))?;
            expected = Some(file.sha256).filter(|sha256| !sha256.is_empty());
            if let Some(sha256) = &expected
                && let Some(address) = self.repository.reuse(self.job, sha256)
            {
                return Ok(address);
            }
        }
        let request = GetArtifactRequest {
            artifact: Some(artifact.clone()),
        };
        self.ask(artifact_request_wrapper::Request::GetArtifact(request))
            .await?;
        let content = Content::begin(self.repository, self.job, expected)?;
        loop {
            let answer = self.answer().await?;
            let Some(artifact_response_wrapper::Response::GetArtifactResponse(chunk)) =
                answer.response
            else {
                let broken = Error::Protocol("get_artifact was not answered".to_owned());
                return Err(Failed::Status(broken.into()));
            };
            let bytes = chunk.data.len() as u64;
            let Some(left) = self.bytes_left.checked_sub(bytes) else {
                return Err(Failed::Content(Error::TooLarge {
                    bytes_max: StagingService::JOB_BYTES_MAX,
                }));
            };
            self.bytes_left = left;
            content.send(chunk.data).await;
            if answer.is_last {
                return content.finish().await;
            }
        }
    }

    async fn ask(&self, request: artifact_request_wrapper::Request) -> Result<(), Status> {
        let request = ArtifactRequestWrapper {
            request: Some(request),
        };
        self.requests
            .send(Ok(request))
            .await
            .map_err(|_| Status::cancelled("the client left while it staged artifacts"))
    }

    async fn answer(&mut self) -> Result<ArtifactResponseWrapper, Status> {
        self.responses.message().await?.ok_or_else(|| {
            Error::Protocol("the client ended the stream before all was staged".to_owned()).into()
        })
    }
}

/// Why an artifact could not be fetched.
enum Failed {
    /// The stream.
    Status(Status),
    /// The artifact.
    Content(Error),
}

impl From<Status> for Failed {
    fn from(status: Status) -> Self {
        Self::Status(status)
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Content(error)
    }
}

/// Content on its way to the disk, hashed and written on a thread of its own.
struct Content {
    /// `None` says that all is there; without it the content is thrown away.
    chunks: mpsc::Sender<Option<Bytes>>,
    written: tokio::task::JoinHandle<Result<ArtifactAddress, Error>>,
}

impl Content {
    fn begin(repository: &Repository, job: &str, sha256: Option<String>) -> Result<Self, Error> {
        let mut incoming = repository.receive()?;
        let (chunks, mut received) = mpsc::channel::<Option<Bytes>>(StagingService::CHUNKS_MAX);
        let (repository, job) = (repository.clone(), job.to_owned());
        let written = tokio::task::spawn_blocking(move || {
            while let Some(chunk) = received.blocking_recv() {
                match chunk {
                    Some(bytes) => incoming.write(&bytes)?,
                    None => return repository.keep(&job, incoming, sha256.as_deref()),
                }
            }
            Err(Error::Protocol("the client left".to_owned()))
        });
        Ok(Self { chunks, written })
    }

    async fn send(&self, bytes: Bytes) {
        // Where writing failed, `finish` tells why.
        let _ = self.chunks.send(Some(bytes)).await;
    }

    async fn finish(self) -> Result<ArtifactAddress, Failed> {
        let _ = self.chunks.send(None).await;
        match self.written.await {
            Ok(result) => Ok(result?),
            Err(_) => Err(Failed::Status(Status::internal(
                "writing an artifact was interrupted",
            ))),
        }
    }
}

/// Says why an artifact of this type cannot be fetched from the client.
fn check_type(artifact: &ArtifactInformation) -> Result<(), String> {
    match artifact.type_urn.as_str() {
        types::FILE | types::URL | types::EMBEDDED => Ok(()),
        types::PYPI => Err(
            "it is a PyPI package that the client did not resolve: list it in \
             --requirements_file, or install it in the environment"
                .to_owned(),
        ),
        types::MAVEN => Err(
            "it is a Maven artifact that the client did not resolve: add its jar to \
             --filesToStage"
                .to_owned(),
        ),
        types::DEFERRED => Err(
            "it is deferred, and the client did not resolve it: it belongs to an expansion \
             service that must be asked first"
                .to_owned(),
        ),
        unknown => Err(format!("artifacts of type {unknown:?} are not known")),
    }
}

fn unreadable(error: &prost::DecodeError) -> Error {
    Error::Protocol(format!("its payload cannot be read: {error}"))
}

/// Adds to an error of content which artifact it was.
fn refuse_content(environment: &str, artifact: &ArtifactInformation, error: Error) -> Error {
    match error {
        Error::Io { .. } | Error::TooLarge { .. } => error,
        Error::UnknownToken
        | Error::Protocol(_)
        | Error::Refused { .. }
        | Error::HashMismatch { .. }
        | Error::NotFound(_) => Error::Refused {
            environment: environment.to_owned(),
            artifact: name::describe(artifact),
            reason: error.to_string(),
        },
    }
}

/// The artifact as we hold it, in the same role.
fn held(artifact: ArtifactInformation, address: &ArtifactAddress) -> ArtifactInformation {
    ArtifactInformation {
        type_urn: types::FILE.to_owned(),
        type_payload: ArtifactFilePayload {
            path: address.to_string(),
            sha256: address.sha256().to_owned(),
        }
        .encode_to_vec()
        .into(),
        ..artifact
    }
}
