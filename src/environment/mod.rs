//! Starts and stops SDK harnesses, a file per kind of environment.

mod choice;
mod error;
mod external;
mod process;
mod start;

pub use choice::{Policy, check, resolve};
pub use error::Error;
pub use start::{Endpoints, Running, StartSpec, start};
