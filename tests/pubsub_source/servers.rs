//! The servers that the suite runs over.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use tidemill::pubsub_emulator::{self, Emulator};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Ours,
    Official,
    Pstest,
}

/// A running server, ended when dropped.
pub struct Server {
    pub kind: Kind,
    /// `host:port`.
    pub host: String,
    pub ours: Option<Emulator>,
    process: Option<Child>,
}

impl Server {
    /// Starts a server; `None`, with the reason printed, where it is not installed.
    pub async fn start(kind: Kind) -> Option<Self> {
        match kind {
            Kind::Ours => Some(Self::ours(pubsub_emulator::Settings::default()).await),
            Kind::Official => Self::official().await,
            Kind::Pstest => Self::pstest(),
        }
    }

    pub async fn ours(settings: pubsub_emulator::Settings) -> Self {
        let emulator = pubsub_emulator::start(settings).await.unwrap();
        Self {
            kind: Kind::Ours,
            host: emulator.addr().to_string(),
            ours: Some(emulator),
            process: None,
        }
    }

    async fn official() -> Option<Self> {
        let Some(jar) = official_jar() else {
            eprintln!("skipped: the official emulator's jar is not installed");
            return None;
        };
        let port = TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| listener.local_addr())
            .unwrap()
            .port();
        let process = Command::new("java")
            .arg("-Xmx1g")
            .arg("-jar")
            .arg(jar)
            .args(["--host=127.0.0.1", &format!("--port={port}")])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let Ok(process) = process else {
            eprintln!("skipped: java is not installed");
            return None;
        };
        let server = Self {
            kind: Kind::Official,
            host: format!("127.0.0.1:{port}"),
            ours: None,
            process: Some(process),
        };
        for _ in 0..600 {
            if tokio::net::TcpStream::connect(&server.host).await.is_ok() {
                return Some(server);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("the official emulator did not start within a minute");
    }

    fn pstest() -> Option<Self> {
        static BUILDING: Mutex<()> = Mutex::new(());
        let building = BUILDING.lock().unwrap();
        let binary = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pstest");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("integration/pubsub/pstest");
        // Several tests may build it at once: each to its own name, the last one stays.
        let mine = binary.with_extension(format!("{:?}", std::thread::current().id()));
        if !binary.exists() {
            let built = Command::new("go")
                .arg("build")
                .arg("-o")
                .arg(&mine)
                .arg(".")
                .current_dir(source)
                .status();
            if !built.is_ok_and(|status| status.success()) {
                eprintln!("skipped: Go cannot build the pstest server");
                return None;
            }
            std::fs::rename(&mine, &binary).unwrap();
        }
        drop(building);
        let mut process = Command::new(&binary)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut address = String::new();
        BufReader::new(process.stdout.take().unwrap())
            .read_line(&mut address)
            .unwrap();
        Some(Self {
            kind: Kind::Pstest,
            host: address.trim().to_owned(),
            ours: None,
            process: Some(process),
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            let _ = (process.kill(), process.wait());
        }
    }
}

fn official_jar() -> Option<PathBuf> {
    if let Ok(jar) = std::env::var("TIDEMILL_PUBSUB_EMULATOR_JAR") {
        return Some(jar.into());
    }
    let relative = "platform/pubsub-emulator/lib";
    let home = std::env::var("HOME").unwrap_or_default();
    [
        "/usr/lib/google-cloud-sdk".to_owned(),
        "/opt/google-cloud-sdk".to_owned(),
        format!("{home}/google-cloud-sdk"),
        std::env::var("CLOUDSDK_ROOT_DIR").unwrap_or_default(),
    ]
    .iter()
    .filter_map(|root| std::fs::read_dir(Path::new(root).join(relative)).ok())
    .flatten()
    .filter_map(|entry| Some(entry.ok()?.path()))
    .find(|path| path.to_string_lossy().ends_with("-all.jar"))
}
