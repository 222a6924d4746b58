//! All gRPC services of the process, on their ports.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;
use tonic::transport::server::TcpIncoming;

use crate::artifact::{self, Repository, RetrievalService, Sessions, StagingService};
use crate::cli::server_id::ServerId;
use crate::config::{MemoryBudget, ServeSettings};
use crate::environment::Policy;
use crate::fnapi::{self, FnApi};
use crate::job::Registry;
use crate::job::registry::RegistryLimits;
use crate::job::runner::Runner;
use crate::job_api::{self, ClientAuthorityLayer, JobApi, Supervisor};
use crate::proto::DESCRIPTORS;
use crate::proto::job_management::artifact_retrieval_service_server::ArtifactRetrievalServiceServer;
use crate::proto::job_management::artifact_staging_service_server::ArtifactStagingServiceServer;
use crate::proto::job_management::job_service_server::JobServiceServer;

/// What a runner is built from.
#[derive(Clone)]
pub struct RunnerContext {
    /// The Fn API that harnesses connect to.
    pub fn_api: FnApi,
    /// Where harnesses find the Fn API and their artifacts, `host:port`.
    pub endpoint: String,
    /// Which environments clients may use.
    pub environments: Policy,
    /// Engine threads of each job.
    pub lanes: u32,
    /// Size of the heap above which payload goes to disk.
    pub memory_budget: MemoryBudget,
    /// A Pub/Sub emulator, `host:port`, instead of Google's service.
    pub pubsub_emulator_host: Option<String>,
    /// Names this server on the temporary subscriptions it makes.
    pub server_id: String,
    /// Whether no other process has this name.
    pub is_sole: bool,
    /// Folder of the process; a job's is `jobs/<id>` in it.
    pub data_dir: std::path::PathBuf,
}

/// Why the server does not run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A port is taken, or the address is not ours.
    #[error("cannot listen on {address}: {source}{hint}")]
    Listen {
        /// Where.
        address: String,
        /// What to do.
        hint: String,
        /// Why not.
        source: io::Error,
    },
    /// The data folder cannot be used.
    #[error("cannot use the data folder: {0}")]
    DataFolder(#[from] artifact::Error),
    /// Reflection cannot read our own descriptors.
    #[error("cannot set up reflection: {0}")]
    Reflection(#[from] tonic_reflection::server::Error),
    /// The server broke while it ran.
    #[error("the server broke: {0}")]
    Broken(String),
}

/// A running server.
pub struct Server {
    address: SocketAddr,
    artifact_address: SocketAddr,
    supervisor: Supervisor,
    registry: Arc<Registry>,
    tasks: JoinSet<Result<(), tonic::transport::Error>>,
    stop: CancellationToken,
    /// Ours until the server is gone.
    _server_id: ServerId,
}

impl Server {
    /// How long jobs may take to stop when the server does.
    const JOBS_PATIENCE: Duration = Duration::from_secs(3);
    /// How long connections may take to close after that.
    const CONNECTIONS_PATIENCE: Duration = Duration::from_millis(500);

    /// Listens on all ports and serves, with a runner that `runner` makes.
    pub async fn start(
        settings: ServeSettings,
        runner: impl FnOnce(RunnerContext) -> Arc<dyn Runner>,
    ) -> Result<Self, Error> {
        let listener = listen(&settings.host, settings.port, "--port").await?;
        let artifacts = listen(&settings.host, settings.artifact_port, "--artifact-port").await?;
        let (address, artifact_address) = (local(&listener)?, local(&artifacts)?);
        let repository = Repository::open(&settings.data_dir)?;
        let server_id = ServerId::claim(&settings.data_dir);
        let registry = Arc::new(Registry::new(RegistryLimits::default()));
        let sessions = Arc::new(Sessions::default());
        let fn_api = FnApi::new(fn_api_settings(settings.memory_budget));
        let context = RunnerContext {
            fn_api: fn_api.clone(),
            endpoint: harness_endpoint(&settings, address),
            environments: settings.environments.clone(),
            lanes: settings.lanes,
            memory_budget: settings.memory_budget,
            pubsub_emulator_host: settings.pubsub_emulator_host.clone(),
            server_id: server_id.name.clone(),
            is_sole: server_id.is_sole,
            data_dir: settings.data_dir.clone(),
        };
        let supervisor =
            Supervisor::new(runner(context), Arc::clone(&registry), repository.clone());
        let job_api = JobApi::new(
            job_api::Settings {
                staging_endpoint: settings
                    .advertise_host
                    .as_ref()
                    .map(|host| with_port(host, address.port())),
            },
            Arc::clone(&registry),
            Arc::clone(&sessions),
            repository.clone(),
            supervisor.clone(),
        );
        let mut server = Self {
            address,
            artifact_address,
            supervisor,
            registry,
            tasks: JoinSet::new(),
            stop: CancellationToken::new(),
            _server_id: server_id,
        };
        let artifacts_only = artifact_routes(Routes::default(), &repository, &sessions);
        let all = artifact_routes(fn_api.routes(), &repository, &sessions)
            .add_service(job_api.into_service());
        server.serve(listener, with_common(all).await?);
        server.serve(artifacts, with_common(artifacts_only).await?);
        tracing::info!(%address, artifact_port = artifact_address.port(), data_dir = %settings.data_dir.display(),
            "Tidemill serves: submit with --runner=PortableRunner --job_endpoint={}", server.endpoint());
        Ok(server)
    }

    /// Where the Job API, artifacts and the Fn API are.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where artifacts are, too.
    pub fn artifact_address(&self) -> SocketAddr {
        self.artifact_address
    }

    /// What a client on this machine connects to, `host:port`.
    pub fn endpoint(&self) -> String {
        if self.address.ip().is_unspecified() {
            format!("localhost:{}", self.address.port())
        } else {
            self.address.to_string()
        }
    }

    /// All jobs.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// Resolves if a port stops being served.
    pub async fn broken(&mut self) -> Error {
        let reason = match self.tasks.join_next().await {
            Some(Ok(Ok(()))) | None => "a port is served no more".to_owned(),
            Some(Ok(Err(error))) => error.to_string(),
            Some(Err(error)) => error.to_string(),
        };
        Error::Broken(reason)
    }

    /// Cancels all jobs, lets clients see it, and closes all ports.
    pub async fn shut_down(&mut self) {
        self.supervisor.shut_down(Self::JOBS_PATIENCE).await;
        self.stop.cancel();
        let closed = async { while self.tasks.join_next().await.is_some() {} };
        // Streams of clients and harnesses that stay open are cut.
        let _ = tokio::time::timeout(Self::CONNECTIONS_PATIENCE, closed).await;
        self.tasks.abort_all();
    }

    fn serve(&mut self, listener: TcpListener, routes: Routes) {
        let stop = self.stop.clone().cancelled_owned();
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        self.tasks.spawn(
            fnapi::server_builder()
                .layer(ClientAuthorityLayer)
                .add_routes(routes)
                .serve_with_incoming_shutdown(incoming, stop),
        );
    }
}

/// What is received and not looked at yet takes a small part of the memory budget only.
fn fn_api_settings(budget: MemoryBudget) -> fnapi::Settings {
    const BUDGET_SHARE: u64 = 8;
    const RECEIVED_BYTES_MIN: usize = 4 << 20;
    let share = usize::try_from(budget.bytes() / BUDGET_SHARE).unwrap_or(usize::MAX);
    let defaults = fnapi::Settings::default();
    fnapi::Settings {
        received_bytes_max: defaults
            .received_bytes_max
            .min(share.max(RECEIVED_BYTES_MIN)),
        ..defaults
    }
}

fn artifact_routes(routes: Routes, repository: &Repository, sessions: &Arc<Sessions>) -> Routes {
    let staging = StagingService::new(repository.clone(), Arc::clone(sessions));
    let retrieval = RetrievalService::new(repository.clone());
    routes
        .add_service(
            ArtifactStagingServiceServer::new(staging)
                .max_decoding_message_size(usize::MAX)
                .max_encoding_message_size(usize::MAX),
        )
        .add_service(
            ArtifactRetrievalServiceServer::new(retrieval)
                .max_decoding_message_size(usize::MAX)
                .max_encoding_message_size(usize::MAX),
        )
}

/// Adds health and reflection.
async fn with_common(routes: Routes) -> Result<Routes, Error> {
    let (reporter, health) = tonic_health::server::health_reporter();
    reporter.set_serving::<JobServiceServer<JobApi>>().await;
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    Ok(routes
        .add_service(health)
        .add_service(reflection().build_v1()?)
        .add_service(reflection().build_v1alpha()?))
}

async fn listen(host: &str, port: u16, flag: &str) -> Result<TcpListener, Error> {
    TcpListener::bind((host, port))
        .await
        .map_err(|source| Error::Listen {
            address: with_port(host, port),
            hint: if source.kind() == io::ErrorKind::AddrInUse {
                format!("; port {port} is taken: stop what uses it, or choose another with {flag}")
            } else {
                String::new()
            },
            source,
        })
}

fn local(listener: &TcpListener) -> Result<SocketAddr, Error> {
    listener.local_addr().map_err(|source| Error::Listen {
        address: "a port".to_owned(),
        hint: String::new(),
        source,
    })
}

/// Where harnesses reach this server.
fn harness_endpoint(settings: &ServeSettings, address: SocketAddr) -> String {
    match &settings.advertise_host {
        Some(host) => with_port(host, address.port()),
        None if address.ip().is_unspecified() => with_port("localhost", address.port()),
        None => address.to_string(),
    }
}

/// `host:port`, with brackets around an IPv6 address.
fn with_port(host: &str, port: u16) -> String {
    if host.contains(':') && !host.starts_with('[') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}
