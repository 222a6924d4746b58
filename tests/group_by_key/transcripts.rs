//! Beam's own trigger transcripts, read from an installed Python SDK.
//!
//! `TIDEMILL_BEAM_PACKAGE` names its `apache_beam` folder. A transcript has elements, watermarks
//! and the panes to be seen.

use serde::Deserialize;
use serde_yaml_ng::Value;
use tidemill::model::{
    AccumulationMode, OutputTime, PaneTiming, Trigger, Window, WindowFn, WindowingStrategy,
};

use crate::beam_package;
use crate::rig::{Pane, Rig, show, strategy};

#[test]
fn all_transcripts_pass() {
    let Some(package) = beam_package::folder() else {
        return;
    };
    let path = package.join("testing/data/trigger_transcripts.yaml");
    let text = std::fs::read_to_string(&path).expect("the transcripts");
    // Python's reader does without the space that YAML wants.
    let text = text.replace("values:[", "values: [");
    let (mut passed, mut unencodable) = (0, 0);
    for document in serde_yaml_ng::Deserializer::from_str(&text) {
        let transcript = Transcript::deserialize(document).expect("a transcript");
        let name = transcript.name.clone();
        let Some(strategy) = transcript.strategy() else {
            println!("not run: {name}: its timestamp combiner has no encoding");
            unencodable += 1;
            continue;
        };
        let outcome = transcript.run(&strategy);
        match &transcript.error {
            None => assert_eq!(outcome, Ok(()), "{name}"),
            Some(error) => {
                let found = outcome.expect_err(&name);
                assert!(found.starts_with(error), "{name}: {found}");
            }
        }
        passed += 1;
    }
    assert_eq!((passed, unencodable), (17, 1));
}

#[derive(Deserialize)]
struct Transcript {
    name: String,
    #[serde(default)]
    window_fn: Option<String>,
    #[serde(default)]
    trigger_fn: Option<String>,
    #[serde(default)]
    timestamp_combiner: Option<String>,
    #[serde(default)]
    accumulation_mode: Option<String>,
    #[serde(default)]
    allowed_lateness: i64,
    #[serde(default)]
    error: Option<String>,
    transcript: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
#[serde(untagged)]
enum Step {
    Input { input: Vec<i64> },
    Watermark { watermark: i64 },
    Expect { expect: Vec<Expected> },
    State { state: Value },
}

#[derive(Debug, Deserialize)]
struct Expected {
    window: Option<[i64; 2]>,
    values: Option<Vec<i64>>,
    timestamp: Option<i64>,
    index: Option<i64>,
    nonspeculative_index: Option<i64>,
    early: Option<bool>,
    late: Option<bool>,
    #[serde(rename = "final")]
    last: Option<bool>,
}

impl Transcript {
    /// `None` where only the SDK can follow.
    fn strategy(&self) -> Option<WindowingStrategy> {
        let text = self.window_fn.as_deref().unwrap_or("GlobalWindows");
        let (name, arguments) = call(text);
        let size = arguments
            .first()
            .map_or(0, |size| size.parse().expect("a size"));
        let window_fn = match name {
            "FixedWindows" | "CustomTimestampingFixedWindowsWindowFn" => {
                WindowFn::Fixed { size, offset: 0 }
            }
            "Sessions" => WindowFn::Sessions { gap: size },
            "GlobalWindows" => WindowFn::Global,
            other => panic!("unknown window fn {other}"),
        };
        Some(WindowingStrategy {
            needs_merge: matches!(window_fn, WindowFn::Sessions { .. }),
            window_fn,
            trigger: trigger(self.trigger_fn.as_deref().unwrap_or("Default")),
            accumulation: match self.accumulation_mode.as_deref() {
                Some("discarding") => AccumulationMode::Discarding,
                _ => AccumulationMode::Accumulating,
            },
            output_time: match self.timestamp_combiner.as_deref() {
                None | Some("OUTPUT_AT_EOW") => OutputTime::EndOfWindow,
                Some("OUTPUT_AT_EARLIEST") => OutputTime::Earliest,
                Some("OUTPUT_AT_LATEST") => OutputTime::Latest,
                Some(_) => return None,
            },
            allowed_lateness: self.allowed_lateness,
            ..strategy()
        })
    }

    fn run(&self, strategy: &WindowingStrategy) -> Result<(), String> {
        let mut rig = Rig::new(strategy);
        let mut seen: Vec<Pane> = Vec::new();
        for step in &self.transcript {
            match step {
                Step::Expect { expect } => take(&mut seen, expect)?,
                Step::Input { input } => {
                    nothing_left(&seen)?;
                    rig.absorb(input.iter().map(|time| ("key", *time)));
                }
                Step::Watermark { watermark } => {
                    nothing_left(&seen)?;
                    rig.advance(*watermark);
                }
                // What a runner keeps is its own affair.
                Step::State { state } => assert!(state.is_mapping()),
            }
            seen.extend(rig.poll_all());
        }
        nothing_left(&seen)
    }
}

fn take(seen: &mut Vec<Pane>, expected: &[Expected]) -> Result<(), String> {
    for expected in expected {
        let found = seen.iter().position(|pane| expected.matches(pane));
        let Some(found) = found else {
            return Err(format!(
                "Unmatched output {expected:?} in {:?}",
                shown(seen)
            ));
        };
        seen.remove(found);
    }
    Ok(())
}

fn nothing_left(seen: &[Pane]) -> Result<(), String> {
    if seen.is_empty() {
        Ok(())
    } else {
        Err(format!("Unexpected output {:?}", shown(seen)))
    }
}

fn shown(panes: &[Pane]) -> Vec<String> {
    panes.iter().map(show).collect()
}

impl Expected {
    fn matches(&self, pane: &Pane) -> bool {
        let Window::Interval { start, .. } = pane.window else {
            return false;
        };
        let mut values = pane.values.clone();
        values.sort_unstable();
        let timing = pane.info.timing;
        let window = [start.millis(), pane.window.max_timestamp().millis()];
        is(self.window, window)
            && is(self.values.as_ref(), &values)
            && is(self.timestamp, pane.timestamp.millis())
            && is(self.index, pane.info.index)
            && is(self.nonspeculative_index, pane.info.non_speculative_index)
            && is(self.early, timing == PaneTiming::Early)
            && is(self.late, timing == PaneTiming::Late)
            && is(self.last, pane.info.is_last)
    }
}

fn is<T: PartialEq>(expected: Option<T>, found: T) -> bool {
    expected.is_none_or(|expected| expected == found)
}

/// Splits `Name(argument, keyword=argument)` and `Name`.
fn call(text: &str) -> (&str, Vec<&str>) {
    let Some((name, arguments)) = text.trim().split_once('(') else {
        return (text.trim(), Vec::new());
    };
    let arguments = arguments.strip_suffix(')').expect("a closing parenthesis");
    let (mut depth, mut start, mut split) = (0, 0, Vec::new());
    for (index, letter) in arguments.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                split.push(arguments[start..index].trim());
                start = index + 1;
            }
            _ => {}
        }
    }
    split.push(arguments[start..].trim());
    (name, split)
}

fn trigger(text: &str) -> Trigger {
    let (name, arguments) = call(text);
    let keyword = |keyword: &str| {
        let found = arguments
            .iter()
            .find_map(|argument| argument.strip_prefix(keyword)?.strip_prefix('='));
        found.map(|argument| Box::new(trigger(argument)))
    };
    match name {
        "Default" => Trigger::Default,
        "AfterWatermark" => Trigger::AfterEndOfWindow {
            early: keyword("early"),
            late: keyword("late"),
        },
        "AfterCount" => Trigger::ElementCount(arguments[0].parse().expect("a count")),
        other => panic!("unknown trigger {other}"),
    }
}
