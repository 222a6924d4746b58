//! Fuzzes tests/bad_input/pubsub_source.rs.
#![no_main]

#[path = "../../tests/bad_input/pubsub_source.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|data: &[u8]| target::run(data));
