//! Errors as gRPC statuses: the code says who must act, the text what to do.

use tonic::Status;

use crate::job::options::OptionError;
use crate::job::registry::{Registry, RegistryError};
use crate::job::runner::PrepareError;

/// Why a call of the Job API is refused.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("the request has no pipeline")]
    NoPipeline,
    #[error(transparent)]
    Options(#[from] OptionError),
    #[error(transparent)]
    Refused(#[from] PrepareError),
    #[error(transparent)]
    Registry(#[from] RegistryError),
    #[error(
        "the artifacts of this job could not be staged: {0}; stage them again with the same \
         token, or prepare the job again"
    )]
    NotStaged(String),
    #[error("no job has the id {0:?}; GetJobs lists those there are")]
    UnknownJob(String),
    #[error(
        "{0:?} is the id of a preparation, not of a job: call Run, and use the job id that it \
         returns"
    )]
    IsPreparation(String),
    #[error("the server is shutting down and takes no more jobs")]
    ShuttingDown,
    #[error("checking the pipeline failed by a fault of Tidemill: {0}")]
    CheckPanicked(String),
}

impl Error {
    /// No job has this id, for whatever reason.
    pub(super) fn no_job(registry: &Registry, id: &str) -> Self {
        if registry.is_preparation(id) {
            Self::IsPreparation(id.to_owned())
        } else {
            Self::UnknownJob(id.to_owned())
        }
    }
}

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        let text = error.to_string();
        match error {
            Error::NoPipeline | Error::Options(_) | Error::Refused(PrepareError::Invalid(_)) => {
                Status::invalid_argument(text)
            }
            Error::Refused(PrepareError::Unsupported(_)) => Status::unimplemented(text),
            Error::Registry(
                RegistryError::TooManyPrepared { .. } | RegistryError::TooManyRunning { .. },
            ) => Status::resource_exhausted(text),
            Error::Registry(RegistryError::UnknownPreparation(_))
            | Error::UnknownJob(_)
            | Error::IsPreparation(_) => Status::not_found(text),
            Error::NotStaged(_) | Error::Refused(PrepareError::Forbidden(_)) => {
                Status::failed_precondition(text)
            }
            Error::ShuttingDown => Status::unavailable(text),
            Error::CheckPanicked(_) => Status::internal(text),
        }
    }
}
