//! Fuzzes tests/bad_input/fn_api.rs.
#![no_main]

#[path = "../../tests/bad_input/fn_api.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|data: &[u8]| target::run(data));
