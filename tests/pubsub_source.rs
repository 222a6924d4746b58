//! One suite for reading and publishing, over three servers: our emulator, the official one, and
//! Go's pstest, which agree on little but the API. A server that is not installed is skipped, and
//! says so.

#![expect(
    clippy::unwrap_used,
    clippy::too_many_lines,
    clippy::disallowed_methods,
    reason = "a test may panic, is read from top to bottom, and measures real time"
)]

#[path = "pubsub_source/at_once.rs"]
mod at_once;
#[path = "pubsub_source/proxy.rs"]
mod proxy;
#[path = "pubsub_source/servers.rs"]
mod servers;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use googleapis_tonic_google_pubsub_v1::google::pubsub::v1::{
    PubsubMessage, PullRequest, Subscription, Topic,
};
use prost::Message as _;
use proxy::{Cut, Proxy};
use servers::{Kind, Server};
use tidemill::model::Timestamp;
use tidemill::pubsub_emulator as emulator;
use tidemill::source::pubsub::subscription::{
    self, Temporary, create_temporary_subscription, delete_subscription,
    sweep_temporary_subscriptions,
};
use tidemill::source::pubsub::{
    Client, Endpoint, Error, Message, Outgoing, PublishSettings, Publisher, ReadSettings, Reader,
    Receipt,
};
use tidemill::store::memory::{DedupId, DedupSet};
use tidemill::telemetry::clock;

const TOPIC: &str = "projects/p/topics/orders";
const SUBSCRIPTION: &str = "projects/p/subscriptions/orders";

/// All tests: those named before `|` over every server, the others by themselves.
macro_rules! tests {
    ($($over:ident)* | $($alone:ident)*) => {
        fn main() -> std::process::ExitCode {
            let mut tests: Vec<at_once::Test> = Vec::new();
            $(
                tests.push((concat!(stringify!($over), "::ours").into(), || Box::pin(async {
                    if let Some(server) = Server::start(Kind::Ours).await {
                        $over(server).await;
                    }
                })));
                tests.push((concat!(stringify!($over), "::official").into(), || Box::pin(async {
                    if let Some(server) = Server::start(Kind::Official).await {
                        $over(server).await;
                    }
                })));
                tests.push((concat!(stringify!($over), "::pstest").into(), || Box::pin(async {
                    if let Some(server) = Server::start(Kind::Pstest).await {
                        $over(server).await;
                    }
                })));
            )*
            $(tests.push((stringify!($alone).into(), || Box::pin($alone())));)*
            at_once::main(tests)
        }
    };
}

tests!(
    counts_every_message_once_though_streams_are_cut
    counts_every_message_once_by_unary_pull
    keeps_leases_and_acknowledges_only_when_told
    publishes_what_is_read_again
    names_what_is_missing
    makes_and_sweeps_temporary_subscriptions
    closes_windows_soon_and_never_early
    |
    survives_every_fault_of_our_emulator
    exactly_once_delivery_is_acknowledged_by_the_newest_ack_id
    a_missing_permission_is_named
    a_service_that_is_gone_is_reported_and_awaited
    reading_pauses_while_too_much_is_held
);

async fn counts_every_message_once_though_streams_are_cut(server: Server) {
    let mut proxy = Proxy::start(&server.host).await;
    let mut settings = read_settings();
    let (count, which) = match server.kind {
        Kind::Ours => (20_000, Cut::All),
        Kind::Pstest => (300, Cut::All),
        Kind::Official => {
            // It goes on giving a cut stream its share, which comes back only at the deadline:
            // most streams must stay for the messages to come to an end.
            settings.streams = 16;
            (6_000, Cut::Oldest)
        }
    };
    proxy.cut_every(Duration::from_secs(2), 5, which);
    let result = count_once(&server, &proxy.host, settings, count).await;
    assert!(proxy.connections_cut() >= 4, "{}", proxy.connections_cut());
    assert!(result.seen_again >= count / 10, "{result:?}");
}

async fn counts_every_message_once_by_unary_pull(server: Server) {
    let settings = ReadSettings {
        unary_pull: true,
        streams: 2,
        ..read_settings()
    };
    let count = if server.kind == Kind::Pstest {
        1_000
    } else {
        10_000
    };
    count_once(&server, &server.host, settings, count).await;
}

async fn keeps_leases_and_acknowledges_only_when_told(server: Server) {
    let client = prepare(&server).await;
    publish(&client, (0..50).map(|id| outgoing(id, "")).collect()).await;
    let mut reader = Reader::open(&client, read_settings()).unwrap();
    let messages = take(&mut reader, 50).await;
    let deadline_and_more = read_settings().ack_deadline + Duration::from_secs(3);
    let more = tokio::time::timeout(deadline_and_more, reader.next()).await;
    assert!(more.is_err(), "delivered although held: {more:?}");
    let stats = reader.handle().stats();
    assert_eq!((stats.held_messages, stats.absorbed), (50, 0), "{stats:?}");
    assert!(stats.leases_extended >= 50, "{stats:?}");

    // Half is acknowledged late, half is given back, and only that comes again.
    let (acked, given_back) = messages.split_at(25);
    reader.handle().ack(&receipts(acked));
    reader.handle().release(&receipts(given_back));
    let again = take(&mut reader, 25).await;
    assert_eq!(ids(&again), ids(given_back));
    reader.handle().ack(&receipts(&again));
    reader.close().await;
    assert_eq!(left_after_deadline(&client).await, 0);
}

async fn publishes_what_is_read_again(server: Server) {
    let client = prepare(&server).await;
    let settings = PublishSettings {
        id_attribute: Some("id".into()),
        timestamp_attribute: Some("ts".into()),
        ..PublishSettings::default()
    };
    let publisher = Publisher::new(&client, settings).unwrap();
    let large = if server.kind == Kind::Pstest {
        3_000_000
    } else {
        9_000_000
    };
    let mut sent = Vec::new();
    for id in 0..300 {
        let key = if id % 3 == 0 { "key" } else { "" };
        let mut message = outgoing(id, key);
        message.id = Some(format!("id-{id}"));
        message.timestamp = Timestamp::from_millis(1_000 + i64::from(id));
        sent.push(message);
    }
    let big = PubsubMessage {
        data: vec![7; large].into(),
        ..PubsubMessage::default()
    };
    sent.push(Outgoing {
        id: Some("big".into()),
        message: big.encode_to_vec().into(),
        ..outgoing(0, "")
    });
    publisher.check(&sent).unwrap();
    publisher.publish(sent).await.unwrap();

    let settings = ReadSettings {
        with_attributes: true,
        id_attribute: Some("id".into()),
        timestamp_attribute: Some("ts".into()),
        ..read_settings()
    };
    let mut reader = Reader::open(&client, settings).unwrap();
    let messages = take(&mut reader, 301).await;
    reader.handle().ack(&receipts(&messages));
    let by_id: BTreeMap<&[u8], &Message> = messages
        .iter()
        .map(|message| (&message.dedup_id[..], message))
        .collect();
    assert_eq!(by_id.len(), 301);
    for id in 0..300 {
        let message = by_id[format!("id-{id}").as_bytes()];
        assert_eq!(message.timestamp.millis(), 1_000 + i64::from(id));
        let whole = PubsubMessage::decode(message.element.clone()).unwrap();
        assert_eq!(whole.data, id.to_string());
        assert_eq!(whole.ordering_key, if id % 3 == 0 { "key" } else { "" });
        assert!(!whole.message_id.is_empty() && whole.publish_time.is_some());
    }
    let whole = PubsubMessage::decode(by_id[&b"big"[..]].element.clone()).unwrap();
    assert_eq!(whole.data.len(), large);
    let stats = reader.handle().stats();
    assert_eq!((stats.bad_timestamps, stats.missing_ids), (0, 0));
    reader.close().await;
}

async fn names_what_is_missing(server: Server) {
    let client = client(&server.host);
    let settings = ReadSettings::new("projects/p/subscriptions/nobody");
    for unary_pull in [false, true] {
        let settings = ReadSettings {
            unary_pull,
            ..settings.clone()
        };
        let mut reader = Reader::open(&client, settings).unwrap();
        let error = next_error(&mut reader).await;
        assert!(matches!(error, Error::NotFound { .. }), "{error:?}");
        assert!(
            error
                .to_string()
                .contains("projects/p/subscriptions/nobody")
        );
        assert!(!error.is_transient());
        reader.close().await;
    }
    let publisher = Publisher::new(&client, PublishSettings::default()).unwrap();
    let error = publisher.publish(vec![outgoing(1, "")]).await.unwrap_err();
    assert!(error.to_string().contains(TOPIC), "{error}");
    let missing = subscription::check_subscription(&client, SUBSCRIPTION).await;
    assert!(
        matches!(missing, Err(Error::NotFound { .. })),
        "{missing:?}"
    );
}

async fn makes_and_sweeps_temporary_subscriptions(server: Server) {
    let client = prepare(&server).await;
    let temporary = |server_id: &str, job_id: &str| Temporary {
        topic: TOPIC.into(),
        project: "p".into(),
        server_id: server_id.into(),
        job_id: job_id.into(),
        job_name: "Count".into(),
        read: "read".into(),
    };
    let mut made = Vec::new();
    for (server_id, job_id) in [("s1", "dead"), ("s1", "live"), ("s2", "dead-2")] {
        let temporary = temporary(server_id, job_id);
        let path = create_temporary_subscription(&client, &temporary)
            .await
            .unwrap();
        let again = create_temporary_subscription(&client, &temporary).await;
        assert_eq!(again.unwrap(), path, "found again");
        made.push(path);
    }
    // What is published from now on is received.
    publish(&client, vec![outgoing(7, "")]).await;
    let settings = ReadSettings {
        subscription: made[1].clone(),
        ..read_settings()
    };
    let mut reader = Reader::open(&client, settings).unwrap();
    assert_eq!(take(&mut reader, 1).await[0].element, "7");
    reader.close().await;

    let swept = sweep_temporary_subscriptions(&client, "p", "s1", |job| job == "live").await;
    assert_eq!(swept.unwrap(), [made[0].clone()]);
    for path in &made {
        delete_subscription(&client, path).await.unwrap();
    }
    let missing = subscription::check_subscription(&client, &made[1]).await;
    assert!(
        matches!(missing, Err(Error::NotFound { .. })),
        "{missing:?}"
    );
}

/// Messages come in at a steady rate, each with its event time, and are acknowledged a moment
/// later. A window may close only after all of its messages have come, and should soon after.
async fn closes_windows_soon_and_never_early(server: Server) {
    let client = prepare(&server).await;
    let settings = ReadSettings {
        timestamp_attribute: Some("ts".into()),
        idle_after: 3_000,
        ..read_settings()
    };
    let mut reader = Reader::open(&client, settings).unwrap();
    let handle = reader.handle();
    let rate = if server.kind == Kind::Pstest {
        30
    } else {
        1_000
    };
    let publishing = tokio::spawn(publish_steadily(client.clone(), rate, SECONDS));
    let (mut received, mut late, mut slowest_publish) = (0, 0, 0);
    let mut latencies = Vec::new();
    let mut open_window = None;
    let mut last = Timestamp::MIN;
    let started = Instant::now();
    let mut ending = None;
    while started.elapsed() < Duration::from_secs(SECONDS + 15) {
        if let Ok(Some(batch)) =
            tokio::time::timeout(Duration::from_millis(20), reader.next()).await
        {
            let batch = batch.unwrap();
            received += batch.len();
            late += batch
                .iter()
                .filter(|message| message.timestamp < last)
                .count();
            let first = batch
                .iter()
                .map(|message| message.timestamp.millis() / 1_000)
                .min();
            open_window = open_window.or(first);
            let lag =
                |message: &Message| message.publish_time.millis() - message.timestamp.millis();
            slowest_publish = batch.iter().map(lag).fold(slowest_publish, i64::max);
            let handle = handle.clone();
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(30)).await;
                handle.ack(&receipts(&batch));
            });
        }
        let now = clock::unix_millis();
        let watermark = handle.watermark(Timestamp::from_millis(now));
        assert!(watermark >= last, "the watermark went back");
        last = watermark;
        while let Some(window) =
            open_window.filter(|window| watermark.millis() >= (window + 1) * 1_000)
        {
            latencies.push(now - (window + 1) * 1_000);
            open_window = Some(window + 1);
        }
        if publishing.is_finished() && received == rate * SECONDS as usize {
            let end = *ending.get_or_insert(now);
            if watermark.millis() > end {
                break;
            }
        }
    }
    publishing.await.unwrap();
    assert_eq!(received, rate * SECONDS as usize);
    assert_eq!(late, 0, "messages came behind the watermark");
    latencies.sort_unstable();
    let p50 = latencies[latencies.len() / 2];
    println!(
        "{:?}: windows closed {p50} ms after their end (p50 of {})",
        server.kind,
        latencies.len()
    );
    assert!(
        latencies.len() as u64 + 2 >= SECONDS,
        "windows stay open: {latencies:?}"
    );
    // A busy machine makes publishing slow, and the watermark must allow for that.
    assert!(
        p50 < 4_000 + slowest_publish,
        "{slowest_publish} {latencies:?}"
    );
    reader.close().await;
}

const SECONDS: u64 = 12;

/// Our emulator loses acknowledgements, delivers twice and out of order, and ends streams with
/// every status that passes.
async fn survives_every_fault_of_our_emulator() {
    let faults = emulator::Faults {
        delivery: emulator::delivery::DeliveryFaults {
            duplicate_rate: 0.1,
            duplicate_delay_seconds: 1.0,
            lost_ack_rate: 0.05,
            reorder_window: 100,
            ..Default::default()
        },
        rpcs: vec![
            emulator::RpcRule {
                method: "Acknowledge".into(),
                status: "UNAVAILABLE".into(),
                rate: 0.2,
                ..Default::default()
            },
            emulator::RpcRule {
                method: "Publish".into(),
                status: "ABORTED".into(),
                rate: 0.1,
                ..Default::default()
            },
        ],
        ..Default::default()
    };
    let settings = emulator::Settings {
        faults,
        ack_id_bytes: 180,
        ..Default::default()
    };
    let server = Server::ours(settings).await;
    let host = server.host.clone();
    let counting = async {
        let settings = ReadSettings {
            held_messages_max: 2_000,
            ..read_settings()
        };
        count_once(&server, &host, settings, 20_000).await
    };
    let killing = async {
        let statuses = [
            "UNAVAILABLE",
            "INTERNAL",
            "ABORTED",
            "DEADLINE_EXCEEDED",
            "RESOURCE_EXHAUSTED",
            "UNKNOWN",
            "CANCELLED",
        ];
        for status in statuses.iter().cycle() {
            tokio::time::sleep(Duration::from_millis(700)).await;
            server
                .ours
                .as_ref()
                .unwrap()
                .kill_streams(None, status)
                .unwrap();
        }
    };
    tokio::select! {
        result = counting => assert!(result.seen_again > 1_000, "{result:?}"),
        () = killing => {}
    }
}

async fn exactly_once_delivery_is_acknowledged_by_the_newest_ack_id() {
    let faults = emulator::Faults {
        delivery: emulator::delivery::DeliveryFaults {
            failed_ack_rate: 0.2,
            ..Default::default()
        },
        ..Default::default()
    };
    let server = Server::ours(emulator::Settings {
        faults,
        ..Default::default()
    })
    .await;
    let client = client(&server.host);
    create_topic(&client).await;
    let subscription = Subscription {
        enable_exactly_once_delivery: true,
        ..subscription_of(TOPIC)
    };
    let mut subscriber = client.subscriber().unwrap();
    subscriber.create_subscription(subscription).await.unwrap();
    publish(&client, (0..2_000).map(|id| outgoing(id, "")).collect()).await;
    let mut reader = Reader::open(&client, read_settings()).unwrap();
    let messages = take(&mut reader, 2_000).await;
    let (now, later) = messages.split_at(1_000);
    reader.handle().ack(&receipts(now));
    tokio::time::sleep(Duration::from_secs(12)).await;
    reader.handle().ack(&receipts(later));
    reader.close().await;
    assert_eq!(left_after_deadline(&client).await, 0);
}

async fn a_missing_permission_is_named() {
    let server = Server::ours(emulator::Settings {
        faults: emulator::Faults {
            rpcs: vec![emulator::RpcRule {
                method: "StreamingPull".into(),
                status: "PERMISSION_DENIED".into(),
                ..Default::default()
            }],
            ..Default::default()
        },
        ..Default::default()
    })
    .await;
    let client = prepare(&server).await;
    let mut reader = Reader::open(&client, read_settings()).unwrap();
    let error = next_error(&mut reader).await;
    let expected = format!("no permission pubsub.subscriptions.consume on {SUBSCRIPTION}");
    assert!(error.to_string().starts_with(&expected), "{error}");
    reader.close().await;
}

async fn a_service_that_is_gone_is_reported_and_awaited() {
    let server = Server::start(Kind::Ours).await.unwrap();
    let mut proxy = Proxy::start(&server.host).await;
    let direct = prepare(&server).await;
    let mut reader = Reader::open(&client(&proxy.host), read_settings()).unwrap();
    proxy.pass(false);
    let error = next_error(&mut reader).await;
    assert!(error.is_transient(), "{error:?}");
    let expected = format!("StreamingPull on {SUBSCRIPTION} failed for 1");
    assert!(error.to_string().starts_with(&expected), "{error}");
    proxy.pass(true);
    publish(&direct, vec![outgoing(1, "")]).await;
    let back = async {
        loop {
            // Other words for the same trouble may still come.
            if let Ok(batch) = reader.next().await.unwrap() {
                return batch;
            }
        }
    };
    let batch = tokio::time::timeout(Duration::from_secs(60), back).await;
    assert_eq!(batch.unwrap()[0].element, "1");
    reader.close().await;
}

async fn reading_pauses_while_too_much_is_held() {
    let server = Server::start(Kind::Ours).await.unwrap();
    let client = prepare(&server).await;
    publish(&client, (0..5_000).map(|id| outgoing(id, "")).collect()).await;
    let settings = ReadSettings {
        held_messages_max: 500,
        ..read_settings()
    };
    let mut reader = Reader::open(&client, settings).unwrap();
    let handle = reader.handle();
    let mut total = 0;
    while total < 5_000 {
        let mut held = Vec::new();
        while let Ok(batch) = tokio::time::timeout(Duration::from_millis(300), reader.next()).await
        {
            held.extend(receipts(&batch.unwrap().unwrap()));
        }
        let stats = handle.stats();
        assert_eq!(stats.held_messages, held.len());
        assert!(held.len() < 500 + 4 * 1_000, "{}", held.len());
        assert!(!held.is_empty(), "stuck after {total}");
        total += held.len();
        handle.ack(&held);
    }
    reader.close().await;
}

#[derive(Debug)]
struct Counted {
    /// Messages that came although they had been counted, or given back.
    seen_again: usize,
}

/// Publishes `count` messages while reading through `host`, gives every tenth back once, counts each
/// id once by the dedup set, acknowledges a moment later, and checks that nothing is left.
async fn count_once(server: &Server, host: &str, settings: ReadSettings, count: usize) -> Counted {
    let direct = prepare(server).await;
    let publishing = tokio::spawn({
        let direct = direct.clone();
        async move {
            for start in (0..count).step_by(count / 20) {
                let end = count.min(start + count / 20);
                let messages = (start..end).map(|id| outgoing(id as u32, ""));
                publish(&direct, messages.collect()).await;
                tokio::time::sleep(Duration::from_millis(400)).await;
            }
        }
    });
    let mut reader = Reader::open(&client(host), settings).unwrap();
    let handle = reader.handle();
    let mut dedup = DedupSet::new(DedupSet::HORIZON);
    let mut given_back = BTreeSet::new();
    let mut counted: BTreeMap<String, u32> = BTreeMap::new();
    let mut seen_again = 0;
    let started = Instant::now();
    while counted.len() < count || handle.stats().held_messages > 0 {
        assert!(
            started.elapsed() < Duration::from_secs(150),
            "{} of {count} after {:?}: {:?}",
            counted.len(),
            started.elapsed(),
            handle.stats()
        );
        let batch = tokio::time::timeout(Duration::from_millis(200), reader.next()).await;
        let Ok(Some(batch)) = batch else { continue };
        let batch = batch.unwrap();
        let now = Timestamp::from_millis(clock::unix_millis());
        let mut done = Vec::new();
        for message in &batch {
            let id = DedupId::of(&message.dedup_id);
            let element = String::from_utf8(message.element.to_vec()).unwrap();
            if dedup.check(id, now) {
                seen_again += 1;
            } else if element.ends_with('3') && given_back.insert(element.clone()) {
                seen_again += 1;
                handle.release(&[message.receipt]);
                continue;
            } else {
                *counted.entry(element).or_default() += 1;
            }
            dedup.insert(id, now);
            done.push(message.receipt);
        }
        let handle = handle.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(50)).await;
            handle.ack(&done);
        });
    }
    publishing.await.unwrap();
    let twice: Vec<_> = counted.iter().filter(|(_, times)| **times != 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
    let absorbed = handle.stats().absorbed as usize;
    println!(
        "{:?}: {count} in {:?}, {seen_again} again, {:?}",
        server.kind,
        started.elapsed(),
        handle.stats()
    );
    drain(&mut reader, &mut dedup).await;
    reader.close().await;
    assert_eq!(left_after_deadline(&direct).await, 0);
    Counted {
        seen_again: seen_again + absorbed,
    }
}

/// Acknowledges duplicates that still come: of acks that were lost or went out with a cut stream.
async fn drain(reader: &mut Reader, dedup: &mut DedupSet) {
    let quiet = read_settings().ack_deadline + Duration::from_secs(3);
    while let Ok(Some(batch)) = tokio::time::timeout(quiet, reader.next()).await {
        let batch = batch.unwrap();
        let now = Timestamp::from_millis(clock::unix_millis());
        for message in &batch {
            assert!(
                dedup.check(DedupId::of(&message.dedup_id), now),
                "{message:?}"
            );
        }
        reader.handle().ack(&receipts(&batch));
    }
}

async fn publish_steadily(client: Client, rate: usize, seconds: u64) {
    let settings = PublishSettings {
        timestamp_attribute: Some("ts".into()),
        ..PublishSettings::default()
    };
    let publisher = Publisher::new(&client, settings).unwrap();
    let mut tick = tokio::time::interval(Duration::from_millis(100));
    for _ in 0..seconds * 10 {
        tick.tick().await;
        let now = Timestamp::from_millis(clock::unix_millis());
        let messages = (0..rate / 10).map(|id| Outgoing {
            timestamp: now,
            ..outgoing(id as u32, "")
        });
        publisher.publish(messages.collect()).await.unwrap();
    }
}

fn read_settings() -> ReadSettings {
    ReadSettings {
        ack_deadline: Duration::from_secs(10),
        ..ReadSettings::new(SUBSCRIPTION)
    }
}

fn client(host: &str) -> Client {
    Client::connect(Endpoint::Plain(host.to_owned())).unwrap()
}

async fn prepare(server: &Server) -> Client {
    let client = client(&server.host);
    create_topic(&client).await;
    let mut subscriber = client.subscriber().unwrap();
    subscriber
        .create_subscription(subscription_of(TOPIC))
        .await
        .unwrap();
    client
}

async fn create_topic(client: &Client) {
    let topic = Topic {
        name: TOPIC.into(),
        ..Topic::default()
    };
    client
        .publisher()
        .unwrap()
        .create_topic(topic)
        .await
        .unwrap();
}

fn subscription_of(topic: &str) -> Subscription {
    Subscription {
        name: SUBSCRIPTION.into(),
        topic: topic.into(),
        ack_deadline_seconds: 10,
        ..Subscription::default()
    }
}

fn outgoing(id: u32, ordering_key: &str) -> Outgoing {
    let message = PubsubMessage {
        data: id.to_string().into(),
        ordering_key: ordering_key.into(),
        ..PubsubMessage::default()
    };
    Outgoing {
        topic: TOPIC.into(),
        message: message.encode_to_vec().into(),
        id: None,
        timestamp: Timestamp::from_millis(0),
    }
}

async fn publish(client: &Client, messages: Vec<Outgoing>) {
    let publisher = Publisher::new(client, PublishSettings::default()).unwrap();
    publisher.publish(messages).await.unwrap();
}

async fn take(reader: &mut Reader, count: usize) -> Vec<Message> {
    let mut messages = Vec::new();
    while messages.len() < count {
        let batch = tokio::time::timeout(Duration::from_secs(30), reader.next()).await;
        let batch = batch.unwrap_or_else(|_| panic!("{} of {count} came", messages.len()));
        messages.extend(batch.unwrap().unwrap());
    }
    assert_eq!(messages.len(), count);
    messages
}

async fn next_error(reader: &mut Reader) -> Error {
    let next = tokio::time::timeout(Duration::from_secs(20), reader.next()).await;
    next.unwrap().unwrap().unwrap_err()
}

fn receipts(messages: &[Message]) -> Vec<Receipt> {
    messages.iter().map(|message| message.receipt).collect()
}

fn ids(messages: &[Message]) -> BTreeSet<String> {
    let id = |message: &Message| String::from_utf8_lossy(&message.element).into_owned();
    messages.iter().map(id).collect()
}

/// How many messages the server still has once every lease has run out.
async fn left_after_deadline(client: &Client) -> usize {
    tokio::time::sleep(Duration::from_secs(12)).await;
    let mut subscriber = client.subscriber().unwrap();
    let mut request = tonic::Request::new(PullRequest {
        subscription: SUBSCRIPTION.into(),
        max_messages: 1_000,
        ..PullRequest::default()
    });
    request.set_timeout(Duration::from_secs(3));
    match subscriber.pull(request).await {
        Ok(response) => response.into_inner().received_messages.len(),
        Err(_) => 0,
    }
}
