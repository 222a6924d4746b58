//! Reads of user state, page by page: a page costs what it holds, however much stands before it.
//!
//! A continuation token says where the next page starts: after how many values of an entry, or after
//! which map key. What is committed stays while a bundle runs, and its own values come behind it, so that a
//! token stays good while the bundle appends. Harnesses keep tokens from bundle to bundle together with what
//! they remember; one that is from before a clear is refused where the bundle itself cleared.

use std::ops::Bound;

use bytes::Bytes;

use crate::coder;
use crate::engine::keyed::state::{Asking, CellChanges, EntryChanges, Part};
use crate::engine::tables::{PAGE_BYTES, StateAddress, StateEntry, UserStateTable};
use crate::model::coder::Coder;
use crate::model::ids::BundleId;

/// One page, and the token of the next one.
type Read = (Bytes, Option<Bytes>);

/// What a bundle sees of one cell: its own writes over what is committed.
pub(super) struct CellView<'a, T> {
    pub(super) address: &'a StateAddress,
    pub(super) table: &'a T,
    pub(super) changes: Option<&'a CellChanges>,
}

impl<'a, T: UserStateTable> CellView<'a, T> {
    /// Entries that have values, from `from` on, in order.
    pub(super) fn entries(
        &self,
        from: Bound<&'a StateEntry>,
    ) -> impl Iterator<Item = &'a StateEntry> {
        let (table, address) = (self.table, self.address);
        let kept = self.cleared_by() == 0;
        let committed = kept.then(|| table.entries(address, from));
        let mut committed = committed.into_iter().flatten().peekable();
        let changed = self.changes.into_iter();
        let changed = changed.flat_map(move |cell| cell.entries.range((from, Bound::Unbounded)));
        let mut changed = changed.peekable();
        std::iter::from_fn(move || {
            loop {
                let Some((change, changes)) = changed.peek().copied() else {
                    return committed.next();
                };
                match committed.peek() {
                    Some(entry) if *entry < change => return committed.next(),
                    Some(entry) if *entry == change => {
                        committed.next();
                        changed.next();
                        if changes.cleared_by == 0 || !changes.appended.is_empty() {
                            return Some(change);
                        }
                    }
                    _ => {
                        changed.next();
                        if !changes.appended.is_empty() {
                            return Some(change);
                        }
                    }
                }
            }
        })
    }

    fn entry(&self, entry: &StateEntry) -> EntryView<'a> {
        let changes = self.changes.and_then(|cell| cell.entries.get(entry));
        let cleared_by = changes.map_or(0, |changes: &EntryChanges| changes.cleared_by);
        let cleared_by = cleared_by.max(self.cleared_by());
        let committed = if cleared_by > 0 {
            &[]
        } else {
            self.table.values(self.address, entry)
        };
        EntryView {
            committed,
            appended: changes.map_or(&[], |changes| &changes.appended),
            cleared_by,
        }
    }

    fn cleared_by(&self) -> u32 {
        self.changes.map_or(0, |cell| cell.cleared_by)
    }
}

/// The values of one entry, as they were appended.
struct EntryView<'a> {
    committed: &'a [Bytes],
    appended: &'a [Bytes],
    /// The clear after which this is what there is; 0: none.
    cleared_by: u32,
}

impl<'a> EntryView<'a> {
    fn len(&self) -> usize {
        self.committed.len() + self.appended.len()
    }

    /// The values from number `from` on.
    fn values(&self, from: usize) -> impl Iterator<Item = &'a Bytes> {
        let committed = self.committed.get(from..).unwrap_or_default();
        let appended = from.saturating_sub(self.committed.len());
        let appended = self.appended.get(appended..).unwrap_or_default();
        committed.iter().chain(appended)
    }
}

/// Reads the page at `token`, the first one without.
///
/// Python decodes each page by itself, so a page holds whole values: as appended, they are whole elements.
pub(super) fn read<T: UserStateTable>(
    asking: Asking<'_>,
    view: &CellView<'_, T>,
    part: &Part,
    token: Option<&Bytes>,
) -> Result<Read, String> {
    let token = token.map(Token::parse).transpose()?;
    match part {
        Part::Entry(entry) => read_entry(asking.bundle, view, entry, token),
        Part::Range(start, end) => read_range(asking.bundle, view, (*start, *end), token),
        Part::MapKeys => read_map(asking.bundle, view, token, |page, key| {
            page.extend_from_slice(key);
            Ok(())
        }),
        Part::MapEntries => {
            let name = &view.address.name;
            let coder = asking
                .states
                .iter()
                .find(|state| state.transform == view.address.transform && state.name == *name)
                .and_then(|state| state.multimap_values.as_ref())
                .ok_or_else(|| format!("state {name} is no multimap"))?;
            read_map(asking.bundle, view, token, |page, key| {
                let values = view.entry(&StateEntry::MapKey(key.clone()));
                write_map_entry(page, coder, key, &values).map_err(|error| {
                    format!(
                        "the entries of state {name} cannot be listed: {error}; read its keys and get each"
                    )
                })
            })
        }
    }
}

/// Whether an ordered list's entry has a sort key below `end`.
pub(super) fn is_before(entry: &StateEntry, end: i64) -> bool {
    matches!(entry, StateEntry::SortKey(key) if *key < end)
}

fn read_entry<T: UserStateTable>(
    bundle: BundleId,
    view: &CellView<'_, T>,
    entry: &StateEntry,
    token: Option<Token>,
) -> Result<Read, String> {
    let values = view.entry(entry);
    let from = match token {
        None => 0,
        Some(token) => token.value_number(bundle, &values)?,
    };
    let mut page = Page::default();
    let next = page.fill(&values, from);
    let next = next.map(|at| Token::write(bundle, values.cleared_by, &at.to_be_bytes()));
    Ok((page.join(), next))
}

fn read_range<T: UserStateTable>(
    bundle: BundleId,
    view: &CellView<'_, T>,
    (start, end): (i64, i64),
    token: Option<Token>,
) -> Result<Read, String> {
    let (first, read) = match token {
        None => (start, 0),
        Some(mut token) => {
            let key = i64::from_be_bytes(token.take()?);
            let values = view.entry(&StateEntry::SortKey(key));
            (key, token.value_number(bundle, &values)?)
        }
    };
    let mut page = Page::default();
    let first = StateEntry::SortKey(first);
    let entries = view.entries(Bound::Included(&first));
    for entry in entries.take_while(|entry| is_before(entry, end)) {
        let values = view.entry(entry);
        // Only where the token points is something read already.
        let from = if *entry == first { read } else { 0 };
        if let Some(at) = page.fill(&values, from)
            && let StateEntry::SortKey(key) = *entry
        {
            let position = [key.to_be_bytes(), at.to_be_bytes()].concat();
            let next = Token::write(bundle, values.cleared_by, &position);
            return Ok((page.join(), Some(next)));
        }
    }
    Ok((page.join(), None))
}

/// Reads a map from the key after the token's on; `write` appends what is told of one key.
fn read_map<T: UserStateTable>(
    bundle: BundleId,
    view: &CellView<'_, T>,
    token: Option<Token>,
    mut write: impl FnMut(&mut Vec<u8>, &Bytes) -> Result<(), String>,
) -> Result<Read, String> {
    let read = match token {
        None => None,
        Some(token) => {
            token.expect_uncleared(bundle, view.cleared_by())?;
            Some(StateEntry::MapKey(token.position))
        }
    };
    let from = read.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
    let mut page = Vec::new();
    let mut last = None;
    for entry in view.entries(from) {
        let StateEntry::MapKey(key) = entry else {
            continue;
        };
        if let Some(last) = last
            && page.len() >= PAGE_BYTES
        {
            let next = Token::write(bundle, view.cleared_by(), last);
            return Ok((Bytes::from(page), Some(next)));
        }
        write(&mut page, key)?;
        last = Some(key);
    }
    Ok((Bytes::from(page), None))
}

/// A map key and the iterable of its values, which were appended some at a time.
fn write_map_entry(
    page: &mut Vec<u8>,
    coder: &Coder,
    key: &Bytes,
    values: &EntryView<'_>,
) -> Result<(), coder::Error> {
    let mut count = 0;
    for appended in values.values(0) {
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
    page.extend_from_slice(key);
    coder::iterable::write_known(page, count, values.values(0));
    Ok(())
}

/// Values that go out together.
#[derive(Default)]
struct Page<'a> {
    values: Vec<&'a Bytes>,
    bytes: usize,
}

impl<'a> Page<'a> {
    /// Adds values from number `from` on, at least one; the number of the first that found no room.
    fn fill(&mut self, values: &EntryView<'a>, from: usize) -> Option<u64> {
        for (at, value) in (from as u64..).zip(values.values(from)) {
            if !self.values.is_empty() && self.bytes + value.len() > PAGE_BYTES {
                return Some(at);
            }
            self.bytes += value.len();
            self.values.push(value);
        }
        None
    }

    /// The values back to back; without a copy where it is one.
    fn join(self) -> Bytes {
        if let [value] = self.values[..] {
            return value.clone();
        }
        let mut joined = Vec::with_capacity(self.bytes);
        for value in self.values {
            joined.extend_from_slice(value);
        }
        Bytes::from(joined)
    }
}

/// Where to read on: the bundle that was told so, the last clear that it had made of what it read, and a
/// position.
struct Token {
    bundle: BundleId,
    cleared_by: u32,
    position: Bytes,
}

impl Token {
    fn write(bundle: BundleId, cleared_by: u32, position: &[u8]) -> Bytes {
        let mut token = Vec::with_capacity(12 + position.len());
        token.extend_from_slice(&bundle.0.to_be_bytes());
        token.extend_from_slice(&cleared_by.to_be_bytes());
        token.extend_from_slice(position);
        Bytes::from(token)
    }

    fn parse(token: &Bytes) -> Result<Self, String> {
        let mut parsed = Self {
            bundle: BundleId(0),
            cleared_by: 0,
            position: token.clone(),
        };
        parsed.bundle = BundleId(u64::from_be_bytes(parsed.take()?));
        parsed.cleared_by = u32::from_be_bytes(parsed.take()?);
        Ok(parsed)
    }

    /// Takes bytes off the position.
    fn take<const N: usize>(&mut self) -> Result<[u8; N], String> {
        match self.position.first_chunk() {
            Some(&taken) => {
                self.position = self.position.slice(N..);
                Ok(taken)
            }
            None => Err(NOT_GIVEN_OUT.to_owned()),
        }
    }

    /// After how many values of the entry to read on.
    fn value_number(mut self, bundle: BundleId, values: &EntryView<'_>) -> Result<usize, String> {
        let number = u64::from_be_bytes(self.take()?);
        self.expect_uncleared(bundle, values.cleared_by)?;
        let number = usize::try_from(number).ok();
        let number = number.filter(|number| self.position.is_empty() && *number <= values.len());
        number.ok_or_else(|| NOT_GIVEN_OUT.to_owned())
    }

    fn expect_uncleared(&self, bundle: BundleId, cleared_by: u32) -> Result<(), String> {
        if self.bundle == bundle && self.cleared_by != cleared_by {
            return Err("the state was cleared since its continuation token was given out".into());
        }
        Ok(())
    }
}

const NOT_GIVEN_OUT: &str = "the continuation token is not one that was given out for this state";
