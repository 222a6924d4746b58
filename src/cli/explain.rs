//! `tidemill explain`: the plan of a serialized pipeline, without running it.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use prost::Message;

use crate::plan::{self, Settings, explain};
use crate::proto::job_management::PrepareJobRequest;
use crate::proto::pipeline::Pipeline;

/// Show how a pipeline would be split into stages.
#[derive(Args, Clone, Debug)]
pub struct ExplainArgs {
    /// A serialized Pipeline or PrepareJobRequest; `-` reads standard input.
    file: PathBuf,
    /// `text`, or `dot` for Graphviz.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// An experiment of the job, such as enable_custom_pubsub_source; may be repeated.
    #[arg(long = "experiment")]
    experiments: Vec<String>,
    /// A pipeline option as NAME=VALUE that the pipeline reads at run time; may be repeated.
    #[arg(long = "option", value_parser = name_and_value)]
    options: Vec<(String, String)>,
}

/// How a plan is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Text,
    Dot,
}

/// Why a pipeline could not be explained.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    #[error("read {path}: {source}")]
    Read { path: String, source: io::Error },
    #[error("{0} holds neither a Pipeline nor a PrepareJobRequest")]
    Proto(String),
    #[error("plan the pipeline: {0}")]
    Plan(#[from] plan::Error),
}

/// Reads the pipeline, plans it and prints the plan on stdout.
pub fn run(args: &ExplainArgs) -> Result<(), ExplainError> {
    let pipeline = read(&args.file)?;
    let settings = Settings {
        endpoint: "localhost:0".to_owned(),
        experiments: args.experiments.clone(),
        options: args.options.iter().cloned().collect(),
    };
    let plan = plan::build(&pipeline, &settings)?;
    print!(
        "{}",
        match args.format {
            Format::Text => explain::text(&plan),
            Format::Dot => explain::dot(&plan),
        }
    );
    Ok(())
}

fn read(path: &Path) -> Result<Pipeline, ExplainError> {
    let shown = path.display().to_string();
    let read = if path == Path::new("-") {
        let mut bytes = Vec::new();
        io::stdin().read_to_end(&mut bytes).map(|_| bytes)
    } else {
        std::fs::read(path)
    };
    let bytes = read.map_err(|source| ExplainError::Read {
        path: shown.clone(),
        source,
    })?;
    decode(&bytes).ok_or(ExplainError::Proto(shown))
}

/// Both messages begin with field 1; only the right one has roots below it.
fn decode(bytes: &[u8]) -> Option<Pipeline> {
    let bare = Pipeline::decode(bytes).ok();
    let wrapped = PrepareJobRequest::decode(bytes)
        .ok()
        .and_then(|request| request.pipeline);
    let mut candidates = [bare, wrapped].into_iter().flatten();
    candidates.find(|pipeline| !pipeline.root_transform_ids.is_empty())
}

fn name_and_value(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}
