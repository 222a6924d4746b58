//! Group-by-key over tables in memory: what comes out for which input.

#[path = "../beam_package/mod.rs"]
mod beam_package;
mod lateness;
mod own_windows;
mod processing_time;
mod properties;
mod rig;
mod sessions;
mod transcripts;
mod triggers;
mod windows;
