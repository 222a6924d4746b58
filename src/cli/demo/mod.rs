//! `tidemill demo`: a streaming pipeline on real input, watched live, with nothing to set up.

mod orders;
mod python;
mod results;
mod table;

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use parking_lot::Mutex;
use tokio::process::{Child, Command};

use crate::cli::demo::orders::{Ledger, Orders};
use crate::cli::demo::results::Results;
use crate::cli::demo::table::Table;
use crate::cli::serve;
use crate::cli::server::{self, Server};
use crate::config::{MemoryBudget, ServeSettings};
use crate::environment::Policy;
use crate::pubsub_emulator::{self, Settings as EmulatorSettings};
use crate::telemetry::logging::LogFormat;

/// Runs a Python streaming pipeline on Pub/Sub, all on this machine, and shows that each order counts once.
///
/// Starts Tidemill and a Pub/Sub emulator on free ports, makes a Python environment with Apache Beam (or
/// takes one), publishes orders of which some come twice, and compares each window's sum with the truth.
#[derive(Args, Clone, Debug)]
pub struct DemoArgs {
    /// How long orders are published, in seconds.
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    duration: u64,
    /// Orders per second.
    #[arg(long, default_value_t = 1000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=50_000))]
    rate: u32,
    /// A Python that has apache-beam[gcp], instead of one made in the user's cache folder.
    #[arg(long, value_name = "PATH")]
    python: Option<PathBuf>,
    /// What the server logs, to stderr.
    #[arg(long, default_value = "error", value_name = "LEVEL")]
    pub log_level: String,
}

/// Why the demo fails.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot set up Python: {0}")]
    Python(#[from] python::Error),
    #[error("cannot start the Pub/Sub emulator: {0}")]
    Emulator(#[from] pubsub_emulator::Error),
    #[error("cannot start Tidemill: {0}")]
    Server(#[from] server::Error),
    #[error("Pub/Sub: {0}")]
    Pubsub(#[from] tonic::Status),
    #[error("cannot connect to the Pub/Sub emulator: {0}")]
    Connect(#[from] tonic::transport::Error),
    #[error("cannot {what}: {source}")]
    Io {
        what: &'static str,
        source: std::io::Error,
    },
    #[error("the pipeline ended by itself:\n{0}")]
    PipelineEnded(String),
    #[error("{lost} units are lost and {doubled} counted twice")]
    Wrong { lost: u64, doubled: u64 },
}

/// Length of a window, in milliseconds.
const WINDOW: i64 = 10_000;
/// How long the last windows may take to close after the last order.
const PATIENCE: Duration = Duration::from_secs(30);
const TOPIC_ORDERS: &str = "projects/tidemill-demo/topics/orders";
const TOPIC_RESULTS: &str = "projects/tidemill-demo/topics/results";
const SUBSCRIPTION_ORDERS: &str = "projects/tidemill-demo/subscriptions/orders";
const SUBSCRIPTION_RESULTS: &str = "projects/tidemill-demo/subscriptions/results";

/// Runs the demo to its end or to Ctrl-C.
pub async fn run(args: DemoArgs) -> Result<(), Error> {
    let python = python::prepare(args.python.as_deref()).await?;
    let emulator = pubsub_emulator::start(emulator_settings()).await?;
    let address = emulator.addr().to_string();
    let data = tempfile_folder()?;
    let mut server = Server::start(serve_settings(&data, &address, &args), serve::runner).await?;
    eprintln!(
        "Tidemill serves at {}, the Pub/Sub emulator at {address}",
        server.endpoint()
    );
    orders::create_topics(&address).await?;
    let mut pipeline = submit(&python, &server.endpoint(), &address)?;
    let ended = watch(&args, &address, &mut pipeline).await;
    // The pipeline is cancelled with the server; its client then ends too.
    server.shut_down().await;
    let _ = pipeline.child.kill().await;
    let _ = emulator.shutdown().await;
    let _ = std::fs::remove_dir_all(&data);
    ended
}

/// Publishes, shows what comes back, and judges it.
async fn watch(args: &DemoArgs, address: &str, pipeline: &mut Pipeline) -> Result<(), Error> {
    let ledger = Arc::new(Mutex::new(Ledger::default()));
    let mut results = Results::start(address).await?;
    let mut table = Table::new(WINDOW);
    let mut orders = Orders::start(address, args.rate, Arc::clone(&ledger)).await?;
    let mut interrupted = std::pin::pin!(tokio::signal::ctrl_c());
    let mut publishing = true;
    let mut deadline = tokio::time::Instant::now() + Duration::from_secs(args.duration);
    let mut tick = tokio::time::interval(Duration::from_millis(200));
    loop {
        tokio::select! {
            result = results.next() => table.add(result?, &ledger.lock()),
            status = pipeline.child.wait() => {
                let status = status.map_or_else(|error| error.to_string(), |s| s.to_string());
                return Err(Error::PipelineEnded(format!("{status}\n{}", pipeline.output())));
            }
            _ = &mut interrupted, if publishing => deadline = tokio::time::Instant::now(),
            _ = tick.tick() => {}
        }
        table.draw(&ledger.lock());
        let over = tokio::time::Instant::now() >= deadline;
        if publishing && over {
            publishing = false;
            orders.stop().await?;
            deadline = tokio::time::Instant::now() + PATIENCE;
            eprintln!("no more orders; the last windows close");
        } else if !publishing && (over || table.is_complete(&ledger.lock())) {
            break;
        }
    }
    let summary = table.summary(&ledger.lock());
    println!("{summary}");
    if summary.lost == 0 && summary.doubled == 0 {
        Ok(())
    } else {
        Err(Error::Wrong {
            lost: summary.lost,
            doubled: summary.doubled,
        })
    }
}

/// The client process of the pipeline.
struct Pipeline {
    child: Child,
    log: PathBuf,
}

impl Pipeline {
    /// The end of what the client has printed.
    fn output(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().rev().take(30).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }
}

fn submit(python: &std::path::Path, endpoint: &str, emulator: &str) -> Result<Pipeline, Error> {
    let io = |what| move |source| Error::Io { what, source };
    let folder = python::cache_folder()?;
    let script = folder.join("demo_pipeline.py");
    std::fs::write(&script, include_str!("pipeline.py")).map_err(io("write the pipeline"))?;
    let log = folder.join("demo_pipeline.log");
    let output = std::fs::File::create(&log).map_err(io("write the pipeline's log"))?;
    let errors = output.try_clone().map_err(io("write the pipeline's log"))?;
    let child = Command::new(python)
        .arg(&script)
        .arg("--runner=PortableRunner")
        .arg(format!("--job_endpoint={endpoint}"))
        .args(["--environment_type=LOOPBACK", "--job_name=demo"])
        .arg(format!("--subscription={SUBSCRIPTION_ORDERS}"))
        .arg(format!("--topic={TOPIC_RESULTS}"))
        .arg(format!("--window_seconds={}", WINDOW / 1000))
        .env("PUBSUB_EMULATOR_HOST", emulator)
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors)
        .kill_on_drop(true)
        .spawn()
        .map_err(io("start Python"))?;
    Ok(Pipeline { child, log })
}

/// An emulator that delivers every twentieth message twice.
fn emulator_settings() -> EmulatorSettings {
    let mut settings = EmulatorSettings {
        host: "127.0.0.1".to_owned(),
        port: 0,
        ..EmulatorSettings::default()
    };
    settings.faults.delivery.duplicate_rate = 0.05;
    settings
}

fn serve_settings(data: &std::path::Path, emulator: &str, args: &DemoArgs) -> ServeSettings {
    ServeSettings {
        host: "127.0.0.1".to_owned(),
        port: 0,
        artifact_port: 0,
        advertise_host: None,
        data_dir: data.to_owned(),
        port_file: None,
        environments: Policy::default(),
        lanes: 1,
        memory_budget: MemoryBudget::default(),
        log_level: args.log_level.clone(),
        log_format: LogFormat::Text,
        pubsub_emulator_host: Some(emulator.to_owned()),
    }
}

fn tempfile_folder() -> Result<PathBuf, Error> {
    let folder = std::env::temp_dir().join(format!("tidemill-demo-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(|source| Error::Io {
        what: "make a folder for the server",
        source,
    })?;
    Ok(folder)
}
