//! A plan as text, for people and snapshots, and as a Graphviz graph.

use std::fmt::{self, Write};

use crate::model::coder::Coder;
use crate::model::ids::PCollectionId;
use crate::model::stage::{ExecutableStage, Script, ScriptEvent, Stage, StageKind};
use crate::model::window::WindowFn;
use crate::plan::build::Plan;

/// The plan, stage by stage.
///
/// ```text
/// s1 "Shout": executable in env0 "python"
///   in  p0 "impulse.out": windowed(bytes, global)
///   run "shout" Shout [beam:transform:pardo:v1]
///   out p1 "shout.out": windowed(string, global)
/// ```
pub fn text(plan: &Plan) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write_plan(plan, &mut out);
    out
}

/// The plan as a Graphviz graph: a box for each stage, an edge for each PCollection between two.
pub fn dot(plan: &Plan) -> String {
    let mut out = String::new();
    let _ = write_dot(plan, &mut out);
    out
}

fn write_plan(plan: &Plan, out: &mut String) -> fmt::Result {
    for (index, stage) in plan.graph.stages.iter().enumerate() {
        if index > 0 {
            out.push('\n');
        }
        write!(out, "s{index} {:?}: {}", stage.name, kind(stage))?;
        if let StageKind::Executable(executable) = &stage.kind {
            let environment = executable.environment;
            let name = plan.environments.get(environment.index());
            write!(out, " in {environment} {:?}", name.map_or("", |(id, _)| id))?;
            for word in traits(executable) {
                write!(out, ", {word}")?;
            }
        }
        out.push('\n');
        for &id in &stage.inputs {
            write_pcollection(plan, "in ", id, out)?;
        }
        if let StageKind::Executable(executable) = &stage.kind {
            write_executable(plan, executable, out)?;
        } else {
            write_native(stage, out)?;
        }
        for &id in &stage.outputs {
            write_pcollection(plan, "out", id, out)?;
        }
        if let Some(Some(reason)) = plan.breaks.get(index) {
            writeln!(out, "  why starts here: {reason}")?;
        }
    }
    match &plan.graph.script {
        Some(script) => write_script(script, out),
        None => Ok(()),
    }
}

fn write_script(script: &Script, out: &mut String) -> fmt::Result {
    match script {
        Script::Service { endpoint, .. } => writeln!(out, "\nscript: from {endpoint}"),
        Script::Events(events) => {
            out.push_str("\nscript:\n");
            for event in events {
                match event {
                    ScriptEvent::Elements { stage, elements } => {
                        write!(out, "  {stage} gets")?;
                        for (timestamp, element) in elements {
                            write!(out, " {element:?} at {timestamp}")?;
                        }
                        out.push('\n');
                    }
                    ScriptEvent::Watermark { stage, to } => {
                        writeln!(out, "  {stage} is complete to {to}")?;
                    }
                    ScriptEvent::ProcessingTime { by } => writeln!(out, "  {by} ms pass")?,
                }
            }
            Ok(())
        }
    }
}

fn write_pcollection(plan: &Plan, word: &str, id: PCollectionId, out: &mut String) -> fmt::Result {
    let pcollection = &plan.graph.pcollections[id.index()];
    let bounded = if pcollection.bounded {
        ""
    } else {
        ", unbounded"
    };
    let coder = Shown(&pcollection.coder);
    writeln!(
        out,
        "  {word} {id} {:?}: {coder}{bounded}",
        pcollection.name
    )
}

fn write_executable(plan: &Plan, executable: &ExecutableStage, out: &mut String) -> fmt::Result {
    if let Some(descriptor) = plan.descriptors.get(&executable.descriptor) {
        for (id, transform) in &descriptor.transforms {
            let urn = transform.spec.as_ref().map_or("", |spec| spec.urn.as_str());
            if urn.starts_with("beam:runner:") {
                continue;
            }
            let step = plan.steps.get(id).map_or("", String::as_str);
            writeln!(out, "  run {id:?} {step} [{urn}]")?;
        }
    }
    for side in &executable.side_inputs {
        let access = if side.multimap {
            "multimap"
        } else {
            "iterable"
        };
        let panes = if side.all_panes { " of all panes" } else { "" };
        let (id, name, coder) = (side.pcollection, &side.name, Shown(&side.coder));
        writeln!(
            out,
            "  side {id} {access}{panes} {name:?} of {:?}: {coder}",
            side.transform
        )?;
    }
    for state in &executable.user_states {
        writeln!(out, "  state {:?} of {:?}", state.name, state.transform)?;
    }
    for timer in &executable.timer_families {
        let expiry = if timer.on_window_expiration {
            ", at window expiry"
        } else {
            ""
        };
        let (family, domain, coder) = (&timer.family, timer.domain, Shown(&timer.coder));
        writeln!(
            out,
            "  timers {family:?} of {:?}: {domain:?}, {coder}{expiry}",
            timer.transform
        )?;
    }
    if let Some(splittable) = &executable.splittable {
        let truncates = if splittable.truncate.is_some() {
            ", truncates on drain"
        } else {
            ""
        };
        writeln!(out, "  splits {:?}{truncates}", splittable.transform)?;
    }
    Ok(())
}

fn write_native(stage: &Stage, out: &mut String) -> fmt::Result {
    match &stage.kind {
        StageKind::GroupByKey(group) => {
            let windows = match &group.windowing.window_fn {
                WindowFn::Custom { urn } => format!("custom {urn}"),
                known => format!("{known:?}"),
            };
            let merge = if group.windowing.needs_merge {
                ", merging"
            } else {
                ""
            };
            writeln!(out, "  by  {windows}{merge}, {:?}", group.windowing.trigger)
        }
        StageKind::PubsubRead(read) => {
            let from = read.subscription.as_ref().or(read.topic.as_ref());
            write!(out, "  from {}", from.map_or("", String::as_str))?;
            write_attributes(&read.timestamp_attribute, &read.id_attribute, out)?;
            out.push_str(if read.with_attributes {
                ", with attributes\n"
            } else {
                "\n"
            });
            Ok(())
        }
        StageKind::PubsubWrite(write) => {
            let topic = write
                .topic
                .as_deref()
                .unwrap_or("the topic of each element");
            write!(out, "  to  {topic}")?;
            write_attributes(&write.timestamp_attribute, &write.id_attribute, out)?;
            out.push_str(if write.ordering_keys {
                ", ordering keys\n"
            } else {
                "\n"
            });
            Ok(())
        }
        StageKind::Impulse
        | StageKind::TestStream
        | StageKind::Flatten
        | StageKind::Reshuffle
        | StageKind::Executable(_) => Ok(()),
    }
}

fn write_attributes(
    timestamp: &Option<String>,
    id: &Option<String>,
    out: &mut String,
) -> fmt::Result {
    if let Some(timestamp) = timestamp {
        write!(out, ", time from {timestamp:?}")?;
    }
    if let Some(id) = id {
        write!(out, ", id from {id:?}")?;
    }
    Ok(())
}

fn kind(stage: &Stage) -> &'static str {
    match &stage.kind {
        StageKind::Impulse => "impulse",
        StageKind::TestStream => "test stream",
        StageKind::Flatten => "flatten",
        StageKind::Reshuffle => "reshuffle",
        StageKind::GroupByKey(_) => "group by key",
        StageKind::Executable(_) => "executable",
        StageKind::PubsubRead(_) => "Pub/Sub read",
        StageKind::PubsubWrite(_) => "Pub/Sub write",
    }
}

fn traits(executable: &ExecutableStage) -> impl Iterator<Item = &'static str> {
    let words = [
        (executable.keyed, "keyed"),
        (executable.splittable.is_some(), "splittable"),
        (executable.finalizes, "finalizes bundles"),
        (executable.stable_input, "stable input"),
        (executable.time_sorted_input, "time-sorted input"),
    ];
    words
        .into_iter()
        .filter(|(holds, _)| *holds)
        .map(|(_, word)| word)
}

fn write_dot(plan: &Plan, out: &mut String) -> fmt::Result {
    out.push_str("digraph plan {\n  node [shape=box];\n");
    for (index, stage) in plan.graph.stages.iter().enumerate() {
        let label = format!("s{index} {}\n{}", kind(stage), stage.name);
        writeln!(out, "  s{index} [label={label:?}];")?;
    }
    for (index, pcollection) in plan.graph.pcollections.iter().enumerate() {
        let producer = pcollection.producer;
        for consumer in &pcollection.consumers {
            writeln!(out, "  {producer} -> {consumer} [label=\"p{index}\"];")?;
        }
        for side in &pcollection.side_consumers {
            let consumer = side.stage;
            writeln!(
                out,
                "  {producer} -> {consumer} [label=\"p{index}\", style=dashed];"
            )?;
        }
    }
    out.push_str("}\n");
    Ok(())
}

/// A coder in few words.
struct Shown<'a>(&'a Coder);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Coder::Bytes => f.write_str("bytes"),
            Coder::StringUtf8 => f.write_str("string"),
            Coder::Bool => f.write_str("bool"),
            Coder::VarInt => f.write_str("varint"),
            Coder::Double => f.write_str("double"),
            Coder::GlobalWindow => f.write_str("global"),
            Coder::IntervalWindow => f.write_str("interval"),
            Coder::Opaque(urn) => f.write_str(urn),
            Coder::Kv(key, value) => write!(f, "kv({}, {})", Shown(key), Shown(value)),
            Coder::WindowedValue(value, window) => {
                write!(f, "windowed({}, {})", Shown(value), Shown(window))
            }
            Coder::Timer(key, window) => write!(f, "timer({}, {})", Shown(key), Shown(window)),
            Coder::Iterable(inner) => write!(f, "iterable({})", Shown(inner)),
            Coder::StateBackedIterable(inner) => {
                write!(f, "state_backed_iterable({})", Shown(inner))
            }
            Coder::LengthPrefix(inner) => write!(f, "prefixed({})", Shown(inner)),
            Coder::Nullable(inner) => write!(f, "nullable({})", Shown(inner)),
            Coder::ShardedKey(inner) => write!(f, "sharded_key({})", Shown(inner)),
            Coder::CustomWindow(inner) => write!(f, "custom_window({})", Shown(inner)),
            Coder::Row(_) => f.write_str("row"),
            Coder::ParamWindowedValue(value, window, _) => {
                write!(f, "param_windowed({}, {})", Shown(value), Shown(window))
            }
        }
    }
}
