//! One connected harness.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use crate::fnapi::connection::{Connection, Phase};
use crate::fnapi::instruction::{Instruction, Question};
use crate::fnapi::wire;
use crate::model::{BundleId, StateReply};
use crate::proto::fn_execution::instruction_request::Request;
use crate::proto::fn_execution::process_bundle_split_request::DesiredSplit;
use crate::proto::fn_execution::{
    FinalizeBundleRequest, HarnessMonitoringInfosRequest, ProcessBundleProgressRequest,
    ProcessBundleRequest, ProcessBundleSplitRequest,
};

/// One connected harness; cheap to clone, and no method blocks.
///
/// After the harness is lost, calls do nothing.
#[derive(Clone)]
pub struct Harness {
    connection: Arc<Connection>,
}

/// A bundle to be run, with all its input.
#[derive(Clone, Debug)]
pub struct StartBundle {
    pub bundle: BundleId,
    /// The descriptor's id.
    pub descriptor: String,
    pub cache_tokens: Vec<CacheToken>,
    /// Elements by data source transform; each piece holds whole elements. Sources without elements may be left out.
    pub inputs: Vec<(String, Vec<Bytes>)>,
    /// Firing timers; families without any may be left out. Sent after the elements.
    pub timers: Vec<TimerInput>,
}

/// Firing timers of one family.
#[derive(Clone, Debug)]
pub struct TimerInput {
    pub transform: String,
    pub family: String,
    /// Each piece holds whole encoded timers.
    pub pieces: Vec<Bytes>,
}

/// Says which earlier reads of state the harness may still trust.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CacheToken {
    UserState {
        token: Bytes,
    },
    SideInput {
        transform: String,
        side_input: String,
        token: Bytes,
    },
}

impl Harness {
    pub(crate) fn new(connection: Arc<Connection>) -> Self {
        Self { connection }
    }

    /// Sends the bundle to the harness; `false` when the harness is gone, so that nothing will come of it.
    pub fn start_bundle(&self, mut start: StartBundle) -> bool {
        let connection = &self.connection;
        let bundle = start.bundle;
        let shape = connection.shape(&start.descriptor);
        if !connection.begin(bundle, Arc::clone(&shape)) {
            return false;
        }
        let tokens = std::mem::take(&mut start.cache_tokens);
        let mut request = ProcessBundleRequest {
            process_bundle_descriptor_id: std::mem::take(&mut start.descriptor),
            cache_tokens: tokens.into_iter().map(wire::cache_token).collect(),
            ..ProcessBundleRequest::default()
        };
        let embed = connection.embeds_requests()
            && start.input_bytes() <= connection.settings.embedded_bytes_max;
        if embed {
            request.elements = Some(start.take_embedded(&shape));
        }
        let request = Request::ProcessBundle(request);
        connection.instruct(Instruction::Run(bundle), request);
        if !embed {
            connection.outbox.push(start, &shape);
        }
        true
    }

    /// Asks the harness to give back part of the bundle's remaining work.
    pub fn split(
        &self,
        bundle: BundleId,
        source: &str,
        fraction_of_remainder: f64,
        estimated_input_elements: i64,
    ) {
        let desired = DesiredSplit {
            fraction_of_remainder,
            estimated_input_elements,
            allowed_split_points: Vec::new(),
        };
        let request = ProcessBundleSplitRequest {
            instruction_id: Instruction::Run(bundle).to_string(),
            desired_splits: BTreeMap::from([(source.to_owned(), desired)]),
        };
        self.ask(
            Question::Split,
            bundle,
            Request::ProcessBundleSplit(request),
        );
    }

    /// Asks how far the bundle is.
    pub fn progress(&self, bundle: BundleId) {
        let request = ProcessBundleProgressRequest {
            instruction_id: Instruction::Run(bundle).to_string(),
        };
        let request = Request::ProcessBundleProgress(request);
        self.ask(Question::Progress, bundle, request);
    }

    /// Has the harness run the finalization callbacks of a committed bundle.
    pub fn finalize(&self, bundle: BundleId) {
        let request = FinalizeBundleRequest {
            instruction_id: Instruction::Run(bundle).to_string(),
        };
        self.ask(Question::Finalize, bundle, Request::FinalizeBundle(request));
    }

    /// Answers a state request; `request` is [`crate::model::StateRequest::id`].
    pub fn reply_state(&self, bundle: BundleId, request: &str, reply: StateReply) {
        self.connection.reply_state(bundle, request, reply);
    }

    /// Asks for the metrics that belong to the process rather than to a bundle.
    pub fn harness_metrics(&self) {
        let number = self.connection.next_number();
        let request = Request::HarnessMonitoringInfos(HarnessMonitoringInfosRequest {});
        self.connection
            .instruct(Instruction::HarnessMetrics(number), request);
    }

    /// Ends the control stream, so that the harness tears down and exits. Then comes
    /// [`crate::fnapi::HarnessEvents::lost`], at latest when its environment is stopped.
    pub fn stop(&self) {
        self.connection.stop();
    }

    /// Whether the harness has been lost.
    pub fn is_gone(&self) -> bool {
        matches!(*self.connection.phase().borrow(), Phase::Lost(_))
    }

    /// Waits until the harness is lost and, as far as can be seen, has torn down its user code. After
    /// [`Self::stop`] this should be given a few seconds before the environment is stopped.
    pub async fn gone(&self) {
        let mut phase = self.connection.phase();
        // Fails only when the connection is dropped, and `self` holds it.
        let _ = phase
            .wait_for(|phase| matches!(phase, Phase::Lost(_)))
            .await;
        self.connection.streams.torn_down().await;
    }

    /// The worker id.
    pub fn id(&self) -> &str {
        &self.connection.id
    }

    fn ask(&self, question: Question, bundle: BundleId, request: Request) {
        let number = self.connection.next_number();
        self.connection
            .instruct(Instruction::Ask(question, number, bundle), request);
    }
}
