//! What the figures depend on, apart from our code: the compiler, features, the C library, the processor, valgrind.

use std::process::Command;

/// In words. Two settings with the same words have the same figures.
pub(crate) fn here(valgrind: &str) -> String {
    let compiler = output_of("rustc", "-vV");
    let compiler = |key: &str| {
        let mut lines = compiler.lines();
        let value = lines.find_map(|line| line.strip_prefix(key));
        value.unwrap_or("?").to_owned()
    };
    let (release, host) = (compiler("release: "), compiler("host: "));
    let library = output_of("getconf", "GNU_LIBC_VERSION");
    let features = if cfg!(any(feature = "metrics", feature = "tracing")) {
        " with further features"
    } else {
        ""
    };
    let (vectors, library) = (vectors(), library.trim());
    format!("rustc {release}{features}, {host}{vectors}, {library}, {valgrind}")
}

/// The C library chooses its functions by this. Whatever else a processor can do, valgrind shows all programs the same one.
#[cfg(target_arch = "x86_64")]
fn vectors() -> &'static str {
    if std::arch::is_x86_feature_detected!("avx2") {
        " with AVX2"
    } else {
        ""
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn vectors() -> &'static str {
    ""
}

/// What the program prints; nothing if there is no such program.
fn output_of(program: &str, word: &str) -> String {
    let output = Command::new(program).arg(word).output();
    let output = output.map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&output).into_owned()
}
