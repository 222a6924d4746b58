//! Where artifacts lie: `artifacts/<hash>`, once for all jobs, and a link to it for each job that
//! has it, `jobs/<job>/artifacts/<hash>`.
//!
//! Only the links are ever served, so a job's harness reaches what its job staged and nothing else.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use crate::artifact::incoming::Incoming;
use crate::artifact::{Error, name};
use crate::telemetry::{clock, entropy};

/// All artifacts of the process. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Repository {
    folders: Arc<Folders>,
}

#[derive(Debug)]
struct Folders {
    content: PathBuf,
    incoming: PathBuf,
    jobs: PathBuf,
}

/// Names one artifact of one job; travels in the `path` of a FILE artifact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArtifactAddress {
    job: String,
    sha256: String,
}

impl Repository {
    /// Bytes of content that stay when no job has them any more, so that the next job's client need
    /// not send them again.
    const CONTENT_BYTES_MAX: u64 = 4 << 30;

    /// Uses `data_dir`, which is made where it is missing.
    pub fn open(data_dir: &Path) -> Result<Self, Error> {
        let content = data_dir.join("artifacts");
        let folders = Folders {
            incoming: content.join("incoming"),
            content,
            jobs: data_dir.join("jobs"),
        };
        for folder in [&folders.incoming, &folders.jobs] {
            fs::create_dir_all(folder).map_err(|error| failed("make folder", folder, error))?;
        }
        Ok(Self {
            folders: Arc::new(folders),
        })
    }

    /// Begins to receive content; it exists once [`Incoming::finish`] returned.
    pub(super) fn receive(&self) -> Result<Incoming, Error> {
        Incoming::create(self.folders.incoming.join(entropy::hex(16)))
    }

    /// Puts received content in its place and links it to a job.
    pub(super) fn keep(
        &self,
        job: &str,
        incoming: Incoming,
        expected_sha256: Option<&str>,
    ) -> Result<ArtifactAddress, Error> {
        let sha256 = incoming.sha256();
        if let Some(expected) = expected_sha256
            && !expected.eq_ignore_ascii_case(&sha256)
        {
            return Err(Error::HashMismatch {
                expected: expected.to_owned(),
                actual: sha256,
            });
        }
        incoming.finish(&self.folders.content.join(&sha256))?;
        self.link(job, &sha256)
    }

    /// Links content that is here already to a job; `None` where it is not here.
    pub(super) fn reuse(&self, job: &str, sha256: &str) -> Option<ArtifactAddress> {
        let sha256 = sha256.to_ascii_lowercase();
        if !name::is_sha256(&sha256) {
            return None;
        }
        let content = fs::File::options()
            .write(true)
            .open(self.folders.content.join(&sha256))
            .ok()?;
        // Where it cannot be marked as wanted, it only goes earlier.
        let now = u64::try_from(clock::unix_millis()).unwrap_or(0);
        let _ = content.set_modified(UNIX_EPOCH + Duration::from_millis(now));
        self.link(job, &sha256).ok()
    }

    fn link(&self, job: &str, sha256: &str) -> Result<ArtifactAddress, Error> {
        assert!(name::is_job_id(job) && name::is_sha256(sha256));
        let address = ArtifactAddress {
            job: job.to_owned(),
            sha256: sha256.to_owned(),
        };
        let to = self.path(&address);
        let folder = self.job_folder(job);
        fs::create_dir_all(&folder).map_err(|error| failed("make folder", &folder, error))?;
        let from = self.folders.content.join(sha256);
        match fs::hard_link(&from, &to) {
            Ok(()) => Ok(address),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(address),
            // A file system without links.
            Err(_) => fs::copy(&from, &to)
                .map(|_| address)
                .map_err(|error| failed("copy an artifact to", &to, error)),
        }
    }

    /// The file of an artifact, opened.
    pub(super) fn open_file(&self, address: &ArtifactAddress) -> Result<fs::File, Error> {
        let path = self.path(address);
        fs::File::open(&path).map_err(|error| {
            if error.kind() == io::ErrorKind::NotFound {
                Error::NotFound(address.to_string())
            } else {
                failed("open", &path, error)
            }
        })
    }

    /// Removes what a job had, once it needs it no more.
    pub fn forget(&self, job: &str) {
        if !name::is_job_id(job) {
            return;
        }
        let folder = self.job_folder(job);
        if let Err(error) = fs::remove_dir_all(&folder)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(job, %error, "could not remove the artifacts of a job");
        }
        // Goes only if nothing else is in it.
        let _ = fs::remove_dir(self.folders.jobs.join(job));
        self.trim(Self::CONTENT_BYTES_MAX);
    }

    /// Removes the content that was not received or wanted for longest, until the rest fits.
    fn trim(&self, bytes_max: u64) {
        let Ok(entries) = fs::read_dir(&self.folders.content) else {
            return;
        };
        let mut files: Vec<_> = entries
            .flatten()
            .filter_map(|entry| {
                let metadata = entry.metadata().ok().filter(fs::Metadata::is_file)?;
                Some((metadata.modified().ok()?, metadata.len(), entry.path()))
            })
            .collect();
        let mut bytes: u64 = files.iter().map(|(_, len, _)| len).sum();
        files.sort();
        for (_, len, path) in files {
            if bytes <= bytes_max {
                break;
            }
            if fs::remove_file(&path).is_ok() {
                bytes -= len;
            }
        }
    }

    fn job_folder(&self, job: &str) -> PathBuf {
        self.folders.jobs.join(job).join("artifacts")
    }

    fn path(&self, address: &ArtifactAddress) -> PathBuf {
        self.job_folder(&address.job).join(&address.sha256)
    }
}

impl ArtifactAddress {
    /// Reads what [`Display`](std::fmt::Display) writes; anything else is no address.
    pub fn parse(text: &str) -> Option<Self> {
        let (job, sha256) = text.split_once('/')?;
        (name::is_job_id(job) && name::is_sha256(sha256)).then(|| Self {
            job: job.to_owned(),
            sha256: sha256.to_owned(),
        })
    }

    /// The hash of its content.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }
}

impl std::fmt::Display for ArtifactAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.job, self.sha256)
    }
}

pub(super) fn failed(what: &'static str, path: &Path, source: io::Error) -> Error {
    Error::Io {
        what,
        path: path.display().to_string(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(repository: &Repository, job: &str, content: &[u8]) -> ArtifactAddress {
        let mut incoming = repository.receive().unwrap();
        incoming.write(content).unwrap();
        repository.keep(job, incoming, None).unwrap()
    }

    #[test]
    fn content_is_kept_once_and_reached_only_through_its_job() {
        let folder = tempfile::tempdir().unwrap();
        let repository = Repository::open(folder.path()).unwrap();
        let first = put(&repository, "a-1", b"jar");
        let second = repository.reuse("b-2", first.sha256()).unwrap();
        assert_eq!(put(&repository, "b-2", b"jar"), second);
        assert_eq!(
            io::read_to_string(repository.open_file(&second).unwrap()).unwrap(),
            "jar"
        );
        assert!(repository.reuse("b-2", &"0".repeat(64)).is_none());

        repository.forget("a-1");
        assert!(matches!(
            repository.open_file(&first),
            Err(Error::NotFound(_))
        ));
        assert!(repository.open_file(&second).is_ok());
        assert!(!folder.path().join("jobs/a-1").exists());
        let parsed = ArtifactAddress::parse(&second.to_string());
        assert_eq!(parsed, Some(second));
        assert_eq!(ArtifactAddress::parse("../../etc/passwd"), None);
    }

    #[test]
    fn a_wrong_hash_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let repository = Repository::open(folder.path()).unwrap();
        let mut incoming = repository.receive().unwrap();
        incoming.write(b"jar").unwrap();
        let error = repository.keep("a-1", incoming, Some(&"1".repeat(64)));
        assert!(matches!(error, Err(Error::HashMismatch { .. })));
        let left: Vec<_> = fs::read_dir(folder.path().join("artifacts/incoming"))
            .unwrap()
            .collect();
        assert!(left.is_empty(), "{left:?}");
    }

    #[test]
    fn old_content_goes_first() {
        let folder = tempfile::tempdir().unwrap();
        let repository = Repository::open(folder.path()).unwrap();
        let old = put(&repository, "a-1", b"old content");
        let new = put(&repository, "a-1", b"new content");
        let path = repository.folders.content.join(old.sha256());
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(std::time::UNIX_EPOCH).unwrap();
        repository.trim(11);
        assert!(!path.exists());
        assert!(repository.folders.content.join(new.sha256()).exists());
        assert!(repository.open_file(&old).is_ok(), "the job still has it");
    }
}
