//! A Python with Apache Beam: the one given, or a virtual environment in the user's cache folder.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use crate::telemetry::clock;

/// What the demo's pipeline needs.
const REQUIREMENT: &str = "apache-beam[gcp]==2.77.0";

/// Why there is no Python.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("neither XDG_CACHE_HOME nor HOME is set, so there is no cache folder")]
    NoCache,
    #[error("{what}: {source}")]
    Io {
        what: String,
        source: std::io::Error,
    },
    #[error("{what} failed ({status}); the end of its output:\n{output}")]
    Failed {
        what: String,
        status: String,
        output: String,
    },
}

/// The folder that outlives the demo.
pub fn cache_folder() -> Result<PathBuf, Error> {
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .filter(|folder| !folder.is_empty())
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")))
        .ok_or(Error::NoCache)?;
    let folder = cache.join("tidemill");
    std::fs::create_dir_all(&folder).map_err(|source| Error::Io {
        what: format!("make {}", folder.display()),
        source,
    })?;
    Ok(folder)
}

/// The interpreter to use; makes the environment where there is none yet.
pub async fn prepare(given: Option<&Path>) -> Result<PathBuf, Error> {
    if let Some(python) = given {
        check(python).await?;
        return Ok(python.to_owned());
    }
    let environment = cache_folder()?.join("demo-beam-2.77.0");
    let python = environment.join("bin/python");
    if check(&python).await.is_ok() {
        return Ok(python);
    }
    eprintln!(
        "making a Python environment in {} (once)",
        environment.display()
    );
    let mut venv = Command::new("python3");
    venv.args(["-m", "venv", "--clear"]).arg(&environment);
    run("python3 -m venv", venv).await?;
    let mut install = Command::new(&python);
    install.args([
        "-m",
        "pip",
        "install",
        "--disable-pip-version-check",
        "--progress-bar=off",
    ]);
    install.arg(REQUIREMENT);
    run(&format!("pip install {REQUIREMENT}"), install).await?;
    check(&python).await?;
    Ok(python)
}

async fn check(python: &Path) -> Result<(), Error> {
    let mut command = Command::new(python);
    command.args([
        "-c",
        "import apache_beam.io.gcp.pubsub, google.cloud.pubsub",
    ]);
    let what = format!("importing Apache Beam with {}", python.display());
    let output = output_of(&what, command).await?;
    judge(what, &output)
}

/// Runs a long command and shows that it lives.
async fn run(what: &str, command: Command) -> Result<(), Error> {
    let started = clock::instant();
    let mut tick = tokio::time::interval(Duration::from_secs(1));
    let mut output = std::pin::pin!(output_of(what, command));
    loop {
        tokio::select! {
            output = &mut output => {
                eprintln!("\r{what}: {} s", started.elapsed().as_secs());
                return judge(what.to_owned(), &output?);
            }
            _ = tick.tick() => {
                eprint!("\r{what} … {} s", started.elapsed().as_secs());
                let _ = std::io::stderr().flush();
            }
        }
    }
}

async fn output_of(what: &str, mut command: Command) -> Result<std::process::Output, Error> {
    command.stdin(Stdio::null()).kill_on_drop(true);
    command.output().await.map_err(|source| Error::Io {
        what: what.to_owned(),
        source,
    })
}

fn judge(what: String, output: &std::process::Output) -> Result<(), Error> {
    if output.status.success() {
        return Ok(());
    }
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    let tail: Vec<&str> = text.lines().rev().take(15).collect();
    let output_tail = tail.into_iter().rev().collect::<Vec<_>>().join("\n");
    Err(Error::Failed {
        what,
        status: output.status.to_string(),
        output: output_tail,
    })
}
