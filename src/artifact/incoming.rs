//! Content on its way in: a file without a name that vanishes unless it arrives whole.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};

use crate::artifact::Error;
use crate::artifact::repository::failed;

/// Content that is being received.
#[derive(Debug)]
pub(super) struct Incoming {
    file: fs::File,
    path: PathBuf,
    digest: Sha256,
}

impl Incoming {
    pub(super) fn create(path: PathBuf) -> Result<Self, Error> {
        let file = fs::File::create_new(&path)
            .map_err(|error| failed("create artifact file", &path, error))?;
        Ok(Self {
            file,
            path,
            digest: Sha256::new(),
        })
    }

    pub(super) fn write(&mut self, chunk: &[u8]) -> Result<(), Error> {
        self.digest.update(chunk);
        self.file
            .write_all(chunk)
            .map_err(|error| failed("write artifact file", &self.path, error))
    }

    /// The hash of what was written so far, in hexadecimal.
    pub(super) fn sha256(&self) -> String {
        let digest = self.digest.clone().finalize();
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Gives the content its name, at once and whole.
    pub(super) fn finish(self, to: &Path) -> Result<(), Error> {
        fs::rename(&self.path, to).map_err(|error| failed("rename an artifact to", to, error))
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        // After `finish` there is nothing under this name.
        let _ = fs::remove_file(&self.path);
    }
}
