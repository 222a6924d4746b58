//! A submitted pipeline turned into executable stages, once, purely.
//!
//! [`build`] reads the pipeline into a checked graph ([`read`](self)), rewrites what the runner does itself
//! (Pub/Sub, combiner lifting, splittable DoFns, transcoding), fuses the rest into stages and makes the
//! descriptors that harnesses run. Its results are [`StageGraph`](crate::model::stage::StageGraph), which knows
//! no protos, and what goes to harnesses.
//!
//! Invariant: nothing here depends on time, randomness or the order of a hash map; the same pipeline and
//! settings give the same plan.

mod build;
mod coders;
mod descriptor;
mod error;
pub mod explain;
mod fusion;
mod graph;
mod read;
mod rewrite;
mod stages;
mod state_backed;
pub mod support;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod windowing;

pub use build::{Plan, Settings, build};
pub use error::{Error, ErrorKind};
pub use rewrite::script_event;
