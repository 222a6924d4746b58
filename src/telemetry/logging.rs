//! Sets up the log: everything goes to stderr, so that stdout is for data.

use std::{
    io::{self, IsTerminal},
    str::FromStr,
};

use serde::Deserialize;
use tracing_subscriber::{EnvFilter, fmt};

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

impl FromStr for LogFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err("must be text or json".to_owned()),
        }
    }
}

/// Why the log could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The level makes no sense.
    #[error("log level {level:?} is not understood: {reason}")]
    Level {
        /// What was given.
        level: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// Sends the log to stderr. `level` is a level such as `info`, or levels by module
/// (`info,tidemill::engine=debug`). Only the first call of a process has an effect.
pub fn init(level: &str, format: LogFormat) -> Result<(), Error> {
    let filter = EnvFilter::try_new(level).map_err(|error| Error::Level {
        level: level.to_owned(),
        reason: error.to_string(),
    })?;
    let log = fmt()
        .with_env_filter(filter)
        .with_ansi(io::stderr().is_terminal())
        .with_writer(io::stderr);
    // Fails where a log is set up already, which is as good.
    let _ = match format {
        LogFormat::Text => log.try_init(),
        LogFormat::Json => log.json().try_init(),
    };
    Ok(())
}
