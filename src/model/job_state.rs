//! The states of a job, and which may follow which.

use std::fmt;

/// Where a job stands, in Beam's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JobState {
    /// Accepted, nothing started yet: where every job begins.
    Stopped,
    /// Harnesses and sources are being started.
    Starting,
    /// Bundles run.
    Running,
    /// Sources have stopped; what was read is being finished.
    Draining,
    /// A new version of the pipeline is taking over.
    Updating,
    /// Told to stop without finishing.
    Cancelling,
    /// Finished, with all of its input processed. Terminal.
    Done,
    /// Ended by an error. Terminal.
    Failed,
    /// Ended by a user. Terminal.
    Cancelled,
    /// Ended by a drain. Terminal.
    Drained,
    /// Replaced by a new version. Terminal.
    Updated,
}

impl JobState {
    /// Whether a job in this state never leaves it.
    pub const fn is_terminal(self) -> bool {
        matches!(
            self,
            Self::Done | Self::Failed | Self::Cancelled | Self::Drained | Self::Updated
        )
    }

    /// Whether a job in this state may go to `next`.
    ///
    /// A job may fail or be cancelled from anywhere; it is done only after it ran. A job that
    /// finishes while it is being cancelled may say so.
    pub const fn may_become(self, next: Self) -> bool {
        match self {
            Self::Stopped => matches!(
                next,
                Self::Starting | Self::Cancelling | Self::Cancelled | Self::Failed
            ),
            Self::Starting => matches!(
                next,
                Self::Running | Self::Draining | Self::Cancelling | Self::Cancelled | Self::Failed
            ),
            Self::Running => !matches!(next, Self::Stopped | Self::Starting | Self::Running),
            Self::Draining => matches!(
                next,
                Self::Done | Self::Drained | Self::Cancelling | Self::Cancelled | Self::Failed
            ),
            Self::Updating => matches!(
                next,
                Self::Running | Self::Updated | Self::Cancelling | Self::Cancelled | Self::Failed
            ),
            Self::Cancelling => matches!(next, Self::Cancelled | Self::Done | Self::Failed),
            Self::Done | Self::Failed | Self::Cancelled | Self::Drained | Self::Updated => false,
        }
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stopped => "STOPPED",
            Self::Starting => "STARTING",
            Self::Running => "RUNNING",
            Self::Draining => "DRAINING",
            Self::Updating => "UPDATING",
            Self::Cancelling => "CANCELLING",
            Self::Done => "DONE",
            Self::Failed => "FAILED",
            Self::Cancelled => "CANCELLED",
            Self::Drained => "DRAINED",
            Self::Updated => "UPDATED",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [JobState; 11] = [
        JobState::Stopped,
        JobState::Starting,
        JobState::Running,
        JobState::Draining,
        JobState::Updating,
        JobState::Cancelling,
        JobState::Done,
        JobState::Failed,
        JobState::Cancelled,
        JobState::Drained,
        JobState::Updated,
    ];

    #[test]
    fn terminal_is_terminal_and_everything_else_can_end_badly() {
        for state in ALL {
            let next: Vec<_> = ALL.into_iter().filter(|n| state.may_become(*n)).collect();
            assert_eq!(next.is_empty(), state.is_terminal(), "{state} -> {next:?}");
            assert!(!state.may_become(state));
            assert!(!state.may_become(JobState::Stopped));
            if !state.is_terminal() {
                assert!(state.may_become(JobState::Failed));
                assert!(state.may_become(JobState::Cancelled));
            }
        }
    }
}
