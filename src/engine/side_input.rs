//! Side inputs: what is kept for them, when a window of one is ready, and how harnesses read them.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::coder;
use crate::engine::tables::group::Values;
use crate::engine::tables::{
    PAGE_BYTES, PayloadError, PayloadTable, SideInputAddress, SideInputTable, ValuesPage,
};
use crate::engine::window;
use crate::model::coder::Coder;
use crate::model::ids::StageId;
use crate::model::stage::{PCollection, SideInput};
use crate::model::state::{StateKey, StateOperation, StateReply};
use crate::model::time::Timestamp;
use crate::model::window::{Window, WindowFn};
use crate::model::windowing::Trigger;

/// Elements for one side input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SideInputBatch {
    /// Encoded values by window and the pane's index: a newer pane replaces what older ones held.
    panes: BTreeMap<(Window, i64), Values>,
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
                let pane = self.panes.entry((window, header.pane.index));
                pane.or_default().append(&bytes[element.value.clone()]);
            }
        }
        Ok(())
    }

    /// Keeps values off the heap, where there are enough of them.
    ///
    /// # Errors
    ///
    /// When there is no room for them.
    pub fn keep(&mut self, payload: &mut impl PayloadTable) -> Result<(), PayloadError> {
        self.panes
            .values_mut()
            .try_for_each(|values| values.keep(payload))
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.panes.is_empty()
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
    for ((window, pane), values) in batch.panes {
        let pane = if side_input.all_panes { 0 } else { pane };
        let mut encoded = Vec::new();
        coder::window::write(&mut encoded, &window);
        let address = SideInputAddress {
            stage,
            index,
            window: Bytes::from(encoded),
        };
        if side_input.multimap {
            if values.bytes() == 0 {
                for _ in 0..values.count() {
                    table.put(&address, pane, Bytes::new(), Bytes::new());
                }
            }
            for part in values.into_parts() {
                put_entries(table, &address, pane, &part, &side_input.coder)?;
            }
        } else {
            table.extend(&address, pane, values);
        }
    }
    Ok(())
}

/// Adds encoded KVs to a multimap.
fn put_entries(
    table: &mut impl SideInputTable,
    address: &SideInputAddress,
    pane: i64,
    entries: &Bytes,
    coder: &Coder,
) -> Result<(), coder::Error> {
    let mut rest = &entries[..];
    while !rest.is_empty() {
        let entry = &rest[..coder::length::encoded_len(coder, rest)?];
        let (key, value) = coder::kv::split(coder, entry)?;
        if entry.is_empty() {
            return Err(coder::Error::LeftOver(rest.len()));
        }
        rest = &rest[entry.len()..];
        table.put(
            address,
            pane,
            entries.slice_ref(key),
            entries.slice_ref(value),
        );
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
