//! A small language for pipelines in tests.
//!
//! A line is `NAME: KIND INPUT... [key=value...]` and makes the transform NAME with the output PCollection
//! NAME (or those of `out=a,b`). Kinds are `impulse pardo flatten gbk reshuffle combine values window
//! composite`; any other is a URN. Keys: `coder=kv(string,custom)`, `windows=fixed`, `env=java`, `side=a`,
//! `multi=a`, `out=a,b`, `parts=NAME,…` (makes a composite), `stream=CODER` (of a TestStream), `is=` with any
//! of `stateful sdf sorted stable unbounded`. What a line leaves out it takes from its first input.

use std::collections::BTreeMap;

use prost::Message;

use crate::plan::build::Settings;
use crate::plan::explain;
use crate::proto::pipeline as pb;
use crate::proto::urn::{coders, combine_components, composites, primitives, side_input_types};

/// The pipeline that a script describes.
pub(crate) fn pipeline(script: &str) -> pb::Pipeline {
    let mut builder = Builder::default();
    for line in script
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
    {
        builder.line(line);
    }
    builder.finish()
}

/// The text of the plan of the pipeline that a script describes, or the error.
pub(crate) fn explained(script: &str) -> String {
    explained_pipeline(&pipeline(script))
}

pub(crate) fn explained_pipeline(pipeline: &pb::Pipeline) -> String {
    match crate::plan::build(pipeline, &settings()) {
        Ok(plan) => explain::text(&plan),
        Err(error) => format!("error: {error}\n"),
    }
}

pub(crate) fn settings() -> Settings {
    Settings {
        endpoint: "localhost:1".to_owned(),
        ..Settings::default()
    }
}

#[derive(Default)]
struct Builder {
    components: pb::Components,
    roots: Vec<String>,
    parts: Vec<String>,
}

impl Builder {
    fn line(&mut self, line: &str) {
        let (name, rest) = line.split_once(':').expect("a colon");
        let mut words = rest.split_whitespace();
        let kind = words.next().expect("a kind");
        let (keys, inputs): (Vec<&str>, Vec<&str>) = words.partition(|word| word.contains('='));
        let keys: BTreeMap<&str, &str> =
            keys.iter().filter_map(|key| key.split_once('=')).collect();
        let get = |key: &str| keys.get(key).copied();
        let is = |flag: &str| get("is").is_some_and(|is| is.split(',').any(|is| is == flag));
        let mut transform = pb::PTransform {
            unique_name: format!("user/{name}"),
            ..Default::default()
        };
        for (index, input) in inputs.iter().enumerate() {
            transform
                .inputs
                .insert(format!("in{index}"), (*input).to_owned());
        }
        let first = inputs
            .first()
            .and_then(|input| self.components.pcollections.get(*input))
            .cloned();
        let (urn, default_coder) = self.kind(kind, first.as_ref());
        let payload = self.payload(&urn, &keys, &mut transform, &is);
        transform.spec = Some(pb::FunctionSpec {
            urn: urn.clone(),
            payload: payload.into(),
        });
        let sdk = !matches!(kind, "impulse" | "flatten" | "gbk" | "reshuffle");
        if sdk || keys.contains_key("env") {
            transform.environment_id = self.environment(get("env").unwrap_or("py"));
        }
        let coder = get("coder").map_or(default_coder, str::to_owned);
        let coder_id = self.coder(&coder);
        let windowing = match get("windows") {
            Some(windows) => self.strategy(windows),
            None => match &first {
                Some(first) => first.windowing_strategy_id.clone(),
                None => self.strategy("global"),
            },
        };
        let unbounded = is("unbounded")
            || first.is_some_and(|first| first.is_bounded() == pb::is_bounded::Enum::Unbounded);
        let bounded = if unbounded {
            pb::is_bounded::Enum::Unbounded
        } else {
            pb::is_bounded::Enum::Bounded
        };
        let like = pb::PCollection {
            coder_id,
            windowing_strategy_id: windowing,
            is_bounded: bounded.into(),
            ..Default::default()
        };
        self.outputs(&mut transform, get("out").unwrap_or(name), &like);
        if let Some(parts) = get("parts") {
            transform.subtransforms = parts.split(',').map(str::to_owned).collect();
            self.parts.extend(transform.subtransforms.clone());
        }
        self.components
            .transforms
            .insert(name.to_owned(), transform);
        self.roots.push(name.to_owned());
    }

    fn outputs(&mut self, transform: &mut pb::PTransform, names: &str, like: &pb::PCollection) {
        for (index, output) in names.split(',').enumerate() {
            if output.is_empty() {
                continue;
            }
            transform
                .outputs
                .insert(format!("out{index}"), output.to_owned());
            let pcollection = pb::PCollection {
                unique_name: format!("user/{output}.out"),
                ..like.clone()
            };
            let pcollections = &mut self.components.pcollections;
            pcollections.entry(output.to_owned()).or_insert(pcollection);
        }
    }

    /// The URN of a kind of transform and its usual output coder.
    fn kind(&self, kind: &str, first: Option<&pb::PCollection>) -> (String, String) {
        let coder = first
            .map_or("custom", |first| first.coder_id.as_str())
            .to_owned();
        let (urn, coder) = match kind {
            "impulse" => (primitives::IMPULSE, "bytes".to_owned()),
            "pardo" => (primitives::PAR_DO, coder),
            "flatten" => (primitives::FLATTEN, coder),
            "reshuffle" => (composites::RESHUFFLE, coder),
            "window" => (primitives::ASSIGN_WINDOWS, coder),
            "combine" => (composites::COMBINE_PER_KEY, coder),
            "values" => (combine_components::COMBINE_GROUPED_VALUES, coder),
            "gbk" => {
                let parts = arguments(&coder);
                let grouped = match parts.as_slice() {
                    [key, value] => format!("kv({key},iter({value}))"),
                    _ => coder,
                };
                (primitives::GROUP_BY_KEY, grouped)
            }
            "composite" => ("", coder),
            urn => (urn, coder),
        };
        (urn.to_owned(), coder)
    }

    fn payload(
        &mut self,
        urn: &str,
        keys: &BTreeMap<&str, &str>,
        transform: &mut pb::PTransform,
        is: &dyn Fn(&str) -> bool,
    ) -> Vec<u8> {
        if urn == composites::COMBINE_PER_KEY || urn == combine_components::COMBINE_GROUPED_VALUES {
            let accumulator_coder_id = self.coder("accumulator");
            let payload = pb::CombinePayload {
                accumulator_coder_id,
                ..Default::default()
            };
            return payload.encode_to_vec();
        }
        if let Some(coder) = keys.get("stream") {
            return self.test_stream(coder).encode_to_vec();
        }
        if urn != primitives::PAR_DO {
            return Vec::new();
        }
        let mut payload = pb::ParDoPayload {
            requires_stable_input: is("stable"),
            requires_time_sorted_input: is("sorted"),
            ..Default::default()
        };
        for (key, urn) in [
            ("side", side_input_types::ITERABLE),
            ("multi", side_input_types::MULTIMAP),
        ] {
            for side in keys.get(key).into_iter().flat_map(|sides| sides.split(',')) {
                let name = format!("{key}-{side}");
                transform.inputs.insert(name.clone(), side.to_owned());
                let access_pattern = Some(pb::FunctionSpec {
                    urn: urn.to_owned(),
                    ..Default::default()
                });
                let side = pb::SideInput {
                    access_pattern,
                    ..Default::default()
                };
                payload.side_inputs.insert(name, side);
            }
        }
        if is("stateful") {
            payload
                .state_specs
                .insert("seen".to_owned(), pb::StateSpec::default());
        }
        if is("sdf") {
            payload.restriction_coder_id = self.coder("restriction");
        }
        payload.encode_to_vec()
    }

    /// A TestStream of one element, for the output "out0".
    fn test_stream(&mut self, coder: &str) -> pb::TestStreamPayload {
        use pb::test_stream_payload::event::{
            AddElements, AdvanceProcessingTime, AdvanceWatermark, Event,
        };
        let tag = || "out0".to_owned();
        let element = pb::test_stream_payload::TimestampedElement {
            encoded_element: "x".into(),
            timestamp: 7,
        };
        let events = [
            Event::ElementEvent(AddElements {
                elements: vec![element],
                tag: tag(),
            }),
            Event::ProcessingTimeEvent(AdvanceProcessingTime {
                advance_duration: 5,
            }),
            Event::WatermarkEvent(AdvanceWatermark {
                new_watermark: i64::MAX,
                tag: tag(),
            }),
        ];
        pb::TestStreamPayload {
            coder_id: self.coder(coder),
            events: events
                .map(|event| pb::test_stream_payload::Event { event: Some(event) })
                .to_vec(),
            endpoint: None,
        }
    }

    fn environment(&mut self, id: &str) -> String {
        let environment = self
            .components
            .environments
            .entry(id.to_owned())
            .or_default();
        let known = [coders::STRING_UTF8, coders::VARINT, coders::INTERVAL_WINDOW];
        environment.capabilities = known.iter().map(|&urn| urn.to_owned()).collect();
        if id != "py" {
            let backed = coders::STATE_BACKED_ITERABLE.to_owned();
            environment.capabilities.push(backed);
        }
        if id != "go" {
            let truncate = "beam:transform:sdf_truncate_sized_restrictions:v1".to_owned();
            environment.capabilities.push(truncate);
        }
        id.to_owned()
    }

    fn strategy(&mut self, windows: &str) -> String {
        let (urn, coder, payload) = match windows {
            "global" => (
                "beam:window_fn:global_windows:v1",
                "global_window",
                Vec::new(),
            ),
            "fixed" => {
                let size = Some(prost_types::Duration {
                    seconds: 60,
                    nanos: 0,
                });
                let payload = pb::FixedWindowsPayload {
                    size,
                    ..Default::default()
                };
                (
                    "beam:window_fn:fixed_windows:v1",
                    "interval_window",
                    payload.encode_to_vec(),
                )
            }
            custom => (custom, "special_window", Vec::new()),
        };
        let strategy = pb::WindowingStrategy {
            window_fn: Some(pb::FunctionSpec {
                urn: urn.to_owned(),
                payload: payload.into(),
            }),
            window_coder_id: self.coder(coder),
            merge_status: if windows.contains("merging") {
                pb::merge_status::Enum::NeedsMerge.into()
            } else {
                pb::merge_status::Enum::NonMerging.into()
            },
            accumulation_mode: if windows.contains("retracting") {
                pb::accumulation_mode::Enum::Retracting.into()
            } else {
                pb::accumulation_mode::Enum::Discarding.into()
            },
            output_time: if windows.contains("earliest") {
                pb::output_time::Enum::EarliestInPane.into()
            } else {
                pb::output_time::Enum::EndOfWindow.into()
            },
            ..Default::default()
        };
        self.components
            .windowing_strategies
            .insert(windows.to_owned(), strategy);
        windows.to_owned()
    }

    /// A coder's id is its text.
    fn coder(&mut self, text: &str) -> String {
        let (name, _) = text.split_once('(').unwrap_or((text, ""));
        let urn = match name {
            "bytes" => coders::BYTES.to_owned(),
            "string" => coders::STRING_UTF8.to_owned(),
            "varint" => coders::VARINT.to_owned(),
            "kv" => coders::KV.to_owned(),
            "iter" => coders::ITERABLE.to_owned(),
            "global_window" => coders::GLOBAL_WINDOW.to_owned(),
            "interval_window" => coders::INTERVAL_WINDOW.to_owned(),
            other => format!("test:coder:{other}"),
        };
        let component_coder_ids = arguments(text)
            .iter()
            .map(|argument| self.coder(argument))
            .collect();
        let coder = pb::Coder {
            spec: Some(pb::FunctionSpec {
                urn,
                ..Default::default()
            }),
            component_coder_ids,
        };
        self.components.coders.insert(text.to_owned(), coder);
        text.to_owned()
    }

    fn finish(self) -> pb::Pipeline {
        let Self {
            components,
            roots,
            parts,
        } = self;
        pb::Pipeline {
            root_transform_ids: roots
                .into_iter()
                .filter(|root| !parts.contains(root))
                .collect(),
            components: Some(components),
            ..Default::default()
        }
    }
}

/// `a` and `b(c)` of `kv(a,b(c))`.
fn arguments(coder: &str) -> Vec<String> {
    let Some((_, inner)) = coder.split_once('(') else {
        return Vec::new();
    };
    let inner = inner.strip_suffix(')').expect("a closing bracket");
    let mut depth = 0;
    let mut arguments = vec![String::new()];
    for letter in inner.chars() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if letter == ',' && depth == 0 {
            arguments.push(String::new());
        } else if let Some(last) = arguments.last_mut() {
            last.push(letter);
        }
    }
    arguments
}
