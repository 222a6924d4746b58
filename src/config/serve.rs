//! What `tidemill serve` can be told.

use std::{env, fs, io, path::PathBuf, str::FromStr};

use clap::Args;
use serde::Deserialize;

use crate::config::MemoryBudget;
use crate::environment::Policy;
use crate::telemetry::logging::LogFormat;

/// Serves the Job API, and runs the pipelines that are submitted to it.
///
/// Each setting is taken from its flag, else from its variable, else from the file, else as said.
#[derive(Args, Clone, Debug, Default)]
pub struct ServeArgs {
    /// A TOML file with settings: names as the flags, with underscores.
    #[arg(long, env = "TIDEMILL_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The settings.
    #[command(flatten)]
    pub given: Given,
}

/// Settings from one place; what is absent is taken from the next.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Given {
    /// Address to listen on [default: 127.0.0.1, so that other hosts cannot reach it].
    #[arg(long, env = "TIDEMILL_HOST", value_name = "ADDRESS")]
    pub host: Option<String>,
    /// Port of the Job API, of artifacts and of the Fn API; 0 takes any free one [default: 8099].
    #[arg(long, env = "TIDEMILL_PORT")]
    pub port: Option<u16>,
    /// Port that answers artifact calls only; 0 takes any free one [default: 8098].
    #[arg(long, env = "TIDEMILL_ARTIFACT_PORT", value_name = "PORT")]
    pub artifact_port: Option<u16>,
    /// Name or address under which clients and SDK harnesses reach this server [default: the one
    /// that the client used; for harnesses the listening address, or localhost].
    #[arg(long, env = "TIDEMILL_ADVERTISE_HOST", value_name = "HOST")]
    pub advertise_host: Option<String>,
    /// Folder for artifacts and jobs [default: tidemill in the user's data folder].
    #[arg(long, env = "TIDEMILL_DATA_DIR", value_name = "FOLDER")]
    pub data_dir: Option<PathBuf>,
    /// Write {"job": PORT, "artifact": PORT} here once all ports listen.
    #[arg(long, env = "TIDEMILL_PORT_FILE", value_name = "FILE")]
    pub port_file: Option<PathBuf>,
    /// Let clients use a kind of environment that is off by default: process.
    #[arg(
        long,
        env = "TIDEMILL_ALLOW_ENVIRONMENT",
        value_name = "KIND",
        value_delimiter = ','
    )]
    pub allow_environment: Option<Vec<EnvironmentKind>>,
    /// Engine threads of each job [default: one per core].
    #[arg(long, env = "TIDEMILL_LANES", value_name = "N")]
    pub lanes: Option<u32>,
    /// Size of the server's heap above which payload of jobs goes to disk, below the data folder:
    /// such as 8GiB, or a share of the memory that the machine or container has [default: 50%].
    #[arg(long, env = "TIDEMILL_MEMORY_BUDGET", value_name = "SIZE")]
    pub memory_budget: Option<MemoryBudget>,
    /// What to log: error, warn, info, debug, trace, also by module [default: info].
    #[arg(long, env = "TIDEMILL_LOG_LEVEL", value_name = "LEVEL")]
    pub log_level: Option<String>,
    /// A Pub/Sub emulator, HOST:PORT, to use instead of Google's service.
    #[arg(long, env = "PUBSUB_EMULATOR_HOST", value_name = "HOST:PORT")]
    pub pubsub_emulator_host: Option<String>,
    /// How log lines look: text or json [default: text].
    #[arg(long, env = "TIDEMILL_LOG_FORMAT", value_name = "FORMAT")]
    pub log_format: Option<LogFormat>,
}

/// Kinds of SDK environments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EnvironmentKind {
    /// Worker pools, and with them LOOPBACK; always allowed.
    External,
    /// Any command on this machine that a client names.
    Process,
}

impl FromStr for EnvironmentKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.to_ascii_lowercase().as_str() {
            "external" | "loopback" => Ok(Self::External),
            "process" => Ok(Self::Process),
            _ => Err("must be process (external and loopback are always allowed)".to_owned()),
        }
    }
}

/// Settings of the server, complete.
#[derive(Clone, Debug)]
pub struct ServeSettings {
    /// Address to listen on.
    pub host: String,
    /// Port of the Job API, of artifacts and of the Fn API; 0 for any.
    pub port: u16,
    /// Port that answers artifact calls only; 0 for any.
    pub artifact_port: u16,
    /// Name under which others reach the server.
    pub advertise_host: Option<String>,
    /// Folder for artifacts and jobs.
    pub data_dir: PathBuf,
    /// Where the ports are written to.
    pub port_file: Option<PathBuf>,
    /// Which environments clients may use.
    pub environments: Policy,
    /// Engine threads of each job.
    pub lanes: u32,
    /// Size of the heap above which payload goes to disk.
    pub memory_budget: MemoryBudget,
    /// What to log.
    pub log_level: String,
    /// How log lines look.
    pub log_format: LogFormat,
    /// A Pub/Sub emulator to use instead of Google's service.
    pub pubsub_emulator_host: Option<String>,
}

/// Why settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read the configuration file {path}: {source}")]
    Read {
        /// Its path.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The file is not understood.
    #[error("the configuration file {path} is not understood: {source}")]
    Parse {
        /// Its path.
        path: PathBuf,
        /// What is wrong with it.
        source: Box<toml::de::Error>,
    },
    /// A value makes no sense.
    #[error("{0}")]
    Invalid(String),
}

impl ServeArgs {
    /// Completes the flags and variables with the file and the defaults.
    pub fn settings(&self) -> Result<ServeSettings, Error> {
        let file = match &self.config {
            None => Given::default(),
            Some(path) => {
                let text = fs::read_to_string(path).map_err(|source| Error::Read {
                    path: path.clone(),
                    source,
                })?;
                toml::from_str(&text).map_err(|source| Error::Parse {
                    path: path.clone(),
                    source: Box::new(source),
                })?
            }
        };
        self.given.clone().or(file).complete()
    }
}

impl Given {
    fn or(self, next: Self) -> Self {
        Self {
            host: self.host.or(next.host),
            port: self.port.or(next.port),
            artifact_port: self.artifact_port.or(next.artifact_port),
            advertise_host: self.advertise_host.or(next.advertise_host),
            data_dir: self.data_dir.or(next.data_dir),
            port_file: self.port_file.or(next.port_file),
            allow_environment: self.allow_environment.or(next.allow_environment),
            lanes: self.lanes.or(next.lanes),
            memory_budget: self.memory_budget.or(next.memory_budget),
            log_level: self.log_level.or(next.log_level),
            log_format: self.log_format.or(next.log_format),
            pubsub_emulator_host: self.pubsub_emulator_host.or(next.pubsub_emulator_host),
        }
    }

    fn complete(self) -> Result<ServeSettings, Error> {
        const LANES_MAX: u32 = 256;
        let port = self.port.unwrap_or(8099);
        let artifact_port = self.artifact_port.unwrap_or(8098);
        if port == artifact_port && port != 0 {
            return Err(Error::Invalid(format!(
                "port and artifact port are both {port}: give one of them another number"
            )));
        }
        let cores = std::thread::available_parallelism()
            .ok()
            .and_then(|cores| u32::try_from(cores.get()).ok())
            .unwrap_or(1);
        let lanes = self.lanes.unwrap_or(cores.min(LANES_MAX));
        if !(1..=LANES_MAX).contains(&lanes) {
            return Err(Error::Invalid(format!(
                "lanes is {lanes}: it must be from 1 to {LANES_MAX}"
            )));
        }
        let allowed = self.allow_environment.unwrap_or_default();
        Ok(ServeSettings {
            host: self.host.unwrap_or_else(|| "127.0.0.1".to_owned()),
            port,
            artifact_port,
            advertise_host: self.advertise_host,
            data_dir: self.data_dir.unwrap_or_else(default_data_dir),
            port_file: self.port_file,
            environments: Policy {
                allow_process: allowed.contains(&EnvironmentKind::Process),
                ..Policy::default()
            },
            lanes,
            memory_budget: self.memory_budget.unwrap_or_default(),
            log_level: self.log_level.unwrap_or_else(|| "info".to_owned()),
            log_format: self.log_format.unwrap_or_default(),
            pubsub_emulator_host: self.pubsub_emulator_host,
        })
    }
}

/// `tidemill` in the user's folder for data; here, where there is none.
fn default_data_dir() -> PathBuf {
    let from = |name| {
        env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    from("XDG_DATA_HOME")
        .or_else(|| from("HOME").map(|home| home.join(".local/share")))
        .unwrap_or_default()
        .join("tidemill")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_win_over_the_file_and_the_file_over_defaults() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tidemill.toml");
        fs::write(
            &path,
            "port = 1\nlanes = 3\nlog_format = \"json\"\nallow_environment = [\"process\"]\nmemory_budget = \"1GiB\"\n",
        )
        .unwrap();
        let args = ServeArgs {
            config: Some(path),
            given: Given {
                port: Some(2),
                ..Given::default()
            },
        };
        let settings = args.settings().unwrap();
        assert_eq!((settings.port, settings.artifact_port), (2, 8098));
        assert_eq!((settings.lanes, settings.log_format), (3, LogFormat::Json));
        assert_eq!(settings.memory_budget, MemoryBudget::Bytes(1 << 30));
        assert!(settings.environments.allow_process);
        assert_eq!(settings.host, "127.0.0.1");
    }

    #[test]
    fn mistakes_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tidemill.toml");
        fs::write(&path, "prot = 1\n").unwrap();
        let args = ServeArgs {
            config: Some(path),
            given: Given::default(),
        };
        let error = args.settings().unwrap_err().to_string();
        assert!(
            error.contains("tidemill.toml") && error.contains("prot"),
            "{error}"
        );
        let given = Given {
            port: Some(7),
            artifact_port: Some(7),
            ..Given::default()
        };
        assert!(given.complete().is_err());
        let given = Given {
            lanes: Some(0),
            ..Given::default()
        };
        assert!(given.complete().is_err());
    }
}
