//! Starts and stops SDK harnesses, a file per kind of environment.

mod error;
mod external;
mod process;
mod start;

pub use error::Error;
pub use start::{Endpoints, Policy, Running, StartSpec, check, start};
