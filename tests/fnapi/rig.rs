//! A server with one announced harness, a fake of that harness, and a record of what it caused.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tidemill::fnapi::{
    BundleResult, Credit, Expected, FnApi, Harness, HarnessEvents, HarnessSpec, LogEntry, Progress,
    ReportedMetric, Settings, StartBundle,
};
use tidemill::model::{BundleId, SplitOutcome, StateReply, StateRequest};
use tidemill::proto::fn_execution::beam_fn_control_client::BeamFnControlClient;
use tidemill::proto::fn_execution::beam_fn_data_client::BeamFnDataClient;
use tidemill::proto::fn_execution::beam_fn_state_client::BeamFnStateClient;
use tidemill::proto::fn_execution::instruction_request::Request as Ask;
use tidemill::proto::fn_execution::instruction_response::Response as Answer;
use tidemill::proto::fn_execution::{
    Elements, InstructionRequest, InstructionResponse, ProcessBundleDescriptor,
    StateRequest as ProtoStateRequest, StateResponse, elements,
};
use tidemill::proto::pipeline::{FunctionSpec, PTransform, ParDoPayload, TimerFamilySpec};
use tokio::sync::mpsc;
use tokio_stream::wrappers::{TcpListenerStream, UnboundedReceiverStream};
use tonic::transport::Channel;
use tonic::{Request, Status, Streaming};

pub const ID: &str = "unguessable";
pub const DEADLINE: Duration = Duration::from_secs(20);

/// One call of [`HarnessEvents`].
#[derive(Debug)]
pub enum Event {
    Data(BundleId, String, Bytes, Credit),
    Timers(BundleId, String, Bytes),
    Finished(BundleId, Result<BundleResult, String>),
    Metrics(BundleId, Vec<ReportedMetric>),
    Split(BundleId, Result<SplitOutcome, String>),
    Progress(BundleId, Result<Progress, String>),
    Finalized(BundleId, Result<(), String>),
    State(BundleId, StateRequest),
    HarnessMetrics(Vec<ReportedMetric>),
    Log(LogEntry),
    Lost(String),
}

struct Recorder(mpsc::UnboundedSender<Event>);

impl Recorder {
    fn put(&self, event: Event) {
        let _ = self.0.send(event);
    }
}

impl HarnessEvents for Recorder {
    fn data(&self, bundle: BundleId, transform: &str, data: Bytes, _: bool, credit: Credit) {
        self.put(Event::Data(bundle, transform.into(), data, credit));
    }
    fn timers(&self, bundle: BundleId, transform: &str, family: &str, data: Bytes, _: Credit) {
        self.put(Event::Timers(bundle, format!("{transform}/{family}"), data));
    }
    fn finished(&self, bundle: BundleId, result: Result<BundleResult, String>) {
        self.put(Event::Finished(bundle, result));
    }
    fn metrics(&self, bundle: BundleId, metrics: Vec<ReportedMetric>) {
        self.put(Event::Metrics(bundle, metrics));
    }
    fn split(&self, bundle: BundleId, result: Result<SplitOutcome, String>) {
        self.put(Event::Split(bundle, result));
    }
    fn progress(&self, bundle: BundleId, result: Result<Progress, String>) {
        self.put(Event::Progress(bundle, result));
    }
    fn finalized(&self, bundle: BundleId, result: Result<(), String>) {
        self.put(Event::Finalized(bundle, result));
    }
    fn state(&self, bundle: BundleId, request: StateRequest) -> Option<StateReply> {
        self.put(Event::State(bundle, request));
        None
    }
    fn harness_metrics(&self, metrics: Vec<ReportedMetric>) {
        self.put(Event::HarnessMetrics(metrics));
    }
    fn log(&self, entry: LogEntry) {
        self.put(Event::Log(entry));
    }
    fn lost(&self, reason: String) {
        self.put(Event::Lost(reason));
    }
}

/// The runner's side.
pub struct Rig {
    pub api: FnApi,
    pub address: SocketAddr,
    pub events: mpsc::UnboundedReceiver<Event>,
}

impl Rig {
    pub async fn new(
        settings: Settings,
        spec: impl FnOnce(&mut HarnessSpec, SocketAddr),
    ) -> (Self, Expected) {
        let api = FnApi::new(settings);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tidemill::fnapi::server_builder().add_routes(api.routes());
        tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
        let (mut harness, events) = recorded();
        spec(&mut harness, address);
        let expected = api.expect(harness);
        let rig = Self {
            api,
            address,
            events,
        };
        (rig, expected)
    }

    /// A server with a fake harness connected to it.
    pub async fn connected() -> (Self, Harness, Fake) {
        Self::connected_with(Settings::default(), |_, _| {}).await
    }

    pub async fn connected_with(
        settings: Settings,
        spec: impl FnOnce(&mut HarnessSpec, SocketAddr),
    ) -> (Self, Harness, Fake) {
        let (rig, expected) = Self::new(settings, spec).await;
        let fake = Fake::connect(rig.address).await;
        let harness = expected.connected(DEADLINE).await.unwrap();
        (rig, harness, fake)
    }

    pub async fn next(&mut self) -> Event {
        let event = tokio::time::timeout(DEADLINE, self.events.recv()).await;
        event.expect("no event in time").expect("events have ended")
    }

    /// What has come already.
    pub fn arrived(&mut self) -> Option<Event> {
        self.events.try_recv().ok()
    }

    /// Asserts that nothing has come; what was sent before must have been seen to arrive by other means.
    pub fn assert_quiet(&mut self) {
        if let Some(event) = self.arrived() {
            panic!("unexpected {event:?}");
        }
    }
}

/// A harness, and what it causes.
pub fn recorded() -> (HarnessSpec, mpsc::UnboundedReceiver<Event>) {
    let (sender, events) = mpsc::unbounded_channel();
    let harness = HarnessSpec {
        id: ID.into(),
        environment_name: "fake".into(),
        capabilities: Vec::new(),
        provision: Default::default(),
        descriptors: Arc::new(BTreeMap::from([("d".into(), descriptor())])),
        events: Arc::new(Recorder(sender)),
    };
    (harness, events)
}

/// A source, a stateful ParDo with a timer family, and two sinks.
fn descriptor() -> ProcessBundleDescriptor {
    let transform = |urn: &str, payload: Vec<u8>| PTransform {
        spec: Some(FunctionSpec {
            urn: urn.into(),
            payload: payload.into(),
        }),
        ..PTransform::default()
    };
    let par_do = ParDoPayload {
        timer_family_specs: BTreeMap::from([("family".into(), TimerFamilySpec::default())]),
        ..ParDoPayload::default()
    };
    let par_do = prost::Message::encode_to_vec(&par_do);
    ProcessBundleDescriptor {
        id: "d".into(),
        transforms: BTreeMap::from([
            ("source".into(), transform("beam:runner:source:v1", vec![])),
            ("pardo".into(), transform("beam:transform:pardo:v1", par_do)),
            ("sink1".into(), transform("beam:runner:sink:v1", vec![])),
            ("sink2".into(), transform("beam:runner:sink:v1", vec![])),
        ]),
        ..ProcessBundleDescriptor::default()
    }
}

/// The harness's side: its streams, driven by hand.
pub struct Fake {
    pub channel: Channel,
    pub instructions: Streaming<InstructionRequest>,
    pub responses: mpsc::UnboundedSender<InstructionResponse>,
    pub data_in: Streaming<Elements>,
    pub data_out: mpsc::UnboundedSender<Elements>,
    pub state_in: Streaming<StateResponse>,
    pub state_out: mpsc::UnboundedSender<ProtoStateRequest>,
}

pub async fn channel(address: SocketAddr) -> Channel {
    let endpoint = tonic::transport::Endpoint::from_shared(format!("http://{address}")).unwrap();
    endpoint.connect().await.unwrap()
}

/// Adds the worker id to a message.
pub fn with_id<T>(id: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request
        .metadata_mut()
        .insert("worker_id", id.parse().unwrap());
    request
}

type Opened<Out, In> = Result<(mpsc::UnboundedSender<Out>, Streaming<In>), Status>;

macro_rules! opener {
    ($name:ident, $client:ident, $method:ident, $out:ty, $in:ty) => {
        pub async fn $name(
            channel: &Channel,
            wrap: impl FnOnce(UnboundedReceiverStream<$out>) -> Request<UnboundedReceiverStream<$out>>,
        ) -> Opened<$out, $in> {
            let (sender, receiver) = mpsc::unbounded_channel();
            let mut client = $client::new(channel.clone()).max_decoding_message_size(usize::MAX);
            let request = wrap(UnboundedReceiverStream::new(receiver));
            let response = client.$method(request).await?;
            Ok((sender, response.into_inner()))
        }
    };
}

opener!(
    open_control,
    BeamFnControlClient,
    control,
    InstructionResponse,
    InstructionRequest
);
opener!(open_data, BeamFnDataClient, data, Elements, Elements);
opener!(
    open_state,
    BeamFnStateClient,
    state,
    ProtoStateRequest,
    StateResponse
);

impl Fake {
    pub async fn connect(address: SocketAddr) -> Self {
        let channel = channel(address).await;
        let (responses, instructions) = open_control(&channel, |out| with_id(ID, out))
            .await
            .unwrap();
        let (data_out, data_in) = open_data(&channel, |out| with_id(ID, out)).await.unwrap();
        let (state_out, state_in) = open_state(&channel, |out| with_id(ID, out)).await.unwrap();
        Self {
            channel,
            instructions,
            responses,
            data_in,
            data_out,
            state_in,
            state_out,
        }
    }

    pub async fn instruction(&mut self) -> (String, Ask) {
        let next = tokio::time::timeout(DEADLINE, self.instructions.message()).await;
        let request = next
            .expect("no instruction in time")
            .unwrap()
            .expect("control ended");
        (request.instruction_id, request.request.unwrap())
    }

    pub fn answer(&self, id: &str, answer: Answer) {
        let response = InstructionResponse {
            instruction_id: id.into(),
            error: String::new(),
            response: Some(answer),
        };
        self.responses.send(response).unwrap();
    }

    pub fn answer_error(&self, id: &str, error: &str) {
        let response = InstructionResponse {
            instruction_id: id.into(),
            error: error.into(),
            response: None,
        };
        self.responses.send(response).unwrap();
    }

    pub fn send_data(&self, id: &str, transform: &str, data: &[u8], is_last: bool) {
        self.data_out
            .send(data_message(id, transform, data, is_last))
            .unwrap();
    }

    pub fn send_timers(&self, id: &str, data: &[u8], is_last: bool) {
        let timers = elements::Timers {
            instruction_id: id.into(),
            transform_id: "pardo".into(),
            timer_family_id: "family".into(),
            timers: Bytes::copy_from_slice(data),
            is_last,
        };
        let message = Elements {
            data: vec![],
            timers: vec![timers],
        };
        self.data_out.send(message).unwrap();
    }

    /// Ends all outputs of a bundle.
    pub fn end_outputs(&self, id: &str) {
        self.send_data(id, "sink1", b"", true);
        self.send_data(id, "sink2", b"", true);
        self.send_timers(id, b"", true);
    }

    /// Reads input until source and timer family have ended, which must be apart from any data.
    pub async fn read_input(&mut self) -> (Vec<u8>, Vec<u8>) {
        let (mut data, mut timers, mut ends) = (Vec::new(), Vec::new(), 0);
        while ends < 2 {
            let next = tokio::time::timeout(DEADLINE, self.data_in.message()).await;
            let message = next.expect("no data in time").unwrap().expect("data ended");
            for piece in message.data {
                assert!(
                    !piece.is_last || piece.data.is_empty(),
                    "data together with its end"
                );
                assert!(
                    timers.is_empty() || piece.data.is_empty(),
                    "elements after timers"
                );
                data.extend_from_slice(&piece.data);
                ends += usize::from(piece.is_last);
            }
            for piece in message.timers {
                assert!(
                    !piece.is_last || piece.timers.is_empty(),
                    "timers together with their end"
                );
                timers.extend_from_slice(&piece.timers);
                ends += usize::from(piece.is_last);
            }
        }
        (data, timers)
    }
}

pub fn data_message(id: &str, transform: &str, data: &[u8], is_last: bool) -> Elements {
    let data = elements::Data {
        instruction_id: id.into(),
        transform_id: transform.into(),
        data: Bytes::copy_from_slice(data),
        is_last,
    };
    Elements {
        data: vec![data],
        timers: vec![],
    }
}

/// A bundle of descriptor `d`.
pub fn bundle(number: u64, pieces: Vec<Bytes>) -> StartBundle {
    StartBundle {
        bundle: BundleId(number),
        descriptor: "d".into(),
        cache_tokens: Vec::new(),
        inputs: vec![("source".into(), pieces)],
        timers: Vec::new(),
    }
}
