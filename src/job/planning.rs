//! From a submitted pipeline to a plan that this server can run.

use std::borrow::Cow;
use std::collections::BTreeSet;

use crate::environment::{self, Policy};
use crate::job::options::Settings;
use crate::job::runner::PrepareError;
use crate::model::stage::StageKind;
use crate::plan::{self, Plan};
use crate::proto::pipeline::Pipeline;

/// Plans a pipeline for harnesses that reach the runner at `address`.
///
/// # Errors
///
/// When it makes no sense, or needs what the runner does not do, or an environment that cannot be started
/// here.
pub(super) fn plan(
    pipeline: &Pipeline,
    settings: &Settings,
    address: &str,
    policy: &Policy,
) -> Result<Plan, PrepareError> {
    let plan_settings = plan::Settings {
        endpoint: address.to_owned(),
        experiments: settings.experiments.clone(),
        options: settings.values().clone(),
    };
    let pipeline = with_chosen_environments(pipeline, policy);
    let plan = plan::build(&pipeline, &plan_settings).map_err(|error| match error.kind {
        plan::ErrorKind::Unsupported => PrepareError::Unsupported(error.to_string()),
        _ => PrepareError::Invalid(error.to_string()),
    })?;
    check_environments(&plan, policy)?;
    Ok(plan)
}

/// Puts in the place of each choice of environments what would be started: what it can do decides how
/// its stages are planned.
fn with_chosen_environments<'a>(pipeline: &'a Pipeline, policy: &Policy) -> Cow<'a, Pipeline> {
    let Some(components) = &pipeline.components else {
        return Cow::Borrowed(pipeline);
    };
    let chosen: Vec<_> = components
        .environments
        .iter()
        .filter_map(|(id, choice)| Some((id.clone(), environment::resolve(choice, policy)?)))
        .collect();
    if chosen.is_empty() {
        return Cow::Borrowed(pipeline);
    }
    let mut pipeline = pipeline.clone();
    if let Some(components) = &mut pipeline.components {
        components.environments.extend(chosen);
    }
    Cow::Owned(pipeline)
}

/// Refuses a plan with a stage whose environment cannot be started. One that no stage runs in may be
/// anything.
fn check_environments(plan: &Plan, policy: &Policy) -> Result<(), PrepareError> {
    let mut checked = BTreeSet::new();
    for stage in &plan.graph.stages {
        let StageKind::Executable(executable) = &stage.kind else {
            continue;
        };
        if !checked.insert(executable.environment) {
            continue;
        }
        let (id, proto) = &plan.environments[executable.environment.index()];
        environment::check(proto, policy).map_err(|error| {
            let text = format!("environment {id} of step {}: {error}", stage.name);
            match error {
                environment::Error::Invalid(_) => PrepareError::Invalid(text),
                environment::Error::Unsupported(_) => PrepareError::Unsupported(text),
                environment::Error::Forbidden(_) | environment::Error::Failed(_) => {
                    PrepareError::Forbidden(text)
                }
            }
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use prost::Message;

    use super::*;

    use crate::proto::pipeline::{AnyOfEnvironmentPayload, Environment, ProcessPayload};
    use crate::proto::urn::environments;

    /// A pipeline of Python's, in this environment.
    fn pipeline(environment: &Environment) -> Pipeline {
        let bytes = include_bytes!("../plan/fixtures/words-raw.pb");
        let mut pipeline = Pipeline::decode(&bytes[..]).expect("a pipeline");
        let components = pipeline.components.as_mut().expect("components");
        for of_pipeline in components.environments.values_mut() {
            *of_pipeline = environment.clone();
        }
        pipeline
    }

    fn process(capabilities: &[&str]) -> Environment {
        let command = "boot".to_owned();
        let payload = ProcessPayload {
            command,
            ..ProcessPayload::default()
        };
        Environment {
            urn: environments::PROCESS.to_owned(),
            payload: payload.encode_to_vec().into(),
            capabilities: capabilities.iter().map(|urn| (*urn).to_owned()).collect(),
            ..Environment::default()
        }
    }

    fn any_of(environments: Vec<Environment>) -> Environment {
        let payload = AnyOfEnvironmentPayload { environments };
        Environment {
            urn: environments::ANYOF.to_owned(),
            payload: payload.encode_to_vec().into(),
            ..Environment::default()
        }
    }

    fn unknown() -> Environment {
        Environment {
            urn: "beam:env:space_station:v1".to_owned(),
            ..Environment::default()
        }
    }

    fn planned(environment: &Environment, policy: &Policy) -> Result<Plan, PrepareError> {
        plan(
            &pipeline(environment),
            &Settings::default(),
            "here:1",
            policy,
        )
    }

    fn refusal(environment: &Environment, expected: Expect) {
        let error = planned(environment, &Policy::default()).expect_err("a refusal");
        expected.assert_eq(&format!("{error:?}"));
    }

    #[test]
    fn environments_that_cannot_be_started_are_refused_with_the_step() {
        refusal(
            &unknown(),
            expect![[
                r#"Unsupported("environment ref_Environment_default_environment_1 of step Create/FlatMap(<lambda at core.py:4094>): unknown environment type \"beam:env:space_station:v1\"; use LOOPBACK, EXTERNAL or PROCESS")"#
            ]],
        );
        refusal(
            &process(&[]),
            expect![[
                r#"Forbidden("environment ref_Environment_default_environment_1 of step Create/FlatMap(<lambda at core.py:4094>): PROCESS environments are not allowed on this server, since they run any command; start it with --allow-environment process, or use LOOPBACK or EXTERNAL")"#
            ]],
        );
        refusal(
            &any_of(vec![unknown(), process(&[])]),
            expect![[
                r#"Unsupported("environment ref_Environment_default_environment_1 of step Create/FlatMap(<lambda at core.py:4094>): none of the environments that the pipeline offers can be started: unknown environment type \"beam:env:space_station:v1\"; use LOOPBACK, EXTERNAL or PROCESS; PROCESS environments are not allowed on this server, since they run any command; start it with --allow-environment process, or use LOOPBACK or EXTERNAL")"#
            ]],
        );
    }

    #[test]
    fn an_alternative_is_planned_by_what_it_can_do() {
        let open = Policy {
            allow_process: true,
            ..Policy::default()
        };
        let alternative = process(&["beam:coder:string_utf8:v1"]);
        let choice = any_of(vec![unknown(), alternative.clone()]);
        let plan = planned(&choice, &open).expect("a plan");
        assert_eq!(plan.environments[0].1, alternative);
        let same = planned(&alternative, &open).expect("a plan");
        assert_eq!(plan.graph, same.graph);
    }
}
