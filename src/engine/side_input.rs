//! Side inputs: what is kept for them, when a window of one is ready, and how harnesses read them.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::coder;
use crate::engine::tables::{SideInputAddress, SideInputTable, ValuesPage};
use crate::engine::window;
use crate::model::coder::Coder;
use crate::model::ids::StageId;
use crate::model::stage::{PCollection, SideInput};
use crate::model::state::{StateKey, StateOperation, StateReply};
use crate::model::time::Timestamp;
use crate::model::window::{Window, WindowFn};
use crate::model::windowing::Trigger;

/// About how many bytes of keys go out in one reply.
const PAGE_BYTES: usize = 2 << 20;

/// Elements for one side input, with the windows they are in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SideInputBatch {
    pub elements: Vec<SideInputElement>,
}

/// One element in one window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SideInputElement {
    pub window: Window,
    /// The pane's index: a newer pane replaces what older ones held.
    pub pane: i64,
    pub value: Bytes,
}

impl SideInputBatch {
    /// Takes encoded elements of the side input's PCollection.
    ///
    /// # Errors
    ///
    /// When the bytes are not elements of `coder`.
    pub fn add(&mut self, coder: &Coder, bytes: &Bytes) -> Result<(), coder::Error> {
        let (_, window_coder) = coder::windowed_value::parts(coder)?;
        for element in coder::windowed_value::Elements::new(coder, bytes) {
            let element = element?;
            let mut header = &bytes[element.header.clone()];
            let header = coder::windowed_value::read_header(window_coder, &mut header)?;
            for window in header.windows {
                let value = bytes.slice(element.value.clone());
                self.elements.push(SideInputElement {
                    window,
                    pane: header.pane.index,
                    value,
                });
            }
        }
        Ok(())
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.elements.is_empty()
    }
}

/// Keeps a committed batch for `stage`'s side input `index`.
///
/// # Errors
///
/// When an element of a multimap is not a KV of the side input's coder.
pub fn absorb(
    table: &mut impl SideInputTable,
    stage: StageId,
    index: usize,
    side_input: &SideInput,
    batch: SideInputBatch,
) -> Result<(), coder::Error> {
    let mut last: Option<(Window, SideInputAddress)> = None;
    for SideInputElement {
        window,
        pane,
        value,
    } in batch.elements
    {
        let pane = if side_input.all_panes { 0 } else { pane };
        let address = match &last {
            Some((last, address)) if *last == window => address,
            _ => {
                let mut encoded = Vec::new();
                coder::window::write(&mut encoded, &window);
                let address = SideInputAddress {
                    stage,
                    index,
                    window: Bytes::from(encoded),
                };
                &last.insert((window, address)).1
            }
        };
        if side_input.multimap {
            let (key, values) = coder::kv::split(&side_input.coder, &value)?;
            table.put(address, Some(value.slice_ref(key)), pane, values);
        } else {
            table.put(address, None, pane, &value);
        }
    }
    Ok(())
}

/// What the watermark of a side input must reach before an element in some window may be processed.
///
/// The runner maps windows itself where it knows the side input's window fn; for a custom one the main
/// window's own end is taken. What is grouped under a trigger that never fires comes when its window
/// expires; "wait for the last of it" is what such a side input is for.
pub fn needed_watermark(pcollection: &PCollection, main_window: &Window) -> Timestamp {
    let windowing = &pcollection.windowing;
    let window = window::side_input_window(&windowing.window_fn, main_window);
    let end = window.map_or_else(
        || main_window.max_timestamp(),
        |window| window.max_timestamp(),
    );
    let last = match windowing.trigger {
        Trigger::Never => end.plus(windowing.allowed_lateness),
        _ => end,
    };
    if last >= Timestamp::GLOBAL_WINDOW_MAX {
        Timestamp::MAX
    } else {
        last.plus(1)
    }
}

/// Whether one pane makes the side input ready although its watermark never passes its window.
///
/// A trigger that fires at the end only says that nothing before is meant to be seen.
pub fn ready_on_first_pane(pcollection: &PCollection) -> bool {
    let windowing = &pcollection.windowing;
    !pcollection.bounded
        && windowing.window_fn == WindowFn::Global
        && windowing.trigger.may_fire_early()
}

/// Answers a harness; `None` when the key is not of a side input.
pub fn serve(
    table: &impl SideInputTable,
    inputs: &SideInputIndex,
    key: &StateKey,
    operation: &StateOperation,
) -> Option<StateReply> {
    let (transform, name, window) = match key {
        StateKey::IterableSideInput {
            transform,
            side_input,
            window,
        }
        | StateKey::MultimapSideInput {
            transform,
            side_input,
            window,
            ..
        }
        | StateKey::MultimapKeysSideInput {
            transform,
            side_input,
            window,
        }
        | StateKey::MultimapKeysValuesSideInput {
            transform,
            side_input,
            window,
        } => (transform, side_input, window),
        _ => return None,
    };
    let StateOperation::Get { continuation } = operation else {
        return Some(StateReply::Error(format!(
            "side input {name} of {transform} can only be read"
        )));
    };
    let Some(&(stage, index)) = inputs.get(transform).and_then(|names| names.get(name)) else {
        return Some(StateReply::Error(format!(
            "transform {transform} has no side input {name}"
        )));
    };
    let address = SideInputAddress {
        stage,
        index,
        window: window.clone(),
    };
    let token = continuation.as_ref();
    let page = match key {
        StateKey::MultimapKeysSideInput { .. } => {
            read_keys(token, |after| table.keys(&address, after, PAGE_BYTES))
        }
        StateKey::MultimapKeysValuesSideInput { .. } => read_keys(token, |after| {
            table.keys_values(&address, after, PAGE_BYTES)
        }),
        StateKey::MultimapSideInput { key, .. } => read_values(table, &address, Some(key), token),
        _ => read_values(table, &address, None, token),
    };
    Some(match page {
        Some((data, continuation)) => StateReply::Data { data, continuation },
        None => StateReply::Error(format!(
            "the continuation token is not one of what side input {name} of {transform} holds: \
             a newer pane may have come since it was given out"
        )),
    })
}

/// Side inputs by transform and local name, as state keys name them.
pub type SideInputIndex = BTreeMap<String, BTreeMap<String, (StageId, usize)>>;

/// One page, and the token of the next one; `None` when the token makes no sense.
type Page = Option<(Bytes, Option<Bytes>)>;

fn read_values(
    table: &impl SideInputTable,
    address: &SideInputAddress,
    key: Option<&Bytes>,
    token: Option<&Bytes>,
) -> Page {
    let from = match token {
        None => None,
        Some(token) => {
            let (pane, number) = token.split_first_chunk()?;
            Some(ValuesPage {
                pane: i64::from_be_bytes(*pane),
                number: u64::from_be_bytes(number.try_into().ok()?),
            })
        }
    };
    let (data, next) = table.values(address, key, from)?;
    let token = next.map(|ValuesPage { pane, number }| {
        Bytes::from([pane.to_be_bytes(), number.to_be_bytes()].concat())
    });
    Some((data, token))
}

fn read_keys(
    token: Option<&Bytes>,
    read: impl FnOnce(Option<&[u8]>) -> (Bytes, Option<Bytes>),
) -> Page {
    let after = match token {
        None => None,
        Some(token) => Some(token.strip_prefix(&[BEHIND])?),
    };
    let (data, last) = read(after);
    let token = last.map(|key| Bytes::from([&[BEHIND][..], &key[..]].concat()));
    Some((data, token))
}

/// Starts a token that names a key, which may be empty.
const BEHIND: u8 = b'>';
