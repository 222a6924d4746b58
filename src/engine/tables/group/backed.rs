//! Values of a group that are too many to hand on with it: they stay where they are, to be read page by page.

use bytes::Bytes;

use crate::engine::tables::group::arena::{Location, Piece};
use crate::engine::tables::payload::PayloadTable;

/// The values of one group, in order. Nothing of them is copied until it is read.
#[derive(Debug, PartialEq, Eq)]
pub struct BackedValues(Kind);

#[derive(Debug, PartialEq, Eq)]
enum Kind {
    /// Records in pieces that others may share.
    Records {
        pieces: Vec<Piece>,
        locations: Vec<Location>,
    },
    /// Whole values, back to back.
    Parts(Vec<Bytes>),
}

/// Where a page of values starts; the first one at 0.
pub type ValuePosition = u64;

impl BackedValues {
    /// Values of the records at `locations`, which index `pieces`.
    pub fn of_records(pieces: Vec<Piece>, locations: Vec<Location>) -> Self {
        Self(Kind::Records { pieces, locations })
    }

    /// Values that stand back to back in `parts`, none of them in two.
    pub fn of_parts(parts: Vec<Bytes>) -> Self {
        Self(Kind::Parts(parts))
    }

    /// Appends the first values to `out`, at most `bytes_max`, where it is known how many they are. Returns that
    /// and where the others start.
    pub fn write_first(&self, out: &mut Vec<u8>, bytes_max: usize) -> (u64, ValuePosition) {
        let Kind::Records { locations, .. } = &self.0 else {
            return (0, 0);
        };
        let start = out.len();
        let mut count = 0;
        for location in locations {
            let value = self.value(*location);
            if out.len() - start + value.len() > bytes_max {
                break;
            }
            out.extend_from_slice(value);
            count += 1;
        }
        (count, count)
    }

    /// The page at this position will be read soon.
    pub fn expect(&self, from: ValuePosition, bytes_max: usize, payload: &impl PayloadTable) {
        let start = usize::try_from(from).unwrap_or(usize::MAX);
        let mut bytes = 0;
        let mut expect = |part: &[u8]| {
            payload.expect(part);
            bytes += part.len();
            bytes < bytes_max
        };
        match &self.0 {
            Kind::Records { pieces, locations } => {
                let mut last = None;
                for location in locations.get(start..).unwrap_or_default() {
                    let is_new = last.replace(location.piece) != Some(location.piece);
                    if let Some(part) = pieces[location.piece as usize].kept_bytes()
                        && is_new
                        && !expect(part)
                    {
                        break;
                    }
                }
            }
            Kind::Parts(parts) => {
                let parts = parts.get(start..).unwrap_or_default();
                let _ = parts.iter().all(|part| expect(part));
            }
        }
    }

    /// Whole values from a position on, about `bytes_max` and one at least, and where the next page starts;
    /// `None` when there is no such position.
    pub fn page(
        &self,
        from: ValuePosition,
        bytes_max: usize,
    ) -> Option<(Bytes, Option<ValuePosition>)> {
        let start = usize::try_from(from).ok()?;
        match &self.0 {
            Kind::Records { locations, .. } => {
                let rest = locations.get(start..)?;
                let sizes = rest.iter().map(|location| self.value(*location).len());
                let (count, bytes) = fitting(sizes, bytes_max);
                let mut page = Vec::with_capacity(bytes);
                for location in &rest[..count] {
                    page.extend_from_slice(self.value(*location));
                }
                let more = (count < rest.len()).then_some(from + count as u64);
                Some((Bytes::from(page), more))
            }
            Kind::Parts(parts) => {
                let rest = parts.get(start..)?;
                let (count, _) = fitting(rest.iter().map(Bytes::len), bytes_max);
                let page = match &rest[..count] {
                    [part] => part.clone(),
                    several => Bytes::from(several.concat()),
                };
                let more = (count < rest.len()).then_some(from + count as u64);
                Some((page, more))
            }
        }
    }

    fn value(&self, location: Location) -> &[u8] {
        match &self.0 {
            Kind::Records { pieces, .. } => {
                pieces[location.piece as usize]
                    .record(location.offset)
                    .value
            }
            Kind::Parts(_) => &[],
        }
    }
}

/// How many of the first sizes fit, one at least if there is one, and their sum.
fn fitting(sizes: impl Iterator<Item = usize>, bytes_max: usize) -> (usize, usize) {
    let (mut count, mut bytes) = (0, 0);
    for size in sizes {
        if count > 0 && bytes + size > bytes_max {
            break;
        }
        count += 1;
        bytes += size;
    }
    (count, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::tables::group::arena::Arena;
    use crate::model::time::Timestamp;

    fn pages(values: &BackedValues, from: ValuePosition, bytes_max: usize) -> Vec<Bytes> {
        let (mut pages, mut next) = (Vec::new(), Some(from));
        while let Some(from) = next {
            let (page, more) = values.page(from, bytes_max).expect("a page that was named");
            pages.push(page);
            next = more;
        }
        pages
    }

    #[test]
    fn records_are_read_in_order() {
        let mut arena = Arena::new(false);
        let mut push = |value: &[u8]| arena.push(7, Timestamp::MIN, b"key", value);
        let locations = vec![
            push(b"ab"),
            push(b"c"),
            push(b"defg"),
            push(b""),
            push(b"h"),
        ];
        let values = BackedValues::of_records(arena.freeze(), locations);
        assert_eq!(pages(&values, 0, 3), ["abc", "defg", "h"]);
        assert_eq!(pages(&values, 0, 1), ["ab", "c", "defg", "h"]);
        assert_eq!(pages(&values, 0, 99), ["abcdefgh"]);
        let mut first = Vec::new();
        let (count, from) = values.write_first(&mut first, 3);
        assert_eq!((first, count), (b"abc".to_vec(), 2));
        assert_eq!(pages(&values, from, 4), ["defg", "h"]);
        assert_eq!(values.page(6, 3), None);
    }

    #[test]
    fn parts_are_read_in_order_and_alone_without_a_copy() {
        let part = |text: &'static str| Bytes::from_static(text.as_bytes());
        let values = BackedValues::of_parts(vec![part("abc"), part("defg"), part("h")]);
        assert_eq!(values.write_first(&mut Vec::new(), 99), (0, 0));
        let read = pages(&values, 0, 4);
        assert_eq!(read, ["abc", "defg", "h"]);
        assert_eq!(pages(&values, 0, 7), ["abcdefg", "h"]);
        assert_eq!(
            values.page(0, 4).map(|(page, _)| page.as_ptr()),
            Some(part("abc").as_ptr())
        );
    }
}
