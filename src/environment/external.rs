//! EXTERNAL environments: a worker pool that is asked to start harnesses. LOOPBACK is one in the client.

use std::time::Duration;

use tokio::net::TcpStream;
use tonic::Code;
use tonic::transport::{Channel, Endpoint};

use crate::environment::error::Error;
use crate::environment::start::StartSpec;
use crate::proto::fn_execution::beam_fn_external_worker_pool_client::BeamFnExternalWorkerPoolClient;
use crate::proto::fn_execution::{StartWorkerRequest, StopWorkerRequest};
use crate::proto::pipeline::{ApiServiceDescriptor, ExternalPayload};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const RETRY_PAUSE: Duration = Duration::from_millis(250);
/// A pool may be about to start; one that refuses connections for 15 s is not, and with LOOPBACK its client is gone.
const ATTEMPTS_MAX: u32 = 60;
/// A pool starts its harness before it answers, which may import much.
const START_TIMEOUT: Duration = Duration::from_secs(120);
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
const PROBE_PAUSE: Duration = Duration::from_secs(1);
const FAILED_PROBES_MAX: u32 = 3;

/// A harness that a worker pool has started, or may have. Dropped, the pool is told in the background.
#[derive(Debug)]
pub(crate) struct WorkerPool {
    /// `host:port`.
    address: String,
    client: BeamFnExternalWorkerPoolClient<Channel>,
    worker_id: String,
    /// Whether there may be a harness to stop.
    armed: bool,
    /// Why the last attempt did not reach the pool.
    unreachable: Option<String>,
}

impl WorkerPool {
    /// Asks the pool for a harness, again and again while it cannot be reached.
    pub(crate) async fn start(payload: ExternalPayload, spec: StartSpec) -> Result<Self, Error> {
        let url = payload.endpoint.unwrap_or_default().url;
        let address = address(&url);
        let endpoint = Endpoint::from_shared(format!("http://{address}"))
            .map_err(|error| {
                Error::Invalid(format!("{url:?} is no worker pool's address: {error}"))
            })?
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_nodelay(true);
        let request = request(payload.params, &spec);
        let mut pool = Self {
            address,
            client: BeamFnExternalWorkerPoolClient::new(endpoint.connect_lazy()),
            worker_id: spec.worker_id,
            armed: false,
            unreachable: None,
        };
        let attempts = pool.start_worker(request);
        match tokio::time::timeout(spec.deadline, attempts).await {
            Ok(result) => result?,
            Err(_) => {
                let problem = match &pool.unreachable {
                    Some(why) => format!("could not be reached ({why})"),
                    None => format!(
                        "did not say whether it started a harness; check that it can reach the \
                         runner at {}",
                        spec.endpoints.control
                    ),
                };
                return Err(Error::Failed(format!(
                    "within {}s, the worker pool at {} {problem}",
                    spec.deadline.as_secs(),
                    pool.address,
                )));
            }
        }
        Ok(pool)
    }

    async fn start_worker(&mut self, request: StartWorkerRequest) -> Result<(), Error> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            self.armed = true;
            let call = self.client.start_worker(request.clone());
            let status = match tokio::time::timeout(START_TIMEOUT, call).await {
                Ok(Ok(response)) => {
                    let error = response.into_inner().error;
                    if error.is_empty() {
                        return Ok(());
                    }
                    self.armed = false;
                    return Err(Error::Failed(format!(
                        "the worker pool at {} refused to start a harness: {error}",
                        self.address
                    )));
                }
                Ok(Err(status)) => status,
                Err(_) => {
                    return Err(Error::Failed(format!(
                        "the worker pool at {} did not answer within {}s",
                        self.address,
                        START_TIMEOUT.as_secs()
                    )));
                }
            };
            if status.code() != Code::Unavailable || attempts == ATTEMPTS_MAX {
                return Err(Error::Failed(format!(
                    "the worker pool at {} failed to start a harness: {}",
                    self.address,
                    status.message()
                )));
            }
            self.armed = false;
            tracing::debug!(address = self.address, %status, "worker pool not there, trying again");
            self.unreachable = Some(status.message().to_owned());
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }

    /// Asks the pool to stop the harness. One that is gone has nothing to stop.
    pub(crate) async fn stop(mut self) {
        self.armed = false;
        stop_worker(self.client.clone(), self.worker_id.clone()).await;
    }

    /// Waits until nothing listens at the pool's address.
    pub(crate) async fn gone(&self) -> String {
        let mut failed = 0;
        while failed < FAILED_PROBES_MAX {
            tokio::time::sleep(PROBE_PAUSE).await;
            let probe = TcpStream::connect(&self.address);
            match tokio::time::timeout(CONNECT_TIMEOUT, probe).await {
                Ok(Ok(_)) => failed = 0,
                Ok(Err(_)) | Err(_) => failed += 1,
            }
        }
        format!(
            "nothing listens at the worker pool's address {} any more; with LOOPBACK, the client that \
             submitted the job has gone",
            self.address
        )
    }
}

impl Drop for WorkerPool {
    fn drop(&mut self) {
        if !self.armed {
            return;
        }
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(stop_worker(self.client.clone(), self.worker_id.clone()));
        }
    }
}

async fn stop_worker(mut client: BeamFnExternalWorkerPoolClient<Channel>, worker_id: String) {
    let request = StopWorkerRequest {
        worker_id: worker_id.clone(),
    };
    match tokio::time::timeout(STOP_TIMEOUT, client.stop_worker(request)).await {
        Ok(Ok(response)) => {
            let error = response.into_inner().error;
            if !error.is_empty() {
                tracing::debug!(worker_id, error, "worker pool did not stop the harness");
            }
        }
        Ok(Err(status)) => tracing::debug!(worker_id, %status, "worker pool gone at stop"),
        Err(_) => tracing::debug!(worker_id, "worker pool did not answer at stop"),
    }
}

fn request(
    mut params: std::collections::BTreeMap<String, String>,
    spec: &StartSpec,
) -> StartWorkerRequest {
    params.extend(spec.params.clone());
    let descriptor = |url: &str| {
        Some(ApiServiceDescriptor {
            url: url.to_owned(),
            authentication: None,
        })
    };
    StartWorkerRequest {
        worker_id: spec.worker_id.clone(),
        control_endpoint: descriptor(&spec.endpoints.control),
        logging_endpoint: descriptor(&spec.endpoints.logging),
        artifact_endpoint: descriptor(&spec.endpoints.artifact),
        provision_endpoint: descriptor(&spec.endpoints.provision),
        params,
    }
}

/// `host:port` of an endpoint as SDKs write it: bare, with a scheme, or a path after it.
fn address(url: &str) -> String {
    let url = url.split_once("://").map_or(url, |(_, rest)| rest);
    url.split('/').next().unwrap_or(url).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_in_every_form() {
        for (url, expected) in [
            ("localhost:1", "localhost:1"),
            ("http://host:2", "host:2"),
            ("grpc://host:3/x", "host:3"),
            ("[::1]:4", "[::1]:4"),
        ] {
            assert_eq!(address(url), expected);
        }
    }
}
