//! State requests of a harness, as the engine answers them.

use bytes::Bytes;

/// What a harness asks for; keys, windows and map keys are encoded as the descriptor's coders say.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StateKey {
    /// The rest of a state-backed iterable.
    Runner { key: Bytes },
    IterableSideInput {
        transform: String,
        side_input: String,
        window: Bytes,
    },
    MultimapSideInput {
        transform: String,
        side_input: String,
        window: Bytes,
        key: Bytes,
    },
    MultimapKeysSideInput {
        transform: String,
        side_input: String,
        window: Bytes,
    },
    MultimapKeysValuesSideInput {
        transform: String,
        side_input: String,
        window: Bytes,
    },
    BagUserState {
        transform: String,
        state: String,
        window: Bytes,
        key: Bytes,
    },
    MultimapKeysUserState {
        transform: String,
        state: String,
        window: Bytes,
        key: Bytes,
    },
    MultimapEntriesUserState {
        transform: String,
        state: String,
        window: Bytes,
        key: Bytes,
    },
    MultimapUserState {
        transform: String,
        state: String,
        window: Bytes,
        key: Bytes,
        map_key: Bytes,
    },
    OrderedListUserState {
        transform: String,
        state: String,
        window: Bytes,
        key: Bytes,
        start: i64,
        end: i64,
    },
}

/// One request on the state stream, within a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateRequest {
    /// The harness's id of the request, echoed in the reply.
    pub id: String,
    pub key: StateKey,
    pub operation: StateOperation,
}

/// What to do with the state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateOperation {
    /// Read from the start (`None`) or from where a reply's continuation token says.
    Get {
        continuation: Option<Bytes>,
    },
    Append {
        data: Bytes,
    },
    Clear,
}

/// The answer to a [`StateRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateReply {
    /// One page; `continuation` is absent on the last one.
    Data {
        data: Bytes,
        continuation: Option<Bytes>,
    },
    /// An append or clear was taken.
    Done,
    /// The request makes no sense; the text goes to the harness.
    Error(String),
}
