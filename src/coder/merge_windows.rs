//! What `beam:transform:merge_windows:v1` is asked and answers: the windows of something, and which
//! of them become one.
//!
//! A question is `kv(bytes, iterable(window))`, an answer
//! `kv(bytes, kv(iterable(window), iterable(kv(window, iterable(window)))))`: the windows that stay
//! as they are, then each new window with those it consumes. The bytes come back as they were.

use crate::coder::iterable::{self, Batch, Size};
use crate::coder::{Error, Result, length_prefix, window};
use crate::model::coder::Coder;
use crate::model::window::Window;

/// A window that takes the place of others.
pub type Merged = (Window, Vec<Window>);

/// Appends a question about these windows.
pub fn write_question<'a>(
    out: &mut Vec<u8>,
    nonce: &[u8],
    windows: impl ExactSizeIterator<Item = &'a Window>,
) {
    length_prefix::write(out, nonce);
    iterable::write_count(out, i32::try_from(windows.len()).unwrap_or(i32::MAX));
    for one in windows {
        window::write(out, one);
    }
}

/// Reads an answer, as `coder` encodes it: whose it is, and what is merged.
///
/// # Errors
///
/// When the coder is none of answers, or the bytes are not what it says.
pub fn read_answer<'a>(coder: &Coder, bytes: &mut &'a [u8]) -> Result<(&'a [u8], Vec<Merged>)> {
    let window_coder = window_coder(coder)?;
    let nonce = length_prefix::read(bytes)?;
    read_all(bytes, |bytes| window::skip(window_coder, bytes))?;
    let merged = read_all(bytes, |bytes| {
        let result = window::read(window_coder, bytes)?;
        let consumed = read_all(bytes, |bytes| window::read(window_coder, bytes))?;
        Ok((result, consumed))
    })?;
    Ok((nonce, merged))
}

fn window_coder(answer: &Coder) -> Result<&Coder> {
    if let Coder::Kv(_, answer) = answer
        && let Coder::Kv(unmerged, _) = answer.as_ref()
        && let Coder::Iterable(window) = unmerged.as_ref()
    {
        return Ok(window);
    }
    Err(Error::WrongCoder("merged windows"))
}

/// Reads an iterable of either form.
fn read_all<T>(
    bytes: &mut &[u8],
    mut element: impl FnMut(&mut &[u8]) -> Result<T>,
) -> Result<Vec<T>> {
    let mut elements = Vec::new();
    let mut read = |count: u64, bytes: &mut &[u8]| -> Result<()> {
        for _ in 0..count {
            let before = bytes.len();
            elements.push(element(bytes)?);
            // Only the global window takes no bytes, and there is but one: what says more has no end.
            if bytes.len() == before && count > 1 {
                return Err(Error::Truncated);
            }
        }
        Ok(())
    };
    match iterable::read_size(bytes)? {
        Size::Known(count) => read(count, bytes)?,
        Size::Unknown => {
            while let Batch::Elements(count) = iterable::read_batch(bytes, false)? {
                read(count, bytes)?;
            }
        }
    }
    Ok(elements)
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::model::time::Timestamp;

    fn interval(start: i64, end: i64) -> Window {
        Window::Interval {
            start: Timestamp::from_millis(start),
            end: Timestamp::from_millis(end),
        }
    }

    fn answer_coder() -> Coder {
        let iterable = |inner| Coder::Iterable(Box::new(inner));
        let kv = |left, right| Coder::Kv(Box::new(left), Box::new(right));
        let windows = iterable(Coder::IntervalWindow);
        let merges = iterable(kv(Coder::IntervalWindow, windows.clone()));
        kv(Coder::Bytes, kv(windows, merges))
    }

    #[test]
    fn answers_of_both_forms_are_read() {
        let mut known = Vec::new();
        let lone = [interval(7, 8)];
        write_question(&mut known, b"key", lone.iter());
        let mut unknown = known.clone();
        iterable::write_count(&mut known, 1);
        iterable::write_unknown(&mut unknown);
        iterable::write_batch(&mut unknown, 1);
        let consumed = [interval(0, 10), interval(5, 15)];
        for out in [&mut known, &mut unknown] {
            window::write(out, &interval(0, 15));
            iterable::write_count(out, 2);
            consumed.iter().for_each(|one| window::write(out, one));
        }
        iterable::write_end(&mut unknown);
        let expected = vec![(interval(0, 15), consumed.to_vec())];
        for bytes in [known, unknown] {
            let mut rest = bytes.as_slice();
            let (nonce, merged) = read_answer(&answer_coder(), &mut rest).expect("an answer");
            assert_eq!(nonce, b"key");
            assert_eq!(merged, expected);
            assert!(rest.is_empty());
        }
    }

    #[test]
    fn cut_answers_are_errors() {
        let mut bytes = Vec::new();
        write_question(&mut bytes, b"key", [interval(7, 8)].iter());
        iterable::write_count(&mut bytes, i32::MAX);
        for end in 0..=bytes.len() {
            assert!(read_answer(&answer_coder(), &mut &bytes[..end]).is_err());
        }
    }
}
