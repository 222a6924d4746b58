//! The native Pub/Sub reads and writes of a job: opened before it runs, closed when it ends.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::task::JoinHandle;

use crate::engine::{Event, Message};
use crate::job::execution::{Execution, Outcome};
use crate::job::messages::Importance;
use crate::job::options::Settings;
use crate::job::record::JobRecord;
use crate::job::temporary::{CountedRead, PubsubUse, Temporaries};
use crate::model::stage::{PubsubRead, PubsubWrite, StageGraph, StageKind};
use crate::model::{LaneId, StageId, Timestamp};
use crate::source::pubsub::{
    self, Batch, Client, Endpoint, PublishSettings, Publisher, ReadSettings, Reader, ReaderHandle,
    Receipt, Temporary, subscription, topic,
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
    /// Whether no other process has this name, so that what bears it and no job of ours is left over.
    pub sweeps: bool,
    /// Engine threads and bundles that work on a job, for the default number of keys.
    pub threads: u32,
    /// What the jobs know of each other.
    pub shared: Arc<PubsubUse>,
}

/// The open reads and writes of a job.
pub struct Sources {
    job: Arc<JobRecord>,
    hosting: PubsubHosting,
    client: Option<Client>,
    reads: parking_lot::Mutex<BTreeMap<StageId, Read>>,
    handles: BTreeMap<StageId, ReaderHandle>,
    publishers: BTreeMap<StageId, Arc<Publisher>>,
    temporaries: Temporaries,
    pumps: parking_lot::Mutex<Vec<JoinHandle<Read>>>,
    stop: tokio::sync::watch::Sender<bool>,
}

/// An open read.
struct Read {
    reader: Reader,
    /// From a subscription that ends with the job: there is nothing to acknowledge at its end.
    is_temporary: bool,
    _counted: CountedRead,
}

impl Sources {
    /// Nothing is open yet.
    pub fn new(job: &Arc<JobRecord>, hosting: PubsubHosting) -> Self {
        Self {
            temporaries: Temporaries::new(&hosting.shared, job.id()),
            job: Arc::clone(job),
            hosting,
            client: None,
            reads: parking_lot::Mutex::default(),
            handles: BTreeMap::new(),
            publishers: BTreeMap::new(),
            pumps: parking_lot::Mutex::default(),
            stop: tokio::sync::watch::Sender::new(false),
        }
    }

    /// Opens every native read and write. A read from a topic has its subscription when this returns.
    ///
    /// # Errors
    ///
    /// The reason, naming the transform.
    pub async fn open(&mut self, graph: &StageGraph) -> Result<(), String> {
        for (id, stage) in (0..).map(StageId).zip(&graph.stages) {
            let opened = match &stage.kind {
                StageKind::PubsubRead(read) => self.open_read(id, &stage.name, read).await,
                StageKind::PubsubWrite(write) => self.open_write(id, write).await,
                _ => continue,
            };
            opened.map_err(|error| format!("{}: {error}", stage.name))?;
        }
        Ok(())
    }

    async fn open_read(
        &mut self,
        id: StageId,
        name: &str,
        read: &PubsubRead,
    ) -> Result<(), pubsub::Error> {
        let client = self.client()?;
        let is_temporary = read.subscription.is_none();
        let subscription = match (&read.subscription, &read.topic) {
            (Some(subscription), _) => {
                self.look_at(&client, name, subscription).await?;
                subscription.clone()
            }
            (None, topic) => {
                let temporary = self.temporary(topic.as_deref().unwrap_or_default(), id);
                let sweeps = self.hosting.sweeps;
                self.temporaries.create(&client, temporary, sweeps).await?
            }
        };
        let (counted, others) = self.hosting.shared.read(&subscription);
        if others > 0 {
            let text = format!(
                "{name}: {subscription} is read by {others} more, which get a part of its messages: \
                 give each read a subscription of its own"
            );
            self.job.message(Importance::Warning, text);
        }
        let settings = ReadSettings {
            timestamp_attribute: read.timestamp_attribute.clone(),
            id_attribute: read.id_attribute.clone(),
            with_attributes: read.with_attributes,
            keys: keys(self.job.settings(), self.hosting.threads),
            ..ReadSettings::new(subscription)
        };
        let reader = Reader::open(&client, settings)?;
        self.handles.insert(id, reader.handle());
        let read = Read {
            reader,
            is_temporary,
            _counted: counted,
        };
        self.reads.lock().insert(id, read);
        Ok(())
    }

    /// Says what a user should know of a subscription before a pipeline reads it.
    async fn look_at(
        &self,
        client: &Client,
        name: &str,
        subscription: &str,
    ) -> Result<(), pubsub::Error> {
        for warning in subscription::check_subscription(client, subscription).await? {
            self.job
                .message(Importance::Warning, format!("{name}: {warning}"));
        }
        Ok(())
    }

    async fn open_write(&mut self, id: StageId, write: &PubsubWrite) -> Result<(), pubsub::Error> {
        let client = self.client()?;
        if let Some(topic) = &write.topic {
            topic::check_topic(&client, topic).await?;
        }
        let settings = PublishSettings {
            id_attribute: write.id_attribute.clone(),
            timestamp_attribute: write.timestamp_attribute.clone(),
            ordering_keys: write.ordering_keys,
            ..PublishSettings::default()
        };
        self.publishers
            .insert(id, Arc::new(Publisher::new(&client, settings)?));
        Ok(())
    }

    fn client(&mut self) -> Result<Client, pubsub::Error> {
        match &self.client {
            Some(client) => Ok(client.clone()),
            None => {
                let client = Client::connect(self.hosting.endpoint.clone())?;
                Ok(self.client.insert(client).clone())
            }
        }
    }

    fn temporary(&self, topic: &str, id: StageId) -> Temporary {
        let of_topic = || topic.split('/').nth(1).unwrap_or_default().to_owned();
        Temporary {
            topic: topic.to_owned(),
            project: self.job.settings().project.clone().unwrap_or_else(of_topic),
            server_id: self.hosting.server_id.clone(),
            job_id: self.job.id().to_owned(),
            job_name: self.job.name().to_owned(),
            read: id.to_string(),
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
        for (id, read) in std::mem::take(&mut *self.reads.lock()) {
            let pump = Pump {
                id,
                execution: Arc::clone(execution),
                stop: self.stop.subscribe(),
                drain: execution.record.drain_requested(),
            };
            self.pumps.lock().push(tokio::spawn(async move {
                let mut read = read;
                pump.run(&mut read.reader).await;
                read
            }));
        }
    }

    /// Ends every read, sends what is still to be acknowledged, deletes temporary subscriptions.
    pub async fn close(&self) {
        self.stop.send_replace(true);
        let deletions = self.temporaries.delete();
        let pumps = std::mem::take(&mut *self.pumps.lock());
        let waiting = std::mem::take(&mut *self.reads.lock());
        let ended = join_all(pumps).await.into_iter().flatten();
        let lasting = waiting
            .into_values()
            .chain(ended)
            .filter(|read| !read.is_temporary);
        join_all(lasting.map(|read| read.reader.close())).await;
        join_all(deletions).await;
    }
}

/// Moves messages of one read from its reader to the lanes.
struct Pump {
    id: StageId,
    execution: Arc<Execution>,
    stop: tokio::sync::watch::Receiver<bool>,
    drain: tokio::sync::watch::Receiver<bool>,
}

impl Pump {
    async fn run(self, reader: &mut Reader) {
        let mut stop = self.stop.clone();
        let mut drain = self.drain.clone();
        let handle = reader.handle();
        let mut tick = tokio::time::interval(WATERMARK_PERIOD);
        loop {
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => return,
                // What was handed out is finished; the reader lives on to acknowledge it.
                _ = drain.wait_for(|drain| *drain) => {
                    self.tell_watermark(Timestamp::MAX);
                    return;
                }
                batch = reader.next() => match batch {
                    Some(Ok(batch)) => self.send(batch),
                    Some(Err(error)) => self.complain(&error),
                    None => return,
                },
                _ = tick.tick() => {
                    // Told after all messages that the reader counts as handed out.
                    self.tell_watermark(handle.watermark(now()));
                }
            }
        }
    }

    fn tell_watermark(&self, watermark: Timestamp) {
        let stage = self.id;
        self.execution
            .broadcast(|| Event::SourceWatermark { stage, watermark });
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
