//! What the Pub/Sub source reads: responses, messages, times in attributes, paths.

use bytes::Bytes;
use tidemill::model::Timestamp;
use tidemill::source::pubsub::time_text::{parse_event_time, parse_rfc3339};
use tidemill::source::pubsub::wire::{MessageParts, Response};
use tidemill::source::pubsub::{keys, path};

/// The first byte chooses what the rest is.
pub fn run(data: &[u8]) {
    let Some((choice, bytes)) = data.split_first() else {
        return;
    };
    match choice % 4 {
        0 => times(bytes),
        1 => {
            let Ok(response) = Response::parse(Bytes::copy_from_slice(bytes)) else {
                return;
            };
            for received in response.received {
                message(received.message.unwrap_or_default());
            }
        }
        2 => message(Bytes::copy_from_slice(bytes)),
        _ => {
            let Ok(text) = str::from_utf8(bytes) else {
                return;
            };
            for canonical in [path::topic(text), path::subscription(text)]
                .into_iter()
                .flatten()
            {
                path::project(&canonical);
                path::is_discard_topic(&canonical);
            }
        }
    }
}

fn times(text: &[u8]) {
    parse_rfc3339(text);
    if let Some(time) = parse_event_time(text) {
        assert!((Timestamp::MIN..=Timestamp::MAX).contains(&time));
    }
}

fn message(bytes: Bytes) {
    if let Ok(parts) = MessageParts::parse(bytes, Some("ts"), Some("id")) {
        times(&parts.timestamp_attribute.unwrap_or_default());
        assert!(keys::key_of(&parts.id_attribute.unwrap_or_default(), 64) < 64);
    }
}
