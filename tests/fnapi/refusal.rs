//! What a stranger, a broken harness and a lost one get.

use std::time::Duration;

use bytes::Bytes;
use tidemill::fnapi::{DetachedHarness, Error, Settings};
use tidemill::model::BundleId;
use tidemill::proto::fn_execution::instruction_response::Response as Answer;
use tidemill::proto::fn_execution::provision_service_client::ProvisionServiceClient;
use tidemill::proto::fn_execution::{self as proto, Elements, ProcessBundleResponse};
use tidemill::telemetry::clock;
use tonic::{Code, Request};

use crate::rig::{
    DEADLINE, Event, ID, Rig, bundle, channel, open_control, open_data, open_state, recorded,
    with_id,
};

#[tokio::test]
async fn streams_of_strangers_are_refused() {
    let (rig, _harness, fake) = Rig::connected().await;
    let channel = channel(rig.address).await;
    let control = |id: Option<&'static str>| {
        open_control(&channel, move |out| match id {
            Some(id) => with_id(id, out),
            None => Request::new(out),
        })
    };
    assert_eq!(
        control(None).await.unwrap_err().code(),
        Code::InvalidArgument
    );
    assert_eq!(
        control(Some("guess")).await.unwrap_err().code(),
        Code::PermissionDenied
    );
    assert_eq!(
        control(Some(ID)).await.unwrap_err().code(),
        Code::AlreadyExists
    );
    let data = open_data(&channel, |out| with_id(ID, out)).await;
    assert_eq!(data.unwrap_err().code(), Code::AlreadyExists);
    let data = open_data(&channel, |out| with_id("guess", out)).await;
    assert_eq!(data.unwrap_err().code(), Code::PermissionDenied);
    let state = open_state(&channel, |out| with_id(ID, out)).await;
    assert_eq!(state.unwrap_err().code(), Code::AlreadyExists);
    let state = open_state(&channel, Request::new).await;
    assert_eq!(state.unwrap_err().code(), Code::InvalidArgument);
    let mut provision = ProvisionServiceClient::new(channel.clone());
    let info = provision
        .get_provision_info(proto::GetProvisionInfoRequest {})
        .await;
    assert_eq!(info.unwrap_err().code(), Code::InvalidArgument);
    drop(fake);
}

#[tokio::test]
async fn a_harness_that_never_comes_is_an_error_and_is_expected_no_more() {
    let (rig, expected) = Rig::new(Settings::default(), |_, _| {}).await;
    let error = expected
        .connected(Duration::from_millis(20))
        .await
        .err()
        .unwrap();
    assert!(matches!(&error, Error::NotConnected { environment, .. } if environment == "fake"));
    let channel = channel(rig.address).await;
    let control = open_control(&channel, |out| with_id(ID, out)).await;
    assert_eq!(control.unwrap_err().code(), Code::PermissionDenied);
}

#[tokio::test]
async fn a_failed_bundle_hands_over_nothing_more() {
    let (mut rig, harness, mut fake) = Rig::connected().await;
    harness.start_bundle(bundle(1, vec![Bytes::from_static(b"x")]));
    let (id, _) = fake.instruction().await;
    fake.answer_error(&id, "Traceback: boom");
    let Event::Finished(BundleId(1), Err(error)) = rig.next().await else {
        panic!("not failed");
    };
    assert_eq!(error, "Traceback: boom");
    fake.send_data(&id, "sink1", b"late", false);
    fake.end_outputs(&id);
    let request = proto::StateRequest {
        id: "s".into(),
        instruction_id: id.clone(),
        ..proto::StateRequest::default()
    };
    fake.state_out.send(request).unwrap();
    let reply = fake.state_in.message().await.unwrap().unwrap();
    assert!(reply.error.contains("not running"), "{reply:?}");
    // The harness goes on with the next bundle, and what it says of unknown ones is dropped.
    fake.send_data("b99", "sink1", b"lost", false);
    fake.answer(
        "b99",
        Answer::ProcessBundle(ProcessBundleResponse::default()),
    );
    harness.start_bundle(bundle(2, vec![]));
    let (id, _) = fake.instruction().await;
    fake.end_outputs(&id);
    fake.answer(&id, Answer::ProcessBundle(ProcessBundleResponse::default()));
    assert!(matches!(
        rig.next().await,
        Event::Finished(BundleId(2), Ok(_))
    ));
}

#[tokio::test]
async fn answers_that_make_no_sense_fail_the_bundle() {
    let (mut rig, harness, mut fake) = Rig::connected().await;
    harness.start_bundle(bundle(1, vec![]));
    let (id, _) = fake.instruction().await;
    fake.answer(
        &id,
        Answer::FinalizeBundle(proto::FinalizeBundleResponse {}),
    );
    assert!(matches!(
        rig.next().await,
        Event::Finished(BundleId(1), Err(_))
    ));
    harness.start_bundle(bundle(2, vec![]));
    let (id, _) = fake.instruction().await;
    fake.send_data(&id, "no such sink", b"x", false);
    let Event::Finished(BundleId(2), Err(error)) = rig.next().await else {
        panic!("not failed");
    };
    assert!(error.contains("no such sink"), "{error}");
}

#[test]
fn a_bundle_whose_output_never_ends_fails() {
    let (spec, mut events) = recorded();
    let harness = DetachedHarness::new(spec);
    let answer = |bundle: u64, response| proto::InstructionResponse {
        instruction_id: format!("b{bundle}"),
        response: Some(Answer::ProcessBundle(response)),
        ..proto::InstructionResponse::default()
    };
    let end = |transform: &str| proto::elements::Data {
        instruction_id: "b1".into(),
        transform_id: transform.into(),
        is_last: true,
        ..proto::elements::Data::default()
    };
    let elements = Elements {
        data: vec![end("sink1"), end("sink2")],
        ..Elements::default()
    };
    let response = ProcessBundleResponse {
        elements: Some(elements),
        ..ProcessBundleResponse::default()
    };
    assert!(harness.begin(BundleId(1), "d"));
    assert!(harness.begin(BundleId(2), "d"));
    harness.respond(answer(1, response)).expect("an answer");
    let now = clock::instant();
    harness.look(now + Duration::from_secs(30));
    assert!(events.try_recv().is_err(), "there is time yet");
    harness.look(now + Duration::from_secs(61));
    let Ok(Event::Finished(BundleId(1), Err(error))) = events.try_recv() else {
        panic!("not failed");
    };
    assert!(error.contains("timers \"family\" of \"pardo\""), "{error}");
    assert!(
        events.try_recv().is_err(),
        "the other one may take its time"
    );
}

#[tokio::test]
async fn garbage_ids_end_the_stream_and_the_harness() {
    for bad in ["", "1", "b", "bx", "b-1", "p1-b1", "\u{0}"] {
        let (mut rig, _harness, mut fake) = Rig::connected().await;
        fake.send_data(bad, "sink1", b"x", false);
        let status = fake.data_in.message().await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{bad:?}");
        assert!(matches!(rig.next().await, Event::Lost(_)));
    }
    let (mut rig, _harness, mut fake) = Rig::connected().await;
    fake.answer_error("zzz", "x");
    assert_eq!(
        fake.instructions.message().await.unwrap_err().code(),
        Code::InvalidArgument
    );
    assert!(matches!(rig.next().await, Event::Lost(_)));
    let (mut rig, _harness, mut fake) = Rig::connected().await;
    fake.state_out.send(proto::StateRequest::default()).unwrap();
    assert_eq!(
        fake.state_in.message().await.unwrap_err().code(),
        Code::InvalidArgument
    );
    assert!(matches!(rig.next().await, Event::Lost(_)));
}

#[tokio::test]
async fn a_harness_that_dies_is_reported_once_and_its_id_is_dead() {
    let (mut rig, harness, mut fake) = Rig::connected().await;
    harness.start_bundle(bundle(1, vec![Bytes::from_static(b"x")]));
    fake.instruction().await;
    drop(fake);
    assert!(matches!(rig.next().await, Event::Lost(_)));
    harness.gone().await;
    harness.start_bundle(bundle(2, vec![]));
    harness.progress(BundleId(1));
    rig.assert_quiet();
    let channel = channel(rig.address).await;
    let control = open_control(&channel, |out| with_id(ID, out)).await;
    assert_eq!(control.unwrap_err().code(), Code::PermissionDenied);
}

#[tokio::test]
async fn a_broken_data_stream_loses_the_harness_only_while_bundles_run() {
    let (mut rig, expected) = Rig::new(Settings::default(), |_, _| {}).await;
    let channel = channel(rig.address).await;
    let (_responses, mut instructions) = open_control(&channel, |out| with_id(ID, out))
        .await
        .unwrap();
    let harness = expected.connected(DEADLINE).await.unwrap();
    drop(open_data(&channel, |out| with_id(ID, out)).await.unwrap());
    // The server sees the end of the old stream a moment later.
    let (data_out, _data_in) = loop {
        match open_data(&channel, |out| with_id(ID, out)).await {
            Ok(opened) => break opened,
            Err(status) => assert_eq!(status.code(), Code::AlreadyExists),
        }
    };
    rig.assert_quiet();
    harness.start_bundle(bundle(1, vec![Bytes::from_static(b"x")]));
    instructions.message().await.unwrap().unwrap();
    drop(data_out);
    let Event::Lost(reason) = rig.next().await else {
        panic!("not lost")
    };
    assert!(reason.contains("data stream"), "{reason}");
}
