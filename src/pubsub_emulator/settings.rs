//! What an emulator is started with.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::delivery::DeliveryFaults;
use super::rules::RpcRule;

/// How an emulator is started.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The address to listen on, by name or number.
    pub host: String,
    /// The port to listen on; 0 takes any free one.
    pub port: u16,
    /// What chance is drawn from.
    pub seed: u64,
    /// How long a stream lives before the server ends it; none means for ever.
    pub stream_life: Option<Duration>,
    /// How long a stream lives without any traffic; none means for ever.
    pub stream_idle_max: Option<Duration>,
    /// The status that such streams end with, like `UNAVAILABLE`.
    pub stream_death_status: String,
    /// Whether the messages of a closed stream come back at once, or at their deadline.
    pub return_on_close: bool,
    /// Whether a ping of a client that speaks protocol version 1 is answered.
    pub heartbeats: bool,
    /// The length that ack ids are padded to.
    pub ack_id_bytes: usize,
    /// What goes wrong from the start.
    pub faults: Faults,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            host: "127.0.0.1".to_owned(),
            port: 0,
            seed: 0,
            stream_life: Some(Duration::from_secs(30 * 60)),
            stream_idle_max: Some(Duration::from_secs(120)),
            stream_death_status: "UNAVAILABLE".to_owned(),
            return_on_close: true,
            heartbeats: true,
            ack_id_bytes: 0,
            faults: Faults::default(),
        }
    }
}

/// Everything that goes wrong on purpose.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Faults {
    /// In the delivery of messages.
    pub delivery: DeliveryFaults,
    /// In calls; the first rule that fits a call and is drawn decides.
    pub rpcs: Vec<RpcRule>,
    /// Permissions that nobody has, like `pubsub.snapshots.create`.
    pub denied_permissions: Vec<String>,
}
