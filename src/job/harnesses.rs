//! The harnesses of a job: started, connected, replaced when lost, stopped.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::sync::{Mutex, mpsc};

use crate::environment::{self, Endpoints, Policy, Running, StartSpec};
use crate::fnapi::{Expected, FnApi, Harness, HarnessSpec};
use crate::job::execution::Execution;
use crate::job::harness_events::FromHarness;
use crate::job::messages::Importance;
use crate::job::room::Room;
use crate::model::{EnvironmentId, WorkerId};
use crate::proto::fn_execution::ProvisionInfo;
use crate::proto::pipeline::{ApiServiceDescriptor, Environment};
use crate::telemetry::entropy;

/// A harness that is gone.
#[derive(Debug)]
pub struct Lost {
    pub environment: EnvironmentId,
    pub reason: String,
}

/// Where harnesses find us and what they may be.
#[derive(Clone)]
pub struct Hosting {
    pub fn_api: FnApi,
    /// `host:port` as harnesses reach it.
    pub address: String,
    pub policy: Policy,
    /// How long a harness may take to connect.
    pub connect_within: Duration,
    /// Cores of the machine that a harness may use, where it uses more than one.
    pub cores: u32,
}

/// All harnesses of one job.
pub struct Harnesses {
    hosting: Hosting,
    execution: Arc<Execution>,
    lost: mpsc::UnboundedSender<Lost>,
    next: AtomicU32,
    running: Mutex<BTreeMap<WorkerId, Running>>,
}

/// How often a lost harness is replaced while no other connected in between.
const REPLACEMENTS_MAX: u32 = 8;

/// How long harnesses may take to tear user code down before their environments are stopped.
const TEARDOWN_WITHIN: Duration = Duration::from_secs(1);

impl Harnesses {
    /// No harness yet.
    pub fn new(
        hosting: Hosting,
        execution: Arc<Execution>,
    ) -> (Arc<Self>, mpsc::UnboundedReceiver<Lost>) {
        let (lost, receiver) = mpsc::unbounded_channel();
        let harnesses = Self {
            hosting,
            execution,
            lost,
            next: AtomicU32::new(0),
            running: Mutex::default(),
        };
        (Arc::new(harnesses), receiver)
    }

    /// Starts one harness of `environment` and waits until it is connected.
    ///
    /// # Errors
    ///
    /// The reason, with the environment's name and the end of its output.
    pub async fn start(&self, environment: EnvironmentId) -> Result<(), String> {
        let (name, proto) = &self.execution.plan.environments[environment.index()];
        let worker = WorkerId(self.next.fetch_add(1, Ordering::Relaxed));
        let id = format!("{}-{}", worker, entropy::hex(12));
        let expected = self
            .hosting
            .fn_api
            .expect(self.spec(environment, worker, &id));
        let deadline = self.hosting.connect_within;
        let start = StartSpec {
            worker_id: id,
            endpoints: Endpoints::all_at(&self.hosting.address),
            params: BTreeMap::new(),
            deadline,
        };
        let running = environment::start(proto, start, &self.hosting.policy)
            .await
            .map_err(|error| format!("environment {name} cannot be started: {error}"))?;
        match connected(expected, &running, deadline).await {
            Ok(harness) => {
                self.running.lock().await.insert(worker, running);
                self.add(environment, worker, harness.clone());
                if harness.is_gone() {
                    self.lost_at_once(environment, worker);
                }
                Ok(())
            }
            Err(reason) => {
                let mut text = format!("a harness of environment {name} did not connect: {reason}");
                let tail = running.output_tail();
                if !text.contains(&tail) {
                    text.push('\n');
                    text.push_str(&tail);
                }
                running.stop().await;
                Err(text)
            }
        }
    }

    fn add(&self, environment: EnvironmentId, worker: WorkerId, harness: Harness) {
        let execution = &self.execution;
        execution
            .harnesses
            .write()
            .insert(worker, (environment, harness));
        let proto = &execution.plan.environments[environment.index()].1;
        let room = Room::of(proto, self.hosting.cores);
        let grants = execution.slots.add(environment, worker, room);
        execution.grant(environment, grants);
    }

    /// Reports the loss of a harness that may have gone before anybody knew it.
    fn lost_at_once(&self, environment: EnvironmentId, worker: WorkerId) {
        let reason = "it went as soon as it had connected".to_owned();
        if self.execution.lose(worker, &reason).is_some() {
            let _ = self.lost.send(Lost {
                environment,
                reason,
            });
        }
    }

    fn spec(&self, environment: EnvironmentId, worker: WorkerId, id: &str) -> HarnessSpec {
        let execution = &self.execution;
        let (name, proto) = &execution.plan.environments[environment.index()];
        let here = || {
            Some(ApiServiceDescriptor {
                url: self.hosting.address.clone(),
                ..ApiServiceDescriptor::default()
            })
        };
        let provision = ProvisionInfo {
            pipeline_options: Some(execution.record.options().clone()),
            retrieval_token: execution.record.id().to_owned(),
            status_endpoint: here(),
            logging_endpoint: here(),
            artifact_endpoint: here(),
            control_endpoint: here(),
            dependencies: proto.dependencies.clone(),
            ..ProvisionInfo::default()
        };
        HarnessSpec {
            id: id.to_owned(),
            environment_name: name.clone(),
            capabilities: proto.capabilities.clone(),
            provision,
            descriptors: Arc::clone(&execution.descriptors),
            events: Arc::new(FromHarness {
                worker,
                execution: Arc::clone(execution),
                lost: self.lost.clone(),
            }),
        }
    }

    /// Replaces harnesses as they are lost, for as long as the job runs; returns why it cannot any more.
    pub async fn replace_lost(&self, mut lost: mpsc::UnboundedReceiver<Lost>) -> String {
        let mut failures = 0;
        while let Some(Lost {
            environment,
            reason,
        }) = lost.recv().await
        {
            let name = &self.execution.plan.environments[environment.index()].0;
            self.execution.record.message(
                Importance::Warning,
                format!("a harness of environment {name} was lost and is replaced: {reason}"),
            );
            failures += 1;
            let outcome = if failures > REPLACEMENTS_MAX {
                Err(format!(
                    "{failures} harnesses were lost, the last one: {reason}"
                ))
            } else {
                self.start(environment).await.map_err(|error| {
                    format!("a harness was lost ({reason}) and could not be replaced: {error}")
                })
            };
            if let Err(error) = outcome {
                return error;
            }
        }
        std::future::pending().await
    }

    /// Stops every harness: first the control streams, so that user code is torn down, then the environments.
    pub async fn stop(&self) {
        let mut harnesses = std::mem::take(&mut *self.execution.harnesses.write());
        for (_, harness) in harnesses.values() {
            harness.stop();
        }
        let environments = &self.execution.plan.environments;
        harnesses
            .retain(|_, (environment, _)| shows_teardown(&environments[environment.index()].1));
        let torn_down = harnesses.values().map(|(_, harness)| harness.gone());
        let torn_down = futures_util::future::join_all(torn_down);
        if tokio::time::timeout(TEARDOWN_WITHIN, torn_down)
            .await
            .is_err()
        {
            tracing::debug!("a harness takes its time to tear down");
            harnesses.clear();
        }
        let running = std::mem::take(&mut *self.running.lock().await);
        let stops = running
            .into_iter()
            .map(|(worker, running)| running.stop_after(harnesses.contains_key(&worker)));
        futures_util::future::join_all(stops).await;
    }
}

/// Whether a harness of this environment closes its streams once user code is torn down. Go's keeps
/// its data stream open until its environment is stopped, and tears nothing down before.
fn shows_teardown(environment: &Environment) -> bool {
    const GO: &str = "beam:version:sdk_base:go:";
    !environment
        .capabilities
        .iter()
        .any(|capability| capability.starts_with(GO))
}

async fn connected(
    expected: Expected,
    running: &Running,
    deadline: Duration,
) -> Result<Harness, String> {
    tokio::select! {
        harness = expected.connected(deadline) => harness.map_err(|error| error.to_string()),
        gone = running.exited() => Err(gone),
    }
}
