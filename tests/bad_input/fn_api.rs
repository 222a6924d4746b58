//! What a harness sends on its control, state and data streams.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use prost::Message;
use tidemill::fnapi::{
    BundleResult, Credit, DetachedHarness, HarnessEvents, HarnessSpec, LogEntry, Progress,
    ReportedMetric,
};
use tidemill::job::Metrics;
use tidemill::model::{BundleId, SplitOutcome, StateReply, StateRequest, WorkerId};
use tidemill::plan::{self, Plan, Settings};
use tidemill::proto::fn_execution as proto;
use tidemill::proto::pipeline::Pipeline;

/// The first byte says on which stream the rest comes.
pub fn run(data: &[u8]) {
    let Some((choice, message)) = data.split_first() else {
        return;
    };
    let events = Arc::new(Recorder {
        metrics: Metrics::default(),
    });
    let harness = DetachedHarness::new(HarnessSpec {
        id: "harness".to_owned(),
        environment_name: "environment".to_owned(),
        capabilities: Vec::new(),
        provision: proto::ProvisionInfo::default(),
        descriptors: Arc::clone(&DESCRIPTORS),
        events: Arc::clone(&events) as Arc<dyn HarnessEvents>,
    });
    for (id, descriptor) in (1..).map(BundleId).zip(DESCRIPTORS.keys()) {
        assert!(harness.begin(id, descriptor));
    }
    // What closes a stream loses the harness, and no more than that.
    match choice % 3 {
        0 => {
            if let Ok(response) = proto::InstructionResponse::decode(message) {
                harness.respond(response).ok();
            }
        }
        1 => {
            if let Ok(request) = proto::StateRequest::decode(message) {
                harness.ask_state(request).ok();
            }
        }
        _ => send_data(&harness, usize::from(choice / 3), message),
    }
    events.metrics.attempted();
    events.metrics.committed();
}

/// Sends a message as its bytes say, or as one of the right length, in frames of this size.
fn send_data(harness: &DetachedHarness, size: usize, message: &[u8]) {
    let mut bytes = message.to_vec();
    if size.is_multiple_of(2) {
        let length = message.len() as u32;
        bytes.splice(0..0, [&[0][..], &length.to_be_bytes()].concat());
    }
    let frames: Vec<Bytes> = bytes
        .chunks(size / 2 + 1)
        .map(Bytes::copy_from_slice)
        .collect();
    assert!(harness.send_data(frames), "there is room");
}

/// Takes everything; metrics are merged as a job would.
struct Recorder {
    metrics: Metrics,
}

impl HarnessEvents for Recorder {
    fn data(&self, _: BundleId, _: &str, _: Bytes, _: bool, _: Credit) {}

    fn timers(&self, _: BundleId, _: &str, _: &str, _: Bytes, _: Credit) {}

    fn finished(&self, _: BundleId, _: Result<BundleResult, String>) {}

    fn metrics(&self, bundle: BundleId, metrics: Vec<ReportedMetric>) {
        self.metrics.progress(bundle, metrics.clone());
        self.metrics.commit(bundle, metrics.clone());
        self.metrics.commit(BundleId(u64::MAX), metrics);
    }

    fn split(&self, _: BundleId, _: Result<SplitOutcome, String>) {}

    fn progress(&self, bundle: BundleId, result: Result<Progress, String>) {
        if let Ok(progress) = result {
            self.metrics.progress(bundle, progress.metrics);
            self.metrics.discard(bundle);
        }
    }

    fn finalized(&self, _: BundleId, _: Result<(), String>) {}

    fn state(&self, _: BundleId, _: StateRequest) -> Option<StateReply> {
        None
    }

    fn harness_metrics(&self, metrics: Vec<ReportedMetric>) {
        self.metrics.harness(WorkerId(0), metrics);
    }

    fn log(&self, _: LogEntry) {}

    fn lost(&self, _: String) {}
}

static DESCRIPTORS: LazyLock<Arc<BTreeMap<String, proto::ProcessBundleDescriptor>>> =
    LazyLock::new(|| {
        let bytes = include_bytes!("../../src/plan/fixtures/stateful-raw.pb");
        let pipeline = Pipeline::decode(&bytes[..]).expect("a pipeline");
        let Plan { descriptors, .. } =
            plan::build(&pipeline, &Settings::default()).expect("a plan");
        Arc::new(descriptors)
    });
