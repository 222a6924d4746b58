//! Beam's nouns as plain data: no IO, no protos, no algorithms beyond their own invariants.

pub mod bundle;
pub mod coder;
pub mod element;
pub mod ids;
pub mod job_state;
pub mod pane;
pub mod schema;
pub mod stage;
pub mod state;
pub mod time;
pub mod timer;
pub mod window;
pub mod windowing;

pub use bundle::{BundleApplication, Residual, SplitOutcome};
pub use coder::Coder;
pub use element::{Chunk, ElementHeader};
pub use ids::{BundleId, EnvironmentId, LaneId, PCollectionId, Shard, StageId, WorkerId};
pub use job_state::JobState;
pub use pane::{PaneInfo, PaneTiming};
pub use schema::{Field, FieldKind, FieldType, Schema};
pub use state::{StateKey, StateOperation, StateReply, StateRequest};
pub use time::{Millis, Timestamp};
pub use timer::{TimeDomain, Timer};
pub use window::{Window, WindowFn};
pub use windowing::{AccumulationMode, OutputTime, Trigger, WindowingStrategy};
