//! Much data, with little memory.

use bytes::Bytes;
use tidemill::fnapi::{Settings, StartBundle};
use tidemill::model::{BundleId, StateReply};
use tidemill::proto::fn_execution::instruction_response::Response as Answer;
use tidemill::proto::fn_execution::{self as proto, ProcessBundleResponse, state_request};
use tokio::sync::Mutex;

use crate::rig::{Event, Rig, bundle, data_message};

const MIB: usize = 1 << 20;

/// Tests that take much memory, of which one looks at how much there is.
static HEAVY: Mutex<()> = Mutex::const_new(());

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_output_is_slowed_down_to_what_is_consumed() {
    let _alone = HEAVY.lock().await;
    let settings = Settings {
        received_bytes_max: 4 * MIB,
        ..Settings::default()
    };
    let (mut rig, harness, mut fake) = Rig::connected_with(settings, |_, _| {}).await;
    harness.start_bundle(bundle(1, vec![]));
    let (id, _) = fake.instruction().await;
    let payload = vec![7; MIB];
    for _ in 0..100 {
        fake.send_data(&id, "sink1", &payload, false);
    }
    fake.end_outputs(&id);
    fake.answer(&id, Answer::ProcessBundle(ProcessBundleResponse::default()));
    let (mut held, mut held_bytes, mut total) = (Vec::new(), 0, 0);
    let mut arrived = None;
    loop {
        let event = match arrived.take() {
            Some(event) => event,
            None => rig.next().await,
        };
        match event {
            Event::Data(_, _, data, credit) => {
                total += data.len();
                held_bytes += data.len();
                held.push((data, credit));
            }
            Event::Finished(_, Ok(_)) => break,
            other => panic!("unexpected {other:?}"),
        }
        assert!(
            held_bytes <= 4 * MIB,
            "{held_bytes} bytes came on the credit of 4 MiB"
        );
        // Everything that can come has come before credit is given back; a piece is a message at most.
        if held_bytes > 3 * MIB {
            tokio::task::yield_now().await;
            arrived = rig.arrived();
            if arrived.is_none() {
                held.clear();
                held_bytes = 0;
            }
        }
    }
    assert_eq!(total, 100 * MIB);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_bundle_goes_out_with_bounded_memory() {
    let _alone = HEAVY.lock().await;
    let (_rig, harness, mut fake) = Rig::connected().await;
    let piece = Bytes::from(vec![1; MIB]);
    let before = resident_bytes();
    harness.start_bundle(StartBundle {
        inputs: vec![("source".into(), vec![piece; 200])],
        ..bundle(1, vec![])
    });
    let (mut bytes, mut largest, mut ends) = (0, 0, 0);
    while ends < 2 {
        let message = fake.data_in.message().await.unwrap().unwrap();
        for data in &message.data {
            bytes += data.data.len();
            ends += usize::from(data.is_last);
        }
        ends += message.timers.len();
        largest = largest.max(resident_bytes());
    }
    assert_eq!(bytes, 200 * MIB);
    let growth = largest.saturating_sub(before);
    assert!(growth < 150 * MIB, "grew by {} MiB", growth / MIB);
}

#[tokio::test]
async fn a_slow_bundle_does_not_keep_another_ones_input_back() {
    let (_rig, harness, mut fake) = Rig::connected().await;
    harness.start_bundle(bundle(1, vec![Bytes::from(vec![1; MIB]); 64]));
    harness.start_bundle(bundle(2, vec![Bytes::from_static(b"small")]));
    let mut messages_before = 0;
    loop {
        let message = fake.data_in.message().await.unwrap().unwrap();
        if message.data.iter().any(|data| data.instruction_id == "b2") {
            break;
        }
        messages_before += 1;
    }
    assert!(
        messages_before <= 2,
        "{messages_before} messages came first"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn state_requests_are_read_only_as_fast_as_they_are_answered() {
    let settings = Settings {
        state_requests_max: 8,
        ..Settings::default()
    };
    let (mut rig, harness, mut fake) = Rig::connected_with(settings, |_, _| {}).await;
    harness.start_bundle(bundle(1, vec![]));
    let (id, _) = fake.instruction().await;
    for number in 0..1000 {
        let key = proto::state_key::Runner { key: Bytes::new() };
        let request = proto::StateRequest {
            id: number.to_string(),
            instruction_id: id.clone(),
            state_key: Some(proto::StateKey {
                r#type: Some(proto::state_key::Type::Runner(key)),
            }),
            request: Some(state_request::Request::Clear(proto::StateClearRequest {})),
        };
        fake.state_out.send(request).unwrap();
    }
    for round in 0..125 {
        let mut requests = Vec::new();
        for _ in 0..8 {
            let Event::State(BundleId(1), request) = rig.next().await else {
                panic!("no state request");
            };
            requests.push(request.id);
        }
        tokio::task::yield_now().await;
        rig.assert_quiet();
        for request in requests {
            harness.reply_state(BundleId(1), &request, StateReply::Done);
        }
        for number in 0..8 {
            let response = fake.state_in.message().await.unwrap().unwrap();
            assert_eq!(response.id, (round * 8 + number).to_string());
        }
    }
}

#[tokio::test]
async fn one_element_may_be_huge() {
    let _alone = HEAVY.lock().await;
    let (mut rig, harness, mut fake) = Rig::connected().await;
    let huge = 300 * MIB;
    harness.start_bundle(bundle(1, vec![Bytes::from(vec![9; huge])]));
    let (id, _) = fake.instruction().await;
    let message = fake.data_in.message().await.unwrap().unwrap();
    assert_eq!(message.data[0].data.len(), huge);
    let mut back = data_message(&id, "sink1", b"", false);
    back.data[0].data = message.data[0].data.clone();
    drop(message);
    fake.data_out.send(back).unwrap();
    // In the pieces it came in; the credit of each frees room for the next.
    let mut received = 0;
    while received < huge {
        let Event::Data(_, _, data, _) = rig.next().await else {
            panic!("no data")
        };
        received += data.len();
    }
    assert_eq!(received, huge);
}

/// How much memory this process has in RAM; other tests of the process are in it too.
fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}
