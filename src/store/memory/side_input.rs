//! Contents of side inputs in memory.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use bytes::Bytes;

use crate::engine::tables::{SideInputAddress, SideInputTable};

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

/// Values of the newest pane, concatenated.
#[derive(Debug, Default)]
struct Paned {
    pane: i64,
    count: u32,
    bytes: Vec<u8>,
    /// Ends of some values, about [`MARK_BYTES`] apart: where a page may end.
    marks: Vec<usize>,
}

/// How far apart marks are, unless a value is longer.
const MARK_BYTES: usize = 64 << 10;

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
        self.bytes.extend_from_slice(value);
        let marked = self.marks.last().copied().unwrap_or(0);
        if self.bytes.len() - marked >= MARK_BYTES {
            self.marks.push(self.bytes.len());
        }
    }

    /// Where the page that starts at `start` ends. Python decodes each page by itself, so a page
    /// holds whole values, and is longer than `bytes_max` where it must be.
    fn page_end(&self, start: usize, bytes_max: usize) -> usize {
        let limit = start.saturating_add(bytes_max);
        if limit >= self.bytes.len() {
            return self.bytes.len();
        }
        let next = self.marks.partition_point(|mark| *mark <= start);
        let past = self.marks.partition_point(|mark| *mark <= limit);
        let chosen = if past > next { past - 1 } else { next };
        self.marks.get(chosen).copied().unwrap_or(self.bytes.len())
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
        from: u64,
        bytes_max: usize,
    ) -> (Bytes, Option<u64>) {
        let contents = self.windows.get(address);
        let paned = contents.and_then(|contents| match key {
            Some(key) => contents.by_key.get(key),
            None => Some(&contents.values),
        });
        let Some(paned) = paned else {
            return (Bytes::new(), None);
        };
        let all = &paned.bytes;
        let start = usize::try_from(from).unwrap_or(usize::MAX).min(all.len());
        let end = paned.page_end(start, bytes_max);
        let more = (end < all.len()).then_some(end as u64);
        (Bytes::copy_from_slice(&all[start..end]), more)
    }

    fn keys(
        &self,
        address: &SideInputAddress,
        from: u64,
        bytes_max: usize,
    ) -> (Bytes, Option<u64>) {
        let contents = self.windows.get(address);
        page_of_keys(contents, from, bytes_max, |_, _| {})
    }

    fn keys_values(
        &self,
        address: &SideInputAddress,
        from: u64,
        bytes_max: usize,
    ) -> (Bytes, Option<u64>) {
        let contents = self.windows.get(address);
        page_of_keys(contents, from, bytes_max, |page, paned| {
            page.extend_from_slice(&paned.count.to_be_bytes());
            page.extend_from_slice(&paned.bytes);
        })
    }
}

fn page_of_keys(
    contents: Option<&Contents>,
    from: u64,
    bytes_max: usize,
    write_values: impl Fn(&mut Vec<u8>, &Paned),
) -> (Bytes, Option<u64>) {
    let Some(contents) = contents else {
        return (Bytes::new(), None);
    };
    let mut page = Vec::new();
    let skipped = usize::try_from(from).unwrap_or(usize::MAX);
    for (number, (key, paned)) in contents.by_key.iter().enumerate().skip(skipped) {
        if page.len() >= bytes_max {
            return (Bytes::from(page), Some(number as u64));
        }
        page.extend_from_slice(key);
        write_values(&mut page, paned);
    }
    (Bytes::from(page), None)
}

#[cfg(test)]
mod tests {
    use crate::model::StageId;

    use super::*;

    fn pages(value_bytes: usize, count: usize, bytes_max: usize) -> Vec<usize> {
        let mut table = MemorySideInputs::default();
        let address = SideInputAddress {
            stage: StageId(0),
            index: 0,
            window: Bytes::new(),
        };
        for _ in 0..count {
            table.put(&address, None, 0, &vec![7; value_bytes]);
        }
        let (mut sizes, mut from) = (Vec::new(), Some(0));
        while let Some(start) = from {
            let (page, next) = table.values(&address, None, start, bytes_max);
            sizes.push(page.len());
            from = next;
        }
        sizes
    }

    #[test]
    fn a_page_holds_whole_values() {
        let sizes = pages(1_000, 500, 100_000);
        assert!(sizes.iter().all(|size| size % 1_000 == 0), "{sizes:?}");
        assert!(sizes.iter().all(|size| *size <= 100_000), "{sizes:?}");
        assert_eq!(sizes.iter().sum::<usize>(), 500_000);
    }

    #[test]
    fn a_value_longer_than_a_page_is_a_page() {
        assert_eq!(pages(300_000, 3, 100_000), [300_000; 3]);
    }
}
