//! The name of one delivery.

use std::fmt;

/// Names one delivery of one message on one subscription: each delivery has a new one.
///
/// As text it is `subscription-message-delivery` in hexadecimal, perhaps followed by a dot and
/// padding that makes it as long as the real service's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckId {
    /// Which incarnation of which subscription.
    pub subscription: u64,
    /// The message.
    pub message: u64,
    /// The delivery, counted over the whole subscription.
    pub generation: u64,
}

impl AckId {
    /// Reads what `Display` wrote; `None` for anything else.
    pub fn parse(text: &str) -> Option<AckId> {
        let numbers = text.split('.').next()?;
        let mut parts = numbers.split('-');
        let mut number = || u64::from_str_radix(parts.next()?, 16).ok();
        let ack_id = AckId {
            subscription: number()?,
            message: number()?,
            generation: number()?,
        };
        parts.next().is_none().then_some(ack_id)
    }
}

impl fmt::Display for AckId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:x}-{:x}-{:x}",
            self.subscription, self.message, self.generation
        )
    }
}
