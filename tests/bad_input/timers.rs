//! Timers that a harness sets or clears.

use bytes::Bytes;
use tidemill::coder::timer;
use tidemill::model::Coder;

/// The first byte chooses the coders of key and window, the rest is a frame of timers.
pub fn run(data: &[u8]) {
    let Some((choice, frame)) = data.split_first() else {
        return;
    };
    let keys = [
        Coder::Bytes,
        Coder::Kv(Box::new(Coder::VarInt), Box::new(Coder::StringUtf8)),
        Coder::GlobalWindow,
    ];
    let windows = [
        Coder::GlobalWindow,
        Coder::IntervalWindow,
        Coder::CustomWindow(Box::new(Coder::Bytes)),
    ];
    let key = &keys[usize::from(choice & 0x0f) % keys.len()];
    let window = &windows[usize::from(choice >> 4) % windows.len()];
    let mut rest = Bytes::copy_from_slice(frame);
    while !rest.is_empty() {
        let before = rest.len();
        let Ok(read) = timer::read(key, window, &mut rest) else {
            return;
        };
        assert!(rest.len() < before, "a timer takes bytes");
        let mut again = vec![];
        timer::write(&mut again, &read);
        let twice = timer::read(key, window, &mut Bytes::from(again));
        assert_eq!(twice.as_ref(), Ok(&read));
    }
}
