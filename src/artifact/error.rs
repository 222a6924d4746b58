//! What can go wrong with artifacts, and whose fault it is.

use std::io;

use tonic::Status;

/// Why an artifact could not be stored or served.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The client showed a staging token that no prepared job has.
    #[error(
        "no job waits for artifacts under this staging token: it comes from Prepare and is good \
         until Run, for an hour at most"
    )]
    UnknownToken,
    /// The client broke the staging protocol.
    #[error("broken artifact staging: {0}")]
    Protocol(String),
    /// The client offers an artifact that cannot be taken.
    #[error("environment {environment}, artifact {artifact}: {reason}")]
    Refused {
        /// The environment that depends on it.
        environment: String,
        /// Which one.
        artifact: String,
        /// What is wrong with it and what to do.
        reason: String,
    },
    /// The content is not what its hash says.
    #[error("content has SHA-256 {actual}, not {expected} as announced: stage it again")]
    HashMismatch {
        /// What was announced.
        expected: String,
        /// What came.
        actual: String,
    },
    /// More is staged than a job may have.
    #[error("job has more than {bytes_max} bytes of artifacts")]
    TooLarge {
        /// The limit.
        bytes_max: u64,
    },
    /// Somebody asks for an artifact that we do not have.
    #[error("no such artifact: {0}; only those staged for a job that still runs are served")]
    NotFound(String),
    /// The disk.
    #[error("cannot {what} {path}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// Where.
        path: String,
        /// Why not.
        source: io::Error,
    },
}

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        let text = error.to_string();
        match error {
            Error::UnknownToken | Error::NotFound(_) => Status::not_found(text),
            Error::Protocol(_) | Error::Refused { .. } => Status::invalid_argument(text),
            Error::HashMismatch { .. } => Status::data_loss(text),
            Error::TooLarge { .. } => Status::resource_exhausted(text),
            Error::Io { .. } => Status::internal(text),
        }
    }
}
