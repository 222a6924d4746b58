//! A running bundle's view of user state: its own writes over what is committed.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};

use crate::coder;
use crate::engine::tables::{StateAddress, StateEntry, UserStateTable};
use crate::model::coder::Coder;
use crate::model::ids::StageId;
use crate::model::stage::UserState;
use crate::model::state::{StateKey, StateOperation, StateReply};

/// About how many bytes go out in one reply.
const PAGE_BYTES: usize = 2 << 20;

/// What a running bundle has written.
#[derive(Debug, Default)]
pub struct StateChanges {
    cells: BTreeMap<StateAddress, CellChanges>,
}

#[derive(Debug, Default)]
struct CellChanges {
    /// What was committed is gone.
    cleared: bool,
    entries: BTreeMap<StateEntry, EntryChanges>,
}

#[derive(Debug, Default)]
struct EntryChanges {
    /// What was committed is gone.
    cleared: bool,
    appended: Vec<Bytes>,
}

impl StateChanges {
    /// Commits everything written.
    pub fn apply(self, table: &mut impl UserStateTable) {
        for (address, cell) in self.cells {
            if cell.cleared {
                table.clear(&address);
            }
            for (entry, changes) in cell.entries {
                if changes.cleared {
                    table.remove(&address, &entry);
                }
                if !changes.appended.is_empty() {
                    table.append(&address, entry, changes.appended);
                }
            }
        }
    }

    fn values(
        &self,
        table: &impl UserStateTable,
        address: &StateAddress,
        entry: &StateEntry,
    ) -> Vec<Bytes> {
        let cell = self.cells.get(address);
        let changes = cell.and_then(|cell| cell.entries.get(entry));
        let cleared =
            cell.is_some_and(|cell| cell.cleared) || changes.is_some_and(|changes| changes.cleared);
        let committed = if cleared {
            &[]
        } else {
            table.values(address, entry)
        };
        let appended = changes.map_or(&[][..], |changes| &changes.appended);
        committed.iter().chain(appended).cloned().collect()
    }

    fn entries(&self, table: &impl UserStateTable, address: &StateAddress) -> Vec<StateEntry> {
        let cell = self.cells.get(address);
        let mut entries = match cell {
            Some(cell) if cell.cleared => Vec::new(),
            _ => table.entries(address),
        };
        if let Some(cell) = cell {
            entries.extend(cell.entries.keys().cloned());
            entries.sort();
            entries.dedup();
        }
        entries.retain(|entry| !self.values(table, address, entry).is_empty());
        entries
    }

    fn append(&mut self, address: StateAddress, entry: StateEntry, data: Bytes) {
        let cell = self.cells.entry(address).or_default();
        cell.entries.entry(entry).or_default().appended.push(data);
    }

    fn clear(&mut self, address: StateAddress) {
        *self.cells.entry(address).or_default() = CellChanges {
            cleared: true,
            entries: BTreeMap::new(),
        };
    }

    fn clear_entry(&mut self, address: StateAddress, entry: StateEntry) {
        let cell = self.cells.entry(address).or_default();
        cell.entries.insert(
            entry,
            EntryChanges {
                cleared: true,
                appended: Vec::new(),
            },
        );
    }
}

/// Answers a request for user state of a stage that declares `states`; `None` when the key is of another
/// kind.
pub fn serve(
    stage: StageId,
    states: &[UserState],
    changes: &mut StateChanges,
    table: &impl UserStateTable,
    key: StateKey,
    operation: StateOperation,
) -> Option<StateReply> {
    let (address, part) = part_of(stage, key)?;
    Some(match operation {
        StateOperation::Get { continuation } => {
            match read(states, changes, table, &address, &part) {
                Ok(values) => page(&values, continuation.as_ref()),
                Err(error) => StateReply::Error(error),
            }
        }
        StateOperation::Append { data } => match append(changes, address, part, data) {
            Ok(()) => StateReply::Done,
            Err(error) => StateReply::Error(error),
        },
        StateOperation::Clear => {
            clear(changes, table, address, part);
            StateReply::Done
        }
    })
}

/// Which part of a cell a request is about.
enum Part {
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

fn read(
    states: &[UserState],
    changes: &StateChanges,
    table: &impl UserStateTable,
    address: &StateAddress,
    part: &Part,
) -> Result<Vec<Bytes>, String> {
    Ok(match part {
        Part::Entry(entry) => changes.values(table, address, entry),
        Part::MapKeys => {
            let entries = changes.entries(table, address).into_iter();
            entries
                .filter_map(|entry| match entry {
                    StateEntry::MapKey(key) => Some(key),
                    StateEntry::Bag | StateEntry::SortKey(_) => None,
                })
                .collect()
        }
        Part::MapEntries => {
            let coder = states
                .iter()
                .find(|state| state.transform == address.transform && state.name == address.name)
                .and_then(|state| state.multimap_values.as_ref());
            let coder = coder.ok_or_else(|| format!("state {} is no multimap", address.name))?;
            let mut all = Vec::new();
            for entry in changes.entries(table, address) {
                if let StateEntry::MapKey(key) = &entry {
                    let values = changes.values(table, address, &entry);
                    let entry = map_entry(coder, key, &values).map_err(|error| {
                        format!("the entries of state {} cannot be listed: {error}; read its keys and get each", address.name)
                    })?;
                    all.push(entry);
                }
            }
            all
        }
        Part::Range(start, end) => {
            let in_range = |entry: &StateEntry| matches!(entry, StateEntry::SortKey(key) if (*start..*end).contains(key));
            let entries = changes.entries(table, address).into_iter().filter(in_range);
            entries
                .flat_map(|entry| changes.values(table, address, &entry))
                .collect()
        }
    })
}

/// A map key and the iterable of its values, which were appended some at a time.
fn map_entry(coder: &Coder, key: &Bytes, values: &[Bytes]) -> Result<Bytes, coder::Error> {
    let mut count = 0;
    for appended in values {
        let mut rest: &[u8] = appended;
        while !rest.is_empty() {
            let before = rest.len();
            coder::length::skip(coder, &mut rest)?;
            if rest.len() == before {
                return Err(coder::Error::WrongCoder("value that takes bytes"));
            }
            count += 1;
        }
    }
    let mut entry = key.to_vec();
    coder::iterable::write_known(&mut entry, count, values);
    Ok(Bytes::from(entry))
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
            for entry in changes.entries(table, &address) {
                if matches!(entry, StateEntry::SortKey(key) if (start..end).contains(&key)) {
                    changes.clear_entry(address.clone(), entry);
                }
            }
        }
    }
}

/// One page of concatenated values; a continuation token is the byte offset of the next. Python
/// decodes each page by itself, so a page ends where a value does: as appended, they are whole elements.
fn page(values: &[Bytes], continuation: Option<&Bytes>) -> StateReply {
    let from = match continuation.map(|token| <[u8; 8]>::try_from(token.as_ref())) {
        None => 0,
        Some(Ok(token)) => u64::from_be_bytes(token) as usize,
        Some(Err(_)) => {
            return StateReply::Error("the continuation token was not given out".to_owned());
        }
    };
    let total: usize = values.iter().map(Bytes::len).sum();
    let end = page_end(values, from, total);
    let continuation = (end < total).then(|| Bytes::copy_from_slice(&(end as u64).to_be_bytes()));
    StateReply::Data {
        data: slice_of(values, from.min(end), end),
        continuation,
    }
}

/// The last end of a value within a page's length of `from`, or the first one after `from`.
fn page_end(values: &[Bytes], from: usize, total: usize) -> usize {
    let limit = from.saturating_add(PAGE_BYTES);
    let mut end = 0;
    for value in values {
        let next = end + value.len();
        if end > from && next > limit {
            return end;
        }
        end = next;
    }
    total
}

/// Bytes `from..to` of the concatenation; without a copy where they lie in one value.
fn slice_of(values: &[Bytes], from: usize, to: usize) -> Bytes {
    let mut at = 0;
    let mut joined = BytesMut::new();
    for value in values {
        let (start, end) = (from.max(at), to.min(at + value.len()));
        if start < end {
            let part = start - at..end - at;
            if start == from && end == to {
                return value.slice(part);
            }
            joined.extend_from_slice(&value[part]);
        }
        at += value.len();
    }
    joined.freeze()
}
