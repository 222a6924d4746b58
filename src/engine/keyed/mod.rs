//! Stages with user state and timers: work by key, a key in one bundle at a time.

mod expiry;
mod formation;
mod pages;
mod queue;
mod state;
mod timers;

pub use expiry::LiveWindows;
pub use queue::{KeyWork, KeyedElement, KeyedElements, KeyedQueue, TakenKey};
pub use state::StateChanges;
pub use timers::TimerChanges;
