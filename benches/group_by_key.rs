//! What group-by-key costs: CPU per element and peak memory, by scenario.
//!
//! `cargo bench --bench group_by_key [NAME]`. Each scenario runs in a process of its own, so that
//! its peak memory can be read from the system; pushing, grouping and encoding are all counted,
//! making the input is not.

#![expect(
    clippy::too_many_lines,
    reason = "one scenario is read from top to bottom"
)]

use std::process::Command;

use bytes::Bytes;
use tidemill::coder::key_hash;
use tidemill::engine::group_by_key::{Grouper, Incoming, KeyedBatch};
use tidemill::engine::window;
use tidemill::model::{
    AccumulationMode, Coder, OutputTime, StageId, Timestamp, Trigger, WindowFn, WindowingStrategy,
};
use tidemill::store::memory::MemoryGroupTable;

struct Scenario {
    name: &'static str,
    elements: u64,
    keys: u64,
    value_size: usize,
    /// Values are parts of buffers that are kept.
    shared: bool,
    /// Elements per batch.
    batch: u64,
    windowing: fn() -> WindowingStrategy,
    /// Event time of an element; the watermark follows it when it moves.
    time: fn(u64) -> i64,
}

const SCENARIOS: [Scenario; 11] = [
    Scenario {
        name: "1M_over_1k_keys",
        elements: 1_000_000,
        keys: 1_000,
        value_size: 8,
        shared: false,
        batch: 1_000_000,
        windowing: global,
        time: |_| 0,
    },
    Scenario {
        name: "1M_over_1k_keys_small_batches",
        elements: 1_000_000,
        keys: 1_000,
        value_size: 8,
        shared: false,
        batch: 1_000,
        windowing: global,
        time: |_| 0,
    },
    Scenario {
        name: "10M_over_10k_keys",
        elements: 10_000_000,
        keys: 10_000,
        value_size: 8,
        shared: false,
        batch: 10_000_000,
        windowing: global,
        time: |_| 0,
    },
    Scenario {
        name: "1M_over_1M_keys",
        elements: 1_000_000,
        keys: 1_000_000,
        value_size: 8,
        shared: false,
        batch: 1_000_000,
        windowing: global,
        time: |_| 0,
    },
    Scenario {
        name: "1M_over_1M_keys_small_batches",
        elements: 1_000_000,
        keys: 1_000_000,
        value_size: 8,
        shared: false,
        batch: 1_000,
        windowing: global,
        time: |_| 0,
    },
    Scenario {
        name: "300k_of_1KB",
        elements: 300_000,
        keys: 1_000,
        value_size: 1_024,
        shared: false,
        batch: 10_000,
        windowing: global,
        time: |_| 0,
    },
    Scenario {
        name: "300k_of_1KB_shared",
        elements: 300_000,
        keys: 1_000,
        value_size: 1_024,
        shared: true,
        batch: 10_000,
        windowing: global,
        time: |_| 0,
    },
    Scenario {
        name: "5k_of_100KB",
        elements: 5_000,
        keys: 100,
        value_size: 100 << 10,
        shared: false,
        batch: 100,
        windowing: global,
        time: |_| 0,
    },
    Scenario {
        name: "streaming_10s_windows",
        elements: 1_000_000,
        keys: 10_000,
        value_size: 8,
        shared: false,
        batch: 1_000,
        windowing: fixed,
        time: |n| n as i64 / 10,
    },
    Scenario {
        name: "streaming_10s_early_and_late",
        elements: 1_000_000,
        keys: 10_000,
        value_size: 8,
        shared: false,
        batch: 1_000,
        windowing: early_and_late,
        time: |n| n as i64 / 10,
    },
    Scenario {
        name: "streaming_sessions",
        elements: 1_000_000,
        keys: 10_000,
        value_size: 8,
        shared: false,
        batch: 1_000,
        windowing: sessions,
        time: |n| n as i64 / 10,
    },
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, name] = arguments.as_slice()
        && flag == "--only"
    {
        let scenario = SCENARIOS.iter().find(|scenario| scenario.name == name);
        run(scenario.expect("a scenario"));
        return;
    }
    let filter = arguments.iter().find(|argument| !argument.starts_with('-'));
    println!(
        "{:32} {:>9} {:>9} {:>9} {:>9} {:>10} {:>10}",
        "scenario", "push ns", "absorb ns", "poll ns", "total ms", "payload MB", "peak MB"
    );
    for scenario in &SCENARIOS {
        if filter.is_none_or(|filter| scenario.name.contains(filter.as_str())) {
            let executable = std::env::current_exe().expect("the bench");
            let status = Command::new(executable)
                .args(["--only", scenario.name])
                .status();
            assert!(status.expect("a run").success());
        }
    }
}

fn run(scenario: &Scenario) {
    let before = peak_memory();
    let strategy = (scenario.windowing)();
    let stage = StageId(0);
    let mut grouper = Grouper::new(stage, strategy.clone());
    let mut table = MemoryGroupTable::default();
    let now = Timestamp::from_millis(0);
    let mut watermark = Timestamp::MIN;
    let value = vec![7; scenario.value_size];
    let (mut push, mut absorb, mut poll) = (0, 0, 0);
    let (mut groups, mut payload) = (0, 0);
    let mut drain = |grouper: &mut Grouper, table: &mut MemoryGroupTable, poll: &mut u64| {
        let start = cpu();
        while let Some(fired) = grouper.poll_output(table, 64 << 10, usize::MAX) {
            groups += u64::from(fired.chunk.count);
        }
        *poll += cpu() - start;
    };
    let mut n = 0;
    while n < scenario.elements {
        // What a data stream would have brought.
        let received = if scenario.shared {
            Bytes::from(value.repeat(scenario.batch as usize))
        } else {
            Bytes::new()
        };
        let first = n;
        let start = cpu();
        let mut batch = KeyedBatch::new(&strategy);
        let end = (n + scenario.batch).min(scenario.elements);
        let mut windows = Vec::new();
        let mut last_time = i64::MIN;
        while n < end {
            let time = (scenario.time)(n);
            if time != last_time {
                windows = window::assign(&strategy.window_fn, Timestamp::from_millis(time));
                last_time = time;
            }
            let key = key(n, scenario.keys);
            payload += key.len() + value.len();
            let timestamp = Timestamp::from_millis(time);
            if scenario.shared {
                let at = (n - first) as usize * scenario.value_size;
                let element = Incoming {
                    windows: &windows,
                    timestamp,
                    hash: key_hash(&key),
                    key: &key,
                    value: &received[at..at + scenario.value_size],
                };
                batch.push_from(&received, &element);
            } else {
                batch.push(&windows, timestamp, key_hash(&key), &key, &value);
            }
            n += 1;
        }
        let pushed = cpu();
        grouper.absorb(&mut table, now, watermark, batch);
        if last_time > 0 {
            watermark = Timestamp::from_millis(last_time);
            grouper.advance(&mut table, now, watermark);
        }
        push += pushed - start;
        absorb += cpu() - pushed;
        drain(&mut grouper, &mut table, &mut poll);
    }
    let start = cpu();
    grouper.advance(&mut table, now, Timestamp::MAX);
    absorb += cpu() - start;
    drain(&mut grouper, &mut table, &mut poll);
    assert!(grouper.is_empty() && groups > 0);
    println!(
        "{:32} {:>9.1} {:>9.1} {:>9.1} {:>9.1} {:>10.1} {:>10.1}",
        scenario.name,
        push as f64 / scenario.elements as f64,
        absorb as f64 / scenario.elements as f64,
        poll as f64 / scenario.elements as f64,
        (push + absorb + poll) as f64 / 1e6,
        payload as f64 / 1e6,
        (peak_memory() - before) as f64 / 1e6,
    );
}

/// A key of eight bytes with its length; keys come in no order.
fn key(n: u64, keys: u64) -> [u8; 9] {
    let mut key = [8; 9];
    let id = (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) % keys;
    key[1..].copy_from_slice(&id.to_be_bytes());
    key
}

fn global() -> WindowingStrategy {
    WindowingStrategy {
        window_fn: WindowFn::Global,
        needs_merge: false,
        window_coder: Coder::GlobalWindow,
        trigger: Trigger::Default,
        accumulation: AccumulationMode::Discarding,
        output_time: OutputTime::EndOfWindow,
        closing_always: false,
        on_time_always: true,
        last_by_trigger_only: false,
        allowed_lateness: 0,
        environment: None,
    }
}

fn fixed() -> WindowingStrategy {
    WindowingStrategy {
        window_fn: WindowFn::Fixed {
            size: 10_000,
            offset: 0,
        },
        window_coder: Coder::IntervalWindow,
        ..global()
    }
}

fn early_and_late() -> WindowingStrategy {
    let count = |count| Some(Box::new(Trigger::ElementCount(count)));
    WindowingStrategy {
        trigger: Trigger::AfterEndOfWindow {
            early: count(5),
            late: count(1),
        },
        allowed_lateness: 1_000,
        ..fixed()
    }
}

fn sessions() -> WindowingStrategy {
    WindowingStrategy {
        window_fn: WindowFn::Sessions { gap: 2_000 },
        needs_merge: true,
        ..fixed()
    }
}

/// Nanoseconds this thread has been on a CPU.
fn cpu() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace()
        .next()
        .and_then(|first| first.parse().ok())
        .unwrap_or(0)
}

/// The most memory the process has had, in bytes.
fn peak_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}
