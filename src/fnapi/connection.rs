//! What all streams of one harness share, from its announcement to its loss.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Semaphore, mpsc, watch};
use tonic::Status;

use crate::fnapi::bundle::{Response, RunningBundle, Step};
use crate::fnapi::events::{HarnessEvents, Progress};
use crate::fnapi::instruction::Instruction;
use crate::fnapi::metrics::{Purpose, RawMetrics, Readable, ShortIds};
use crate::fnapi::outbox::Outbox;
use crate::fnapi::overdue::Reception;
use crate::fnapi::registry::Registry;
use crate::fnapi::server::{HarnessSpec, Settings};
use crate::fnapi::shape::Shape;
use crate::fnapi::state::ReplySender;
use crate::fnapi::streams::Streams;
use crate::fnapi::worker_status::StatusCalls;
use crate::model::BundleId;
use crate::proto::fn_execution::instruction_request::Request;
use crate::proto::fn_execution::{
    InstructionRequest, MonitoringInfosMetadataRequest, ProcessBundleDescriptor, ProvisionInfo,
};
use crate::proto::pipeline::MonitoringInfo;
use crate::proto::urn::protocols;
use crate::telemetry::clock;

/// How long a harness that was asked to stop may keep its streams open.
const TEARDOWN_PATIENCE: Duration = Duration::from_secs(10);

/// How far a harness is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Expected,
    Connected,
    /// With the reason.
    Lost(String),
}

/// Instructions on their way to the harness.
///
/// Not bounded: the engine bounds bundles in flight, and asks little about each.
pub(crate) type ControlSender = mpsc::UnboundedSender<Result<InstructionRequest, Status>>;

/// One harness.
pub(crate) struct Connection {
    pub(crate) id: String,
    pub(crate) environment: String,
    pub(crate) provision: ProvisionInfo,
    pub(crate) descriptors: Arc<BTreeMap<String, ProcessBundleDescriptor>>,
    pub(crate) events: Arc<dyn HarnessEvents>,
    pub(crate) settings: Settings,
    pub(crate) outbox: Arc<Outbox>,
    /// Room for received data, in bytes.
    pub(crate) received: Arc<Semaphore>,
    /// Room for unanswered state requests.
    pub(crate) state_room: Arc<Semaphore>,
    /// When data came last.
    pub(crate) reception: Mutex<Reception>,
    pub(crate) replies: Mutex<Option<ReplySender>>,
    pub(crate) status_calls: Mutex<StatusCalls>,
    pub(crate) streams: Streams,
    embeds_requests: bool,
    shapes: BTreeMap<String, Arc<Shape>>,
    registry: Weak<Registry>,
    control: Mutex<Option<ControlSender>>,
    /// The end of the control stream will be no surprise.
    stopping: watch::Sender<bool>,
    phase: watch::Sender<Phase>,
    bundles: Mutex<Bundles>,
    /// Held while `finished`, `metrics`, `lost` and answers are delivered, which keeps their order.
    delivery: Mutex<Delivery>,
    numbers: AtomicU64,
}

#[derive(Default)]
struct Bundles {
    running: BTreeMap<BundleId, Arc<RunningBundle>>,
    closed: bool,
}

#[derive(Default)]
struct Delivery {
    lost: bool,
    short_ids: ShortIds,
    /// The ids that each question of ours was about.
    names_asked: BTreeMap<u64, Vec<String>>,
}

impl Connection {
    pub(crate) fn new(spec: HarnessSpec, settings: Settings, registry: Weak<Registry>) -> Self {
        let shapes = spec.descriptors.iter();
        let embeds = |urn: &String| urn == protocols::CONTROL_REQUEST_ELEMENTS_EMBEDDING;
        Self {
            id: spec.id,
            environment: spec.environment_name,
            provision: spec.provision,
            events: spec.events,
            outbox: Arc::default(),
            received: Arc::new(Semaphore::new(settings.received_bytes_max)),
            state_room: Arc::new(Semaphore::new(settings.state_requests_max)),
            reception: Mutex::default(),
            replies: Mutex::default(),
            status_calls: Mutex::default(),
            streams: Streams::default(),
            stopping: watch::Sender::new(false),
            embeds_requests: spec.capabilities.iter().any(embeds),
            shapes: shapes
                .map(|(id, descriptor)| (id.clone(), Arc::new(Shape::of(descriptor))))
                .collect(),
            descriptors: spec.descriptors,
            registry,
            control: Mutex::default(),
            phase: watch::Sender::new(Phase::Expected),
            bundles: Mutex::default(),
            delivery: Mutex::default(),
            numbers: AtomicU64::new(0),
            settings,
        }
    }

    /// A number that no other instruction to this harness has.
    pub(crate) fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn embeds_requests(&self) -> bool {
        self.embeds_requests
    }

    /// The shape of a descriptor; an unknown one has none, and the harness will not get it.
    pub(crate) fn shape(&self, descriptor: &str) -> Arc<Shape> {
        self.shapes.get(descriptor).cloned().unwrap_or_default()
    }

    pub(crate) fn phase(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    /// Attaches the control stream; `None` when there is or was one.
    pub(crate) fn connect(
        &self,
    ) -> Option<mpsc::UnboundedReceiver<Result<InstructionRequest, Status>>> {
        let mut control = self.control.lock();
        let (sender, receiver) = mpsc::unbounded_channel();
        let connected = self.phase.send_if_modified(|phase| {
            let free = *phase == Phase::Expected;
            if free {
                *phase = Phase::Connected;
            }
            free
        });
        connected.then(|| {
            *control = Some(sender);
            receiver
        })
    }

    /// Sends an instruction; nothing happens when the harness is gone.
    pub(crate) fn instruct(&self, instruction: Instruction, request: Request) {
        let request = InstructionRequest {
            instruction_id: instruction.to_string(),
            request: Some(request),
        };
        if let Some(control) = &*self.control.lock() {
            // The receiver goes only with the stream, whose reader then reports the loss.
            let _ = control.send(Ok(request));
        }
    }

    /// Ends the control stream from this side, with a status if something was wrong.
    pub(crate) fn close_control(&self, status: Option<Status>) {
        if let Some(control) = self.control.lock().take()
            && let Some(status) = status
        {
            let _ = control.send(Err(status));
        }
    }

    /// Ends the control stream so that the harness tears down and then closes its other streams itself.
    pub(crate) fn stop(&self) {
        self.stopping.send_replace(true);
        self.close_control(None);
    }

    /// Resolves when the harness was asked to stop and has had the time for it.
    pub(crate) async fn overstayed(&self) {
        let mut stopping = self.stopping.subscribe();
        // Never fails: `self` holds the sender.
        let _ = stopping.wait_for(|stopping| *stopping).await;
        tokio::time::sleep(TEARDOWN_PATIENCE).await;
    }

    /// Notes a bundle; `false` when the harness is gone.
    pub(crate) fn begin(&self, bundle: BundleId, shape: Arc<Shape>) -> bool {
        let mut bundles = self.bundles.lock();
        if bundles.closed {
            return false;
        }
        let running = Arc::new(RunningBundle::new(bundle, shape));
        let previous = bundles.running.insert(bundle, running);
        assert!(previous.is_none(), "{bundle} was started twice");
        true
    }

    pub(crate) fn bundle(&self, bundle: BundleId) -> Option<Arc<RunningBundle>> {
        self.bundles.lock().running.get(&bundle).cloned()
    }

    /// The bundles that run.
    pub(crate) fn bundles(&self) -> Vec<Arc<RunningBundle>> {
        self.bundles.lock().running.values().cloned().collect()
    }

    pub(crate) fn has_bundles(&self) -> bool {
        !self.bundles.lock().running.is_empty()
    }

    /// Reports the end of a bundle if this step was its last.
    pub(crate) fn advance(&self, bundle: BundleId, step: Step) {
        let Step::Complete((result, metrics)): Step = step else {
            return;
        };
        self.bundles.lock().running.remove(&bundle);
        let mut delivery = self.delivery.lock();
        if delivery.lost {
            return;
        }
        self.events.finished(bundle, Ok(result));
        self.read_metrics(&mut delivery, Purpose::Final(bundle), metrics);
    }

    /// Reports that a bundle failed.
    pub(crate) fn fail(&self, bundle: &RunningBundle, error: String) {
        let Some(unanswered) = bundle.abort() else {
            return;
        };
        self.bundles.lock().running.remove(&bundle.id);
        self.outbox.discard(bundle.id);
        self.state_room.add_permits(unanswered);
        let delivery = self.delivery.lock();
        if !delivery.lost {
            self.events.finished(bundle.id, Err(error));
        }
    }

    /// Delivers an answer, unless the harness has been reported lost.
    pub(crate) fn answer(&self, deliver: impl FnOnce(&dyn HarnessEvents)) {
        let delivery = self.delivery.lock();
        if !delivery.lost {
            deliver(&*self.events);
        }
    }

    /// Delivers metrics, now or when the harness has said what their ids mean.
    pub(crate) fn deliver_metrics(&self, purpose: Purpose, raw: RawMetrics) {
        let mut delivery = self.delivery.lock();
        if !delivery.lost {
            self.read_metrics(&mut delivery, purpose, raw);
        }
    }

    /// Takes the harness's answer about short metric ids.
    pub(crate) fn learn_metric_names(&self, number: u64, infos: BTreeMap<String, MonitoringInfo>) {
        let mut delivery = self.delivery.lock();
        let Some(asked) = delivery.names_asked.remove(&number) else {
            return;
        };
        let readable = delivery.short_ids.learn(&asked, infos);
        if !delivery.lost {
            self.report(readable);
        }
    }

    fn read_metrics(&self, delivery: &mut Delivery, purpose: Purpose, raw: RawMetrics) {
        match delivery.short_ids.add(purpose, raw) {
            Ok(readable) => self.report(vec![readable]),
            Err(unasked) if unasked.is_empty() => {}
            Err(unasked) => {
                let number = self.next_number();
                let request = MonitoringInfosMetadataRequest {
                    monitoring_info_id: unasked.clone(),
                };
                delivery.names_asked.insert(number, unasked);
                let request = Request::MonitoringInfos(request);
                self.instruct(Instruction::MetricNames(number), request);
            }
        }
    }

    fn report(&self, readable: Vec<Readable>) {
        for (purpose, metrics) in readable {
            match purpose {
                Purpose::Final(bundle) => self.events.metrics(bundle, metrics),
                Purpose::Progress(bundle, consuming_received_data) => {
                    let progress = Progress {
                        metrics,
                        consuming_received_data,
                    };
                    self.events.progress(bundle, Ok(progress));
                }
                Purpose::Harness => self.events.harness_metrics(metrics),
            }
        }
    }

    /// Ends everything about the harness and reports its loss, once.
    pub(crate) fn lose(self: &Arc<Self>, reason: String) {
        self.forget();
        self.close_control(None);
        self.status_calls.lock().close();
        if *self.stopping.borrow() {
            // Its own closing of them tells when it has torn down.
            let connection = Arc::clone(self);
            tokio::spawn(async move {
                tokio::time::sleep(TEARDOWN_PATIENCE).await;
                connection.close_streams();
            });
        } else {
            self.close_streams();
        }
        let running = {
            let mut bundles = self.bundles.lock();
            bundles.closed = true;
            std::mem::take(&mut bundles.running)
        };
        for bundle in running.values() {
            if let Some(unanswered) = bundle.abort() {
                self.state_room.add_permits(unanswered);
            }
        }
        let mut delivery = self.delivery.lock();
        if std::mem::replace(&mut delivery.lost, true) {
            return;
        }
        let pending = delivery.short_ids.give_up();
        let is_final = |(purpose, _): &Readable| matches!(purpose, Purpose::Final(_));
        self.report(pending.into_iter().filter(is_final).collect());
        tracing::debug!(worker = self.id, reason, "harness lost");
        // Before the event, so that who has just been handed the harness either sees this or gets that.
        self.phase.send_replace(Phase::Lost(reason.clone()));
        self.events.lost(reason);
    }

    fn close_streams(&self) {
        self.outbox.close(None);
        self.replies.lock().take();
    }

    /// A stream other than control broke or ended: the harness cannot go on if bundles need it.
    pub(crate) fn stream_ended(self: &Arc<Self>, stream: &str, error: Option<&Status>) {
        let how = how_it_ended(stream, error);
        if self.has_bundles() {
            self.lose(format!("{how} while bundles were running"));
        } else {
            tracing::debug!(worker = self.id, how, "stream closed");
        }
    }

    /// Stops serving the id. A harness that never connected is not reported lost.
    pub(crate) fn forget(&self) {
        if let Some(registry) = self.registry.upgrade() {
            registry.remove(self);
        }
    }

    /// Gives up waiting for a harness that has not connected.
    pub(crate) fn give_up(&self) {
        let abandoned = self.phase.send_if_modified(|phase| {
            let waiting = *phase == Phase::Expected;
            if waiting {
                *phase = Phase::Lost("it is no longer expected".into());
            }
            waiting
        });
        if abandoned {
            self.forget();
            self.close_streams();
        }
    }

    /// A response came for a bundle that may or may not be running.
    pub(crate) fn responded(&self, bundle: BundleId, response: Result<Response, String>) {
        let Some(running) = self.bundle(bundle) else {
            tracing::debug!(%bundle, worker = self.id, "response for a bundle that is not running");
            return;
        };
        match response {
            Ok(response) => {
                let step = running.responded(clock::instant(), response);
                self.advance(bundle, step);
            }
            Err(error) => self.fail(&running, error),
        }
    }
}

/// Says how a stream of a harness ended, for people.
pub(crate) fn how_it_ended(stream: &str, error: Option<&Status>) -> String {
    match error.map(Status::message) {
        None => format!("its {stream} stream ended"),
        // What tonic says when the TCP connection under the stream is gone.
        Some(message) if message.contains("from connection") => {
            "its connection broke (its process has probably died)".into()
        }
        Some(message) => format!("its {stream} stream broke: {message}"),
    }
}
