//! Any bytes as a command to a fake node.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| redlatch::fuzzing::command(input));
