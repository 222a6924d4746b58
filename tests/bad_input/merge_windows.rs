//! What an SDK answers when it is asked which windows become one.

use tidemill::coder::merge_windows::read_answer;
use tidemill::model::Coder;

/// The first byte chooses the window coder, the rest is answers.
pub fn run(data: &[u8]) {
    let Some((choice, bytes)) = data.split_first() else {
        return;
    };
    let windows = [
        Coder::IntervalWindow,
        Coder::GlobalWindow,
        Coder::CustomWindow(Box::new(Coder::Bytes)),
    ];
    let window = &windows[usize::from(*choice) % windows.len()];
    let coder = answer_coder(window);
    let mut rest = bytes;
    while !rest.is_empty() {
        let before = rest.len();
        if read_answer(&coder, &mut rest).is_err() {
            return;
        }
        assert!(rest.len() < before, "an answer takes bytes");
    }
}

fn answer_coder(window: &Coder) -> Coder {
    let iterable = |inner| Coder::Iterable(Box::new(inner));
    let kv = |left, right| Coder::Kv(Box::new(left), Box::new(right));
    let windows = || iterable(window.clone());
    kv(
        Coder::Bytes,
        kv(windows(), iterable(kv(window.clone(), windows()))),
    )
}
