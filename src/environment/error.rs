//! Why an environment does not run.

/// An error of an environment, by who must act.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// For the pipeline's author: the environment makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// For the pipeline's author: this runner does not start such environments.
    #[error("{0}")]
    Unsupported(String),
    /// For the operator: the policy forbids it.
    #[error("{0}")]
    Forbidden(String),
    /// For who runs the environment: it did not start, or refused.
    #[error("{0}")]
    Failed(String),
}
