//! How fast the native read and write are, and what they cost, against our emulator in a process
//! of its own.
//!
//! `cargo bench --bench pubsub_source` prints messages of 1 KB per second, this process's CPU time
//! per million of them, and what an id in the deduplication set costs.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, Command, Stdio};

use googleapis_tonic_google_pubsub_v1::google::pubsub::v1 as pb;
use prost::Message as _;
use tidemill::model::Timestamp;
use tidemill::pubsub_emulator;
use tidemill::source::pubsub::{
    Client, Endpoint, Outgoing, PublishSettings, Publisher, ReadSettings, Reader, Receipt,
};
use tidemill::store::memory::{DedupId, DedupSet};
use tidemill::telemetry::clock;

const TOPIC: &str = "projects/bench/topics/bench";
const SUBSCRIPTION: &str = "projects/bench/subscriptions/bench";
const MESSAGES: usize = 500_000;
const BATCH: usize = 10_000;
const IDS: u64 = 2_000_000;

type Failure = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    if std::env::args().any(|argument| argument == SERVE) {
        return serve().await;
    }
    dedup();
    let mut server = Server::start()?;
    let client = Client::connect(Endpoint::Plain(server.address.clone()))?;
    let topic = pb::Topic {
        name: TOPIC.to_owned(),
        ..Default::default()
    };
    client.publisher()?.create_topic(topic).await?;
    let subscription = pb::Subscription {
        name: SUBSCRIPTION.to_owned(),
        topic: TOPIC.to_owned(),
        ..Default::default()
    };
    let mut subscriber = client.subscriber()?;
    subscriber.create_subscription(subscription).await?;

    for (name, streams, unary_pull, with_attributes) in [
        ("read, 1 stream", 1, false, false),
        ("read, 4 streams", 4, false, false),
        ("read with attributes, 4 streams", 4, false, true),
        ("read, 4 unary pulls", 4, true, false),
    ] {
        let meter = Meter::start();
        publish(&client).await?;
        meter.report("publish");
        let settings = ReadSettings {
            streams,
            unary_pull,
            with_attributes,
            id_attribute: Some("id".into()),
            timestamp_attribute: Some("ts".into()),
            ..ReadSettings::new(SUBSCRIPTION)
        };
        let meter = Meter::start();
        read(&client, settings).await?;
        meter.report(name);
    }
    server.stop();
    Ok(())
}

/// Reads and acknowledges all messages.
async fn read(client: &Client, settings: ReadSettings) -> Result<(), Failure> {
    let mut reader = Reader::open(client, settings)?;
    let handle = reader.handle();
    let mut received = 0;
    while received < MESSAGES {
        let batch = reader.next().await.ok_or("the reader ended")??;
        received += batch.len();
        let receipts: Vec<Receipt> = batch.iter().map(|message| message.receipt).collect();
        handle.ack(&receipts);
        handle.watermark(Timestamp::from_millis(clock::unix_millis()));
    }
    reader.close().await;
    Ok(())
}

async fn publish(client: &Client) -> Result<(), Failure> {
    let settings = PublishSettings {
        id_attribute: Some("id".into()),
        timestamp_attribute: Some("ts".into()),
        ..PublishSettings::default()
    };
    let publisher = Publisher::new(client, settings)?;
    let message = pb::PubsubMessage {
        data: vec![7; 1024].into(),
        ..Default::default()
    };
    let message = bytes::Bytes::from(message.encode_to_vec());
    for start in (0..MESSAGES).step_by(BATCH) {
        let batch = (start..start + BATCH).map(|id| Outgoing {
            topic: TOPIC.into(),
            message: message.clone(),
            id: Some(format!("order-{id}")),
            timestamp: Timestamp::from_millis(clock::unix_millis()),
        });
        publisher.publish(batch.collect()).await?;
    }
    Ok(())
}

fn dedup() {
    let now = Timestamp::from_millis(clock::unix_millis());
    for (name, prefix) in [("message ids", ""), ("hashed ids", "order-")] {
        let ids: Vec<String> = (0..IDS)
            .map(|id| format!("{prefix}{}", 10_000_000_000_000_000 + id * 7919))
            .collect();
        let mut seen = DedupSet::new(DedupSet::HORIZON);
        let resident = resident_bytes();
        let started = clock::instant();
        for id in &ids {
            let id = DedupId::of(id.as_bytes());
            if !seen.check(id, now) {
                seen.insert(id, now);
            }
        }
        let nanos = started.elapsed().as_nanos() as u64 / IDS;
        let bytes = (resident_bytes() - resident) / IDS;
        println!("dedup, {name}: {nanos} ns and {bytes} bytes per id");
    }
}

/// Wall and CPU time of this process.
struct Meter {
    started: std::time::Instant,
    cpu: f64,
}

impl Meter {
    fn start() -> Self {
        Self {
            started: clock::instant(),
            cpu: cpu_seconds(),
        }
    }

    fn report(&self, name: &str) {
        let (wall, cpu) = (
            self.started.elapsed().as_secs_f64(),
            cpu_seconds() - self.cpu,
        );
        let messages = MESSAGES as f64;
        println!(
            "{name}: {:.0} msg/s, {:.2} s CPU per million",
            messages / wall,
            cpu / messages * 1e6
        );
    }
}

fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(") ").next().unwrap_or_default().split(' ');
    let ticks: f64 = fields
        .skip(11)
        .take(2)
        .filter_map(|ticks| ticks.parse::<f64>().ok())
        .sum();
    ticks / 100.0
}

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok());
    pages.unwrap_or(0u64) * 4096
}

/// The emulator in a process of its own, so that its CPU time is not counted.
struct Server {
    process: Child,
    address: String,
}

const SERVE: &str = "serve-emulator";

impl Server {
    fn start() -> Result<Self, Failure> {
        let mut process = Command::new(std::env::current_exe()?)
            .arg(SERVE)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdout = process.stdout.take().ok_or("no output")?;
        let mut address = String::new();
        BufReader::new(stdout).read_line(&mut address)?;
        Ok(Self {
            process,
            address: address.trim().to_owned(),
        })
    }

    fn stop(&mut self) {
        let _ = (self.process.kill(), self.process.wait());
    }
}

async fn serve() -> Result<(), Failure> {
    let settings = pubsub_emulator::Settings {
        ack_id_bytes: 180,
        ..Default::default()
    };
    let emulator = pubsub_emulator::start(settings).await?;
    println!("{}", emulator.addr());
    std::io::stdout().flush()?;
    let ended = tokio::task::spawn_blocking(|| {
        let _ = std::io::stdin().read(&mut [0]);
    });
    let _ = ended.await;
    Ok(())
}
