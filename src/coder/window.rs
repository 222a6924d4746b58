//! Windows: global ones take no bytes, intervals an end and a length, custom ones a timestamp and
//! what the SDK makes of them.
//!
//! [`write`] gives back the bytes that [`read`] took, so an encoded window can stand in state keys.

use bytes::Bytes;

use crate::coder::{Error, Result, input, length, timestamp, varint};
use crate::model::coder::Coder;
use crate::model::time::Timestamp;
use crate::model::window::Window;

/// Reads a window.
///
/// Of a custom window, `encoded` is all that follows the timestamp: for
/// `custom_window(length_prefix(x))` the length and the bytes of x.
pub fn read(window_coder: &Coder, bytes: &mut &[u8]) -> Result<Window> {
    match window_coder {
        Coder::GlobalWindow => Ok(Window::Global),
        Coder::IntervalWindow => {
            let end = timestamp::read_millis(bytes)?;
            let span = read_span(bytes)?;
            let start = end.checked_sub(span).ok_or(Error::Invalid {
                what: "length of a window",
                value: span,
            })?;
            Ok(Window::Interval {
                start: Timestamp::of_window_bound(start),
                end: Timestamp::of_window_bound(end),
            })
        }
        Coder::CustomWindow(inner) => {
            let max_timestamp = Timestamp::of_window_bound(timestamp::read_millis(bytes)?);
            let encoded = input::take(bytes, length::encoded_len(inner, bytes)?)?;
            Ok(Window::Custom {
                max_timestamp,
                encoded: Bytes::copy_from_slice(encoded),
            })
        }
        other => Err(not_a_window_coder(other)),
    }
}

/// Passes over a window.
#[inline]
pub fn skip(window_coder: &Coder, bytes: &mut &[u8]) -> Result<()> {
    match window_coder {
        Coder::GlobalWindow => Ok(()),
        Coder::IntervalWindow => {
            input::array::<8>(bytes)?;
            varint::read(bytes).map(drop)
        }
        Coder::CustomWindow(_) => length::skip(window_coder, bytes),
        other => Err(not_a_window_coder(other)),
    }
}

/// Appends a window, as the coder it was read with would.
#[inline]
pub fn write(out: &mut Vec<u8>, window: &Window) {
    match window {
        Window::Global => {}
        Window::Interval { start, end } => {
            timestamp::write(out, *end);
            varint::write(out, end.millis().wrapping_sub(start.millis()) as u64);
        }
        Window::Custom {
            max_timestamp,
            encoded,
        } => {
            timestamp::write(out, *max_timestamp);
            out.extend_from_slice(encoded);
        }
    }
}

/// Reads the windows of an element or a timer, after their count.
pub(super) fn read_all(window_coder: &Coder, bytes: &mut &[u8]) -> Result<Vec<Window>> {
    let count = read_count(window_coder, bytes)?;
    let mut windows = Vec::with_capacity(count.min(CAPACITY_MAX) as usize);
    for _ in 0..count {
        windows.push(read(window_coder, bytes)?);
    }
    Ok(windows)
}

/// Passes over the windows of an element or a timer, and their count.
#[inline]
pub(super) fn skip_all(window_coder: &Coder, bytes: &mut &[u8]) -> Result<()> {
    for _ in 0..read_count(window_coder, bytes)? {
        skip(window_coder, bytes)?;
    }
    Ok(())
}

/// Appends the count of `windows`, and the windows.
#[inline]
pub(super) fn write_all(out: &mut Vec<u8>, windows: &[Window]) {
    out.extend_from_slice(&(windows.len() as u32).to_be_bytes());
    for window in windows {
        write(out, window);
    }
}

/// Global windows take no bytes, so their number is not bounded by what was sent; there is but one.
#[inline]
fn read_count(window_coder: &Coder, bytes: &mut &[u8]) -> Result<u32> {
    let count = input::count(bytes)?;
    match u32::try_from(count) {
        Ok(windows) if windows <= 1 || *window_coder != Coder::GlobalWindow => Ok(windows),
        _ => Err(Error::Invalid {
            what: "number of windows",
            value: count.into(),
        }),
    }
}

fn read_span(bytes: &mut &[u8]) -> Result<i64> {
    let span = varint::read(bytes)? as i64;
    if span < 0 {
        return Err(Error::Invalid {
            what: "length of a window",
            value: span,
        });
    }
    Ok(span)
}

fn not_a_window_coder(coder: &Coder) -> Error {
    Error::NotAWindowCoder(format!("{coder:?}").into())
}

/// More windows than this are read into a vector that grows, lest a lying count take memory.
const CAPACITY_MAX: u32 = 64;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(coder: &Coder, bytes: &[u8]) -> Window {
        let mut input = bytes;
        let window = read(coder, &mut input).expect("a window");
        assert_eq!(input, b"");
        let mut skipped = bytes;
        skip(coder, &mut skipped).expect("a window");
        assert_eq!(skipped, b"");
        let mut out = vec![];
        write(&mut out, &window);
        assert_eq!(out, bytes);
        window
    }

    #[test]
    fn custom_windows_keep_their_bytes() {
        let coder = Coder::CustomWindow(Box::new(Coder::LengthPrefix(Box::new(Coder::Opaque(
            "x".into(),
        )))));
        let window = check(&coder, &[0x80, 0, 0, 0, 0, 0, 0, 9, 3, b'a', b'b', b'c']);
        assert_eq!(window.max_timestamp(), Timestamp::from_millis(9));
    }

    #[test]
    fn a_start_before_the_first_timestamp_survives() {
        let mut bytes = vec![];
        timestamp::write_millis(&mut bytes, Timestamp::MIN.millis() + 3);
        varint::write(&mut bytes, 10_000);
        check(&Coder::IntervalWindow, &bytes);
    }

    #[test]
    fn many_global_windows_are_refused() {
        let mut bytes = &[0x7f, 0xff, 0xff, 0xff][..];
        assert!(read_all(&Coder::GlobalWindow, &mut bytes).is_err());
        let mut bytes = &[0xff, 0xff, 0xff, 0xff][..];
        assert!(read_all(&Coder::IntervalWindow, &mut bytes).is_err());
    }

    #[test]
    fn other_coders_are_refused() {
        assert!(matches!(
            read(&Coder::Bytes, &mut &[0][..]),
            Err(Error::NotAWindowCoder(_))
        ));
    }

    proptest! {
        #[test]
        fn intervals_round_trip(end: i32, span in 0..i64::from(i32::MAX)) {
            let mut bytes = vec![];
            timestamp::write_millis(&mut bytes, end.into());
            varint::write(&mut bytes, span as u64);
            check(&Coder::IntervalWindow, &bytes);
        }
    }
}
