//! The binary as a user runs it.

#![expect(
    clippy::unwrap_used,
    reason = "what helpers of tests cannot do fails the test"
)]

use std::fs;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use tidemill::telemetry::clock;

const DEADLINE: Duration = Duration::from_secs(20);

fn tidemill(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidemill"));
    for (name, _) in std::env::vars() {
        if name.starts_with("TIDEMILL_") {
            command.env_remove(name);
        }
    }
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// `serve` on free ports with what else is given; killed when the test is over.
struct Serving {
    child: Child,
    folder: tempfile::TempDir,
    ports: serde_json::Value,
}

impl Serving {
    fn start(more: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ports.json");
        let data = folder.path().join("data");
        let mut command = tidemill(&["serve", "--port=0", "--artifact-port=0"]);
        command.arg("--port-file").arg(&file);
        command.arg("--data-dir").arg(&data);
        let child = command.args(more).spawn().unwrap();
        let text = wait_for(|| fs::read_to_string(&file).ok());
        Self {
            child,
            ports: serde_json::from_str(&text).unwrap(),
            folder,
        }
    }

    fn port(&self, service: &str) -> u16 {
        u16::try_from(self.ports[service].as_u64().unwrap()).unwrap()
    }

    fn signal(&self, name: &str) {
        let status = Command::new("kill")
            .args([format!("-{name}"), self.child.id().to_string()])
            .status();
        assert!(status.unwrap().success());
    }

    fn end(&mut self) -> (Option<i32>, String) {
        let status = wait_for(|| self.child.try_wait().unwrap());
        let mut talk = String::new();
        let stderr = self.child.stderr.as_mut().unwrap();
        stderr.read_to_string(&mut talk).unwrap();
        (status.code(), talk)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn wait_for<T>(mut found: impl FnMut() -> Option<T>) -> T {
    let begin = clock::instant();
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(begin.elapsed() < DEADLINE, "it takes too long");
        // A short wait, by a read that ends in time.
        let (tx, rx) = std::sync::mpsc::channel::<()>();
        let _ = rx.recv_timeout(Duration::from_millis(10));
        drop(tx);
    }
}

fn run(arguments: &[&str]) -> Output {
    tidemill(arguments).output().unwrap()
}

fn talk(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn serve_writes_its_ports_and_stops_on_each_signal() {
    for signal in ["TERM", "INT"] {
        let mut serving = Serving::start(&[]);
        for service in ["job", "artifact"] {
            assert!(TcpStream::connect(("127.0.0.1", serving.port(service))).is_ok());
        }
        let left: Vec<_> = fs::read_dir(serving.folder.path()).unwrap().collect();
        assert_eq!(left.len(), 2, "only the port file and the data: {left:?}");
        // A client that stays connected does not keep the server.
        let idle = TcpStream::connect(("127.0.0.1", serving.port("job"))).unwrap();
        let begin = clock::instant();
        serving.signal(signal);
        let (code, talk) = serving.end();
        assert_eq!(code, Some(0), "{talk}");
        assert!(begin.elapsed() < Duration::from_secs(5));
        drop(idle);
    }
}

#[test]
fn a_busy_port_is_named() {
    let busy = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = busy.local_addr().unwrap().port().to_string();
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    for (flag, other) in [("--port", "--artifact-port"), ("--artifact-port", "--port")] {
        let output = run(&["serve", flag, &port, other, "0", "--data-dir", data]);
        assert_eq!(output.status.code(), Some(1));
        let text = talk(&output);
        let named = format!("port {port} is taken");
        assert!(text.contains(&named) && text.contains(flag), "{text}");
        assert!(!text.contains("panicked"), "{text}");
    }
}

#[test]
fn settings_come_from_file_variables_and_flags() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tidemill.toml");
    fs::write(
        &file,
        "log_format = \"json\"\nhost = \"no such host.invalid\"\n",
    )
    .unwrap();
    let file = file.to_str().unwrap();
    // The flag wins over the file's host; the log is JSON because the file says so.
    let mut serving = Serving::start(&["--config", file, "--host", "127.0.0.1"]);
    serving.signal("TERM");
    let (code, talk) = serving.end();
    assert_eq!(code, Some(0), "{talk}");
    let first = talk.lines().next().unwrap();
    let line: serde_json::Value = serde_json::from_str(first).expect(first);
    assert_eq!(line["level"], "INFO");

    fs::write(file, "colour = \"blue\"\n").unwrap();
    let output = run(&["serve", "--config", file]);
    assert_eq!(output.status.code(), Some(1));
    assert!(self::talk(&output).contains("colour"), "{output:?}");
    let output = run(&["serve", "--log-format", "xml"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let output = run(&["serve", "--log-level", "a=b=c"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
}

#[test]
fn help_goes_to_stdout_and_mistakes_to_stderr() {
    let help = run(&["--help"]);
    assert!(help.status.success());
    let text = String::from_utf8_lossy(&help.stdout);
    for command in ["serve", "pubsub-emulator", "explain"] {
        assert!(text.contains(command), "{text}");
    }
    let output = run(&["surve"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty() && talk(&output).contains("surve"));
}

#[test]
fn an_unusable_data_folder_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let data: &Path = &file.join("data");
    let output = run(&[
        "serve",
        "--port=0",
        "--artifact-port=0",
        "--data-dir",
        data.to_str().unwrap(),
    ]);
    assert_eq!(output.status.code(), Some(1));
    assert!(talk(&output).contains("file/data"), "{output:?}");
}
