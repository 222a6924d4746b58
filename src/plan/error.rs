//! Why a pipeline cannot be planned, told to its author.

use std::fmt;

/// What is wrong with a submitted pipeline, where, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Error {
    pub kind: ErrorKind,
    /// The unique name of the transform, as the user wrote it.
    pub transform: Option<String>,
    /// The URN of the transform or feature.
    pub urn: Option<String>,
    /// A lower-case fragment.
    pub problem: String,
    /// What to do; empty when the problem says it all.
    pub hint: String,
}

/// Who has to act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The pipeline contradicts itself; an SDK would not write it.
    Malformed,
    /// The pipeline is valid and uses something that Tidemill does not do.
    Unsupported,
    /// The planner broke an invariant of its own.
    Bug,
}

impl Error {
    pub(crate) fn malformed(problem: impl Into<String>) -> Self {
        Self::new(ErrorKind::Malformed, problem.into())
    }

    pub(crate) fn unsupported(problem: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            hint: hint.into(),
            ..Self::new(ErrorKind::Unsupported, problem.into())
        }
    }

    pub(crate) fn bug(problem: impl Into<String>) -> Self {
        Self {
            hint: "please report this with the pipeline".to_owned(),
            ..Self::new(ErrorKind::Bug, problem.into())
        }
    }

    /// The same error at the transform with this unique name.
    #[must_use]
    pub(crate) fn at(mut self, transform: &str) -> Self {
        self.transform.get_or_insert_with(|| transform.to_owned());
        self
    }

    /// The same error about this URN.
    #[must_use]
    pub(crate) fn urn(mut self, urn: &str) -> Self {
        self.urn.get_or_insert_with(|| urn.to_owned());
        self
    }

    fn new(kind: ErrorKind, problem: String) -> Self {
        Self {
            kind,
            transform: None,
            urn: None,
            problem,
            hint: String::new(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(transform) = &self.transform {
            write!(f, "transform {transform:?}")?;
            if let Some(urn) = &self.urn {
                write!(f, " ({urn})")?;
            }
            f.write_str(": ")?;
        } else if let Some(urn) = &self.urn {
            write!(f, "{urn}: ")?;
        }
        f.write_str(&self.problem)?;
        if !self.hint.is_empty() {
            write!(f, "; {}", self.hint)?;
        }
        Ok(())
    }
}
