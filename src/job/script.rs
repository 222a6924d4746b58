//! Hands a lane the events of its TestStream, one after the other.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tonic::Code;
use tonic::transport::Endpoint;

use crate::engine::Event;
use crate::job::execution::{Execution, Outcome};
use crate::model::stage::{Script, ScriptEvent};
use crate::model::{LaneId, StageId};
use crate::plan;
use crate::proto::interactive::EventsRequest;
use crate::proto::interactive::test_stream_service_client::TestStreamServiceClient;

/// The one lane of a job with a TestStream: what settles on it has settled in the whole job.
pub const LANE: LaneId = LaneId(0);

/// Most events of a service that wait here.
const AHEAD_MAX: usize = 16;

/// What comes next in a TestStream.
#[derive(Debug)]
pub struct Player {
    events: Events,
    ended: bool,
}

#[derive(Debug)]
enum Events {
    Listed(VecDeque<ScriptEvent>),
    Served {
        events: mpsc::Receiver<ScriptEvent>,
        task: AbortHandle,
    },
}

impl Player {
    /// Opens the script; a service is asked from now on.
    pub fn new(script: &Script, execution: &Arc<Execution>) -> Self {
        let events = match script {
            Script::Events(events) => Events::Listed(events.iter().cloned().collect()),
            Script::Service { endpoint, outputs } => {
                let (sender, events) = mpsc::channel(AHEAD_MAX);
                let asking = ask(
                    endpoint.clone(),
                    outputs.clone(),
                    sender,
                    Arc::clone(execution),
                );
                let task = execution.runtime.spawn(asking).abort_handle();
                Events::Served { events, task }
            }
        };
        Self {
            events,
            ended: false,
        }
    }

    /// A script without further events, of which the lane has heard.
    pub fn ended() -> Self {
        Self {
            events: Events::Listed(VecDeque::new()),
            ended: true,
        }
    }

    /// Whether the lane has heard that nothing more comes.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// The next event, if it is there; at the end, once, the word that it is.
    pub fn next(&mut self) -> Option<Event> {
        if self.ended {
            return None;
        }
        let event = match &mut self.events {
            Events::Listed(events) => events.pop_front(),
            Events::Served { events, .. } => match events.try_recv() {
                Ok(event) => Some(event),
                Err(mpsc::error::TryRecvError::Empty) => return None,
                Err(mpsc::error::TryRecvError::Disconnected) => None,
            },
        };
        self.ended = event.is_none();
        Some(event.map_or(Event::ScriptEnded, Event::Script))
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        if let Events::Served { task, .. } = &self.events {
            task.abort();
        }
    }
}

/// Passes a service's events on until there are no more; wakes the lane for each.
async fn ask(
    endpoint: String,
    outputs: BTreeMap<String, StageId>,
    sender: mpsc::Sender<ScriptEvent>,
    execution: Arc<Execution>,
) {
    if let Err(problem) = pass_on(&endpoint, &outputs, &sender, &execution).await {
        let text = format!("the TestStream's service at {endpoint} {problem}");
        let _ = execution.outcome.send(Outcome::Failed(text));
        return;
    }
    drop(sender);
    execution.send(LANE, Event::Tick);
}

async fn pass_on(
    endpoint: &str,
    outputs: &BTreeMap<String, StageId>,
    sender: &mpsc::Sender<ScriptEvent>,
    execution: &Execution,
) -> Result<(), String> {
    let channel = Endpoint::from_shared(format!("http://{endpoint}"))
        .map_err(|error| format!("has no usable address: {error}"))?
        .connect()
        .await
        .map_err(|error| format!("cannot be reached: {error}"))?;
    let mut client = TestStreamServiceClient::new(channel).max_decoding_message_size(usize::MAX);
    let request = EventsRequest {
        output_ids: outputs.keys().cloned().collect(),
    };
    let mut events = client
        .events(request)
        .await
        .map_err(|status| refusal(&status))?
        .into_inner();
    loop {
        let event = match events.message().await {
            Ok(Some(event)) => event,
            Ok(None) => return Ok(()),
            Err(status) => return Err(refusal(&status)),
        };
        let event = plan::script_event(&event, outputs)
            .map_err(|error| format!("sent something wrong: {error}"))?;
        if sender.send(event).await.is_err() {
            return Ok(());
        }
        execution.send(LANE, Event::Tick);
    }
}

fn refusal(status: &tonic::Status) -> String {
    match status.code() {
        Code::Unimplemented => "does not answer Events".to_owned(),
        code => format!("failed with {code:?}: {}", status.message()),
    }
}
