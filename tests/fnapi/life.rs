//! A bundle's whole life, and everything that can be asked meanwhile.

use std::collections::BTreeMap;

use bytes::Bytes;
use tidemill::fnapi::{CacheToken, RUNNER_CAPABILITIES, Settings, Severity, TimerInput};
use tidemill::model::{BundleId, StateKey, StateOperation, StateReply};
use tidemill::proto::fn_execution::beam_fn_control_client::BeamFnControlClient;
use tidemill::proto::fn_execution::beam_fn_logging_client::BeamFnLoggingClient;
use tidemill::proto::fn_execution::beam_fn_worker_status_client::BeamFnWorkerStatusClient;
use tidemill::proto::fn_execution::instruction_request::Request as Ask;
use tidemill::proto::fn_execution::instruction_response::Response as Answer;
use tidemill::proto::fn_execution::provision_service_client::ProvisionServiceClient;
use tidemill::proto::fn_execution::{
    self as proto, BundleApplication, DelayedBundleApplication, MonitoringInfosMetadataResponse,
    ProcessBundleProgressResponse, ProcessBundleResponse, ProcessBundleSplitResponse,
    state_request,
};
use tidemill::proto::pipeline::MonitoringInfo;
use tidemill::proto::urn::protocols;
use tokio_stream::wrappers::UnboundedReceiverStream;

use crate::rig::{DEADLINE, Event, Fake, ID, Rig, bundle, data_message, with_id};

const B1: BundleId = BundleId(1);

#[tokio::test]
async fn a_bundle_runs_with_data_timers_and_state() {
    let (mut rig, harness, mut fake) = Rig::connected().await;
    let mut start = bundle(1, vec![Bytes::from_static(b"ab"), Bytes::from_static(b"c")]);
    start.timers.push(TimerInput {
        transform: "pardo".into(),
        family: "family".into(),
        pieces: vec![Bytes::from_static(b"tick")],
    });
    start.cache_tokens.push(CacheToken::UserState {
        token: Bytes::from_static(b"token"),
    });
    harness.start_bundle(start);
    let (id, Ask::ProcessBundle(request)) = fake.instruction().await else {
        panic!("not a bundle");
    };
    assert_eq!(request.process_bundle_descriptor_id, "d");
    assert_eq!(request.cache_tokens[0].token, "token");
    let mut control = BeamFnControlClient::new(fake.channel.clone());
    let ask = proto::GetProcessBundleDescriptorRequest {
        process_bundle_descriptor_id: "d".into(),
    };
    let descriptor = control
        .get_process_bundle_descriptor(with_id(ID, ask))
        .await
        .unwrap();
    assert_eq!(descriptor.into_inner().transforms.len(), 4);
    assert_eq!(fake.read_input().await, (b"abc".to_vec(), b"tick".to_vec()));

    ask_for_state(&mut rig, &harness, &mut fake, &id).await;

    fake.send_data(&id, "sink1", b"x", false);
    let Event::Data(B1, sink, data, _) = rig.next().await else {
        panic!("no data")
    };
    assert_eq!((sink.as_str(), &*data), ("sink1", &b"x"[..]));
    // The response may overtake the rest of the output; Java and Go end a stream together with its data.
    let application = BundleApplication {
        transform_id: "pardo".into(),
        input_id: "in".into(),
        element: Bytes::from_static(b"rest"),
        ..BundleApplication::default()
    };
    let response = ProcessBundleResponse {
        residual_roots: vec![DelayedBundleApplication {
            application: Some(application),
            requested_time_delay: Some(prost_types::Duration {
                seconds: 2,
                nanos: 0,
            }),
        }],
        requires_finalization: true,
        ..ProcessBundleResponse::default()
    };
    fake.answer(&id, Answer::ProcessBundle(response));
    fake.send_data(&id, "sink1", b"y", true);
    fake.send_timers(&id, b"tock", true);
    fake.send_data(&id, "sink2", b"", true);
    assert!(matches!(rig.next().await, Event::Data(B1, _, data, _) if data == "y"));
    assert!(
        matches!(rig.next().await, Event::Timers(B1, family, data) if family == "pardo/family" && data == "tock")
    );
    let Event::Finished(B1, Ok(result)) = rig.next().await else {
        panic!("not finished")
    };
    assert!(result.requires_finalization);
    assert_eq!(result.residuals[0].delay, 2000);
    assert_eq!(result.residuals[0].application.element, "rest");
    assert!(matches!(rig.next().await, Event::Metrics(B1, metrics) if metrics.is_empty()));

    harness.finalize(B1);
    let (finalize, Ask::FinalizeBundle(request)) = fake.instruction().await else {
        panic!("not a finalization");
    };
    assert_eq!(request.instruction_id, id);
    fake.answer(
        &finalize,
        Answer::FinalizeBundle(proto::FinalizeBundleResponse {}),
    );
    assert!(matches!(rig.next().await, Event::Finalized(B1, Ok(()))));
}

async fn ask_for_state(
    rig: &mut Rig,
    harness: &tidemill::fnapi::Harness,
    fake: &mut Fake,
    id: &str,
) {
    let key = proto::state_key::BagUserState {
        transform_id: "pardo".into(),
        user_state_id: "cell".into(),
        window: Bytes::new(),
        key: Bytes::from_static(b"k"),
    };
    let request = proto::StateRequest {
        id: "s1".into(),
        instruction_id: id.into(),
        state_key: Some(proto::StateKey {
            r#type: Some(proto::state_key::Type::BagUserState(key)),
        }),
        request: Some(state_request::Request::Get(
            proto::StateGetRequest::default(),
        )),
    };
    fake.state_out.send(request).unwrap();
    let Event::State(B1, request) = rig.next().await else {
        panic!("no state request")
    };
    assert!(matches!(&request.key, StateKey::BagUserState { state, .. } if state == "cell"));
    assert_eq!(
        request.operation,
        StateOperation::Get { continuation: None }
    );
    let reply = StateReply::Data {
        data: Bytes::from_static(b"v"),
        continuation: None,
    };
    harness.reply_state(B1, &request.id, reply);
    let response = fake.state_in.message().await.unwrap().unwrap();
    assert_eq!(response.id, "s1");
}

#[tokio::test]
async fn short_metric_ids_are_resolved_once_per_harness() {
    let (mut rig, harness, mut fake) = Rig::connected().await;
    for number in 1..=2 {
        harness.start_bundle(bundle(number, vec![]));
        let (id, _) = fake.instruction().await;
        fake.end_outputs(&id);
        // Python sends both forms; only one may be read.
        let response = ProcessBundleResponse {
            monitoring_data: BTreeMap::from([("7".into(), Bytes::from_static(b"\x05"))]),
            monitoring_infos: vec![MonitoringInfo::default()],
            ..ProcessBundleResponse::default()
        };
        fake.answer(&id, Answer::ProcessBundle(response));
        assert!(matches!(rig.next().await, Event::Finished(_, Ok(_))));
        if number == 1 {
            let (names, Ask::MonitoringInfos(asked)) = fake.instruction().await else {
                panic!("not asked for names");
            };
            assert_eq!(asked.monitoring_info_id, ["7"]);
            rig.assert_quiet();
            let info = MonitoringInfo {
                urn: "beam:metric:x".into(),
                ..MonitoringInfo::default()
            };
            let response = MonitoringInfosMetadataResponse {
                monitoring_info: BTreeMap::from([("7".into(), info)]),
            };
            fake.answer(&names, Answer::MonitoringInfos(response));
        }
        let Event::Metrics(bundle, metrics) = rig.next().await else {
            panic!("no metrics")
        };
        assert_eq!(bundle, BundleId(number));
        assert_eq!(metrics.len(), 1);
        assert_eq!(
            (metrics[0].info.urn.as_str(), &*metrics[0].payload),
            ("beam:metric:x", &[5][..])
        );
    }
    harness.harness_metrics();
    let (id, Ask::HarnessMonitoringInfos(_)) = fake.instruction().await else {
        panic!("not asked for the harness's metrics");
    };
    let response = proto::HarnessMonitoringInfosResponse {
        monitoring_data: BTreeMap::from([("7".into(), Bytes::from_static(b"\x06"))]),
    };
    fake.answer(&id, Answer::HarnessMonitoringInfos(response));
    assert!(
        matches!(rig.next().await, Event::HarnessMetrics(metrics) if metrics[0].payload == "\x06")
    );
}

#[tokio::test]
async fn metrics_that_nobody_explains_do_not_hold_up_the_end() {
    let (mut rig, harness, mut fake) = Rig::connected().await;
    harness.start_bundle(bundle(1, vec![]));
    let (id, _) = fake.instruction().await;
    fake.end_outputs(&id);
    let response = ProcessBundleResponse {
        monitoring_data: BTreeMap::from([("7".into(), Bytes::new())]),
        ..ProcessBundleResponse::default()
    };
    fake.answer(&id, Answer::ProcessBundle(response));
    assert!(matches!(rig.next().await, Event::Finished(B1, Ok(_))));
    drop(fake);
    assert!(matches!(rig.next().await, Event::Metrics(B1, metrics) if metrics.is_empty()));
    assert!(matches!(rig.next().await, Event::Lost(_)));
}

#[tokio::test]
async fn progress_and_splits_are_answered() {
    let (mut rig, harness, mut fake) = Rig::connected().await;
    harness.start_bundle(bundle(1, vec![Bytes::from_static(b"ab")]));
    let (run, _) = fake.instruction().await;
    harness.progress(B1);
    let (id, Ask::ProcessBundleProgress(request)) = fake.instruction().await else {
        panic!("not a progress request");
    };
    assert_eq!(request.instruction_id, run);
    let response = ProcessBundleProgressResponse {
        consuming_received_data: Some(true),
        monitoring_infos: vec![MonitoringInfo {
            urn: "u".into(),
            ..MonitoringInfo::default()
        }],
        ..ProcessBundleProgressResponse::default()
    };
    fake.answer(&id, Answer::ProcessBundleProgress(response));
    let Event::Progress(B1, Ok(progress)) = rig.next().await else {
        panic!("no progress")
    };
    assert_eq!(progress.consuming_received_data, Some(true));
    assert_eq!(progress.metrics[0].info.urn, "u");

    harness.split(B1, "source", 0.5, 2);
    let (id, Ask::ProcessBundleSplit(request)) = fake.instruction().await else {
        panic!("not a split request");
    };
    assert_eq!(request.instruction_id, run);
    assert_eq!(request.desired_splits["source"].fraction_of_remainder, 0.5);
    assert_eq!(request.desired_splits["source"].estimated_input_elements, 2);
    let channel_split = proto::process_bundle_split_response::ChannelSplit {
        transform_id: "source".into(),
        last_primary_element: 0,
        first_residual_element: 1,
    };
    let response = ProcessBundleSplitResponse {
        channel_splits: vec![channel_split],
        ..ProcessBundleSplitResponse::default()
    };
    fake.answer(&id, Answer::ProcessBundleSplit(response));
    let Event::Split(B1, Ok(outcome)) = rig.next().await else {
        panic!("no split")
    };
    assert_eq!(outcome.channel_splits[0].first_residual, 1);

    harness.split(B1, "source", 0.0, 2);
    let (id, _) = fake.instruction().await;
    fake.answer_error(&id, "Unknown process bundle");
    assert!(matches!(rig.next().await, Event::Split(B1, Err(error)) if error.contains("Unknown")));
}

#[tokio::test]
async fn small_bundles_may_travel_inside_control_messages() {
    let (mut rig, harness, mut fake) = Rig::connected_with(Settings::default(), |spec, _| {
        spec.capabilities = vec![protocols::CONTROL_REQUEST_ELEMENTS_EMBEDDING.into()];
    })
    .await;
    harness.start_bundle(bundle(1, vec![Bytes::from_static(b"in")]));
    let (id, Ask::ProcessBundle(request)) = fake.instruction().await else {
        panic!("not a bundle");
    };
    let elements = request.elements.unwrap();
    assert_eq!(elements.data[0].data, "in");
    assert!(elements.data[1].is_last && elements.timers[0].is_last);
    let mut elements = data_message(&id, "sink1", b"out", true);
    elements
        .data
        .extend(data_message(&id, "sink2", b"", true).data);
    fake.send_timers(&id, b"", true);
    let response = ProcessBundleResponse {
        elements: Some(elements),
        ..ProcessBundleResponse::default()
    };
    fake.answer(&id, Answer::ProcessBundle(response));
    assert!(matches!(rig.next().await, Event::Data(B1, _, data, _) if data == "out"));
    assert!(matches!(rig.next().await, Event::Finished(B1, Ok(_))));
}

#[tokio::test]
async fn a_harness_is_provisioned_logs_and_tells_its_status() {
    let (mut rig, _harness, fake) = Rig::connected_with(Settings::default(), |spec, _| {
        spec.provision.retrieval_token = "artifacts".into();
    })
    .await;
    let mut client = ProvisionServiceClient::new(fake.channel.clone());
    let request = with_id(ID, proto::GetProvisionInfoRequest {});
    let info = client
        .get_provision_info(request)
        .await
        .unwrap()
        .into_inner()
        .info
        .unwrap();
    assert_eq!(info.retrieval_token, "artifacts");
    assert_eq!(info.runner_capabilities, RUNNER_CAPABILITIES);

    let entry = proto::LogEntry {
        message: "hello".into(),
        severity: proto::log_entry::severity::Enum::Warn.into(),
        instruction_id: "b1".into(),
        ..proto::LogEntry::default()
    };
    let list = proto::log_entry::List {
        log_entries: vec![entry],
    };
    let mut client = BeamFnLoggingClient::new(fake.channel.clone());
    let lines = tokio_stream::iter([list]);
    let mut log = client
        .logging(with_id(ID, lines))
        .await
        .unwrap()
        .into_inner();
    assert!(log.message().await.unwrap().is_none());
    let Event::Log(entry) = rig.next().await else {
        panic!("no log")
    };
    assert_eq!(
        (entry.message.as_str(), entry.severity, entry.bundle),
        ("hello", Severity::Warn, Some(B1))
    );

    assert_eq!(rig.api.worker_status(ID, DEADLINE).await, None);
    let (answers, receiver) = tokio::sync::mpsc::unbounded_channel();
    let mut client = BeamFnWorkerStatusClient::new(fake.channel.clone());
    let answers_in = with_id(ID, UnboundedReceiverStream::new(receiver));
    let mut asked = client.worker_status(answers_in).await.unwrap().into_inner();
    let answer = async {
        let id = asked.message().await.unwrap().unwrap().id;
        let response = proto::WorkerStatusResponse {
            id,
            error: String::new(),
            status_info: "all well".into(),
        };
        answers.send(response).unwrap();
    };
    let (status, ()) = tokio::join!(rig.api.worker_status(ID, DEADLINE), answer);
    assert_eq!(status.as_deref(), Some("all well"));
}

#[tokio::test]
async fn a_stopped_harness_is_gone_when_it_has_closed_its_streams() {
    let (mut rig, harness, mut fake) = Rig::connected().await;
    harness.stop();
    assert!(fake.instructions.message().await.unwrap().is_none());
    let (never, _) = tokio::sync::mpsc::unbounded_channel();
    drop(std::mem::replace(&mut fake.responses, never));
    assert!(matches!(rig.next().await, Event::Lost(_)));
    assert!(harness.is_gone());
    assert!(!harness.start_bundle(bundle(1, vec![])));
    let gone = harness.gone();
    tokio::pin!(gone);
    let still_there = tokio::time::timeout(std::time::Duration::from_millis(50), &mut gone).await;
    assert!(still_there.is_err(), "its data stream is open");
    drop(fake);
    gone.await;
}
