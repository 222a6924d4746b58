//! Chooses the kind of environment and starts a harness in it.

use std::collections::BTreeMap;
use std::time::Duration;

use prost::Message;

use crate::environment::error::Error;
use crate::environment::external::WorkerPool;
use crate::environment::process::Process;
use crate::proto::pipeline::{
    AnyOfEnvironmentPayload, DockerPayload, Environment, ExternalPayload, ProcessPayload,
};
use crate::proto::urn::environments;

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

/// What the operator allows.
#[derive(Clone, Debug)]
pub struct Policy {
    /// PROCESS environments: a client may have any command run on this machine.
    pub allow_process: bool,
    /// EXTERNAL environments, LOOPBACK among them.
    pub allow_external: bool,
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

/// An environment that can be started here, read from its proto.
#[derive(Debug)]
enum Startable {
    External(ExternalPayload),
    Process(ProcessPayload),
}

/// Starts a harness. Dropping the future gives up quietly and stops what was started.
pub async fn start(
    environment: &Environment,
    spec: StartSpec,
    policy: &Policy,
) -> Result<Running, Error> {
    let kind = match choose(environment, policy)? {
        Startable::External(payload) => Kind::External(WorkerPool::start(payload, spec).await?),
        Startable::Process(payload) => Kind::Process(Process::start(&payload, &spec)?),
    };
    Ok(Running { kind })
}

/// Says whether such an environment could be started, for refusing a job early.
pub fn check(environment: &Environment, policy: &Policy) -> Result<(), Error> {
    choose(environment, policy).map(|_| ())
}

fn choose(environment: &Environment, policy: &Policy) -> Result<Startable, Error> {
    let payload = environment.payload.clone();
    match environment.urn.as_str() {
        environments::EXTERNAL if !policy.allow_external => Err(Error::Forbidden(
            "EXTERNAL and LOOPBACK environments are not allowed on this server; \
             start it with --allow-environment external"
                .into(),
        )),
        environments::EXTERNAL => Ok(Startable::External(decode(payload, "EXTERNAL")?)),
        environments::PROCESS if !policy.allow_process => Err(Error::Forbidden(
            "PROCESS environments are not allowed on this server, since they run any command; \
             start it with --allow-environment process, or use LOOPBACK or EXTERNAL"
                .into(),
        )),
        environments::PROCESS => Ok(Startable::Process(decode(payload, "PROCESS")?)),
        environments::ANYOF => choose_any(decode(payload, "ANYOF")?, policy),
        environments::DOCKER => {
            let image = decode::<DockerPayload>(payload, "DOCKER")?.container_image;
            Err(Error::Unsupported(format!(
                "the pipeline wants the container image {image:?}, and this version of Tidemill starts \
                 no containers yet; use --environment_type=LOOPBACK, EXTERNAL or PROCESS"
            )))
        }
        environments::DEFAULT => Err(Error::Unsupported(
            "the pipeline leaves the environment to the runner, and this server has no default; \
             use --environment_type=LOOPBACK, EXTERNAL or PROCESS"
                .into(),
        )),
        urn => Err(Error::Unsupported(format!(
            "unknown environment type {urn:?}; use LOOPBACK, EXTERNAL or PROCESS"
        ))),
    }
}

/// The first alternative that can be started; else says why each cannot.
fn choose_any(payload: AnyOfEnvironmentPayload, policy: &Policy) -> Result<Startable, Error> {
    let mut reasons = Vec::new();
    for alternative in &payload.environments {
        if alternative.urn == environments::ANYOF {
            reasons.push("ANYOF within ANYOF".into());
            continue;
        }
        match choose(alternative, policy) {
            Ok(startable) => return Ok(startable),
            Err(error) => reasons.push(error.to_string()),
        }
    }
    if reasons.is_empty() {
        reasons.push("it lists none".into());
    }
    Err(Error::Unsupported(format!(
        "none of the environments that the pipeline offers can be started: {}",
        reasons.join("; ")
    )))
}

fn decode<M: Message + Default>(payload: bytes::Bytes, kind: &str) -> Result<M, Error> {
    M::decode(payload).map_err(|error| {
        Error::Invalid(format!("the {kind} environment has a bad payload: {error}"))
    })
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

impl Default for Policy {
    fn default() -> Self {
        Self {
            allow_process: false,
            allow_external: true,
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

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn environment<M: Message>(urn: &str, payload: &M) -> Environment {
        Environment {
            urn: urn.into(),
            payload: payload.encode_to_vec().into(),
            ..Environment::default()
        }
    }

    fn any_of(environments: Vec<Environment>) -> Environment {
        environment(
            environments::ANYOF,
            &AnyOfEnvironmentPayload { environments },
        )
    }

    fn docker() -> Environment {
        let container_image = "apache/beam_python3.11_sdk:2.77.0".into();
        environment(environments::DOCKER, &DockerPayload { container_image })
    }

    fn process() -> Environment {
        environment(environments::PROCESS, &ProcessPayload::default())
    }

    fn external() -> Environment {
        environment(environments::EXTERNAL, &ExternalPayload::default())
    }

    fn refusal(environment: &Environment, expected: Expect) {
        expected.assert_eq(
            &check(environment, &Policy::default())
                .unwrap_err()
                .to_string(),
        );
    }

    #[test]
    fn what_cannot_be_started_is_refused_with_a_way_out() {
        refusal(
            &docker(),
            expect![[
                r#"the pipeline wants the container image "apache/beam_python3.11_sdk:2.77.0", and this version of Tidemill starts no containers yet; use --environment_type=LOOPBACK, EXTERNAL or PROCESS"#
            ]],
        );
        refusal(
            &process(),
            expect![
                "PROCESS environments are not allowed on this server, since they run any command; start it with --allow-environment process, or use LOOPBACK or EXTERNAL"
            ],
        );
        refusal(
            &any_of(vec![]),
            expect![
                "none of the environments that the pipeline offers can be started: it lists none"
            ],
        );
        let garbage = Environment {
            payload: bytes::Bytes::from_static(b"\xff"),
            ..external()
        };
        assert!(matches!(
            check(&garbage, &Policy::default()),
            Err(Error::Invalid(_))
        ));
        let nested = any_of(vec![any_of(vec![external()])]);
        assert!(matches!(
            check(&nested, &Policy::default()),
            Err(Error::Unsupported(_))
        ));
        let closed = Policy {
            allow_external: false,
            ..Policy::default()
        };
        assert!(matches!(
            check(&external(), &closed),
            Err(Error::Forbidden(_))
        ));
    }

    #[test]
    fn the_first_alternative_that_can_be_started_is_taken() {
        let all = any_of(vec![docker(), process(), external()]);
        let open = Policy {
            allow_process: true,
            ..Policy::default()
        };
        assert!(matches!(choose(&all, &open), Ok(Startable::Process(_))));
        assert!(matches!(
            choose(&all, &Policy::default()),
            Ok(Startable::External(_))
        ));
    }
}
