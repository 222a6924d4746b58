//! Which environments this server can start, and which of several alternatives it takes.

use std::borrow::Cow;

use prost::Message;

use crate::environment::error::Error;
use crate::proto::pipeline::{
    AnyOfEnvironmentPayload, DockerPayload, Environment, ExternalPayload, ProcessPayload,
};
use crate::proto::urn::environments;

/// What the operator allows.
#[derive(Clone, Debug)]
pub struct Policy {
    /// PROCESS environments: a client may have any command run on this machine.
    pub allow_process: bool,
    /// EXTERNAL environments, LOOPBACK among them.
    pub allow_external: bool,
}

/// An environment that can be started here, read from its proto.
#[derive(Debug)]
pub(super) enum Startable {
    External(ExternalPayload),
    Process(ProcessPayload),
}

/// How deep alternatives may nest.
const NESTING_MAX: u32 = 8;

/// Says whether such an environment could be started, for refusing a job early.
pub fn check(environment: &Environment, policy: &Policy) -> Result<(), Error> {
    choose(environment, policy).map(drop)
}

/// The environment that would be started: of alternatives the first that can be, with the artifacts and
/// capabilities that stand at the choice where it has none of its own. `None`: it is no choice, or none of
/// it can be started.
pub fn resolve(environment: &Environment, policy: &Policy) -> Option<Environment> {
    if environment.urn != environments::ANYOF {
        return None;
    }
    let mut chosen = choose(environment, policy).ok()?.0.into_owned();
    if chosen.dependencies.is_empty() {
        chosen.dependencies.clone_from(&environment.dependencies);
    }
    if chosen.capabilities.is_empty() {
        chosen.capabilities.clone_from(&environment.capabilities);
    }
    Some(chosen)
}

/// The environment to start, and how.
pub(super) fn choose<'a>(
    environment: &'a Environment,
    policy: &Policy,
) -> Result<(Cow<'a, Environment>, Startable), Error> {
    choose_at(environment, policy, NESTING_MAX)
}

fn choose_at<'a>(
    environment: &'a Environment,
    policy: &Policy,
    depth: u32,
) -> Result<(Cow<'a, Environment>, Startable), Error> {
    let payload = environment.payload.clone();
    let startable = match environment.urn.as_str() {
        environments::EXTERNAL => external(decode(payload, "EXTERNAL")?, policy)?,
        environments::PROCESS => process(decode(payload, "PROCESS")?, policy)?,
        environments::ANYOF => {
            let (chosen, startable) = choose_any(decode(payload, "ANYOF")?, policy, depth)?;
            return Ok((Cow::Owned(chosen), startable));
        }
        environments::DOCKER => {
            let image = decode::<DockerPayload>(payload, "DOCKER")?.container_image;
            return Err(Error::Unsupported(format!(
                "the pipeline wants the container image {image:?}, and this version of Tidemill starts \
                 no containers yet; use --environment_type=LOOPBACK, EXTERNAL or PROCESS"
            )));
        }
        environments::DEFAULT => {
            return Err(Error::Unsupported(
                "the pipeline leaves the environment to the runner, and this server has no default; \
                 use --environment_type=LOOPBACK, EXTERNAL or PROCESS"
                    .into(),
            ));
        }
        urn => {
            return Err(Error::Unsupported(format!(
                "unknown environment type {urn:?}; use LOOPBACK, EXTERNAL or PROCESS"
            )));
        }
    };
    Ok((Cow::Borrowed(environment), startable))
}

fn external(payload: ExternalPayload, policy: &Policy) -> Result<Startable, Error> {
    if !policy.allow_external {
        return Err(Error::Forbidden(
            "EXTERNAL and LOOPBACK environments are not allowed on this server; \
             start it with --allow-environment external"
                .into(),
        ));
    }
    if payload
        .endpoint
        .as_ref()
        .is_none_or(|endpoint| endpoint.url.is_empty())
    {
        return Err(Error::Invalid(
            "the EXTERNAL environment names no worker pool; set --environment_config=HOST:PORT"
                .into(),
        ));
    }
    Ok(Startable::External(payload))
}

fn process(payload: ProcessPayload, policy: &Policy) -> Result<Startable, Error> {
    if !policy.allow_process {
        return Err(Error::Forbidden(
            "PROCESS environments are not allowed on this server, since they run any command; \
             start it with --allow-environment process, or use LOOPBACK or EXTERNAL"
                .into(),
        ));
    }
    if payload.command.is_empty() {
        return Err(Error::Invalid(
            "the PROCESS environment has no command; set it in --environment_config".into(),
        ));
    }
    let os = payload.os.to_lowercase();
    if !os.is_empty() && os != std::env::consts::OS {
        return Err(Error::Unsupported(format!(
            "the PROCESS environment is for {os}, and this machine runs {}",
            std::env::consts::OS
        )));
    }
    Ok(Startable::Process(payload))
}

/// The first alternative that can be started; else says why each cannot.
fn choose_any(
    payload: AnyOfEnvironmentPayload,
    policy: &Policy,
    depth: u32,
) -> Result<(Environment, Startable), Error> {
    let depth = depth.checked_sub(1).ok_or_else(|| {
        Error::Invalid(format!(
            "alternatives nest deeper than {NESTING_MAX} levels"
        ))
    })?;
    let mut reasons = Vec::new();
    for alternative in &payload.environments {
        match choose_at(alternative, policy, depth) {
            Ok((chosen, startable)) => return Ok((chosen.into_owned(), startable)),
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

impl Default for Policy {
    fn default() -> Self {
        Self {
            allow_process: false,
            allow_external: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    use crate::proto::pipeline::ApiServiceDescriptor;

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
        let command = "boot".into();
        environment(
            environments::PROCESS,
            &ProcessPayload {
                command,
                ..ProcessPayload::default()
            },
        )
    }

    fn external() -> Environment {
        let endpoint = Some(ApiServiceDescriptor {
            url: "pool:1".into(),
            ..ApiServiceDescriptor::default()
        });
        environment(
            environments::EXTERNAL,
            &ExternalPayload {
                endpoint,
                ..ExternalPayload::default()
            },
        )
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
        let mut deep = external();
        for _ in 0..=NESTING_MAX {
            deep = any_of(vec![deep]);
        }
        assert!(check(&deep, &Policy::default()).is_err());
        let nowhere = environment(environments::EXTERNAL, &ExternalPayload::default());
        refusal(
            &nowhere,
            expect![
                "the EXTERNAL environment names no worker pool; set --environment_config=HOST:PORT"
            ],
        );
        refusal(
            &Environment {
                urn: environments::DEFAULT.into(),
                ..Environment::default()
            },
            expect![
                "the pipeline leaves the environment to the runner, and this server has no default; use --environment_type=LOOPBACK, EXTERNAL or PROCESS"
            ],
        );
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
    fn impossible_commands_are_refused() {
        let open = Policy {
            allow_process: true,
            ..Policy::default()
        };
        let checked = |command: &str, os: &str| {
            let payload = ProcessPayload {
                command: command.into(),
                os: os.into(),
                ..ProcessPayload::default()
            };
            check(&environment(environments::PROCESS, &payload), &open)
        };
        assert!(matches!(checked("", ""), Err(Error::Invalid(_))));
        assert!(matches!(
            checked("boot", "plan9"),
            Err(Error::Unsupported(_))
        ));
        assert!(checked("boot", std::env::consts::OS).is_ok());
    }

    #[test]
    fn the_first_alternative_that_can_be_started_is_taken() {
        let elsewhere = ProcessPayload {
            os: "plan9".into(),
            command: "boot".into(),
            ..ProcessPayload::default()
        };
        let elsewhere = environment(environments::PROCESS, &elsewhere);
        let all = any_of(vec![
            docker(),
            any_of(vec![elsewhere, process()]),
            external(),
        ]);
        let open = Policy {
            allow_process: true,
            ..Policy::default()
        };
        assert_eq!(resolve(&all, &open), Some(process()));
        assert_eq!(resolve(&all, &Policy::default()), Some(external()));
        assert_eq!(resolve(&any_of(vec![docker()]), &open), None);
        assert_eq!(resolve(&external(), &open), None, "it is no choice");
    }

    #[test]
    fn what_stands_at_the_choice_is_of_an_alternative_that_has_none() {
        let mut own = external();
        own.capabilities = vec!["own".into()];
        let mut all = any_of(vec![own.clone()]);
        all.capabilities = vec!["all".into()];
        assert_eq!(resolve(&all, &Policy::default()), Some(own));
        let mut all = any_of(vec![external()]);
        all.capabilities = vec!["all".into()];
        let chosen = resolve(&all, &Policy::default()).expect("an alternative");
        assert_eq!(chosen.capabilities, ["all"]);
    }
}
