//! PROCESS environments: a command on this machine that keeps the container contract.

use std::collections::VecDeque;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::watch;

use crate::environment::error::Error;
use crate::environment::start::StartSpec;
use crate::proto::pipeline::ProcessPayload;

/// A harness whose control stream has been closed tears down and exits; once asked to end, it may take this long.
const EXIT_GRACE: Duration = Duration::from_secs(1);
/// After SIGTERM.
const TERM_GRACE: Duration = Duration::from_secs(2);
/// After the process has gone, children of it may hold its output open; wait this long for the rest.
const OUTPUT_GRACE: Duration = Duration::from_millis(200);
const TAIL_LINES_MAX: usize = 100;
const LINE_BYTES_MAX: u64 = 4096;

/// A process that was started, in a process group of its own, which is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Process {
    command: String,
    group: Pid,
    tail: Arc<Tail>,
    exit: watch::Receiver<Option<String>>,
}

/// The last lines of what the process printed.
#[derive(Debug, Default)]
struct Tail {
    lines: Mutex<VecDeque<String>>,
}

impl Process {
    pub(crate) fn start(payload: &ProcessPayload, spec: &StartSpec) -> Result<Self, Error> {
        let endpoints = &spec.endpoints;
        let mut child = Command::new(&payload.command)
            .arg(format!("--id={}", spec.worker_id))
            .arg(format!("--logging_endpoint={}", endpoints.logging))
            .arg(format!("--artifact_endpoint={}", endpoints.artifact))
            .arg(format!("--provision_endpoint={}", endpoints.provision))
            .arg(format!("--control_endpoint={}", endpoints.control))
            .envs(&payload.env)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|error| Error::Failed(format!("cannot run {:?}: {error}", payload.command)))?;
        let group = child
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .and_then(Pid::from_raw)
            .ok_or_else(|| Error::Failed(format!("{:?} ended at once", payload.command)))?;
        let tail = Arc::new(Tail::default());
        let readers = [
            child
                .stdout
                .take()
                .map(|out| tokio::spawn(Arc::clone(&tail).collect(out))),
            child
                .stderr
                .take()
                .map(|err| tokio::spawn(Arc::clone(&tail).collect(err))),
        ];
        let (exited, exit) = watch::channel(None);
        tokio::spawn(async move {
            let how = wait(child).await;
            for reader in readers.into_iter().flatten() {
                let _ = tokio::time::timeout(OUTPUT_GRACE, reader).await;
            }
            // Nobody listens any more when the process was given up.
            let _ = exited.send(Some(how));
        });
        Ok(Self {
            command: payload.command.clone(),
            group,
            tail,
            exit,
        })
    }

    /// Waits for the end of the process; says how it ended, with the end of its output.
    pub(crate) async fn exited(&self) -> String {
        let mut exit = self.exit.clone();
        let how = match exit.wait_for(Option::is_some).await {
            Ok(how) => how.clone().unwrap_or_default(),
            Err(_) => "ended".to_owned(),
        };
        let tail = self.output_tail();
        if tail.is_empty() {
            format!("{:?} {how} without any output", self.command)
        } else {
            format!("{:?} {how}; the end of its output:\n{tail}", self.command)
        }
    }

    /// Ends the process group: time to exit, SIGTERM, time again, and what is left is killed.
    pub(crate) async fn stop(self) {
        let mut exit = self.exit.clone();
        let exited = exit.wait_for(Option::is_some);
        if tokio::time::timeout(EXIT_GRACE, exited).await.is_err() {
            self.signal(Signal::TERM);
            let exited = exit.wait_for(Option::is_some);
            if tokio::time::timeout(TERM_GRACE, exited).await.is_err() {
                tracing::warn!(
                    command = self.command,
                    "process ignores SIGTERM, killing it"
                );
            }
        }
        // Dropping kills what is left of the group.
    }

    pub(crate) fn output_tail(&self) -> String {
        let lines = self.tail.lines.lock();
        lines
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join("\n")
    }

    fn signal(&self, signal: Signal) {
        // Fails when the whole group is gone, which is what is wanted.
        let _ = kill_process_group(self.group, signal);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

async fn wait(mut child: Child) -> String {
    match child.wait().await {
        Ok(status) => describe(status),
        Err(error) => format!("ended: {error}"),
    }
}

fn describe(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("exited with status {code}"),
        None => format!("ended ({status})"),
    }
}

impl Tail {
    /// Reads lines until the output ends.
    async fn collect(self: Arc<Self>, output: impl AsyncRead + Unpin) {
        let mut output = BufReader::new(output);
        loop {
            let mut line = Vec::new();
            let mut limited = tokio::io::AsyncReadExt::take(&mut output, LINE_BYTES_MAX);
            match limited.read_until(b'\n', &mut line).await {
                Ok(0) | Err(_) => return,
                Ok(_) => self.push(String::from_utf8_lossy(&line).trim_end().to_owned()),
            }
        }
    }

    fn push(&self, line: String) {
        tracing::debug!(target: "tidemill::harness_output", "{line}");
        let mut lines = self.lines.lock();
        if lines.len() == TAIL_LINES_MAX {
            lines.pop_front();
        }
        lines.push_back(line);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::environment::start::Endpoints;

    fn spec() -> StartSpec {
        StartSpec {
            worker_id: "w1".into(),
            endpoints: Endpoints::all_at("localhost:7"),
            params: BTreeMap::new(),
            deadline: Duration::from_secs(1),
        }
    }

    fn script(folder: &std::path::Path, body: &str) -> ProcessPayload {
        use std::os::unix::fs::PermissionsExt;
        let path = folder.join("boot");
        std::fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        ProcessPayload {
            command: path.to_str().unwrap().into(),
            env: BTreeMap::from([("GREETING".into(), "hello".into())]),
            ..ProcessPayload::default()
        }
    }

    #[tokio::test]
    async fn a_process_that_dies_early_leaves_its_last_words() {
        let folder = tempfile::tempdir().unwrap();
        let payload = script(folder.path(), "echo $GREETING $1 $5; echo bad >&2; exit 3");
        let process = Process::start(&payload, &spec()).unwrap();
        let exited = process.exited().await;
        assert!(exited.contains("exited with status 3"), "{exited}");
        assert!(
            exited.contains("hello --id=w1 --control_endpoint=localhost:7"),
            "{exited}"
        );
        assert!(exited.contains("bad"), "{exited}");
    }

    #[tokio::test]
    async fn stop_ends_the_whole_group() {
        let folder = tempfile::tempdir().unwrap();
        let body = "sleep 600 & echo $!; trap 'echo bye; exit 0' TERM; wait; wait";
        let process = Process::start(&script(folder.path(), body), &spec()).unwrap();
        while process.output_tail().is_empty() {
            tokio::task::yield_now().await;
        }
        let sleeper = process.output_tail().trim().parse().unwrap();
        let sleeper = Pid::from_raw(sleeper).unwrap();
        rustix::process::test_kill_process(sleeper).unwrap();
        let tail = Arc::clone(&process.tail);
        process.stop().await;
        assert!(tail.lines.lock().iter().any(|line| line == "bye"));
        let gone = async {
            while is_running(sleeper) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(5), gone)
            .await
            .unwrap();
    }

    /// A killed orphan may stay a zombie where nobody reaps it.
    fn is_running(pid: Pid) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
        stat.is_ok_and(|stat| !stat.contains(") Z "))
    }

    #[tokio::test]
    async fn a_command_that_is_not_there_is_an_error() {
        let payload = ProcessPayload {
            command: "/nowhere/at/all".into(),
            ..ProcessPayload::default()
        };
        let error = Process::start(&payload, &spec()).unwrap_err();
        assert!(matches!(error, Error::Failed(_)));
    }
}
