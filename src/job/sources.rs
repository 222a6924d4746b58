//! The native Pub/Sub reads and writes of a job: opened before it runs, closed when it ends.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;

use crate::engine::{Event, Message};
use crate::job::execution::{Execution, Outcome};
use crate::job::messages::Importance;
use crate::job::options::Settings;
use crate::job::record::JobRecord;
use crate::model::stage::{PubsubRead, PubsubWrite, StageGraph, StageKind};
use crate::model::{LaneId, StageId, Timestamp};
use crate::source::pubsub::subscription::{self, Temporary};
use crate::source::pubsub::{
    self, Batch, Client, Endpoint, PublishSettings, Publisher, ReadSettings, Reader, ReaderHandle,
    Receipt,
};
use crate::telemetry::clock;

/// How often a source's watermark is told to the lanes.
const WATERMARK_PERIOD: Duration = Duration::from_millis(50);

/// Where jobs find Pub/Sub.
#[derive(Clone, Debug)]
pub struct PubsubHosting {
    pub endpoint: Endpoint,
    /// Names this server on the temporary subscriptions it makes.
    pub server_id: String,
    /// Engine threads and bundles that work on a job, for the default number of keys.
    pub threads: u32,
}

/// The open reads and writes of a job.
pub struct Sources {
    client: Option<Client>,
    reads: parking_lot::Mutex<BTreeMap<StageId, Reader>>,
    handles: BTreeMap<StageId, ReaderHandle>,
    publishers: BTreeMap<StageId, Arc<Publisher>>,
    /// Subscriptions to be deleted at the end.
    temporary: Vec<String>,
    pumps: parking_lot::Mutex<Vec<JoinHandle<Reader>>>,
    stop: tokio::sync::watch::Sender<bool>,
}

impl Sources {
    /// Opens every native read and write. A read from a topic has its subscription when this returns.
    ///
    /// # Errors
    ///
    /// The reason, naming the transform.
    pub async fn open(
        graph: &StageGraph,
        job: &JobRecord,
        hosting: &PubsubHosting,
    ) -> Result<Self, String> {
        let mut sources = Self {
            client: None,
            reads: parking_lot::Mutex::default(),
            handles: BTreeMap::new(),
            publishers: BTreeMap::new(),
            temporary: Vec::new(),
            pumps: parking_lot::Mutex::default(),
            stop: tokio::sync::watch::Sender::new(false),
        };
        for (id, stage) in (0..).map(StageId).zip(&graph.stages) {
            let opened = match &stage.kind {
                StageKind::PubsubRead(read) => sources.open_read(id, read, job, hosting).await,
                StageKind::PubsubWrite(write) => sources.open_write(id, write, hosting),
                _ => continue,
            };
            if let Err(error) = opened {
                sources.close().await;
                return Err(format!("{}: {error}", stage.name));
            }
        }
        Ok(sources)
    }

    async fn open_read(
        &mut self,
        id: StageId,
        read: &PubsubRead,
        job: &JobRecord,
        hosting: &PubsubHosting,
    ) -> Result<(), pubsub::Error> {
        let client = self.client(hosting)?;
        let subscription = match (&read.subscription, &read.topic) {
            (Some(subscription), _) => subscription.clone(),
            (None, topic) => {
                let topic = topic.clone().unwrap_or_default();
                let temporary = temporary(&topic, id, job, hosting);
                let made = subscription::create_temporary_subscription(&client, &temporary).await?;
                self.temporary.push(made.clone());
                made
            }
        };
        let settings = ReadSettings {
            timestamp_attribute: read.timestamp_attribute.clone(),
            id_attribute: read.id_attribute.clone(),
            with_attributes: read.with_attributes,
            keys: keys(job.settings(), hosting.threads),
            ..ReadSettings::new(subscription)
        };
        let reader = Reader::open(&client, settings)?;
        self.handles.insert(id, reader.handle());
        self.reads.lock().insert(id, reader);
        Ok(())
    }

    fn open_write(
        &mut self,
        id: StageId,
        write: &PubsubWrite,
        hosting: &PubsubHosting,
    ) -> Result<(), pubsub::Error> {
        let client = self.client(hosting)?;
        let settings = PublishSettings {
            id_attribute: write.id_attribute.clone(),
            timestamp_attribute: write.timestamp_attribute.clone(),
            ..PublishSettings::default()
        };
        self.publishers
            .insert(id, Arc::new(Publisher::new(&client, settings)?));
        Ok(())
    }

    fn client(&mut self, hosting: &PubsubHosting) -> Result<Client, pubsub::Error> {
        match &self.client {
            Some(client) => Ok(client.clone()),
            None => {
                let client = Client::connect(hosting.endpoint.clone())?;
                Ok(self.client.insert(client).clone())
            }
        }
    }

    /// Handles for acknowledging, by read stage.
    pub fn readers(&self) -> BTreeMap<StageId, ReaderHandle> {
        self.handles.clone()
    }

    /// Publishers by write stage.
    pub fn publishers(&self) -> BTreeMap<StageId, Arc<Publisher>> {
        self.publishers.clone()
    }

    /// Lets messages flow to the lanes.
    pub fn start(&self, execution: &Arc<Execution>) {
        for (id, reader) in std::mem::take(&mut *self.reads.lock()) {
            let pump = Pump {
                id,
                execution: Arc::clone(execution),
                stop: self.stop.subscribe(),
            };
            self.pumps.lock().push(tokio::spawn(pump.run(reader)));
        }
    }

    /// Ends every read, sends what is still to be acknowledged, deletes temporary subscriptions.
    pub async fn close(&self) {
        self.stop.send_replace(true);
        let pumps = std::mem::take(&mut *self.pumps.lock());
        let mut readers: Vec<Reader> = std::mem::take(&mut *self.reads.lock())
            .into_values()
            .collect();
        readers.extend(
            futures_util::future::join_all(pumps)
                .await
                .into_iter()
                .flatten(),
        );
        futures_util::future::join_all(readers.into_iter().map(Reader::close)).await;
        let Some(client) = &self.client else { return };
        for subscription in &self.temporary {
            if let Err(error) = subscription::delete_subscription(client, subscription).await {
                tracing::warn!(%subscription, %error, "a temporary subscription is left");
            }
        }
    }
}

/// Moves messages of one read from its reader to the lanes.
struct Pump {
    id: StageId,
    execution: Arc<Execution>,
    stop: tokio::sync::watch::Receiver<bool>,
}

impl Pump {
    async fn run(self, mut reader: Reader) -> Reader {
        let mut stop = self.stop.clone();
        let handle = reader.handle();
        let mut tick = tokio::time::interval(WATERMARK_PERIOD);
        loop {
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => return reader,
                batch = reader.next() => match batch {
                    Some(Ok(batch)) => self.send(batch),
                    Some(Err(error)) => self.complain(&error),
                    None => return reader,
                },
                _ = tick.tick() => {
                    // Told after all messages that the reader counts as handed out.
                    let watermark = handle.watermark(now());
                    let stage = self.id;
                    self.execution.broadcast(|| Event::SourceWatermark { stage, watermark });
                }
            }
        }
    }

    fn send(&self, batch: Batch) {
        let lanes = self.execution.lanes.len() as u32;
        let mut by_lane: Vec<Vec<Message>> = (0..lanes).map(|_| Vec::new()).collect();
        for message in batch {
            let lane = (message.key % lanes) as usize;
            by_lane[lane].push(Message {
                key: message.key,
                dedup_id: message.dedup_id,
                timestamp: message.timestamp,
                element: message.element,
                receipt: message.receipt.0,
            });
        }
        for (lane, messages) in (0..).map(LaneId).zip(by_lane) {
            if !messages.is_empty() {
                self.execution.send(
                    lane,
                    Event::Messages {
                        stage: self.id,
                        messages,
                    },
                );
            }
        }
    }

    fn complain(&self, error: &pubsub::Error) {
        let name = self.execution.stage_name(self.id);
        let text = format!("{name} cannot read from Pub/Sub: {error}");
        self.execution
            .record
            .message(Importance::Warning, text.clone());
        if !error.is_transient() {
            let _ = self.execution.outcome.send(Outcome::Failed(text));
        }
    }
}

/// Receipts as the reader knows them.
pub fn receipts(receipts: Vec<u64>) -> Vec<Receipt> {
    receipts.into_iter().map(Receipt).collect()
}

fn temporary(topic: &str, id: StageId, job: &JobRecord, hosting: &PubsubHosting) -> Temporary {
    let of_topic = || topic.split('/').nth(1).unwrap_or_default().to_owned();
    Temporary {
        topic: topic.to_owned(),
        project: job.settings().project.clone().unwrap_or_else(of_topic),
        server_id: hosting.server_id.clone(),
        job_id: job.id().to_owned(),
        job_name: job.name().to_owned(),
        read: id.to_string(),
    }
}

/// The number of shuffle keys: as asked for, else by the size of the process.
fn keys(settings: &Settings, threads: u32) -> u32 {
    settings.num_pubsub_keys.unwrap_or_else(|| {
        let wanted = (threads / 2).clamp(128, 65_536);
        1 << wanted.ilog2()
    })
}

fn now() -> Timestamp {
    Timestamp::from_millis(clock::unix_millis())
}
