//! Pipeline options: which ones are ours, and what we read of those that clients send.

mod places;
mod settings;
mod spec;

pub use settings::{Durability, OptionError, Settings};
pub use spec::{OPTIONS, OptionKind, OptionSpec};
