//! What we understood of a job's options.

use std::collections::BTreeMap;

use prost_types::Struct;

use crate::job::options::places::Places;

/// Whether a job survives a crash of the runner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Nothing is logged; the job starts again from its input.
    None,
    /// Every commit is durable before anything leaves the process.
    Full,
}

/// What we understood of a job's options.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// The job's name as the user gave it.
    pub job_name: Option<String>,
    /// Google Cloud project of the pipeline.
    pub project: Option<String>,
    /// The `--streaming` flag. What decides are unbounded PCollections.
    pub streaming: bool,
    /// Experiments, as given.
    pub experiments: Vec<String>,
    /// Keys of a Pub/Sub read: a power of two.
    pub num_pubsub_keys: Option<u32>,
    /// Whether Pub/Sub duplicates are let through.
    pub streaming_mode_at_least_once: bool,
    /// Tries of a bundle after the first; `None`: as the kind of job wants it.
    pub max_bundle_retries: Option<u32>,
    /// `None`: as the kind of job wants it.
    pub durability: Option<Durability>,
    /// Harnesses for each environment; `None` where the runner may choose.
    pub sdk_worker_parallelism: Option<u32>,
    /// How long an environment outlives its last use.
    pub environment_cache_millis: Option<u64>,
    /// The pipeline's own expansion of a Pub/Sub read is wanted instead of the native source.
    pub enable_custom_pubsub_source: bool,
    /// The pipeline's own expansion of a Pub/Sub write is wanted instead of the native sink.
    pub enable_custom_pubsub_sink: bool,
    /// Every scalar option by its name in snake case.
    values: BTreeMap<String, String>,
}

/// An option whose value cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("option {name} is {value:?}: it must be {expected}")]
pub struct OptionError {
    /// The option's name.
    pub name: String,
    /// Its value.
    pub value: String,
    /// What it should have been.
    pub expected: &'static str,
}

impl Settings {
    /// Most keys of a Pub/Sub read.
    pub const NUM_PUBSUB_KEYS_MAX: u32 = 1 << 20;
    /// Most harnesses for each environment.
    pub const SDK_WORKER_PARALLELISM_MAX: u32 = 1_024;

    /// How many harnesses each environment has.
    pub fn workers(&self) -> u32 {
        self.sdk_worker_parallelism.unwrap_or(1)
    }

    /// Reads the options of a job.
    pub fn read(options: &Struct) -> Result<Self, OptionError> {
        let source = Places::new(options);
        let keys: Option<u32> =
            source.number("num_pubsub_keys", "a whole number from 1 to 2^20")?;
        if let Some(keys) = keys
            && !(1..=Self::NUM_PUBSUB_KEYS_MAX).contains(&keys)
        {
            return Err(OptionError {
                name: "num_pubsub_keys".to_owned(),
                value: keys.to_string(),
                expected: "a whole number from 1 to 2^20",
            });
        }
        let workers: Option<u32> =
            source.number("sdk_worker_parallelism", "a whole number from 0 to 1024")?;
        if let Some(workers) = workers
            && workers > Self::SDK_WORKER_PARALLELISM_MAX
        {
            return Err(OptionError {
                name: "sdk_worker_parallelism".to_owned(),
                value: workers.to_string(),
                expected: "a whole number from 0 to 1024",
            });
        }
        Ok(Self {
            job_name: source.text("job_name"),
            project: source.text("project"),
            streaming: source.flag("streaming")?,
            num_pubsub_keys: keys.map(u32::next_power_of_two),
            streaming_mode_at_least_once: source.flag("streaming_mode_at_least_once")?
                && !source.flag("streaming_mode_exactly_once")?,
            max_bundle_retries: source.number("max_bundle_retries", "a whole number")?,
            durability: source.durability()?,
            sdk_worker_parallelism: workers.filter(|workers| *workers > 0),
            environment_cache_millis: source
                .number("environment_cache_millis", "a number of ms")?,
            enable_custom_pubsub_source: source.flag("enable_custom_pubsub_source")?,
            enable_custom_pubsub_sink: source.flag("enable_custom_pubsub_sink")?,
            experiments: source.experiments,
            values: source.values,
        })
    }

    /// Any scalar option by its name in snake case, as text.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// Every scalar option by its name in snake case, as text.
    pub fn values(&self) -> &BTreeMap<String, String> {
        &self.values
    }

    /// Whether an experiment was given, by its bare name.
    pub fn has_experiment(&self, name: &str) -> bool {
        self.experiments.iter().any(|given| given == name)
    }
}

#[cfg(test)]
mod tests {
    use prost_types::{ListValue, Value, value::Kind};

    use super::*;

    fn text(text: &str) -> Value {
        Kind::StringValue(text.to_owned()).into()
    }

    fn list(texts: &[&str]) -> Value {
        let values = texts.iter().map(|item| text(item)).collect();
        Kind::ListValue(ListValue { values }).into()
    }

    fn object(fields: Vec<(&str, Value)>) -> Struct {
        Struct {
            fields: fields
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value))
                .collect(),
        }
    }

    #[test]
    fn every_place_is_read() {
        let go = object(vec![(
            "options",
            Kind::StructValue(object(vec![
                ("num_pubsub_keys", text("100")),
                ("dataflow_service_options", text("a,max_bundle_retries=2")),
            ]))
            .into(),
        )]);
        for options in [
            object(vec![
                ("beam:option:num_pubsub_keys:v1", text("100")),
                (
                    "beam:option:max_bundle_retries:v1",
                    Kind::NumberValue(2.0).into(),
                ),
            ]),
            object(vec![
                ("numPubsubKeys", text("128")),
                ("maxBundleRetries", text("2")),
            ]),
            object(vec![(
                "beam:option:dataflow_service_options:v1",
                list(&["x", "num_pubsub_keys=100,max_bundle_retries=2"]),
            )]),
            object(vec![(
                "beam:option:experiments:v1",
                list(&["num_pubsub_keys=65", "beam_fn_api", "max_bundle_retries=2"]),
            )]),
            object(vec![(
                "beam:option:go_options:v1",
                Kind::StructValue(go).into(),
            )]),
        ] {
            let settings = Settings::read(&options).unwrap();
            assert_eq!(settings.num_pubsub_keys, Some(128), "{options:?}");
            assert_eq!(settings.max_bundle_retries, Some(2), "{options:?}");
        }
    }

    #[test]
    fn the_own_option_wins_and_absent_is_absent() {
        let options = object(vec![
            ("beam:option:num_pubsub_keys:v1", text("8")),
            ("beam:option:experiments:v1", list(&["num_pubsub_keys=16"])),
            ("beam:option:sdk_worker_parallelism:v1", text("-1")),
            ("beam:option:job_name:v1", Kind::NullValue(0).into()),
            ("beam:option:streaming:v1", Kind::BoolValue(true).into()),
        ]);
        let settings = Settings::read(&options).unwrap();
        assert_eq!(settings.num_pubsub_keys, Some(8));
        assert_eq!(settings.sdk_worker_parallelism, None);
        assert_eq!(settings.job_name, None);
        assert!(settings.streaming && settings.has_experiment("num_pubsub_keys=16"));
        assert_eq!(
            Settings::read(&Struct::default()).unwrap(),
            Settings::default()
        );
    }

    #[test]
    fn streaming_modes_are_flags_among_the_service_options() {
        let options = |tokens: &[&str]| {
            object(vec![(
                "beam:option:dataflow_service_options:v1",
                list(tokens),
            )])
        };
        let least = Settings::read(&options(&["streaming_mode_at_least_once"])).unwrap();
        assert!(least.streaming_mode_at_least_once);
        let exactly = Settings::read(&options(&[
            "streaming_mode_at_least_once",
            "streaming_mode_exactly_once",
        ]));
        assert!(!exactly.unwrap().streaming_mode_at_least_once);
    }

    #[test]
    fn bad_values_are_named() {
        for (name, value) in [
            ("num_pubsub_keys", "0"),
            ("num_pubsub_keys", "2000000"),
            ("num_pubsub_keys", "-5"),
            ("durability", "some"),
            ("streaming_mode_at_least_once", "perhaps"),
            ("sdk_worker_parallelism", "100000"),
        ] {
            let error = Settings::read(&object(vec![(name, text(value))])).unwrap_err();
            let error = error.to_string();
            assert!(error.contains(name) && error.contains(value), "{error}");
        }
    }
}
