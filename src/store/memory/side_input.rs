//! Contents of side inputs in memory.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::Bytes;

use crate::engine::tables::{SideInputAddress, SideInputTable, ValuesPage};

/// Side inputs by stage, index and encoded window.
#[derive(Debug, Default)]
pub struct MemorySideInputs {
    windows: BTreeMap<SideInputAddress, Contents>,
}

/// One window of one side input: an iterable's values, or a multimap's by key.
#[derive(Debug, Default)]
struct Contents {
    values: Paned,
    by_key: BTreeMap<Bytes, Paned>,
}

/// Values of the newest pane, back to back, in pages of whole values.
#[derive(Debug, Default)]
struct Paned {
    pane: i64,
    count: u32,
    full: Vec<Bytes>,
    /// The page that takes the next value.
    last: Vec<u8>,
}

/// A page is not longer than this, unless one value is.
///
/// Python decodes each page by itself, so a page holds whole values.
const PAGE_BYTES: usize = 2 << 20;

impl Paned {
    fn put(&mut self, pane: i64, value: &[u8]) {
        match pane.cmp(&self.pane) {
            Ordering::Less => return,
            Ordering::Equal => {}
            Ordering::Greater => {
                *self = Self {
                    pane,
                    ..Self::default()
                }
            }
        }
        self.count += 1;
        if !self.last.is_empty() && self.last.len() + value.len() > PAGE_BYTES {
            let mut full = std::mem::take(&mut self.last);
            full.shrink_to_fit();
            self.full.push(Bytes::from(full));
        }
        self.last.extend_from_slice(value);
    }

    fn page(&self, from: Option<ValuesPage>) -> Option<(Bytes, Option<ValuesPage>)> {
        let number = match from {
            None => 0,
            Some(from) if from.pane == self.pane => usize::try_from(from.number).ok()?,
            Some(_) => return None,
        };
        let next = |number: usize| ValuesPage {
            pane: self.pane,
            number: number as u64,
        };
        match self.full.get(number) {
            Some(page) => Some((page.clone(), Some(next(number + 1)))),
            None if number == self.full.len() => Some((Bytes::copy_from_slice(&self.last), None)),
            None => None,
        }
    }

    fn write_all(&self, out: &mut Vec<u8>) {
        for page in &self.full {
            out.extend_from_slice(page);
        }
        out.extend_from_slice(&self.last);
    }
}

impl SideInputTable for MemorySideInputs {
    fn put(&mut self, address: &SideInputAddress, key: Option<Bytes>, pane: i64, value: &[u8]) {
        let contents = match self.windows.get_mut(address) {
            Some(contents) => contents,
            None => self.windows.entry(address.clone()).or_default(),
        };
        match key {
            Some(key) => contents.by_key.entry(key).or_default().put(pane, value),
            None => contents.values.put(pane, value),
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
            Some(paned) => paned.page(from),
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
            page.extend_from_slice(&paned.count.to_be_bytes());
            paned.write_all(page);
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

    fn page_sizes(value_bytes: usize, count: usize) -> Vec<usize> {
        let mut table = MemorySideInputs::default();
        for _ in 0..count {
            table.put(&address(), None, 0, &vec![7; value_bytes]);
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
            table.put(&address(), None, 0, &vec![n; PAGE_BYTES]);
        }
        let first = table.values(&address(), None, None);
        let (page, next) = first.expect("the first page");
        assert_eq!(page[0], 0);
        for n in 3..5 {
            table.put(&address(), None, 0, &vec![n; PAGE_BYTES]);
        }
        let (mut read, mut from) = (Vec::new(), next);
        while from.is_some() {
            let page = table.values(&address(), None, from);
            let (page, more) = page.expect("a page that was named");
            read.push(page[0]);
            from = more;
        }
        assert_eq!(read, [1, 2, 3, 4]);
        table.put(&address(), None, 1, b"newer");
        assert_eq!(table.values(&address(), None, next), None);
        assert_eq!(
            table.values(&address(), None, None),
            Some((Bytes::from_static(b"newer"), None))
        );
    }

    #[test]
    fn keys_are_read_from_behind_the_last_one() {
        let mut table = MemorySideInputs::default();
        let mut put = |key: &'static str, value: &str| {
            let key = Bytes::from_static(key.as_bytes());
            table.put(&address(), Some(key), 0, value.as_bytes());
        };
        put("b", "1");
        put("d", "2");
        put("f", "3");
        put("b", "4");
        let page = table.keys(&address(), None, 1);
        assert_eq!(
            page,
            (Bytes::from_static(b"b"), Some(Bytes::from_static(b"b")))
        );
        table.put(&address(), Some(Bytes::from_static(b"a")), 0, b"5");
        table.put(&address(), Some(Bytes::from_static(b"c")), 0, b"6");
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
