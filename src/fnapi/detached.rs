//! A harness without streams: what it would send is handed over, for tests of what that may be.

use std::sync::{Arc, Weak};
use std::time::Instant;

use bytes::Bytes;
use futures_util::FutureExt;
use tonic::Status;

use crate::fnapi::connection::Connection;
use crate::fnapi::framing::{Frames, Received};
use crate::fnapi::server::{HarnessSpec, Settings};
use crate::fnapi::{control, data, state};
use crate::model::BundleId;
use crate::proto::fn_execution::{InstructionResponse, StateRequest};

/// A harness whose messages are handed over by call; what comes of them arrives at its events.
pub struct DetachedHarness {
    connection: Arc<Connection>,
}

impl DetachedHarness {
    /// A harness that is connected and runs nothing.
    pub fn new(spec: HarnessSpec) -> Self {
        let connection = Connection::new(spec, Settings::default(), Weak::new());
        Self {
            connection: Arc::new(connection),
        }
    }

    /// Lets it run a bundle of a descriptor; `false` when it is gone.
    pub fn begin(&self, bundle: BundleId, descriptor: &str) -> bool {
        let shape = self.connection.shape(descriptor);
        self.connection.begin(bundle, shape)
    }

    /// Takes what would come on its control stream.
    ///
    /// # Errors
    ///
    /// What the stream would be closed with.
    pub fn respond(&self, response: InstructionResponse) -> Result<(), Status> {
        control::handle(&self.connection, response)
    }

    /// Takes what would come on its data stream, cut into these frames, and the end of the stream. `false`
    /// when there is no room for all of it.
    pub fn send_data(&self, frames: impl IntoIterator<Item = Bytes>) -> bool {
        let frames = Frames(frames.into_iter().collect());
        let received = Received::new(tonic::body::Body::new(frames));
        let reading = data::read(Arc::clone(&self.connection), received);
        reading.now_or_never().is_some()
    }

    /// Lets time pass: what is overdue fails.
    pub fn look(&self, now: Instant) {
        self.connection.fail_overdue(now);
    }

    /// Takes what would come on its state stream.
    ///
    /// # Errors
    ///
    /// What the stream would be closed with.
    pub fn ask_state(&self, request: StateRequest) -> Result<(), Status> {
        state::handle(&self.connection, request)
    }
}
