//! Fuzzes tests/bad_input/merge_windows.rs.
#![no_main]

#[path = "../../tests/bad_input/merge_windows.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|data: &[u8]| target::run(data));
