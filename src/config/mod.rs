//! Settings of all components: defaults, file, environment, flags; the later wins.

mod memory;
mod serve;

pub use memory::MemoryBudget;
pub use serve::{EnvironmentKind, Error, Given, ServeArgs, ServeSettings};
