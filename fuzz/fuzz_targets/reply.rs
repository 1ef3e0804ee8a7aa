//! Any bytes as a server's answer.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| redlatch::fuzzing::reply(input));
