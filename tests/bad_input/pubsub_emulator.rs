//! What clients write into subscriptions of the emulator.

use tidemill::pubsub_emulator::delivery::{Filter, Message};

/// The bytes are a filter; its own text is what it is then tried on.
pub fn run(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else {
        return;
    };
    let Ok(filter) = Filter::parse(text) else {
        return;
    };
    let mut attributes: Vec<(String, String)> = text
        .split(['"', ' ', '.', ':', '=', '(', ')', ','])
        .map(|word| (word.to_owned(), word.to_owned()))
        .collect();
    attributes.sort();
    attributes.dedup();
    let message = Message {
        attributes,
        ..Message::default()
    };
    filter.accepts(&message);
    filter.accepts(&Message::default());
}
