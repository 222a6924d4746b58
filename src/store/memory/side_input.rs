//! Contents of side inputs in memory.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::Bytes;

use crate::engine::tables::group::Values;
use crate::engine::tables::{
    PAGE_BYTES, PayloadTable, SideInputAddress, SideInputTable, ValuesPage,
};
use crate::store::overflow::Keeper;

/// Side inputs by stage, index and encoded window.
#[derive(Debug, Default)]
pub struct MemorySideInputs {
    windows: BTreeMap<SideInputAddress, Contents>,
    payload: Keeper,
}

/// One window of one side input: an iterable's values, or a multimap's by key.
#[derive(Debug, Default)]
struct Contents {
    values: Paned,
    by_key: BTreeMap<Bytes, Paned>,
}

/// Values of the newest pane.
#[derive(Debug, Default)]
struct Paned {
    pane: i64,
    values: Values,
}

impl Paned {
    /// The values to add to; `None` for a pane that is out of date.
    fn of(&mut self, pane: i64) -> Option<&mut Values> {
        match pane.cmp(&self.pane) {
            Ordering::Less => return None,
            Ordering::Equal => {}
            Ordering::Greater => {
                *self = Self {
                    pane,
                    ..Self::default()
                }
            }
        }
        Some(&mut self.values)
    }

    /// A page's number is where it starts.
    fn page(
        &self,
        from: Option<ValuesPage>,
        payload: &Keeper,
    ) -> Option<(Bytes, Option<ValuesPage>)> {
        let start = match from {
            None => 0,
            Some(from) if from.pane == self.pane => usize::try_from(from.number).ok()?,
            Some(_) => return None,
        };
        if start > self.values.bytes() {
            return None;
        }
        let (page, more) = self.values.page(start, PAGE_BYTES, payload);
        let more = more.map(|next| ValuesPage {
            pane: self.pane,
            number: next as u64,
        });
        Some((page, more))
    }
}

impl MemorySideInputs {
    /// An empty table; payload goes where `payload` keeps it, once memory is short.
    pub fn new(payload: Keeper) -> Self {
        Self {
            windows: BTreeMap::new(),
            payload,
        }
    }
}

impl SideInputTable for MemorySideInputs {
    fn extend(&mut self, address: &SideInputAddress, pane: i64, values: Values) {
        let contents = self.windows.entry(address.clone()).or_default();
        let Some(kept) = contents.values.of(pane) else {
            return;
        };
        kept.merge(values);
        // It has been committed, and stays in memory where there is no room. Whatever comes next fails for that.
        if self.payload.is_short()
            && let Err(error) = kept.keep(&mut self.payload)
        {
            tracing::debug!(%error, "a side input stays in memory");
        }
    }

    fn put(&mut self, address: &SideInputAddress, pane: i64, key: Bytes, value: Bytes) {
        let by_key = &mut self.windows.entry(address.clone()).or_default().by_key;
        let shares = value.len() >= SHARED_FROM;
        let paned = match by_key.get_mut(&key) {
            Some(paned) => paned,
            None => {
                // The value may hold memory or disk that the key would take for itself alone.
                let key = Bytes::copy_from_slice(&key);
                by_key.entry(key).or_default()
            }
        };
        match paned.of(pane) {
            Some(values) if shares => values.append_shared(value),
            Some(values) => values.append(&value),
            None => {}
        }
    }

    fn values(
        &self,
        address: &SideInputAddress,
        key: Option<&Bytes>,
        from: Option<ValuesPage>,
    ) -> Option<(Bytes, Option<ValuesPage>)> {
        let contents = self.windows.get(address);
        let paned = contents.and_then(|contents| match key {
            Some(key) => contents.by_key.get(key),
            None => Some(&contents.values),
        });
        match paned {
            Some(paned) => paned.page(from, &self.payload),
            None => from.is_none().then(|| (Bytes::new(), None)),
        }
    }

    fn keys(
        &self,
        address: &SideInputAddress,
        after: Option<&[u8]>,
        bytes_max: usize,
    ) -> (Bytes, Option<Bytes>) {
        let contents = self.windows.get(address);
        page_of_keys(contents, after, bytes_max, |_, _| {})
    }

    fn keys_values(
        &self,
        address: &SideInputAddress,
        after: Option<&[u8]>,
        bytes_max: usize,
    ) -> (Bytes, Option<Bytes>) {
        let contents = self.windows.get(address);
        page_of_keys(contents, after, bytes_max, |page, paned| {
            paned.values.expect(&self.payload);
            page.extend_from_slice(&(paned.values.count() as u32).to_be_bytes());
            paned.values.write_to(page);
        })
    }
}

fn page_of_keys(
    contents: Option<&Contents>,
    after: Option<&[u8]>,
    bytes_max: usize,
    write_values: impl Fn(&mut Vec<u8>, &Paned),
) -> (Bytes, Option<Bytes>) {
    let from = after.map_or(Bound::Unbounded, Bound::Excluded);
    let keys = contents.into_iter();
    let keys = keys.flat_map(|contents| contents.by_key.range::<[u8], _>((from, Bound::Unbounded)));
    let mut page = Vec::new();
    let mut last: Option<&Bytes> = None;
    for (key, paned) in keys {
        if let Some(last) = last
            && page.len() >= bytes_max
        {
            return (Bytes::from(page), Some(last.clone()));
        }
        page.extend_from_slice(key);
        write_values(&mut page, paned);
        last = Some(key);
    }
    (Bytes::from(page), None)
}

/// Values at least this long are not copied, but hold what they are part of.
const SHARED_FROM: usize = 128;

#[cfg(test)]
mod tests {
    use crate::model::StageId;

    use super::*;

    fn address() -> SideInputAddress {
        SideInputAddress {
            stage: StageId(0),
            index: 0,
            window: Bytes::new(),
        }
    }

    fn extend(table: &mut MemorySideInputs, pane: i64, value: &[u8]) {
        let mut values = Values::default();
        values.append(value);
        table.extend(&address(), pane, values);
    }

    fn page_sizes(value_bytes: usize, count: usize) -> Vec<usize> {
        let mut table = MemorySideInputs::default();
        for _ in 0..count {
            extend(&mut table, 0, &vec![7; value_bytes]);
        }
        let (mut sizes, mut from) = (Vec::new(), None);
        loop {
            let page = table.values(&address(), None, from);
            let (page, next) = page.expect("a page that was named");
            sizes.push(page.len());
            from = next;
            if from.is_none() {
                return sizes;
            }
        }
    }

    #[test]
    fn a_page_holds_whole_values() {
        let sizes = page_sizes(1_000, 5_000);
        assert!(sizes.iter().all(|size| size % 1_000 == 0), "{sizes:?}");
        assert!(sizes.iter().all(|size| *size <= PAGE_BYTES), "{sizes:?}");
        assert_eq!(sizes.len(), 3);
        assert_eq!(sizes.iter().sum::<usize>(), 5_000_000);
    }

    #[test]
    fn a_value_longer_than_a_page_is_a_page() {
        assert_eq!(page_sizes(3_000_000, 3), [3_000_000; 3]);
    }

    #[test]
    fn a_reader_sees_what_comes_while_it_reads_but_no_other_pane() {
        let mut table = MemorySideInputs::default();
        for n in 0..3 {
            extend(&mut table, 0, &vec![n; PAGE_BYTES]);
        }
        let first = table.values(&address(), None, None);
        let (page, next) = first.expect("the first page");
        assert_eq!(page[0], 0);
        for n in 3..5 {
            extend(&mut table, 0, &vec![n; PAGE_BYTES]);
        }
        let (mut read, mut from) = (Vec::new(), next);
        while from.is_some() {
            let page = table.values(&address(), None, from);
            let (page, more) = page.expect("a page that was named");
            read.push(page[0]);
            from = more;
        }
        assert_eq!(read, [1, 2, 3, 4]);
        extend(&mut table, 1, b"newer");
        assert_eq!(table.values(&address(), None, next), None);
        assert_eq!(
            table.values(&address(), None, None),
            Some((Bytes::from_static(b"newer"), None))
        );
    }

    #[test]
    fn keys_are_read_from_behind_the_last_one() {
        let mut table = MemorySideInputs::default();
        fn put(table: &mut MemorySideInputs, key: &'static str, value: &str) {
            let value = Bytes::copy_from_slice(value.as_bytes());
            table.put(&address(), 0, Bytes::from_static(key.as_bytes()), value);
        }
        put(&mut table, "b", "1");
        put(&mut table, "d", "2");
        put(&mut table, "f", "3");
        put(&mut table, "b", "4");
        let page = table.keys(&address(), None, 1);
        assert_eq!(
            page,
            (Bytes::from_static(b"b"), Some(Bytes::from_static(b"b")))
        );
        put(&mut table, "a", "5");
        put(&mut table, "c", "6");
        let page = table.keys(&address(), Some(b"b"), 2);
        assert_eq!(
            page,
            (Bytes::from_static(b"cd"), Some(Bytes::from_static(b"d")))
        );
        let page = table.keys_values(&address(), Some(b"d"), 2);
        assert_eq!(page, (Bytes::from_static(b"f\0\0\0\x013"), None));
        let page = table.keys_values(&address(), Some(b"a"), 1);
        assert_eq!(page.0, Bytes::from_static(b"b\0\0\0\x0214"));
    }
}
