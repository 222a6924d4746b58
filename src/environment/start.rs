//! Starts a harness in an environment, and stops it.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::environment::choice::{Policy, Startable, choose};
use crate::environment::error::Error;
use crate::environment::external::WorkerPool;
use crate::environment::process::Process;
use crate::proto::pipeline::Environment;

/// Where the harness finds the runner, as `host:port`.
#[derive(Clone, Debug)]
pub struct Endpoints {
    pub control: String,
    pub logging: String,
    pub artifact: String,
    pub provision: String,
    /// Empty: none. Only provisioning tells it.
    pub status: String,
}

/// One harness to be started.
#[derive(Clone, Debug)]
pub struct StartSpec {
    pub worker_id: String,
    pub endpoints: Endpoints,
    /// Further parameters for a worker pool, beside those of the environment.
    pub params: BTreeMap<String, String>,
    /// How long a worker pool that cannot be reached is tried.
    pub deadline: Duration,
}

/// A started environment. Dropped, its process group is killed at once, and a worker pool is told in
/// the background.
#[derive(Debug)]
pub struct Running {
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    External(WorkerPool),
    Process(Process),
}

/// Starts a harness. Dropping the future gives up quietly and stops what was started.
pub async fn start(
    environment: &Environment,
    spec: StartSpec,
    policy: &Policy,
) -> Result<Running, Error> {
    let kind = match choose(environment, policy)?.1 {
        Startable::External(payload) => Kind::External(WorkerPool::start(payload, spec).await?),
        Startable::Process(payload) => Kind::Process(Process::start(&payload, &spec)?),
    };
    Ok(Running { kind })
}

impl Endpoints {
    /// All services on one port.
    pub fn all_at(address: &str) -> Self {
        Self {
            control: address.to_owned(),
            logging: address.to_owned(),
            artifact: address.to_owned(),
            provision: address.to_owned(),
            status: address.to_owned(),
        }
    }
}

impl Running {
    /// Stops the environment. A pool whose harness has gone by itself is told without being waited for:
    /// it has nothing to stop, and clients wait for the end of their jobs.
    pub async fn stop_after(self, harness_has_gone: bool) {
        match self.kind {
            Kind::External(pool) if harness_has_gone => drop(pool),
            kind => Self { kind }.stop().await,
        }
    }

    /// Ends the harness, whose control stream should be closed by now: a process gets 1 s to exit, SIGTERM, 2 s
    /// more and SIGKILL, with all of its group; a worker pool is asked once. Failures are only logged.
    pub async fn stop(self) {
        match self.kind {
            Kind::External(pool) => pool.stop().await,
            Kind::Process(process) => process.stop().await,
        }
    }

    /// Waits until the environment is gone by itself, and says how: a process with the end of its output, a
    /// worker pool when nothing listens there any more.
    pub async fn exited(&self) -> String {
        match &self.kind {
            Kind::External(pool) => pool.gone().await,
            Kind::Process(process) => process.exited().await,
        }
    }

    /// The end of what a process has printed; empty for a worker pool.
    pub fn output_tail(&self) -> String {
        match &self.kind {
            Kind::External(_) => String::new(),
            Kind::Process(process) => process.output_tail(),
        }
    }
}
