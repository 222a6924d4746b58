//! What a harness sends, as events for the lanes and messages for the client.

use std::sync::Arc;

use bytes::Bytes;

use crate::coder::varint;
use crate::engine::Event;
use crate::fnapi::{
    BundleResult, Credit, HarnessEvents, LogEntry, Progress, ReportedMetric, Severity,
};
use crate::job::execution::Execution;
use crate::job::harnesses::Lost;
use crate::job::messages::Importance;
use crate::model::{BundleId, SplitOutcome, StateReply, StateRequest, WorkerId};
use crate::proto::urn::monitoring_info_specs;
use crate::telemetry::clock;

/// Hears one harness of one job.
pub struct FromHarness {
    pub worker: WorkerId,
    pub execution: Arc<Execution>,
    /// Tells who replaces lost harnesses.
    pub lost: tokio::sync::mpsc::UnboundedSender<Lost>,
}

impl FromHarness {
    fn progressed(&self, bundle: BundleId) {
        let now = clock::instant();
        self.execution.stalls.lock().progressed(now, bundle);
    }
}

impl HarnessEvents for FromHarness {
    fn data(&self, bundle: BundleId, transform: &str, data: Bytes, cut: bool, credit: Credit) {
        self.progressed(bundle);
        let event = match self.execution.sink_output(transform) {
            Some(output) => Event::Data {
                bundle,
                output,
                bytes: data,
                cut,
            },
            None => Event::Failed {
                bundle,
                failure: format!("the harness sent data for the unknown sink {transform}"),
            },
        };
        self.execution.send_about(bundle, event, credit);
    }

    fn timers(&self, bundle: BundleId, transform: &str, family: &str, data: Bytes, credit: Credit) {
        self.progressed(bundle);
        let event = Event::Timers {
            bundle,
            transform: transform.to_owned(),
            family: family.to_owned(),
            bytes: data,
        };
        self.execution.send_about(bundle, event, credit);
    }

    fn finished(&self, bundle: BundleId, result: Result<BundleResult, String>) {
        self.execution.stalls.lock().end(bundle);
        let event = match result {
            Ok(BundleResult {
                residuals,
                requires_finalization,
            }) => Event::Finished {
                bundle,
                residuals,
                finalize: requires_finalization,
            },
            Err(failure) => Event::Failed { bundle, failure },
        };
        self.execution.send_about(bundle, event, Credit::default());
    }

    fn metrics(&self, bundle: BundleId, metrics: Vec<ReportedMetric>) {
        self.execution.metrics_reported(bundle, metrics);
    }

    fn split(&self, bundle: BundleId, result: Result<SplitOutcome, String>) {
        // A harness that does not know the bundle any more has not split it.
        let outcome = result.unwrap_or_default();
        self.execution
            .send_about(bundle, Event::Split { bundle, outcome }, Credit::default());
    }

    fn progress(&self, bundle: BundleId, result: Result<Progress, String>) {
        if let Ok(progress) = result {
            let now = clock::instant();
            let mut stalls = self.execution.stalls.lock();
            stalls.answered(now, bundle, &progress.metrics);
            drop(stalls);
            let event = Event::Progress {
                bundle,
                taken: read_index(&progress.metrics),
            };
            let metrics = self.execution.record.metrics();
            metrics.progress(bundle, progress.metrics);
            self.execution.send_about(bundle, event, Credit::default());
        }
    }

    fn finalized(&self, bundle: BundleId, result: Result<(), String>) {
        if let Err(error) = result {
            self.execution.record.message(
                Importance::Warning,
                format!("the finalizers of {bundle} failed: {error}"),
            );
        }
    }

    fn state(&self, bundle: BundleId, request: StateRequest) -> Option<StateReply> {
        self.progressed(bundle);
        self.execution.ask(self.worker, bundle, request)
    }

    fn harness_metrics(&self, metrics: Vec<ReportedMetric>) {
        self.execution
            .harness_metrics_reported(self.worker, metrics);
    }

    fn log(&self, entry: LogEntry) {
        let importance = match entry.severity {
            Severity::Unspecified | Severity::Trace | Severity::Debug => Importance::Debug,
            Severity::Info | Severity::Notice => Importance::Detailed,
            Severity::Warn => Importance::Warning,
            // An ERROR message is what clients show for a failed job; a log line is not one yet.
            Severity::Error | Severity::Critical => Importance::Warning,
        };
        let mut text = entry.message;
        if !entry.trace.is_empty() {
            text.push('\n');
            text.push_str(&entry.trace);
        }
        let name = self.execution.user_name(&entry.transform);
        self.execution.record.message_about(importance, text, name);
    }

    fn lost(&self, reason: String) {
        if let Some(environment) = self.execution.lose(self.worker, &reason) {
            let _ = self.lost.send(Lost {
                environment,
                reason,
            });
        }
    }
}

/// How many elements of its input a bundle has taken.
fn read_index(metrics: &[ReportedMetric]) -> Option<u64> {
    let urn = monitoring_info_specs::DATA_CHANNEL_READ_INDEX;
    let metric = metrics.iter().find(|metric| metric.info.urn == urn)?;
    let number = varint::read(&mut &metric.payload[..]).ok()?;
    // Before the first element some SDKs are at -1.
    Some(u64::try_from(number.cast_signed()).unwrap_or(0))
}
