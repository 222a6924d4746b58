//! What a running bundle reads and writes of user state: its own writes over what is committed.

use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::Bytes;

use crate::coder;
use crate::engine::keyed::pages::{self, CellView};
use crate::engine::tables::{StateAddress, StateEntry, UserStateTable};
use crate::model::ids::{BundleId, StageId};
use crate::model::stage::UserState;
use crate::model::state::{StateKey, StateOperation, StateReply};

/// What a running bundle has written.
#[derive(Debug, Default)]
pub struct StateChanges {
    cells: BTreeMap<StateAddress, CellChanges>,
}

#[derive(Debug, Default)]
pub(super) struct CellChanges {
    /// How often anything of the cell was cleared.
    clears: u32,
    /// Which of these cleared all that was there; 0: none.
    pub(super) cleared_by: u32,
    pub(super) entries: BTreeMap<StateEntry, EntryChanges>,
}

#[derive(Debug, Default)]
pub(super) struct EntryChanges {
    /// Which clear of the cell was of this entry; 0: none.
    pub(super) cleared_by: u32,
    pub(super) appended: Vec<Bytes>,
}

impl StateChanges {
    /// Commits everything written.
    pub fn apply(self, table: &mut impl UserStateTable) {
        for (address, cell) in self.cells {
            if cell.cleared_by > 0 {
                table.clear(&address);
            }
            for (entry, changes) in cell.entries {
                if changes.cleared_by > 0 {
                    table.remove(&address, &entry);
                }
                if !changes.appended.is_empty() {
                    table.append(&address, entry, changes.appended);
                }
            }
        }
    }

    fn view<'a, T: UserStateTable>(
        &'a self,
        table: &'a T,
        address: &'a StateAddress,
    ) -> CellView<'a, T> {
        CellView {
            address,
            table,
            changes: self.cells.get(address),
        }
    }

    fn append(&mut self, address: StateAddress, entry: StateEntry, data: Bytes) {
        let cell = self.cells.entry(address).or_default();
        cell.entries.entry(entry).or_default().appended.push(data);
    }

    fn clear(&mut self, address: StateAddress) {
        let cell = self.cells.entry(address).or_default();
        cell.clears += 1;
        cell.cleared_by = cell.clears;
        cell.entries.clear();
    }

    fn clear_entry(&mut self, address: StateAddress, entry: StateEntry) {
        let cell = self.cells.entry(address).or_default();
        cell.clears += 1;
        let changes = EntryChanges {
            cleared_by: cell.clears,
            appended: Vec::new(),
        };
        cell.entries.insert(entry, changes);
    }
}

/// Who asks for user state.
#[derive(Clone, Copy, Debug)]
pub struct Asking<'a> {
    pub bundle: BundleId,
    pub stage: StageId,
    /// What the stage declares.
    pub states: &'a [UserState],
}

/// Answers a request for user state; `None` when the key is of another kind.
pub fn serve(
    asking: Asking<'_>,
    changes: &mut StateChanges,
    table: &impl UserStateTable,
    key: StateKey,
    operation: StateOperation,
) -> Option<StateReply> {
    let (address, part) = part_of(asking.stage, key)?;
    let done = match operation {
        StateOperation::Get { continuation } => {
            let view = changes.view(table, &address);
            let page = pages::read(asking, &view, &part, continuation.as_ref());
            page.map(|(data, continuation)| StateReply::Data { data, continuation })
        }
        StateOperation::Append { data } => {
            append(changes, address, part, data).map(|()| StateReply::Done)
        }
        StateOperation::Clear => {
            clear(changes, table, address, part);
            Ok(StateReply::Done)
        }
    };
    Some(done.unwrap_or_else(StateReply::Error))
}

/// Which part of a cell a request is about.
pub(super) enum Part {
    Entry(StateEntry),
    MapKeys,
    MapEntries,
    /// `[start, end)`.
    Range(i64, i64),
}

fn part_of(stage: StageId, key: StateKey) -> Option<(StateAddress, Part)> {
    let address = |transform, name, window, key| StateAddress {
        stage,
        window,
        key,
        transform,
        name,
    };
    Some(match key {
        StateKey::BagUserState {
            transform,
            state,
            window,
            key,
        } => (
            address(transform, state, window, key),
            Part::Entry(StateEntry::Bag),
        ),
        StateKey::MultimapUserState {
            transform,
            state,
            window,
            key,
            map_key,
        } => {
            let entry = StateEntry::MapKey(map_key);
            (address(transform, state, window, key), Part::Entry(entry))
        }
        StateKey::MultimapKeysUserState {
            transform,
            state,
            window,
            key,
        } => (address(transform, state, window, key), Part::MapKeys),
        StateKey::MultimapEntriesUserState {
            transform,
            state,
            window,
            key,
        } => (address(transform, state, window, key), Part::MapEntries),
        StateKey::OrderedListUserState {
            transform,
            state,
            window,
            key,
            start,
            end,
        } => (
            address(transform, state, window, key),
            Part::Range(start, end),
        ),
        StateKey::Runner { .. }
        | StateKey::IterableSideInput { .. }
        | StateKey::MultimapSideInput { .. }
        | StateKey::MultimapKeysSideInput { .. }
        | StateKey::MultimapKeysValuesSideInput { .. } => return None,
    })
}

fn append(
    changes: &mut StateChanges,
    address: StateAddress,
    part: Part,
    data: Bytes,
) -> Result<(), String> {
    match part {
        Part::Entry(entry) => {
            changes.append(address, entry, data);
            Ok(())
        }
        Part::Range(..) => append_sorted(changes, &address, data),
        Part::MapKeys | Part::MapEntries => Err(format!(
            "keys of state {} cannot be appended to",
            address.name
        )),
    }
}

/// Appends entries of an ordered list: each a varint sort key and a length-prefixed value.
fn append_sorted(
    changes: &mut StateChanges,
    address: &StateAddress,
    data: Bytes,
) -> Result<(), String> {
    let unreadable =
        |error: coder::Error| format!("state {} cannot be appended to: {error}", address.name);
    let mut rest: &[u8] = &data;
    while !rest.is_empty() {
        let start = data.len() - rest.len();
        let sort_key = coder::varint::read(&mut rest).map_err(unreadable)? as i64;
        coder::length_prefix::read(&mut rest).map_err(unreadable)?;
        let entry = data.slice(start..data.len() - rest.len());
        changes.append(address.clone(), StateEntry::SortKey(sort_key), entry);
    }
    Ok(())
}

fn clear(
    changes: &mut StateChanges,
    table: &impl UserStateTable,
    address: StateAddress,
    part: Part,
) {
    match part {
        Part::Entry(entry) => changes.clear_entry(address, entry),
        Part::MapKeys | Part::MapEntries => changes.clear(address),
        Part::Range(start, end) => {
            let view = changes.view(table, &address);
            let first = StateEntry::SortKey(start);
            let entries = view.entries(Bound::Included(&first));
            let cleared: Vec<StateEntry> = entries
                .take_while(|entry| pages::is_before(entry, end))
                .cloned()
                .collect();
            for entry in cleared {
                changes.clear_entry(address.clone(), entry);
            }
        }
    }
}
