//! All jobs of the process: prepared, running, and a number of finished ones.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use prost::Message;
use prost_types::Struct;

use crate::job::options::Settings;
use crate::job::record::{JobRecord, Submission};
use crate::proto::pipeline::Pipeline;
use crate::telemetry::{clock, entropy};

/// Bounds on what clients can make us keep.
#[derive(Clone, Copy, Debug)]
pub struct RegistryLimits {
    /// Most jobs that are prepared and not run.
    pub prepared_max: usize,
    /// Most bytes of their pipelines.
    pub prepared_bytes_max: usize,
    /// How long a prepared job waits for its Run.
    pub prepared_age_max: Duration,
    /// Most jobs that run at a time.
    pub running_max: usize,
    /// Most finished jobs that stay to be asked about; the oldest go first.
    pub finished_max: usize,
    /// Most bytes of their pipelines.
    pub finished_bytes_max: usize,
}

impl Default for RegistryLimits {
    fn default() -> Self {
        Self {
            prepared_max: 1_000,
            prepared_bytes_max: 2 << 30,
            prepared_age_max: Duration::from_secs(3_600),
            running_max: 1_000,
            finished_max: 1_000,
            finished_bytes_max: 256 << 20,
        }
    }
}

/// Why the registry refuses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// Too much is prepared and not run.
    #[error(
        "{count} prepared jobs ({bytes} bytes) wait for their Run, no more are accepted: run \
         them, or wait until they expire after {age_max:?}"
    )]
    TooManyPrepared {
        /// How many there are.
        count: usize,
        /// The size of their pipelines.
        bytes: usize,
        /// When they expire.
        age_max: Duration,
    },
    /// Too much runs.
    #[error("{count} jobs run, no more are accepted: wait until one ends, or cancel one")]
    TooManyRunning {
        /// How many there are.
        count: usize,
    },
    /// Nothing was prepared under this id.
    #[error(
        "no job was prepared under the id {0:?}: call Prepare first; a preparation expires \
         after an hour, and with a restart of the server"
    )]
    UnknownPreparation(String),
}

/// A job between Prepare and Run.
#[derive(Debug)]
pub struct Prepared {
    /// What the client knows it by.
    pub preparation_id: String,
    /// What it will be known by; not told to the client before Run.
    pub job_id: String,
    /// What the client shows when it stages artifacts.
    pub staging_token: String,
    /// A readable name.
    pub name: String,
    /// The pipeline as submitted.
    pub pipeline: Pipeline,
    /// The options as submitted.
    pub options: Struct,
    /// What we understood of the options.
    pub settings: Settings,
    bytes: usize,
    expires: Instant,
}

/// All jobs of the process.
#[derive(Debug, Default)]
pub struct Registry {
    limits: RegistryLimits,
    jobs: Mutex<Jobs>,
}

#[derive(Debug, Default)]
struct Jobs {
    /// By preparation id.
    prepared: BTreeMap<String, Prepared>,
    prepared_bytes: usize,
    /// In the order of their Run.
    run: BTreeMap<u64, Arc<JobRecord>>,
    next: u64,
    by_id: BTreeMap<String, u64>,
    by_preparation_id: BTreeMap<String, u64>,
}

impl Registry {
    /// An empty registry.
    pub fn new(limits: RegistryLimits) -> Self {
        Self {
            limits,
            jobs: Mutex::default(),
        }
    }

    /// Keeps a submitted pipeline until it is run, and gives it its ids.
    ///
    /// Returns the preparation id, the staging token, and the tokens of preparations that expired.
    pub fn prepare(
        &self,
        name: &str,
        pipeline: Pipeline,
        options: Struct,
        settings: Settings,
    ) -> Result<(Ticket, Vec<String>), RegistryError> {
        let now = clock::instant();
        let bytes = pipeline.encoded_len() + options.encoded_len();
        let mut jobs = self.jobs.lock();
        let expired = jobs.expire(now);
        if jobs.prepared.len() >= self.limits.prepared_max
            || jobs.prepared_bytes + bytes > self.limits.prepared_bytes_max.max(bytes)
        {
            return Err(RegistryError::TooManyPrepared {
                count: jobs.prepared.len(),
                bytes: jobs.prepared_bytes,
                age_max: self.limits.prepared_age_max,
            });
        }
        let name = readable_name(name);
        let ticket = Ticket {
            preparation_id: format!("prepared-{}", entropy::hex(8)),
            job_id: format!("{name}-{}", entropy::hex(6)),
            staging_token: entropy::hex(16),
        };
        jobs.prepared_bytes += bytes;
        jobs.prepared.insert(
            ticket.preparation_id.clone(),
            Prepared {
                preparation_id: ticket.preparation_id.clone(),
                job_id: ticket.job_id.clone(),
                staging_token: ticket.staging_token.clone(),
                name,
                pipeline,
                options,
                settings,
                bytes,
                expires: now + self.limits.prepared_age_max,
            },
        );
        Ok((ticket, expired))
    }

    /// Turns a prepared job into one that runs, in state STOPPED; `stage` completes its pipeline.
    ///
    /// The second Run of a preparation, which a client's retry may cause, finds the job of the
    /// first. `true` with a job that is new. Where `stage` fails, the job stays prepared.
    pub fn run<E: From<RegistryError>>(
        &self,
        preparation_id: &str,
        stage: impl FnOnce(&mut Prepared) -> Result<(), E>,
    ) -> Result<(Arc<JobRecord>, bool), E> {
        let mut jobs = self.jobs.lock();
        jobs.expire(clock::instant());
        if let Some(job) = jobs.by_preparation_id.get(preparation_id).copied()
            && let Some(record) = jobs.run.get(&job)
        {
            return Ok((Arc::clone(record), false));
        }
        let running = jobs.run.values().filter(|job| !job.state().is_terminal());
        let count = running.count();
        if count >= self.limits.running_max {
            return Err(RegistryError::TooManyRunning { count }.into());
        }
        let Some(prepared) = jobs.prepared.get_mut(preparation_id) else {
            return Err(RegistryError::UnknownPreparation(preparation_id.to_owned()).into());
        };
        stage(prepared)?;
        let Some(prepared) = jobs.take_prepared(preparation_id) else {
            return Err(RegistryError::UnknownPreparation(preparation_id.to_owned()).into());
        };
        let record = Arc::new(JobRecord::new(Submission {
            id: prepared.job_id,
            preparation_id: prepared.preparation_id,
            name: prepared.name,
            pipeline: prepared.pipeline,
            options: prepared.options,
            settings: prepared.settings,
        }));
        jobs.add(&record);
        Ok((record, true))
    }

    /// Forgets a prepared job.
    pub fn discard(&self, preparation_id: &str) {
        self.jobs.lock().take_prepared(preparation_id);
    }

    /// The job with this id; never found by a preparation id.
    pub fn job(&self, id: &str) -> Option<Arc<JobRecord>> {
        let jobs = self.jobs.lock();
        jobs.by_id
            .get(id)
            .and_then(|job| jobs.run.get(job))
            .map(Arc::clone)
    }

    /// Whether this is the id of a preparation, run or not.
    pub fn is_preparation(&self, id: &str) -> bool {
        let jobs = self.jobs.lock();
        jobs.prepared.contains_key(id) || jobs.by_preparation_id.contains_key(id)
    }

    /// All jobs that were run and not forgotten, oldest first.
    pub fn jobs(&self) -> Vec<Arc<JobRecord>> {
        self.jobs.lock().run.values().map(Arc::clone).collect()
    }

    /// To be called when a job has ended: keeps less of it, and forgets the oldest finished jobs
    /// where there are too many. Returns the ids of those.
    pub fn finished(&self, record: &JobRecord) -> Vec<String> {
        record.shrink();
        self.jobs.lock().forget_finished(self.limits)
    }
}

/// The names that a prepared job got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// What the client knows it by.
    pub preparation_id: String,
    /// What it will be known by once it runs.
    pub job_id: String,
    /// What the client shows when it stages artifacts.
    pub staging_token: String,
}

impl Jobs {
    /// Drops preparations that are too old and returns their staging tokens.
    fn expire(&mut self, now: Instant) -> Vec<String> {
        let old: Vec<String> = self
            .prepared
            .values()
            .filter(|prepared| prepared.expires <= now)
            .map(|prepared| prepared.preparation_id.clone())
            .collect();
        old.iter()
            .filter_map(|id| self.take_prepared(id))
            .map(|prepared| prepared.staging_token)
            .collect()
    }

    fn take_prepared(&mut self, preparation_id: &str) -> Option<Prepared> {
        let prepared = self.prepared.remove(preparation_id)?;
        self.prepared_bytes -= prepared.bytes;
        Some(prepared)
    }

    fn add(&mut self, record: &Arc<JobRecord>) {
        let job = self.next;
        self.next += 1;
        self.run.insert(job, Arc::clone(record));
        self.by_id.insert(record.id().to_owned(), job);
        self.by_preparation_id
            .insert(record.preparation_id().to_owned(), job);
        assert_eq!(self.run.len(), self.by_id.len(), "job ids are unique");
    }

    fn forget_finished(&mut self, limits: RegistryLimits) -> Vec<String> {
        let (mut count, mut bytes) = (0, 0);
        let mut forgotten = Vec::new();
        // Newest first: what no longer fits is forgotten, the newest never.
        for (job, record) in self.run.iter().rev() {
            if !record.state().is_terminal() {
                continue;
            }
            count += 1;
            bytes += record.pipeline().encoded_len();
            if count > 1 && (count > limits.finished_max || bytes > limits.finished_bytes_max) {
                forgotten.push((*job, Arc::clone(record)));
            }
        }
        for (job, record) in &forgotten {
            self.run.remove(job);
            self.by_id.remove(record.id());
            self.by_preparation_id.remove(record.preparation_id());
        }
        forgotten
            .into_iter()
            .map(|(_, record)| record.id().to_owned())
            .collect()
    }
}

/// A name of lower-case letters, digits and dashes, at most 60 long, that starts with a letter.
fn readable_name(wanted: &str) -> String {
    let mut name = String::new();
    for c in wanted.chars().take(200) {
        let c = c.to_ascii_lowercase();
        if c.is_ascii_alphanumeric() {
            name.push(c);
        } else if !name.ends_with('-') {
            name.push('-');
        }
    }
    name.truncate(60);
    let name = name.trim_matches('-');
    match name.chars().next() {
        None => "job".to_owned(),
        Some(c) if c.is_ascii_digit() => format!("job-{name}"),
        Some(_) => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::JobState;

    fn registry(limits: RegistryLimits) -> Registry {
        Registry::new(limits)
    }

    fn prepare(registry: &Registry) -> Result<Ticket, RegistryError> {
        let prepared = registry.prepare(
            "Job",
            Pipeline::default(),
            Struct::default(),
            Settings::default(),
        );
        prepared.map(|(ticket, _)| ticket)
    }

    fn run(registry: &Registry, ticket: &Ticket) -> Arc<JobRecord> {
        registry
            .run(&ticket.preparation_id, |_| Ok::<_, RegistryError>(()))
            .unwrap()
            .0
    }

    #[test]
    fn preparations_are_limited_and_expire() {
        let limits = RegistryLimits {
            prepared_max: 2,
            ..RegistryLimits::default()
        };
        let full = registry(limits);
        let first = prepare(&full).unwrap();
        prepare(&full).unwrap();
        let error = prepare(&full).unwrap_err();
        assert!(matches!(
            error,
            RegistryError::TooManyPrepared { count: 2, .. }
        ));
        run(&full, &first);
        assert!(prepare(&full).is_ok(), "one was run");

        let brief = registry(RegistryLimits {
            prepared_age_max: Duration::ZERO,
            ..limits
        });
        let first = prepare(&brief).unwrap();
        let result = brief.run(&first.preparation_id, |_| Ok::<_, RegistryError>(()));
        assert!(matches!(result, Err(RegistryError::UnknownPreparation(_))));
    }

    #[test]
    fn running_jobs_are_limited() {
        let registry = registry(RegistryLimits {
            running_max: 1,
            ..RegistryLimits::default()
        });
        let first = run(&registry, &prepare(&registry).unwrap());
        let second = prepare(&registry).unwrap();
        let result = registry.run(&second.preparation_id, |_| Ok::<_, RegistryError>(()));
        let error = result.unwrap_err();
        assert_eq!(error, RegistryError::TooManyRunning { count: 1 });
        first.fail("enough");
        run(&registry, &second);
    }

    #[test]
    fn a_run_that_is_refused_stays_prepared() {
        let registry = registry(RegistryLimits::default());
        let ticket = prepare(&registry).unwrap();
        let refused = RegistryError::UnknownPreparation("artifacts".to_owned());
        let result = registry.run(&ticket.preparation_id, |_| Err(refused));
        assert!(result.is_err());
        let job = run(&registry, &ticket);
        assert_eq!(job.id(), ticket.job_id);
        let again = registry.run(&ticket.preparation_id, |_| Ok::<_, RegistryError>(()));
        assert!(!again.unwrap().1, "the second run is not new");
    }

    #[test]
    fn the_oldest_finished_jobs_are_forgotten() {
        let registry = registry(RegistryLimits {
            finished_max: 1,
            ..RegistryLimits::default()
        });
        let jobs: Vec<_> = (0..3)
            .map(|_| run(&registry, &prepare(&registry).unwrap()))
            .collect();
        let mut forgotten = Vec::new();
        for job in &jobs[..2] {
            job.fail("enough");
            forgotten.extend(registry.finished(job));
        }
        assert_eq!(forgotten, [jobs[0].id()]);
        assert!(registry.job(jobs[0].id()).is_none());
        assert!(!registry.is_preparation(jobs[0].preparation_id()));
        assert_eq!(registry.jobs().len(), 2);
    }

    #[test]
    fn the_first_end_wins() {
        let registry = registry(RegistryLimits::default());
        let job = run(&registry, &prepare(&registry).unwrap());
        assert!(!job.set_state(JobState::Done), "it did not run");
        assert!(job.set_state(JobState::Starting));
        assert!(job.set_state(JobState::Starting), "it is so already");
        assert!(job.set_state(JobState::Cancelled));
        job.fail("too late");
        assert!(!job.set_state(JobState::Done));
        let (events, _) = job.read(0, 100);
        assert_eq!(events.len(), 3, "{events:?}");
    }

    #[test]
    fn what_clients_print_of_messages_does_not_come_back() {
        use crate::job::messages::Importance;

        let registry = registry(RegistryLimits::default());
        let job = run(&registry, &prepare(&registry).unwrap());
        job.message(
            Importance::Basic,
            "(time=2026-01-01T00:00:00.000Z)(id=7)hello",
        );
        job.message(Importance::Basic, "(time=1) is not an echo");
        let (events, _) = job.read(0, 100);
        assert_eq!(events.len(), 2, "STOPPED and one message: {events:?}");
    }

    #[test]
    fn names_are_made_readable() {
        for (wanted, name) in [
            ("Word Count #1", "word-count-1"),
            ("", "job"),
            ("---", "job"),
            ("7up", "job-7up"),
            ("日本", "job"),
        ] {
            assert_eq!(readable_name(wanted), name);
        }
        assert_eq!(readable_name(&"x".repeat(500)).len(), 60);
    }
}
