//! The gRPC server side: all Fn API services, and the harnesses they wait for.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::fnapi::connection::{Connection, Phase};
use crate::fnapi::control::ControlService;
use crate::fnapi::data::DataService;
use crate::fnapi::error::Error;
use crate::fnapi::events::HarnessEvents;
use crate::fnapi::harness::Harness;
use crate::fnapi::logging::LoggingService;
use crate::fnapi::provision::Provision;
use crate::fnapi::registry::Registry;
use crate::fnapi::state::StateService;
use crate::fnapi::worker_status::StatusService;
use crate::proto::fn_execution::beam_fn_control_server::BeamFnControlServer;
use crate::proto::fn_execution::beam_fn_logging_server::BeamFnLoggingServer;
use crate::proto::fn_execution::beam_fn_state_server::BeamFnStateServer;
use crate::proto::fn_execution::beam_fn_worker_status_server::BeamFnWorkerStatusServer;
use crate::proto::fn_execution::provision_service_server::ProvisionServiceServer;
use crate::proto::fn_execution::{ProcessBundleDescriptor, ProvisionInfo};
use crate::proto::urn::runner_protocols;

/// What this side of the Fn API can do, as provisioning tells a harness.
pub const RUNNER_CAPABILITIES: &[&str] = &[
    runner_protocols::MONITORING_INFO_SHORT_IDS,
    runner_protocols::CONTROL_RESPONSE_ELEMENTS_EMBEDDING,
];

/// Limits of the Fn API, each per harness.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How many bytes of output may wait for the engine before the harness is slowed down.
    pub received_bytes_max: usize,
    /// How many state requests may be unanswered before no more are read.
    pub state_requests_max: usize,
    /// Up to which size the input of a bundle is sent inside the bundle's request, to an SDK that can take it.
    pub embedded_bytes_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            received_bytes_max: 64 << 20,
            state_requests_max: 1024,
            embedded_bytes_max: 64 << 10,
        }
    }
}

/// All Fn API services of the process; many jobs share it. Cheap to clone.
#[derive(Clone)]
pub struct FnApi {
    registry: Arc<Registry>,
}

/// A harness that is about to start.
pub struct HarnessSpec {
    /// Unguessable and unique: whoever knows it is the harness.
    pub id: String,
    /// For messages.
    pub environment_name: String,
    /// The environment's capability URNs.
    pub capabilities: Vec<String>,
    /// Served to the harness; [`RUNNER_CAPABILITIES`] are added.
    pub provision: ProvisionInfo,
    /// The descriptors that bundles may name.
    pub descriptors: Arc<BTreeMap<String, ProcessBundleDescriptor>>,
    pub events: Arc<dyn HarnessEvents>,
}

/// A harness that has been announced and not yet connected. Dropped, it is expected no more.
pub struct Expected {
    connection: Arc<Connection>,
    handed_over: bool,
}

impl FnApi {
    pub fn new(settings: Settings) -> Self {
        Self {
            registry: Arc::new(Registry::new(settings)),
        }
    }

    /// Control, data, state, logging, provision and worker status, for one port.
    pub fn routes(&self) -> tonic::service::Routes {
        let registry = || Arc::clone(&self.registry);
        let control = ControlService {
            registry: registry(),
        };
        let data = DataService {
            registry: registry(),
        };
        let state = StateService {
            registry: registry(),
        };
        let logging = LoggingService {
            registry: registry(),
        };
        let provision = Provision {
            registry: registry(),
        };
        let status = StatusService {
            registry: registry(),
        };
        macro_rules! unlimited {
            ($server:expr) => {
                $server
                    .max_decoding_message_size(usize::MAX)
                    .max_encoding_message_size(usize::MAX)
            };
        }
        let mut routes = tonic::service::RoutesBuilder::default();
        routes
            .add_service(unlimited!(BeamFnControlServer::new(control)))
            .add_service(data)
            .add_service(unlimited!(BeamFnStateServer::new(state)))
            .add_service(unlimited!(BeamFnLoggingServer::new(logging)))
            .add_service(unlimited!(ProvisionServiceServer::new(provision)))
            .add_service(unlimited!(BeamFnWorkerStatusServer::new(status)));
        routes.routes()
    }

    /// Announces a harness: from now on calls with its id as `worker_id` are served.
    pub fn expect(&self, mut spec: HarnessSpec) -> Expected {
        let capabilities = &mut spec.provision.runner_capabilities;
        for capability in RUNNER_CAPABILITIES {
            if !capabilities.iter().any(|known| known == capability) {
                capabilities.push((*capability).to_owned());
            }
        }
        Expected {
            connection: self.registry.add(spec),
            handed_over: false,
        }
    }

    /// What the harness says about itself, where its SDK has that service and answers within `deadline`.
    pub async fn worker_status(&self, worker: &str, deadline: Duration) -> Option<String> {
        let answer = self.registry.get(worker)?.ask_status()?;
        tokio::time::timeout(deadline, answer).await.ok()?.ok()
    }
}

impl Expected {
    /// Waits until the harness has opened its control stream.
    ///
    /// # Errors
    ///
    /// [`Error::NotConnected`] after `deadline`; [`Error::Lost`], with `lost` called as well, when it went at once.
    pub async fn connected(mut self, deadline: Duration) -> Result<Harness, Error> {
        let mut phase = self.connection.phase();
        let arrived = phase.wait_for(|phase| *phase != Phase::Expected);
        let worker = self.connection.id.clone();
        let environment = self.connection.environment.clone();
        let arrived = tokio::time::timeout(deadline, arrived).await;
        match arrived.map(|phase| phase.map(|phase| phase.clone())) {
            Ok(Ok(Phase::Lost(reason))) => Err(Error::Lost {
                worker,
                environment,
                reason,
            }),
            Ok(Ok(Phase::Expected | Phase::Connected)) => {
                self.handed_over = true;
                Ok(Harness::new(Arc::clone(&self.connection)))
            }
            Ok(Err(_)) | Err(_) => Err(Error::NotConnected {
                worker,
                environment,
                waited: deadline,
            }),
        }
    }
}

impl Drop for Expected {
    fn drop(&mut self) {
        self.connection.give_up();
        if !self.handed_over {
            // It may have connected just now, and nobody will stop it.
            self.connection.stop();
        }
    }
}

/// A gRPC server tuned for bulk data: large HTTP/2 windows, no Nagle, and pings that find dead peers.
///
/// A harness may be deaf for long while user code holds its interpreter, so the pings are patient; a
/// process that ends is noticed at once by its connection.
pub fn server_builder() -> tonic::transport::Server {
    tonic::transport::Server::builder()
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_frame_size(FRAME_BYTES_MAX)
        .max_concurrent_streams(CONCURRENT_STREAMS_MAX)
        .http2_keepalive_interval(Some(PING_INTERVAL))
        .http2_keepalive_timeout(Some(PING_TIMEOUT))
        .tcp_nodelay(true)
}

const STREAM_WINDOW_BYTES: u32 = 24 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 32 << 20;
const FRAME_BYTES_MAX: u32 = (1 << 24) - 1;
const CONCURRENT_STREAMS_MAX: u32 = 16 << 10;
const PING_INTERVAL: Duration = Duration::from_secs(60);
const PING_TIMEOUT: Duration = Duration::from_secs(120);
