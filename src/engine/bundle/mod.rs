//! Bundles: formed, run, committed, split, retried.

mod commit;
mod dormancy;
mod formation;
mod in_flight;
mod retry;
mod split;
mod values;

pub use formation::Work;
pub use in_flight::{Ended, InFlight, KeyedBundle, Truncation};
