//! `tidemill pubsub-emulator`: the Pub/Sub emulator alone.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::pubsub_emulator::{self, Faults, Settings};

/// Runs a Pub/Sub server in memory. Clients find it by PUBSUB_EMULATOR_HOST=HOST:PORT.
#[derive(Args, Clone, Debug)]
pub struct PubsubEmulatorArgs {
    /// The address to listen on.
    #[arg(long, default_value = "127.0.0.1")]
    pub host: String,
    /// The port to listen on; 0 takes any free one.
    #[arg(long, default_value_t = 8085)]
    pub port: u16,
    /// Write a JSON object `{"pubsub": PORT}` here once it listens.
    #[arg(long, value_name = "FILE")]
    pub port_file: Option<PathBuf>,
    /// What chance is drawn from: the same seed misbehaves the same way.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// End each stream after this many seconds; 0 never does.
    #[arg(long, default_value_t = 1800.0, value_name = "SECONDS")]
    pub stream_life: f64,
    /// End a stream without any traffic after this many seconds; 0 never does.
    #[arg(long, default_value_t = 120.0, value_name = "SECONDS")]
    pub stream_idle_max: f64,
    /// The status that such streams end with.
    #[arg(long, default_value = "UNAVAILABLE", value_name = "STATUS")]
    pub stream_death_status: String,
    /// Keep the messages of a closed stream out until their deadline.
    #[arg(long)]
    pub keep_on_close: bool,
    /// Leave pings of clients unanswered.
    #[arg(long)]
    pub no_heartbeats: bool,
    /// Pad ack ids to this length (those of the real service have about 180 bytes).
    #[arg(long, default_value_t = 0, value_name = "BYTES")]
    pub ack_id_bytes: usize,
    /// How many deliveries are followed by a second one, from 0 to 1.
    #[arg(long, value_name = "RATE")]
    pub duplicates: Option<f64>,
    /// How many acks are forgotten, from 0 to 1.
    #[arg(long, value_name = "RATE")]
    pub lost_acks: Option<f64>,
    /// Withhold each message for this many seconds.
    #[arg(long, value_name = "SECONDS")]
    pub delay: Option<f64>,
    /// Withhold each message for up to this many seconds more, so that they overtake each other.
    #[arg(long, value_name = "SECONDS")]
    pub jitter: Option<f64>,
    /// Draw the next message among this many of the oldest ones.
    #[arg(long, value_name = "MESSAGES")]
    pub reorder: Option<usize>,
    /// Everything that is to go wrong, as a JSON object; see the documentation.
    #[arg(long, value_name = "JSON", value_parser = parse_faults)]
    pub faults: Option<Faults>,
}

/// Why the command fails.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The emulator failed.
    #[error(transparent)]
    Emulator(#[from] pubsub_emulator::Error),
    /// The port file cannot be written.
    #[error("failed to write {path}")]
    PortFile {
        /// Its path.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
}

/// Runs the emulator until SIGTERM or Ctrl-C.
pub async fn run(args: PubsubEmulatorArgs) -> Result<(), Error> {
    let mut emulator = pubsub_emulator::start(args.settings()).await?;
    tracing::info!(address = %emulator.addr(), "the Pub/Sub emulator listens");
    if let Some(path) = args.port_file {
        write_port(&path, emulator.addr().port())
            .map_err(|source| Error::PortFile { path, source })?;
    }
    let is_over = tokio::select! {
        result = emulator.wait() => Some(result),
        () = stop_signal() => None,
    };
    match is_over {
        Some(result) => result?,
        None => emulator.shutdown().await?,
    }
    Ok(())
}

impl PubsubEmulatorArgs {
    fn settings(&self) -> Settings {
        let mut faults = self.faults.clone().unwrap_or_default();
        let delivery = &mut faults.delivery;
        let take = |value: Option<f64>, rate: &mut f64| *rate = value.unwrap_or(*rate);
        take(self.duplicates, &mut delivery.duplicate_rate);
        take(self.lost_acks, &mut delivery.lost_ack_rate);
        take(self.delay, &mut delivery.delivery_delay_seconds);
        take(self.jitter, &mut delivery.delivery_jitter_seconds);
        delivery.reorder_window = self.reorder.unwrap_or(delivery.reorder_window);
        Settings {
            host: self.host.clone(),
            port: self.port,
            seed: self.seed,
            stream_life: lifetime(self.stream_life),
            stream_idle_max: lifetime(self.stream_idle_max),
            stream_death_status: self.stream_death_status.clone(),
            return_on_close: !self.keep_on_close,
            heartbeats: !self.no_heartbeats,
            ack_id_bytes: self.ack_id_bytes,
            faults,
        }
    }
}

/// So many seconds; none for 0.
fn lifetime(seconds: f64) -> Option<Duration> {
    let duration = Duration::try_from_secs_f64(seconds).ok();
    duration.filter(|duration| !duration.is_zero())
}

fn parse_faults(text: &str) -> Result<Faults, serde_json::Error> {
    serde_json::from_str(text)
}

fn write_port(path: &std::path::Path, port: u16) -> std::io::Result<()> {
    let text = serde_json::json!({ "pubsub": port }).to_string();
    let partial = path.with_extension("partial");
    std::fs::write(&partial, text)?;
    std::fs::rename(&partial, path)
}

/// Returns at the first SIGTERM or Ctrl-C.
async fn stop_signal() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminate) = signal(SignalKind::terminate()) else {
        let _ = tokio::signal::ctrl_c().await;
        return;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}
