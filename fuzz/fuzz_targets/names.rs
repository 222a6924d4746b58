//! Fuzzes tests/bad_input/names.rs.
#![no_main]

#[path = "../../tests/bad_input/names.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|data: &[u8]| target::run(data));
