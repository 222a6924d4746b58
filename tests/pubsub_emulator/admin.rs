//! The admin calls over HTTP.

use googleapis_tonic_google_pubsub_v1::google::pubsub::v1 as pb;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::rig::{Rig, SUBSCRIPTION, payloads};

/// One HTTP/1.1 request; status and JSON of the answer.
async fn http(rig: &Rig, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
    let mut connection = TcpStream::connect(rig.emulator.addr())
        .await
        .expect("connects");
    let body = body.map(|body| body.to_string()).unwrap_or_default();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: \
         application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    connection
        .write_all(request.as_bytes())
        .await
        .expect("sent");
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await.expect("read");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head
        .split(' ')
        .nth(1)
        .expect("a status")
        .parse()
        .expect("a number");
    (status, serde_json::from_str(body).unwrap_or(Value::Null))
}

#[tokio::test]
async fn stats_tell_what_happened() {
    let mut rig = Rig::with(pb::Subscription::default()).await;
    rig.publish(&["a", "b"]).await;
    let out = rig.pull(1).await;
    rig.ack(&out).await.expect("acked");
    let (status, stats) = http(&rig, "GET", "/emulator/stats", None).await;
    assert_eq!(status, 200);
    let stats = &stats["subscriptions"][SUBSCRIPTION];
    for (name, value) in [
        ("published", 2),
        ("delivered", 1),
        ("acked", 1),
        ("outstanding", 0),
    ] {
        assert_eq!(stats[name], value, "{name} in {stats}");
    }
    assert!(stats["oldest_unacked_seconds"].as_f64().expect("a number") < 60.0);
}

#[tokio::test]
async fn faults_are_set_and_shown() {
    let mut rig = Rig::with(pb::Subscription::default()).await;
    let faults = json!({ "rpcs": [{ "method": "Pull", "status": "ABORTED" }] });
    let (status, _) = http(&rig, "POST", "/emulator/faults", Some(faults)).await;
    assert_eq!(status, 200);
    rig.pull_from(SUBSCRIPTION, 1).await.expect_err("aborted");
    let (_, shown) = http(&rig, "GET", "/emulator/faults", None).await;
    assert_eq!(shown["rpcs"][0]["status"], "ABORTED");
    let wrong = json!({ "rpcs": [{ "method": "Pull", "status": "WHAT" }] });
    let (status, error) = http(&rig, "POST", "/emulator/faults", Some(wrong)).await;
    assert_eq!(status, 400);
    assert!(
        error["error"].as_str().expect("a text").contains("WHAT"),
        "{error}"
    );
    let (status, _) = http(
        &rig,
        "POST",
        "/emulator/faults",
        Some(json!({ "unknown": 1 })),
    )
    .await;
    assert_eq!(status, 400);
    let (status, _) = http(&rig, "POST", "/emulator/reset", Some(json!({}))).await;
    assert_eq!(status, 200);
    let status = rig
        .pull_from(SUBSCRIPTION, 1)
        .await
        .expect_err("nothing is left");
    assert_eq!(status.code(), tonic::Code::NotFound);
}

#[tokio::test]
async fn clock_stalls_and_streams_are_driven() {
    let mut rig = Rig::with(pb::Subscription::default()).await;
    rig.publish(&["a"]).await;
    rig.pull(1).await;
    let (status, _) = http(
        &rig,
        "POST",
        "/emulator/advance-clock",
        Some(json!({ "seconds": 11 })),
    )
    .await;
    assert_eq!(status, 200);
    assert_eq!(payloads(&rig.pull(1).await), ["a"]);
    let stall = json!({ "seconds": 60, "subscription": SUBSCRIPTION });
    assert_eq!(
        http(&rig, "POST", "/emulator/stall", Some(stall)).await.0,
        200
    );
    let of_one = json!({ "subscription": SUBSCRIPTION, "delivery": { "lost_ack_rate": 1.0 } });
    assert_eq!(
        http(
            &rig,
            "POST",
            "/emulator/faults-of-subscription",
            Some(of_one)
        )
        .await
        .0,
        200
    );
    let streams = json!({ "life_seconds": 5, "death_status": "INTERNAL" });
    assert_eq!(
        http(&rig, "POST", "/emulator/streams", Some(streams))
            .await
            .0,
        200
    );
    let mut stream = rig
        .stream(pb::StreamingPullRequest::default())
        .await
        .expect("open");
    rig.advance(6);
    assert_eq!(
        stream.next().await.expect_err("dead").code(),
        tonic::Code::Internal
    );
    let mut stream = rig
        .stream(pb::StreamingPullRequest::default())
        .await
        .expect("open");
    let kill = json!({ "status": "ABORTED" });
    let (_, killed) = http(&rig, "POST", "/emulator/kill-streams", Some(kill)).await;
    assert_eq!(killed["killed"], 1);
    assert_eq!(
        stream.next().await.expect_err("dead").code(),
        tonic::Code::Aborted
    );
}
