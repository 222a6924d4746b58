//! Elements with their timestamp, windows and pane, as data streams carry them back to back.

use std::ops::Range;

use bytes::Bytes;

use crate::coder::{Error, Result, length, pane, timestamp, window};
use crate::model::coder::Coder;
use crate::model::element::{Chunk, ElementHeader};
use crate::model::pane::PaneInfo;
use crate::model::time::Timestamp;
use crate::model::window::Window;

/// Reads timestamp, windows and pane; the value follows.
pub fn read_header(window_coder: &Coder, bytes: &mut &[u8]) -> Result<ElementHeader> {
    Ok(ElementHeader {
        timestamp: timestamp::read(bytes)?,
        windows: window::read_all(window_coder, bytes)?,
        pane: pane::read(bytes)?,
    })
}

/// Passes over a header and tells its timestamp; the fast way to a value.
#[inline]
pub fn skip_header_reading_timestamp(window_coder: &Coder, bytes: &mut &[u8]) -> Result<Timestamp> {
    // What nearly all elements have: one window of a known kind, and no firing.
    if let Some((head, rest)) = bytes.split_first_chunk::<12>() {
        let [timestamp @ .., b0, b1, b2, b3] = *head;
        if [b0, b1, b2, b3] == [0, 0, 0, 1] {
            let mut after = rest;
            window::skip(window_coder, &mut after)?;
            pane::skip(&mut after)?;
            *bytes = after;
            return Ok(Timestamp::from_millis(timestamp::of_bytes(timestamp)));
        }
    }
    let timestamp = timestamp::read(bytes)?;
    window::skip_all(window_coder, bytes)?;
    pane::skip(bytes)?;
    Ok(timestamp)
}

/// Appends a header; the encoded value must follow.
#[inline]
pub fn write_header(out: &mut Vec<u8>, timestamp: Timestamp, windows: &[Window], pane: PaneInfo) {
    timestamp::write(out, timestamp);
    window::write_all(out, windows);
    pane::write(out, pane);
}

/// The value coder and the window coder of a windowed-value coder.
pub fn parts(coder: &Coder) -> Result<(&Coder, &Coder)> {
    match coder {
        Coder::WindowedValue(value, window) | Coder::ParamWindowedValue(value, window, _) => {
            Ok((value, window))
        }
        _ => Err(Error::WrongCoder("windowed value")),
    }
}

/// Counts the elements of a data frame and finds their lowest timestamp.
///
/// `coder` is a windowed-value coder; the frame must end with its last element.
pub fn scan(coder: &Coder, bytes: Bytes) -> Result<Chunk> {
    let length = bytes.len();
    let chunk = scan_whole(coder, bytes)?;
    if chunk.bytes.len() < length {
        return Err(Error::Truncated);
    }
    Ok(chunk)
}

/// The same for a frame that may be cut inside its last element, which is left out then.
pub fn scan_whole(coder: &Coder, mut bytes: Bytes) -> Result<Chunk> {
    let mut count = 0_u32;
    let mut min_timestamp = Timestamp::MAX;
    let mut end = 0;
    let mut fetched = 0;
    for element in Elements::new(coder, &bytes) {
        match element {
            Ok(element) => {
                // An element takes a byte at least, and no frame comes near 4 GiB.
                count = count.saturating_add(1);
                min_timestamp = min_timestamp.min(element.timestamp);
                let ahead = element.value.end + FETCHED_AHEAD * element.range().len();
                end = element.value.end;
                // Another core has just written them, and elements tend to be alike in size: the processor
                // fetches the start of one to come while it reads the next.
                fetched ^= bytes.get(ahead).copied().unwrap_or(0);
            }
            Err(Error::Truncated) => break,
            Err(error) => return Err(error),
        }
    }
    std::hint::black_box(fetched);
    bytes.truncate(end);
    Ok(Chunk {
        bytes,
        count,
        min_timestamp,
    })
}

/// By how many elements a scan looks ahead.
const FETCHED_AHEAD: usize = 6;

/// Where one element lies in a data frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Element {
    pub timestamp: Timestamp,
    /// The bytes of timestamp, windows and pane; empty with a parametrised coder.
    pub header: Range<usize>,
    /// The bytes of the value.
    pub value: Range<usize>,
}

impl Element {
    /// The bytes of header and value.
    pub const fn range(&self) -> Range<usize> {
        self.header.start..self.value.end
    }
}

/// The elements of a data frame, one after the other; ends after the first error.
///
/// ```
/// use tidemill::coder::windowed_value::{Elements, write_header};
/// use tidemill::model::{Coder, PaneInfo, Timestamp, Window};
///
/// let coder = Coder::WindowedValue(Box::new(Coder::VarInt), Box::new(Coder::GlobalWindow));
/// let mut frame = vec![];
/// write_header(&mut frame, Timestamp::MIN, &[Window::Global], PaneInfo::NO_FIRING);
/// frame.push(42);
/// let element = Elements::new(&coder, &frame).next().unwrap().unwrap();
/// assert_eq!(&frame[element.value], [42]);
/// ```
#[derive(Debug)]
pub struct Elements<'a> {
    kind: Kind<'a>,
    rest: &'a [u8],
    offset: usize,
}

impl<'a> Elements<'a> {
    /// The elements of `bytes`, of a windowed-value coder.
    pub fn new(coder: &'a Coder, bytes: &'a [u8]) -> Self {
        Self {
            kind: Kind::of(coder),
            rest: bytes,
            offset: 0,
        }
    }

    #[inline]
    fn read(&mut self) -> Result<Element> {
        let before = self.rest.len();
        let (timestamp, value_coder) = match &self.kind {
            Kind::Full { value, window } => (
                skip_header_reading_timestamp(window, &mut self.rest)?,
                *value,
            ),
            Kind::Fixed { value, timestamp } => (*timestamp, *value),
            Kind::Broken(error) => return Err(error.clone()),
        };
        let header_end = self.offset + (before - self.rest.len());
        length::skip(value_coder, &mut self.rest)?;
        let end = self.offset + (before - self.rest.len());
        let header = self.offset..header_end;
        if end == self.offset {
            return Err(Error::LeftOver(before));
        }
        self.offset = end;
        Ok(Element {
            timestamp,
            header,
            value: header_end..end,
        })
    }
}

impl Iterator for Elements<'_> {
    type Item = Result<Element>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let element = self.read();
        if element.is_err() {
            self.rest = &[];
        }
        Some(element)
    }
}

/// How elements of a stream are laid out.
#[derive(Debug)]
enum Kind<'a> {
    Full {
        value: &'a Coder,
        window: &'a Coder,
    },
    Fixed {
        value: &'a Coder,
        timestamp: Timestamp,
    },
    Broken(Error),
}

impl<'a> Kind<'a> {
    fn of(coder: &'a Coder) -> Self {
        match coder {
            Coder::WindowedValue(value, window) => Self::Full { value, window },
            Coder::ParamWindowedValue(value, _, header) => {
                match timestamp::read(&mut &header[..]) {
                    Ok(timestamp) => Self::Fixed { value, timestamp },
                    Err(error) => Self::Broken(error),
                }
            }
            _ => Self::Broken(Error::WrongCoder("windowed value")),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    use crate::coder::length_prefix;

    fn coder() -> Coder {
        Coder::WindowedValue(Box::new(Coder::Bytes), Box::new(Coder::IntervalWindow))
    }

    fn frame(elements: &[(i32, u8, Vec<u8>)]) -> Vec<u8> {
        let mut frame = vec![];
        for (millis, windows, value) in elements {
            let start = Timestamp::from_millis((*millis).into());
            let window = Window::Interval {
                start,
                end: start.plus(10),
            };
            let windows = vec![window; (*windows).into()];
            write_header(&mut frame, start, &windows, PaneInfo::NO_FIRING);
            length_prefix::write(&mut frame, value);
        }
        frame
    }

    proptest! {
        #[test]
        fn elements_tile_their_frame(
            elements in vec((any::<i32>(), 0_u8..4, vec(any::<u8>(), 0..200)), 0..20)
        ) {
            let bytes = frame(&elements);
            let mut at = 0;
            let mut min = Timestamp::MAX;
            for (element, (millis, windows, value)) in
                Elements::new(&coder(), &bytes).zip(&elements)
            {
                let element = element.expect("a whole element");
                prop_assert_eq!(element.header.start, at);
                prop_assert_eq!(element.header.end, element.value.start);
                at = element.value.end;
                let mut header = &bytes[element.header];
                let header = read_header(&Coder::IntervalWindow, &mut header).expect("a header");
                prop_assert_eq!(header.timestamp, Timestamp::from_millis((*millis).into()));
                prop_assert_eq!(element.timestamp, header.timestamp);
                prop_assert_eq!(header.windows.len(), usize::from(*windows));
                min = min.min(element.timestamp);
                prop_assert_eq!(&bytes[element.value][if value.len() < 128 { 1 } else { 2 }..], value);
            }
            prop_assert_eq!(at, bytes.len());
            let chunk = scan(&coder(), bytes.clone().into()).expect("a whole frame");
            prop_assert_eq!(chunk.count as usize, elements.len());
            prop_assert_eq!(chunk.min_timestamp, min);
        }

        #[test]
        fn cut_frames_are_refused(value: Vec<u8>, cut: prop::sample::Index) {
            let bytes = frame(&[(1, 1, value)]);
            let cut = cut.index(bytes.len());
            let chunk = scan(&coder(), bytes[..cut].to_vec().into());
            prop_assert_eq!(chunk.is_ok(), cut == 0);
            let none = scan_whole(&coder(), bytes[..cut].to_vec().into()).expect("elements");
            prop_assert_eq!((none.count, none.bytes.len()), (0, 0));
            let two = [&bytes[..], &bytes[..cut]].concat();
            let one = scan_whole(&coder(), two.into());
            prop_assert_eq!(one, scan(&coder(), bytes.into()));
        }
    }

    #[test]
    fn values_alone_have_the_timestamp_of_their_coder() {
        let mut header = vec![];
        write_header(
            &mut header,
            Timestamp::from_millis(7),
            &[Window::Global],
            PaneInfo::NO_FIRING,
        );
        let coder = Coder::ParamWindowedValue(
            Box::new(Coder::VarInt),
            Box::new(Coder::GlobalWindow),
            header.into(),
        );
        let chunk = scan(&coder, Bytes::from_static(&[1, 2, 3])).expect("three values");
        assert_eq!(chunk.count, 3);
        assert_eq!(chunk.min_timestamp, Timestamp::from_millis(7));
    }

    #[test]
    fn other_coders_are_refused() {
        let chunk = scan(&Coder::Bytes, Bytes::from_static(b"\x01a"));
        assert_eq!(chunk, Err(Error::WrongCoder("windowed value")));
    }
}
