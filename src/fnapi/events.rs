//! What comes back from a harness.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::OwnedSemaphorePermit;

use crate::model::{BundleId, Residual, SplitOutcome, StateReply, StateRequest, Timestamp};
use crate::proto::pipeline::MonitoringInfo;

/// Receives everything that one harness sends.
///
/// Called from IO threads; implementations must not block. Calls that name a bundle obey, per bundle:
///
/// - all `data`, `timers` and `state` come before its `finished`, and nothing of them comes after;
/// - `finished` comes once, for a successful bundle only when the response and the end of every output are there;
/// - exactly one `metrics` follows a `finished(Ok)`, at latest just before `lost`;
/// - after `lost`, nothing comes but `log`. Bundles that had not finished by then get no `finished`.
pub trait HarnessEvents: Send + Sync + 'static {
    /// Encoded windowed values for a data sink, a slice of the received frame.
    ///
    /// Whole elements, but with `cut` the last one may go on in the next call for this sink.
    fn data(&self, bundle: BundleId, transform: &str, data: Bytes, cut: bool, credit: Credit);

    /// Encoded timers of a family that the bundle set or cleared.
    fn timers(&self, bundle: BundleId, transform: &str, family: &str, data: Bytes, credit: Credit);

    /// The bundle ended; an error is the harness's text, with the traceback of user code.
    fn finished(&self, bundle: BundleId, result: Result<BundleResult, String>);

    /// The final metrics of a bundle that finished well. A job may be reported done once it has
    /// as many of these as successful bundles.
    fn metrics(&self, bundle: BundleId, metrics: Vec<ReportedMetric>);

    /// The answer to a split request; an error means that the harness knows no such bundle (any more): no split.
    fn split(&self, bundle: BundleId, result: Result<SplitOutcome, String>);

    /// The answer to a progress request.
    fn progress(&self, bundle: BundleId, result: Result<Progress, String>);

    /// The answer to a finalize request.
    fn finalized(&self, bundle: BundleId, result: Result<(), String>);

    /// A state request; without an answer at once, [`crate::fnapi::Harness::reply_state`] gives it later.
    fn state(&self, bundle: BundleId, request: StateRequest) -> Option<StateReply>;

    /// The answer to [`crate::fnapi::Harness::harness_metrics`].
    fn harness_metrics(&self, metrics: Vec<ReportedMetric>);

    /// A log line of the harness; may come before it is connected and after it is lost.
    fn log(&self, entry: LogEntry);

    /// The harness is gone: a stream ended or broke, or a ping was not answered. Comes once, after
    /// [`crate::fnapi::Harness::stop`] too.
    fn lost(&self, reason: String);
}

/// Room that a received message takes until the receiver has picked it up.
///
/// Keep it with the bytes while they wait in a queue and drop it when the consumer takes them from there.
/// Never keep it until the bundle ends: a bundle may put out more than there is credit, and then stops.
#[derive(Debug, Default)]
pub struct Credit {
    pub(crate) _permit: Option<OwnedSemaphorePermit>,
}

/// What a bundle that finished well hands back besides elements and timers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BundleResult {
    pub residuals: Vec<Residual>,
    /// The harness keeps callbacks to be run by [`crate::fnapi::Harness::finalize`].
    pub requires_finalization: bool,
}

/// How far a running bundle is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    pub metrics: Vec<ReportedMetric>,
    /// The bundle waits for input (`false`) or works (`true`), where the SDK says so.
    pub consuming_received_data: Option<bool>,
}

/// One metric of a bundle or of a harness process.
#[derive(Clone, Debug, PartialEq)]
pub struct ReportedMetric {
    /// URN, type and labels, with an empty payload. Shared: all reports of one harness
    /// under one short id point to the same.
    pub info: Arc<MonitoringInfo>,
    /// The value, encoded as the type says.
    pub payload: Bytes,
}

/// One log line of a harness.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    pub severity: Severity,
    pub time: Timestamp,
    pub message: String,
    /// A stack trace, or empty.
    pub trace: String,
    /// The bundle that was being processed.
    pub bundle: Option<BundleId>,
    /// The transform that was being processed, by its id in the descriptor; or empty.
    pub transform: String,
    pub location: String,
    pub thread: String,
}

/// How grave a log line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    Unspecified,
    Trace,
    Debug,
    Info,
    Notice,
    Warn,
    Error,
    Critical,
}
