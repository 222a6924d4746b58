//! Which prepared jobs wait for artifacts, and what came of it.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::artifact::Error;
use crate::proto::pipeline::Environment;

/// Environments by their id.
pub(super) type Environments = BTreeMap<String, Environment>;

/// All jobs between Prepare and Run, by staging token.
#[derive(Debug, Default)]
pub struct Sessions {
    waiting: Mutex<BTreeMap<String, Session>>,
}

#[derive(Debug)]
struct Session {
    job: String,
    environments: Environments,
    outcome: Option<Result<Environments, String>>,
}

/// What a client has staged.
#[derive(Debug)]
pub enum Staged {
    /// Nothing: it never opened the staging service.
    Never,
    /// Everything: the environments, naming artifacts that we hold.
    Complete(BTreeMap<String, Environment>),
    /// It tried last and failed, for this reason.
    Failed(String),
}

impl Sessions {
    /// Expects artifacts of a job under a token.
    pub fn open(&self, token: &str, job: &str, environments: BTreeMap<String, Environment>) {
        self.waiting.lock().insert(
            token.to_owned(),
            Session {
                job: job.to_owned(),
                environments,
                outcome: None,
            },
        );
    }

    /// What was staged under a token so far.
    pub fn staged(&self, token: &str) -> Staged {
        match self.waiting.lock().get(token).map(|found| &found.outcome) {
            None | Some(None) => Staged::Never,
            Some(Some(Ok(environments))) => Staged::Complete(environments.clone()),
            Some(Some(Err(reason))) => Staged::Failed(reason.clone()),
        }
    }

    /// Expects nothing more; returns the job whose token it was.
    pub fn close(&self, token: &str) -> Option<String> {
        self.waiting.lock().remove(token).map(|session| session.job)
    }

    /// The job and the environments of a token.
    pub(super) fn find(&self, token: &str) -> Result<(String, Environments), Error> {
        let waiting = self.waiting.lock();
        let session = waiting.get(token).ok_or(Error::UnknownToken)?;
        Ok((session.job.clone(), session.environments.clone()))
    }

    /// Records how a client's try ended; a later one replaces it.
    pub(super) fn finish(&self, token: &str, outcome: Result<Environments, String>) {
        if let Some(session) = self.waiting.lock().get_mut(token) {
            session.outcome = Some(outcome);
        }
    }
}
