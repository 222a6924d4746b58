//! The demo's publisher, and its own account of what it published.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use googleapis_tonic_google_pubsub_v1::google::pubsub::v1::publisher_client::PublisherClient;
use googleapis_tonic_google_pubsub_v1::google::pubsub::v1::subscriber_client::SubscriberClient;
use googleapis_tonic_google_pubsub_v1::google::pubsub::v1::{
    PublishRequest, PubsubMessage, Subscription, Topic,
};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tonic::transport::Channel;

use crate::cli::demo::{
    Error, SUBSCRIPTION_ORDERS, SUBSCRIPTION_RESULTS, TOPIC_ORDERS, TOPIC_RESULTS, WINDOW,
};
use crate::telemetry::clock;

const SHOPS: [&str; 5] = ["Aachen", "Bergen", "Cádiz", "Delft", "Évora"];
/// One order in so many is published twice.
const REPEATED: u64 = 20;
/// Orders are published in batches of this period.
const PERIOD: Duration = Duration::from_millis(20);

/// What was published.
#[derive(Debug, Default)]
pub struct Ledger {
    /// Units by end of window and shop.
    pub expected: BTreeMap<(i64, &'static str), u64>,
    pub orders: u64,
    pub repeated: u64,
}

/// A running publisher.
pub struct Orders {
    stop: watch::Sender<bool>,
    task: JoinHandle<Result<(), tonic::Status>>,
}

/// Connects to the emulator.
pub async fn connect(address: &str) -> Result<Channel, tonic::transport::Error> {
    Channel::from_shared(format!("http://{address}"))
        .unwrap_or_else(|_| Channel::from_static("http://localhost"))
        .connect()
        .await
}

/// Makes the demo's topics and subscriptions.
pub async fn create_topics(address: &str) -> Result<(), Error> {
    let channel = connect(address).await?;
    let mut publisher = PublisherClient::new(channel.clone());
    let mut subscriber = SubscriberClient::new(channel);
    for (topic, subscription) in [
        (TOPIC_ORDERS, SUBSCRIPTION_ORDERS),
        (TOPIC_RESULTS, SUBSCRIPTION_RESULTS),
    ] {
        let topic = Topic {
            name: topic.to_owned(),
            ..Topic::default()
        };
        publisher.create_topic(topic.clone()).await?;
        let name = subscription.to_owned();
        let subscription = Subscription {
            name,
            topic: topic.name,
            ..Subscription::default()
        };
        subscriber.create_subscription(subscription).await?;
    }
    Ok(())
}

impl Orders {
    /// Starts publishing `rate` orders a second.
    pub async fn start(
        address: &str,
        rate: u32,
        ledger: Arc<Mutex<Ledger>>,
    ) -> Result<Self, Error> {
        let publisher = PublisherClient::new(connect(address).await?);
        let (stop, stopped) = watch::channel(false);
        let task = tokio::spawn(publish(publisher, rate, ledger, stopped));
        Ok(Self { stop, task })
    }

    /// Stops, and says whether everything was published.
    pub async fn stop(&mut self) -> Result<(), Error> {
        self.stop.send_replace(true);
        match (&mut self.task).await {
            Ok(published) => Ok(published?),
            Err(error) => Err(tonic::Status::internal(error.to_string()).into()),
        }
    }
}

async fn publish(
    mut publisher: PublisherClient<Channel>,
    rate: u32,
    ledger: Arc<Mutex<Ledger>>,
    stopped: watch::Receiver<bool>,
) -> Result<(), tonic::Status> {
    let started = clock::instant();
    let mut tick = tokio::time::interval(PERIOD);
    let mut number = 0_u64;
    while !*stopped.borrow() {
        tick.tick().await;
        let due = (started.elapsed().as_secs_f64() * f64::from(rate)) as u64;
        let now = clock::unix_millis();
        let mut messages = Vec::new();
        while number < due {
            let message = order(number, now, &ledger);
            if number % REPEATED == 7 {
                messages.push(message.clone());
                ledger.lock().repeated += 1;
            }
            messages.push(message);
            number += 1;
        }
        for chunk in messages.chunks(1000) {
            let request = PublishRequest {
                topic: TOPIC_ORDERS.to_owned(),
                messages: chunk.to_vec(),
            };
            publisher.publish(request).await?;
        }
    }
    Ok(())
}

/// One order, entered into the ledger.
fn order(number: u64, now: i64, ledger: &Mutex<Ledger>) -> PubsubMessage {
    let shop = SHOPS[(number % SHOPS.len() as u64) as usize];
    let units = 1 + number % 4;
    let window_end = now - now.rem_euclid(WINDOW) + WINDOW;
    {
        let mut ledger = ledger.lock();
        *ledger.expected.entry((window_end, shop)).or_default() += units;
        ledger.orders += 1;
    }
    let data = serde_json::json!({ "shop": shop, "units": units }).to_string();
    let attributes = [
        ("order_id", format!("order-{number}")),
        ("ordered_at", now.to_string()),
    ];
    PubsubMessage {
        data: data.into(),
        attributes: attributes
            .map(|(name, value)| (name.to_owned(), value))
            .into(),
        ..PubsubMessage::default()
    }
}
