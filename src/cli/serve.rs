//! `tidemill serve`.

use std::{io, path::PathBuf, sync::Arc, time::Duration};

use crate::cli::server::{self, RunnerContext, Server};
use crate::config::ServeSettings;
use crate::job::{Driver, Hosting, Lanes, PubsubHosting, Runner};
use crate::source::pubsub::Endpoint;
use crate::store::overflow::{self, Overflow};
use crate::telemetry::heap;

/// Why the command fails.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server did not start, or broke.
    #[error(transparent)]
    Server(#[from] server::Error),
    /// The port file cannot be written.
    #[error("cannot write the port file {path}: {source}")]
    PortFile {
        /// Its path.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Signals cannot be received.
    #[error("cannot listen to signals: {0}")]
    Signals(io::Error),
}

/// Serves until SIGTERM or Ctrl-C.
pub async fn run(settings: ServeSettings) -> Result<(), Error> {
    let mut stop = StopSignals::new().map_err(Error::Signals)?;
    let port_file = settings.port_file.clone();
    let mut server = Server::start(settings, runner).await?;
    if let Some(path) = port_file {
        write_ports(&server, &path).map_err(|source| Error::PortFile { path, source })?;
    }
    tokio::select! {
        broken = server.broken() => return Err(broken.into()),
        () = stop.received() => {}
    }
    tracing::info!("stopping");
    tokio::select! {
        () = server.shut_down() => tracing::info!("stopped"),
        () = stop.received() => tracing::warn!("told twice to stop: stopping at once"),
    }
    Ok(())
}

/// The component that runs jobs.
pub fn runner(context: RunnerContext) -> Arc<dyn Runner> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u32;
    let hosting = Hosting {
        fn_api: context.fn_api,
        address: context.endpoint,
        policy: context.environments,
        connect_within: CONNECT_WITHIN,
        cores,
    };
    let pubsub = PubsubHosting {
        endpoint: Endpoint::from_parts(context.pubsub_emulator_host),
        sweeps: context.is_sole,
        server_id: context.server_id,
        threads: cores * 8,
        shared: Arc::default(),
    };
    let settings = overflow::Settings {
        budget_bytes: context.memory_budget.bytes(),
        folder: context.data_dir.join("overflow"),
    };
    tracing::info!(budget_mib = settings.budget_bytes >> 20, folder = %settings.folder.display(),
        "payload goes to disk above the memory budget");
    let lanes = Lanes {
        count: context.lanes,
        overflow: Overflow::new(settings, heap::live_bytes),
    };
    Arc::new(Driver::new(hosting, pubsub, lanes))
}

/// How long a harness may take to connect.
const CONNECT_WITHIN: Duration = Duration::from_secs(60);

/// Writes the ports, whole or not at all.
fn write_ports(server: &Server, path: &std::path::Path) -> io::Result<()> {
    let ports = serde_json::json!({
        "job": server.address().port(),
        "artifact": server.artifact_address().port(),
    });
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}", std::process::id()));
    let partial = path.with_file_name(name);
    std::fs::write(&partial, ports.to_string())?;
    std::fs::rename(&partial, path)
}

/// SIGTERM and Ctrl-C.
struct StopSignals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

impl StopSignals {
    fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn received(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
