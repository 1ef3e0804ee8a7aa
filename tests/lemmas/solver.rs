//! z3, and numbers as it reads them.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Set where z3 has to be there; else what needs it is skipped with a word.
const EXPECTED: &str = "REDLATCH_EXPECT_Z3";

/// A bound on what a lemma takes, in steps and not in time, so that no machine is too slow for it.
const MOST_STEPS: &str = "rlimit=100000000";

/// What z3 prints for this text, line by line; none where it is not installed.
pub(super) fn answers(text: &str) -> Option<Vec<String>> {
    let z3 = Command::new("z3")
        .args(["-in", MOST_STEPS])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut z3) = z3 else {
        let expected = std::env::var_os(EXPECTED);
        let is_expected = expected.is_some_and(|expected| !expected.is_empty());
        assert!(!is_expected, "z3 is not installed");
        return None;
    };
    // Dropped at once, so that z3 sees the end of its input. What it prints before that fits into a pipe.
    let mut input = z3.stdin.take().unwrap();
    input.write_all(text.as_bytes()).unwrap();
    drop(input);
    let output = z3.wait_with_output().unwrap();
    let lines = String::from_utf8(output.stdout).unwrap();
    Some(lines.lines().map(str::to_owned).collect())
}

/// Says that something was skipped. Unlike what `eprintln` writes, this is seen although the test passes.
pub(super) fn say_that_it_is_missing(what: &str) {
    let line = format!("{what}: skipped, because z3 is not installed\n");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}

/// A whole number.
pub(super) fn int(number: impl TryInto<i128>) -> String {
    let Ok(number) = number.try_into() else {
        panic!("a number beyond 127 bits");
    };
    if number < 0 {
        format!("(- {})", number.unsigned_abs())
    } else {
        number.to_string()
    }
}

pub(super) fn nanos(span: Duration) -> String {
    int(i128::try_from(span.as_nanos()).unwrap())
}

/// The same as a real number.
pub(super) fn real_nanos(span: Duration) -> String {
    format!("{}.0", span.as_nanos())
}

/// A span as a real number of milliseconds.
pub(super) fn real_millis(span: Duration) -> String {
    format!("(/ {}.0 1000000.0)", span.as_nanos())
}

/// Exactly the number that the processor has, from 0 to below 1.
pub(super) fn exact(factor: f64) -> String {
    assert!((0.0..1.0).contains(&factor));
    let bits = factor.to_bits();
    let (exponent, mantissa) = (bits >> 52, bits & ((1 << 52) - 1));
    let (mantissa, power) = if exponent == 0 {
        (mantissa, 1074)
    } else {
        (mantissa | 1 << 52, 1075 - exponent)
    };
    // z3 does not always work powers out.
    let (whole, rest) = (power / 64, power % 64);
    let all: Vec<String> = (0..whole)
        .map(|_| format!("{}.0", 1_u128 << 64))
        .chain([format!("{}.0", 1_u128 << rest), "1.0".to_owned()])
        .collect();
    format!("(/ {mantissa}.0 (* {}))", all.join(" "))
}
