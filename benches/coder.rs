//! What an element costs the data path: finding its end, its timestamp, its key and its shard.
//!
//! `cargo bench --bench coder` prints nanoseconds per element, the best of several rounds, and fails
//! where a budget is exceeded.

use std::env;
use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tidemill::coder::windowed_value::{self, Elements};
use tidemill::coder::{key_hash, kv, length_prefix, varint};
use tidemill::model::coder::Coder;
use tidemill::model::pane::{PaneInfo, PaneTiming};
use tidemill::model::time::Timestamp;
use tidemill::model::window::Window;

/// About what a data frame of a harness holds.
const FRAME_BYTES: usize = 1 << 20;
const VALUES: usize = 10_000;
const ROUNDS: usize = 100;

fn main() -> ExitCode {
    let mut met = true;
    for frame in frames() {
        let Frame {
            name,
            coder,
            bytes,
            count,
        } = &frame;
        println!("{name}: {} bytes per element", bytes.len() / count);
        met &= report("scan", *count, 40.0, || {
            let chunk = windowed_value::scan(coder, bytes.clone()).expect("a good frame");
            assert_eq!(chunk.count as usize, *count);
            chunk.min_timestamp
        });
        let Coder::WindowedValue(value_coder, window_coder) = coder else {
            continue;
        };
        met &= report("read the whole header", *count, 120.0, || {
            let mut windows = 0;
            for element in Elements::new(coder, bytes) {
                let header = element.expect("a good frame").header;
                let header = windowed_value::read_header(window_coder, &mut &bytes[header]);
                windows += header.expect("a good header").windows.len();
            }
            windows
        });
        if matches!(**value_coder, Coder::Kv(..)) {
            met &= report("scan, split, hash the key", *count, 80.0, || {
                let mut hashes = 0;
                for element in Elements::new(coder, bytes) {
                    let value = &bytes[element.expect("a good frame").value];
                    let (key, _) = kv::split(value_coder, value).expect("a good value");
                    hashes ^= key_hash(key);
                }
                hashes
            });
        }
    }
    met &= values();
    // `cargo test --benches` runs this too, to see that it works: without optimisation, with no budget.
    let measured = env::args().any(|argument| argument == "--bench");
    if met || !measured {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// The parts by themselves, on values of 10-byte keys and 90-byte values.
fn values() -> bool {
    let coder = Coder::Kv(Box::new(Coder::Bytes), Box::new(Coder::Bytes));
    let values: Vec<_> = (0..VALUES as u64).map(|i| kv_value(i, 90)).collect();
    println!("values alone");
    let split = report("split a kv", VALUES, 20.0, || {
        let mut len = 0;
        for value in &values {
            len += kv::split(&coder, value).expect("a good value").0.len();
        }
        len
    });
    let hash = report("hash a 10-byte key", VALUES, 20.0, || {
        values
            .iter()
            .fold(0, |hash, value| hash ^ key_hash(&value[1..11]))
    });
    let mut out = Vec::with_capacity(32 * VALUES);
    let window = [interval(0)];
    let write = report("write a header", VALUES, 40.0, || {
        out.clear();
        for i in 0..VALUES as i64 {
            let timestamp = Timestamp::from_millis(i);
            windowed_value::write_header(&mut out, timestamp, &window, PaneInfo::NO_FIRING);
        }
        out.len()
    });
    split && hash && write
}

struct Frame {
    name: &'static str,
    coder: Coder,
    bytes: Bytes,
    count: usize,
}

fn frames() -> Vec<Frame> {
    let on_time = PaneInfo {
        timing: PaneTiming::OnTime,
        index: 3,
        ..PaneInfo::NO_FIRING
    };
    let no_firing = PaneInfo::NO_FIRING;
    let varint_value = |i: u64| {
        let mut out = vec![];
        varint::write(&mut out, i);
        out
    };
    let kv_of = |key, value| Coder::Kv(Box::new(key), Box::new(value));
    let opaque = || Coder::LengthPrefix(Box::new(Coder::Opaque("pickled".into())));
    let global = |_| Window::Global;
    vec![
        frame(
            "varint, global window",
            Coder::VarInt,
            global,
            no_firing,
            varint_value,
        ),
        frame(
            "kv of 10 and 90 bytes, global window",
            kv_of(Coder::Bytes, Coder::Bytes),
            global,
            no_firing,
            |i| kv_value(i, 90),
        ),
        frame(
            "kv of 10 and 90 opaque bytes, interval window",
            kv_of(opaque(), opaque()),
            interval,
            no_firing,
            |i| kv_value(i, 90),
        ),
        frame(
            "kv of 10 bytes and 1 KB, interval window, fired pane",
            kv_of(Coder::Bytes, Coder::Bytes),
            interval,
            on_time,
            |i| kv_value(i, 1000),
        ),
    ]
}

fn frame(
    name: &'static str,
    value_coder: Coder,
    window: impl Fn(i64) -> Window,
    pane: PaneInfo,
    value: impl Fn(u64) -> Vec<u8>,
) -> Frame {
    let mut bytes = vec![];
    let mut count = 0;
    while bytes.len() < FRAME_BYTES {
        let i = count as i64;
        count += 1;
        let timestamp = Timestamp::from_millis(1_700_000_000_000 + i);
        windowed_value::write_header(&mut bytes, timestamp, &[window(i)], pane);
        bytes.extend(value(i as u64));
    }
    let window_coder = match window(0) {
        Window::Global => Coder::GlobalWindow,
        Window::Interval { .. } | Window::Custom { .. } => Coder::IntervalWindow,
    };
    Frame {
        name,
        coder: Coder::WindowedValue(Box::new(value_coder), Box::new(window_coder)),
        bytes: bytes.into(),
        count,
    }
}

fn interval(i: i64) -> Window {
    let start = Timestamp::from_millis(1_700_000_000_000 + i / 10_000 * 10_000);
    Window::Interval {
        start,
        end: start.plus(10_000),
    }
}

fn kv_value(i: u64, len: usize) -> Vec<u8> {
    let mut out = vec![];
    length_prefix::write(&mut out, format!("{:010}", i % 1000).as_bytes());
    length_prefix::write(&mut out, &vec![b'v'; len]);
    out
}

/// Runs a round of all elements several times and tells whether the best keeps the budget.
fn report<T>(what: &str, count: usize, budget_ns: f64, mut round: impl FnMut() -> T) -> bool {
    let best = (0..ROUNDS)
        .map(|_| time(&mut round))
        .min()
        .unwrap_or_default();
    let each_ns = best.as_nanos() as f64 / count as f64;
    let met = each_ns <= budget_ns;
    let verdict = if met { "" } else { "  OVER BUDGET" };
    println!("  {what:<28} {each_ns:>7.1} ns  (budget {budget_ns} ns){verdict}");
    met
}

#[expect(clippy::disallowed_methods, reason = "a bench measures real time")]
fn time<T>(round: &mut impl FnMut() -> T) -> Duration {
    let start = Instant::now();
    black_box(round());
    start.elapsed()
}
