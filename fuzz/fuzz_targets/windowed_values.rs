//! Fuzzes tests/bad_input/windowed_values.rs.
#![no_main]

#[path = "../../tests/bad_input/windowed_values.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|data: &[u8]| target::run(data));
