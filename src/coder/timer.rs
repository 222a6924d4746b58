//! Timers on the wire: key, tag, windows, whether it is cleared, and if not when it fires.

use bytes::{Buf, Bytes};

use crate::coder::{Result, input, length, length_prefix, pane, timestamp, window};
use crate::model::coder::Coder;
use crate::model::time::Timestamp;
use crate::model::timer::{Timer, TimerFiring};

/// Reads a timer; its key and tag are slices of `bytes`.
pub fn read(key_coder: &Coder, window_coder: &Coder, bytes: &mut Bytes) -> Result<Timer> {
    let start = bytes.clone();
    let mut rest = &start[..];
    let key = input::take(&mut rest, length::encoded_len(key_coder, &start)?)?;
    let tag = length_prefix::read(&mut rest)?;
    let windows = window::read_all(window_coder, &mut rest)?;
    let firing = if input::flag(&mut rest, "a timer's clear flag")? {
        None
    } else {
        Some(TimerFiring {
            fire_at: timestamp::read(&mut rest)?,
            // Java says by a time beyond the last that a timer holds nothing, and looks for it again.
            hold: Timestamp::of_window_bound(timestamp::read_millis(&mut rest)?),
            pane: pane::read_of_timer(&mut rest)?,
        })
    };
    bytes.advance(start.len() - rest.len());
    Ok(Timer {
        key: start.slice_ref(key),
        tag: start.slice_ref(tag),
        windows,
        firing,
    })
}

/// Appends a timer.
pub fn write(out: &mut Vec<u8>, timer: &Timer) {
    out.extend_from_slice(&timer.key);
    length_prefix::write(out, &timer.tag);
    window::write_all(out, &timer.windows);
    out.push(timer.firing.is_none().into());
    if let Some(firing) = &timer.firing {
        timestamp::write(out, firing.fire_at);
        timestamp::write(out, firing.hold);
        pane::write(out, firing.pane);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::model::pane::PaneInfo;
    use crate::model::window::Window;

    fn check(firing: Option<TimerFiring>) {
        let timer = Timer {
            key: Bytes::from_static(b"\x03key"),
            tag: Bytes::from_static(b"tag"),
            windows: vec![Window::Interval {
                start: Timestamp::from_millis(0),
                end: Timestamp::from_millis(10),
            }],
            firing,
        };
        let mut out = vec![];
        write(&mut out, &timer);
        let coder = Coder::Timer(Box::new(Coder::Bytes), Box::new(Coder::IntervalWindow));
        assert_eq!(length::encoded_len(&coder, &out), Ok(out.len()));
        out.push(7);
        let mut bytes = Bytes::from(out);
        let read = read(&Coder::Bytes, &Coder::IntervalWindow, &mut bytes);
        assert_eq!(read, Ok(timer));
        assert_eq!(&bytes[..], [7]);
    }

    #[test]
    fn set_and_cleared() {
        check(None);
        check(Some(TimerFiring {
            fire_at: Timestamp::from_millis(5),
            hold: Timestamp::from_millis(4),
            pane: PaneInfo::NO_FIRING,
        }));
    }

    #[test]
    fn a_hold_beyond_the_last_time_survives() {
        check(Some(TimerFiring {
            fire_at: Timestamp::from_millis(5),
            hold: Timestamp::of_window_bound(Timestamp::MAX.millis() + 1),
            pane: PaneInfo::NO_FIRING,
        }));
    }
}
