//! Why a request is refused.

use tonic::Code;

/// What an API call gives.
pub type Result<T> = std::result::Result<T, Refusal>;

/// A refused request: the status the client sees.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code:?}: {message}")]
pub struct Refusal {
    /// The status code of the real service for this case.
    pub code: Code,
    /// What is wrong.
    pub message: String,
    /// Per ack id, what became of it; for exactly-once delivery.
    pub ack_errors: Vec<(String, &'static str)>,
}

impl Refusal {
    /// A refusal with this code.
    pub fn new(code: Code, message: impl Into<String>) -> Refusal {
        Refusal {
            code,
            message: message.into(),
            ack_errors: Vec::new(),
        }
    }

    /// The request itself is wrong.
    pub fn invalid(message: impl Into<String>) -> Refusal {
        Refusal::new(Code::InvalidArgument, message)
    }

    /// There is no such resource.
    pub fn not_found(name: &str) -> Refusal {
        Refusal::new(Code::NotFound, format!("resource not found: {name}"))
    }

    /// The name is taken.
    pub fn exists(name: &str) -> Refusal {
        Refusal::new(Code::AlreadyExists, format!("resource exists: {name}"))
    }

    /// Not in this state.
    pub fn precondition(message: impl Into<String>) -> Refusal {
        Refusal::new(Code::FailedPrecondition, message)
    }

    /// This emulator cannot do it, and says so.
    pub fn unsupported(message: impl Into<String>) -> Refusal {
        Refusal::new(Code::Unimplemented, message)
    }
}
