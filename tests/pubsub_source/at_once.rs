//! Runs the tests of this suite many at a time, with the flags and the words of Rust's own harness.
//!
//! They wait for leases to run out far more than they work; Rust's harness would run one per core.

use std::collections::VecDeque;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Instant;

/// A test: its name, and what it does.
pub type Test = (String, fn() -> Pin<Box<dyn Future<Output = ()>>>);

/// How many run at a time, unless `--test-threads` says otherwise.
const AT_ONCE: usize = 10;

/// What the command line asks for.
struct Wanted {
    names: Vec<String>,
    skipped: Vec<String>,
    exact: bool,
    list: bool,
    at_once: usize,
}

/// Runs the tests that the command line asks for.
pub fn main(tests: Vec<Test>) -> ExitCode {
    let wanted = Wanted::read(std::env::args().skip(1));
    let all = tests.len();
    let chosen: VecDeque<Test> = tests
        .into_iter()
        .filter(|(name, _)| wanted.wants(name))
        .collect();
    if wanted.list {
        chosen.iter().for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    let started = Instant::now();
    let (count, filtered) = (chosen.len(), all - chosen.len());
    println!("\nrunning {count} tests");
    let failed = run(chosen, wanted.at_once);
    let word = if failed.is_empty() { "ok" } else { "FAILED" };
    if !failed.is_empty() {
        println!("\nfailures:\n    {}", failed.join("\n    "));
    }
    println!(
        "\ntest result: {word}. {} passed; {} failed; 0 ignored; 0 measured; {filtered} filtered out; \
         finished in {:.2}s\n",
        count - failed.len(),
        failed.len(),
        started.elapsed().as_secs_f64(),
    );
    ExitCode::from(u8::from(!failed.is_empty()))
}

/// Runs tests; returns the names of those that failed.
fn run(tests: VecDeque<Test>, at_once: usize) -> Vec<String> {
    let waiting = Mutex::new(tests);
    let failed = Mutex::new(Vec::new());
    let next = || waiting.lock().unwrap().pop_front();
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                while let Some((name, test)) = next() {
                    let passed = catch_unwind(AssertUnwindSafe(|| block_on(test()))).is_ok();
                    println!("test {name} ... {}", if passed { "ok" } else { "FAILED" });
                    if !passed {
                        failed.lock().unwrap().push(name);
                    }
                }
            });
        }
    });
    failed.into_inner().unwrap()
}

fn block_on(test: Pin<Box<dyn Future<Output = ()>>>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime.unwrap().block_on(test);
}

impl Wanted {
    fn read(mut arguments: impl Iterator<Item = String>) -> Self {
        let mut wanted = Self {
            names: Vec::new(),
            skipped: Vec::new(),
            exact: false,
            list: false,
            at_once: AT_ONCE,
        };
        while let Some(argument) = arguments.next() {
            let (flag, value) = match argument.split_once('=') {
                Some((flag, value)) => (flag, Some(value.to_owned())),
                None => (&argument[..], None),
            };
            match flag {
                "--exact" => wanted.exact = true,
                "--list" => wanted.list = true,
                "--skip" => wanted.skipped.extend(value.or_else(|| arguments.next())),
                "--test-threads" => {
                    let count = value.or_else(|| arguments.next()).unwrap_or_default();
                    wanted.at_once = count.parse().expect("a number of threads");
                }
                "--format" | "--color" | "-Z" => {
                    value.or_else(|| arguments.next());
                }
                flag if flag.starts_with('-') => {}
                _ => wanted.names.push(argument),
            }
        }
        wanted
    }

    fn wants(&self, name: &str) -> bool {
        let fits = |pattern: &String| {
            if self.exact {
                name == pattern
            } else {
                name.contains(pattern.as_str())
            }
        };
        (self.names.is_empty() || self.names.iter().any(fits)) && !self.skipped.iter().any(fits)
    }
}
