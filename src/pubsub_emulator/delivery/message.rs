//! A published message.

use bytes::Bytes;

use super::time::Time;

/// A message as every subscription of its topic shares it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// Its identity; larger is later within one topic.
    pub id: u64,
    /// When the topic took it.
    pub publish_time: Time,
    /// The payload.
    pub data: Bytes,
    /// Attributes, sorted by key.
    pub attributes: Vec<(String, String)>,
    /// Messages of one non-empty key keep their order on ordered subscriptions.
    pub ordering_key: String,
}

impl Message {
    /// What the message weighs for flow control: payload, attributes and key.
    pub fn size(&self) -> u64 {
        let attributes: usize = self
            .attributes
            .iter()
            .map(|(key, value)| key.len() + value.len())
            .sum();
        let bytes = self.data.len() + attributes + self.ordering_key.len();
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// The value of an attribute.
    pub fn attribute(&self, key: &str) -> Option<&str> {
        self.attributes
            .binary_search_by(|(candidate, _)| candidate.as_str().cmp(key))
            .ok()
            .and_then(|index| self.attributes.get(index))
            .map(|(_, value)| value.as_str())
    }
}
