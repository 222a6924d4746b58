//! The subscriptions that jobs make for their reads of topics: made, deleted, and swept.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::JoinHandle;

use crate::source::pubsub::subscription::{
    create_temporary_subscription, delete_subscription, label_value, sweep_temporary_subscriptions,
};
use crate::source::pubsub::{Client, Error, Temporary};

/// How long a call that makes a subscription may take until it is deleted all the same.
const CREATION_MAX: Duration = Duration::from_secs(1);

/// What the jobs of one server must know of each other's use of Pub/Sub.
#[derive(Debug, Default)]
pub struct PubsubUse {
    /// Jobs that may have temporary subscriptions, as their labels name them.
    jobs: Mutex<BTreeSet<String>>,
    /// Projects that were swept.
    swept: Mutex<BTreeSet<String>>,
    /// How many reads each subscription has.
    reads: Mutex<BTreeMap<String, u32>>,
}

/// A read of a subscription, counted until it is dropped.
#[derive(Debug)]
pub struct CountedRead {
    shared: Arc<PubsubUse>,
    subscription: String,
}

/// The temporary subscriptions of one job. They are deleted with it.
#[derive(Debug)]
pub struct Temporaries {
    shared: Arc<PubsubUse>,
    job: String,
    made: Mutex<Vec<Made>>,
}

/// A subscription that exists, or may come to exist.
#[derive(Debug)]
struct Made {
    client: Client,
    path: String,
    creation: JoinHandle<()>,
}

impl PubsubUse {
    /// Counts a read, and says how many there were.
    pub fn read(self: &Arc<Self>, subscription: &str) -> (CountedRead, u32) {
        let mut reads = self.reads.lock();
        let count = reads.entry(subscription.to_owned()).or_default();
        let before = *count;
        *count += 1;
        let read = CountedRead {
            shared: Arc::clone(self),
            subscription: subscription.to_owned(),
        };
        (read, before)
    }

    /// Deletes, in the background and once for each project, what earlier runs of this server left.
    fn sweep(self: &Arc<Self>, client: &Client, project: &str, server_id: &str) {
        if !self.swept.lock().insert(project.to_owned()) {
            return;
        }
        let shared = Arc::clone(self);
        let (client, project, server_id) =
            (client.clone(), project.to_owned(), server_id.to_owned());
        tokio::spawn(async move {
            let live = |job: &str| shared.jobs.lock().contains(job);
            match sweep_temporary_subscriptions(&client, &project, &server_id, live).await {
                Ok(swept) => {
                    for subscription in swept {
                        tracing::info!(%subscription, "deleted, since its job is no more");
                    }
                }
                Err(error) => {
                    tracing::info!(project, %error, "temporary subscriptions were not swept");
                }
            }
        });
    }
}

impl Drop for CountedRead {
    fn drop(&mut self) {
        let mut reads = self.shared.reads.lock();
        if let Some(count) = reads.get_mut(&self.subscription) {
            *count -= 1;
            if *count == 0 {
                reads.remove(&self.subscription);
            }
        }
    }
}

impl Temporaries {
    /// None yet.
    pub fn new(shared: &Arc<PubsubUse>, job: &str) -> Self {
        Self {
            shared: Arc::clone(shared),
            job: label_value(job),
            made: Mutex::default(),
        }
    }

    /// Makes one and returns its path. Where `sweeps`, also deletes what this server left behind.
    ///
    /// It is deleted also where this future is dropped while the call is on its way.
    pub async fn create(
        &self,
        client: &Client,
        temporary: Temporary,
        sweeps: bool,
    ) -> Result<String, Error> {
        let path = temporary.path()?;
        self.shared.jobs.lock().insert(self.job.clone());
        if sweeps {
            self.shared
                .sweep(client, &temporary.project, &temporary.server_id);
        }
        let (sender, answer) = tokio::sync::oneshot::channel();
        let calling = client.clone();
        let creation = tokio::spawn(async move {
            let _ = sender.send(create_temporary_subscription(&calling, &temporary).await);
        });
        self.made.lock().push(Made {
            client: client.clone(),
            path: path.clone(),
            creation,
        });
        // No answer: it was deleted meanwhile, by the end of the job.
        answer.await.unwrap_or(Ok(path))
    }

    /// Starts to delete all of them.
    pub fn delete(&self) -> Vec<JoinHandle<()>> {
        self.shared.jobs.lock().remove(&self.job);
        let made = std::mem::take(&mut *self.made.lock());
        made.into_iter()
            .map(|made| tokio::spawn(made.delete()))
            .collect()
    }
}

impl Drop for Temporaries {
    fn drop(&mut self) {
        // Also where a job was given up and could delete nothing any more.
        if tokio::runtime::Handle::try_current().is_ok() {
            self.delete();
        }
    }
}

impl Made {
    async fn delete(mut self) {
        // A call that is on its way could take effect after the deletion.
        let created = tokio::time::timeout(CREATION_MAX, &mut self.creation).await;
        if created.is_err() {
            self.creation.abort();
        }
        if let Err(error) = delete_subscription(&self.client, &self.path).await {
            let subscription = self.path;
            tracing::warn!(%subscription, %error, "a temporary subscription is left");
        }
    }
}
