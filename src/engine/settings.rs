//! Limits of the engine.

use crate::model::time::Millis;

/// How a lane forms, retries and splits bundles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Most bytes of input in one bundle, unless a single element is larger.
    pub bundle_bytes_max: usize,
    /// Most elements of input in one bundle.
    pub bundle_elements_max: usize,
    /// Most bytes of values that a group hands on whole; of a larger one they are read as state, where the SDK can.
    pub group_bytes_max: usize,
    /// Most bundles that one native sink publishes at a time.
    pub publishes_max: u32,
    /// Tries of a bundle before the job fails; `None`: for ever, with growing pauses.
    pub attempts_max: Option<u32>,
    /// Longest pause between tries.
    pub retry_pause_max: Millis,
    /// Age at which a bundle is split when its environment has room to spare.
    pub split_after: Millis,
    /// Age at which a bundle of an unbounded splittable DoFn is checkpointed.
    pub checkpoint_after: Millis,
    /// Bundles each environment can usefully run at a time over all lanes, by environment.
    pub parallelism: Vec<u32>,
    /// How many lanes the job has.
    pub lanes: u32,
    /// Messages of native reads count as often as they are delivered.
    pub at_least_once: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            bundle_bytes_max: 16 << 20,
            bundle_elements_max: 1_000_000,
            group_bytes_max: 16 << 20,
            publishes_max: 4,
            attempts_max: Some(4),
            retry_pause_max: 60_000,
            split_after: 1_000,
            checkpoint_after: 1_000,
            parallelism: Vec::new(),
            lanes: 1,
            at_least_once: false,
        }
    }
}
