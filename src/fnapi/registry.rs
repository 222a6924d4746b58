//! Which harnesses may talk to this process.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tonic::Status;
use tonic::metadata::MetadataMap;

use crate::fnapi::connection::Connection;
use crate::fnapi::server::{HarnessSpec, Settings};

/// All harnesses that are expected or connected, by their unguessable ids.
pub(crate) struct Registry {
    settings: Settings,
    by_id: Mutex<BTreeMap<String, Arc<Connection>>>,
}

impl Registry {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            settings,
            by_id: Mutex::default(),
        }
    }

    pub(crate) fn add(self: &Arc<Self>, spec: HarnessSpec) -> Arc<Connection> {
        let connection = Connection::new(spec, self.settings.clone(), Arc::downgrade(self));
        let connection = Arc::new(connection);
        let previous = self
            .by_id
            .lock()
            .insert(connection.id.clone(), Arc::clone(&connection));
        assert!(previous.is_none(), "a worker id is used twice");
        connection
    }

    pub(crate) fn remove(&self, connection: &Connection) {
        self.by_id.lock().remove(&connection.id);
    }

    pub(crate) fn get(&self, id: &str) -> Option<Arc<Connection>> {
        self.by_id.lock().get(id).cloned()
    }

    /// The harness that a call comes from.
    pub(crate) fn caller(&self, metadata: &MetadataMap) -> Result<Arc<Connection>, Status> {
        let mut ids = metadata.get_all("worker_id").iter();
        let id = ids.next().and_then(|id| id.to_str().ok()).ok_or_else(|| {
            Status::invalid_argument("the call needs a worker_id in its metadata")
        })?;
        if ids.next().is_some() {
            return Err(Status::invalid_argument(
                "the call has more than one worker_id in its metadata",
            ));
        }
        self.get(id)
            .ok_or_else(|| Status::permission_denied("this worker_id is not expected here"))
    }
}
