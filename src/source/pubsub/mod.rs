//! Cloud Pub/Sub as the job's own source and sink.
//!
//! Reading: a [`Reader`] keeps several pull streams open and hands out batches of [`Message`]s, each
//! with a [`Receipt`]. It keeps the lease of every message it handed out until the job says
//! [`ReaderHandle::ack`], however long that takes, and tells a watermark that never passes the event
//! time of a message that is not yet acknowledged. Writing: a [`Publisher`].
//!
//! What decides is pure and has its tests beside it ([`ack`], [`watermark`], [`outgoing`], [`time_text`],
//! [`keys`], [`path`], [`retry`], [`wire`]); what moves bytes is in
//! [`reader`], [`publisher`] and [`client`].

pub mod ack;
mod calls;
pub mod client;
pub mod error;
pub mod keys;
pub mod message;
mod outbox;
pub mod outgoing;
pub mod path;
mod probe;
pub mod publisher;
mod pull;
pub mod reader;
pub mod retry;
pub mod settings;
mod shared;
mod stream;
pub mod subscription;
pub mod time_text;
pub mod topic;
pub mod watermark;
pub mod wire;

pub use ack::Receipt;
pub use client::{Client, Endpoint};
pub use error::Error;
pub use message::Message;
pub use outgoing::{Outgoing, PublishSettings};
pub use publisher::Publisher;
pub use reader::{Batch, Reader, ReaderHandle};
pub use settings::ReadSettings;
pub use shared::ReaderStats;
pub use subscription::Temporary;
pub use watermark::Bound;
