//! Settings of all components: defaults, file, environment, flags; the later wins.

mod serve;

pub use serve::{EnvironmentKind, Error, Given, ServeArgs, ServeSettings};
