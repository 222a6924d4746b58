//! Fuzzes tests/bad_input/timers.rs.
#![no_main]

#[path = "../../tests/bad_input/timers.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|data: &[u8]| target::run(data));
