//! A bundle that is running.

use bytes::Bytes;

use crate::engine::keyed::{StateChanges, TakenKey, TimerChanges};
use crate::engine::queue::Item;
use crate::engine::routing::Staged;
use crate::model::bundle::Residual;
use crate::model::ids::{StageId, WorkerId};
use crate::model::time::Timestamp;

/// Everything a lane knows of one running bundle.
#[derive(Debug)]
pub struct InFlight {
    pub stage: StageId,
    /// `None` for a bundle that a native sink publishes.
    pub worker: Option<WorkerId>,
    /// The input, kept until the commit for another try; a split shortens it.
    pub input: Vec<Item>,
    /// The keys of a keyed stage's bundle, with what it changes for them.
    pub keyed: Option<KeyedBundle>,
    /// Output staged so far, one per output of the stage.
    pub staged: Vec<Staged>,
    /// Its restrictions were truncated before.
    pub truncated: bool,
    /// The bundle truncates its restrictions instead of processing them; what is left of them so far.
    pub truncation: Option<Truncation>,
    /// The stage's output may not pass this while the bundle runs.
    pub hold: Timestamp,
    pub started: Timestamp,
    /// It gave output or asked for state since it last said how far it is.
    pub moved: bool,
    /// How many elements of its input it had taken when it last said so.
    pub taken: u64,
    /// It did nothing for a while, and its room is lent.
    pub dormant: bool,
    /// A split was asked for and not answered yet.
    pub splitting: bool,
    /// It has ended well, and is committed once the split is answered: SDKs answer from another thread, and what
    /// the answer gives back the bundle has not done.
    pub ended: Option<Ended>,
    /// When the last split was asked for.
    pub split_asked: Option<Timestamp>,
    /// Where the last split cut the input: elements from here on are not the bundle's any more.
    pub first_residual: Option<u64>,
    /// Output could not be read; the bundle fails when it ends.
    pub broken: Option<String>,
}

/// How a bundle ended.
#[derive(Debug)]
pub struct Ended {
    pub residuals: Vec<Residual>,
    pub finalize: bool,
}

/// What a truncation gives back: encoded restrictions.
#[derive(Debug, Default)]
pub struct Truncation {
    /// Each holds whole elements, but for the last while `cut`.
    pub pieces: Vec<Bytes>,
    cut: bool,
}

impl Truncation {
    /// Takes output; with `cut` the last element may go on in the next call.
    pub fn push(&mut self, bytes: Bytes, cut: bool) {
        match self.pieces.last_mut() {
            Some(last) if self.cut => *last = [&last[..], &bytes].concat().into(),
            _ => self.pieces.push(bytes),
        }
        self.cut = cut;
    }
}

impl InFlight {
    /// What to say of output that ended inside an element.
    pub fn cut_output(&self) -> Option<String> {
        let output = self.staged.iter().position(Staged::is_cut)?;
        Some(format!(
            "output {output} cannot be read: it ends inside an element"
        ))
    }
}

/// The keyed side of a running bundle.
#[derive(Debug)]
pub struct KeyedBundle {
    pub keys: Vec<TakenKey>,
    pub state: StateChanges,
    pub timers: TimerChanges,
}

impl InFlight {
    /// Elements in the input.
    pub fn elements(&self) -> u64 {
        self.input
            .iter()
            .map(|item| u64::from(item.chunk.count))
            .sum()
    }

    /// The most failed tries of any part of the input.
    pub fn attempts(&self) -> u32 {
        self.input
            .iter()
            .map(|item| item.attempts)
            .max()
            .unwrap_or(0)
    }
}
