//! Elements as data streams carry them: header, windows, pane, value.

use std::sync::LazyLock;

use bytes::Bytes;
use tidemill::coder::windowed_value::{self, Elements};
use tidemill::model::Coder;

/// The first byte chooses the coder, the rest is a data frame.
pub fn run(data: &[u8]) {
    let Some((choice, frame)) = data.split_first() else {
        return;
    };
    let coder = &CODERS[usize::from(*choice) % CODERS.len()];
    let scanned = windowed_value::scan(coder, Bytes::copy_from_slice(frame));
    let mut count = 0;
    let mut at = 0;
    for element in Elements::new(coder, frame) {
        let Ok(element) = element else {
            assert!(scanned.is_err());
            return;
        };
        count += 1;
        assert_eq!(element.header.start, at, "elements tile their frame");
        at = element.value.end;
        check_header(coder, &frame[element.header.clone()]);
    }
    assert_eq!(at, frame.len());
    assert_eq!(scanned.expect("all elements can be read").count, count);
}

/// A header that was passed over can be read; written again, it is read as the same one.
fn check_header(coder: &Coder, bytes: &[u8]) {
    let Coder::WindowedValue(_, window) = coder else {
        assert_eq!(bytes, b"");
        return;
    };
    let mut rest = bytes;
    let Ok(header) = windowed_value::read_header(window, &mut rest) else {
        return;
    };
    assert_eq!(rest, b"");
    let mut again = vec![];
    windowed_value::write_header(&mut again, header.timestamp, &header.windows, header.pane);
    let twice = windowed_value::read_header(window, &mut &again[..]);
    assert_eq!(twice.as_ref(), Ok(&header));
}

static CODERS: LazyLock<Vec<Coder>> = LazyLock::new(|| {
    let custom = Coder::CustomWindow(Box::new(Coder::LengthPrefix(Box::new(Coder::Opaque(
        "beam:coder:unknown:v1".to_owned(),
    )))));
    let kv = Coder::Kv(Box::new(Coder::Bytes), Box::new(Coder::VarInt));
    let grouped = Coder::Kv(
        Box::new(Coder::StringUtf8),
        Box::new(Coder::Iterable(Box::new(Coder::Nullable(Box::new(
            Coder::Bytes,
        ))))),
    );
    let values = [Coder::Bytes, Coder::GlobalWindow, kv, grouped];
    let windows = [Coder::GlobalWindow, Coder::IntervalWindow, custom];
    let mut coders = Vec::new();
    for value in &values {
        for window in &windows {
            coders.push(Coder::WindowedValue(
                Box::new(value.clone()),
                Box::new(window.clone()),
            ));
        }
    }
    coders.push(Coder::ParamWindowedValue(
        Box::new(Coder::Bytes),
        Box::new(Coder::GlobalWindow),
        Bytes::from_static(b"\x80\0\0\0\0\0\0\0\0\0\0\x01\x0f"),
    ));
    coders
});
