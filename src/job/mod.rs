//! Runs one job: the only place where engine, store, harnesses and sources meet.

pub mod driver;
mod execution;
mod harness_events;
mod harnesses;
mod lane_thread;
mod lanes;
pub mod messages;
pub mod metrics;
pub mod options;
mod perform;
mod planning;
pub mod record;
pub mod registry;
mod room;
pub mod runner;
mod script;
mod shared_lane;
mod slots;
mod sources;
mod stalls;
mod temporary;

pub use driver::Driver;
pub use harnesses::Hosting;
pub use lanes::Lanes;
pub use messages::{Importance, JobEvent, Message};
pub use metrics::Metrics;
pub use options::Settings;
pub use record::JobRecord;
pub use registry::Registry;
pub use runner::{PrepareError, Runner};
pub use sources::PubsubHosting;
pub use temporary::PubsubUse;
