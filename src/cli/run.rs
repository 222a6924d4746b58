//! From arguments to a command, and from its result to an exit status.

use std::{error::Error, process::ExitCode, time::Duration};

use clap::{Parser, Subcommand};

use crate::cli::demo::{self, DemoArgs};
use crate::cli::explain::{self, ExplainArgs};
use crate::cli::jobs::{self, JobsArgs};
use crate::cli::pubsub_emulator::{self, PubsubEmulatorArgs};
use crate::cli::serve;
use crate::config::ServeArgs;
use crate::telemetry::logging::{self, LogFormat};

/// Runs Apache Beam pipelines of Python, Java and Go, with a native Pub/Sub source.
#[derive(Debug, Parser)]
#[command(name = "tidemill", version, about, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(Box<ServeArgs>),
    PubsubEmulator(Box<PubsubEmulatorArgs>),
    Jobs(JobsArgs),
    Explain(ExplainArgs),
    Demo(DemoArgs),
}

/// Does what the command line says.
pub fn run() -> ExitCode {
    let arguments = Arguments::parse();
    match dispatch(arguments.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report(&*error);
            ExitCode::FAILURE
        }
    }
}

fn dispatch(command: Command) -> Result<(), Box<dyn Error>> {
    match command {
        Command::Serve(arguments) => {
            let settings = arguments.settings()?;
            logging::init(&settings.log_level, settings.log_format)?;
            Ok(block_on(serve::run(settings))??)
        }
        Command::Demo(arguments) => {
            logging::init(&arguments.log_level, LogFormat::Text)?;
            Ok(block_on(demo::run(arguments))??)
        }
        Command::Jobs(arguments) => Ok(block_on(jobs::run(arguments))??),
        Command::Explain(arguments) => Ok(explain::run(&arguments)?),
        Command::PubsubEmulator(arguments) => {
            logging::init("info", LogFormat::Text)?;
            Ok(block_on(pubsub_emulator::run(*arguments))??)
        }
    }
}

/// Runs a command to its end; what it left behind gets a moment to go.
fn block_on<T>(command: impl Future<Output = T>) -> std::io::Result<T> {
    const LEFTOVERS: Duration = Duration::from_millis(200);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let result = runtime.block_on(command);
    runtime.shutdown_timeout(LEFTOVERS);
    Ok(result)
}

/// Says on stderr what went wrong, with its causes where the text does not have them already.
fn report(error: &dyn Error) {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let reason = error.to_string();
        if !text.contains(&reason) {
            text = format!("{text}: {reason}");
        }
        cause = error.source();
    }
    eprintln!("tidemill: {text}");
}
