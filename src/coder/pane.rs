//! Panes: one byte, and up to two varints where a pane has indices.
//!
//! The byte holds, from its lowest bit: first, last, timing (2 bits), form (3 bits: no index, one,
//! two), and whether element metadata follows. Metadata is read over:
//! it stays with the bytes of an element, which are passed on whole, and only a group has a header of its
//! own. SDKs read metadata only where a program switches that on in its own process, and none says so to
//! the runner: it adds none, and offers it to nobody.

use crate::coder::{Error, Result, input, length_prefix, varint};
use crate::model::pane::{PaneInfo, PaneTiming};

/// Reads a pane, and passes over element metadata when there is some.
#[inline]
pub fn read(bytes: &mut &[u8]) -> Result<PaneInfo> {
    if let [NO_FIRING, rest @ ..] = *bytes {
        *bytes = rest;
        return Ok(PaneInfo::NO_FIRING);
    }
    let (pane, has_metadata) = read_any(bytes)?;
    if has_metadata {
        length_prefix::read(bytes)?;
    }
    Ok(pane)
}

/// Reads the pane of a timer. Java's copies the pane of the element that set it, with the flag of the
/// element's metadata and without the metadata.
pub fn read_of_timer(bytes: &mut &[u8]) -> Result<PaneInfo> {
    read_any(bytes).map(|(pane, _)| pane)
}

/// Passes over a pane and its metadata.
#[inline]
pub fn skip(bytes: &mut &[u8]) -> Result<()> {
    read(bytes).map(drop)
}

/// Appends a pane in its shortest form.
///
/// Only a fired pane has indices: those of a pane of [`PaneTiming::Unknown`] are not written, nor
/// is an early pane's non-speculative one, which is always -1.
#[inline]
pub fn write(out: &mut Vec<u8>, pane: PaneInfo) {
    let form = form(&pane);
    let flags = u8::from(pane.is_first) | u8::from(pane.is_last) << 1;
    out.push(flags | timing_bits(pane.timing) << 2 | form << 4);
    if form >= ONE_INDEX {
        varint::write(out, pane.index as u64);
    }
    if form == TWO_INDICES {
        varint::write(out, pane.non_speculative_index as u64);
    }
}

/// A pane, and whether it says that metadata follows.
fn read_any(bytes: &mut &[u8]) -> Result<(PaneInfo, bool)> {
    let first = input::byte(bytes)?;
    let timing = match first >> 2 & 3 {
        0 => PaneTiming::Early,
        1 => PaneTiming::OnTime,
        2 => PaneTiming::Late,
        _ => PaneTiming::Unknown,
    };
    let (index, second) = match first >> 4 & 7 {
        NO_INDEX => (0, 0),
        ONE_INDEX => {
            let index = varint::read(bytes)? as i64;
            (index, index)
        }
        TWO_INDICES => (varint::read(bytes)? as i64, varint::read(bytes)? as i64),
        form => {
            return Err(Error::Invalid {
                what: "form of a pane",
                value: form.into(),
            });
        }
    };
    // Whatever was written: only what fired has indices, and an early pane no non-speculative one.
    let (index, non_speculative_index) = match timing {
        PaneTiming::Unknown => (0, 0),
        PaneTiming::Early => (index, -1),
        PaneTiming::OnTime | PaneTiming::Late => (index, second),
    };
    let pane = PaneInfo {
        timing,
        is_first: first & 1 != 0,
        is_last: first & 2 != 0,
        index,
        non_speculative_index,
    };
    Ok((pane, first & METADATA != 0))
}

fn form(pane: &PaneInfo) -> u8 {
    let (index, second) = (pane.index, pane.non_speculative_index);
    if pane.timing == PaneTiming::Unknown || (index == 0 && second == 0) {
        NO_INDEX
    } else if pane.timing == PaneTiming::Early || index == second {
        ONE_INDEX
    } else {
        TWO_INDICES
    }
}

fn timing_bits(timing: PaneTiming) -> u8 {
    match timing {
        PaneTiming::Early => 0,
        PaneTiming::OnTime => 1,
        PaneTiming::Late => 2,
        PaneTiming::Unknown => 3,
    }
}

pub(super) const NO_FIRING: u8 = 0x0f;
const METADATA: u8 = 0x80;
const NO_INDEX: u8 = 0;
const ONE_INDEX: u8 = 1;
const TWO_INDICES: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    fn check(timing: PaneTiming, index: i64, non_speculative_index: i64, expected: &[u8]) {
        let pane = PaneInfo {
            timing,
            is_first: false,
            is_last: true,
            index,
            non_speculative_index,
        };
        let mut out = vec![];
        write(&mut out, pane);
        assert_eq!(out, expected);
        assert_eq!(read(&mut &out[..]), Ok(pane));
    }

    #[test]
    fn forms() {
        check(PaneTiming::Unknown, 0, 0, &[0x0e]);
        check(PaneTiming::Early, 0, -1, &[0x12, 0]);
        check(PaneTiming::Early, 3, -1, &[0x12, 3]);
        check(PaneTiming::OnTime, 0, 0, &[0x06]);
        check(PaneTiming::OnTime, 30, 40, &[0x26, 30, 40]);
        check(PaneTiming::Late, 5, 5, &[0x1a, 5]);
    }

    #[test]
    fn no_firing_is_one_byte() {
        let mut out = vec![];
        write(&mut out, PaneInfo::NO_FIRING);
        assert_eq!(out, [NO_FIRING]);
    }

    #[test]
    fn metadata_is_passed_over() {
        let mut bytes = &[0x8f, 2, 9, 9, 7][..];
        assert_eq!(read(&mut bytes), Ok(PaneInfo::NO_FIRING));
        assert_eq!(bytes, [7]);
        assert_eq!(read(&mut &[0x8f, 2, 9][..]), Err(Error::Truncated));
    }

    #[test]
    fn a_timer_has_the_flag_of_metadata_only() {
        let mut bytes = &[0x8f, 2, 9][..];
        assert_eq!(read_of_timer(&mut bytes), Ok(PaneInfo::NO_FIRING));
        assert_eq!(bytes, [2, 9]);
    }

    #[test]
    fn indices_that_no_pane_can_have_are_read_over() {
        let unfired = read(&mut &[0x1d, 4][..]).expect("a pane");
        assert_eq!((unfired.index, unfired.non_speculative_index), (0, 0));
        let early = read(&mut &[0x22, 4, 3][..]).expect("a pane");
        assert_eq!((early.index, early.non_speculative_index), (4, -1));
    }

    #[test]
    fn unknown_forms_are_refused() {
        assert!(read(&mut &[0x3f, 0, 0, 0][..]).is_err());
    }
}
