//! The wall clock of a real server, in the hands of a test: set forward or back, or standing still at a moment of its choice.
//!
//! A small library in C is preloaded into the server (`LD_PRELOAD`). It is compiled when a test asks for a clock first, so
//! that needs Linux and a C compiler.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use crate::processes::scratch_dir;

/// Says what time it is to each server that is started with it, also when that is started again. It begins with the real
/// time.
#[derive(Debug, Clone)]
pub struct Clock {
    file: Arc<File>,
    path: PathBuf,
}

/// Where the numbers are in the file; behind each of the first two is its copy.
const OFFSET: u64 = 0;
const TIME: u64 = 16;
const IS_READ: u64 = 32;

impl Clock {
    /// A clock, or why there can be none.
    ///
    /// # Errors
    ///
    /// Where the library can't be compiled, in words for the developer.
    pub fn new() -> Result<Self, String> {
        LIBRARY.as_ref()?;
        let path = scratch_dir("clock").join("page");
        let mut options = File::options();
        let file = options.read(true).write(true).create_new(true).open(&path);
        let file = Arc::new(file.map_err(|error| format!("{}: {error}", path.display()))?);
        let clock = Self { file, path };
        clock.write(OFFSET, 0);
        clock.write(TIME, 0);
        clock.write_number(IS_READ, 0);
        Ok(clock)
    }

    /// A clock for a test that does without it where there is none. It says so on standard error, also when the test
    /// passes; with the environment variable `REDLATCH_EXPECT_CC`, the test fails instead.
    #[track_caller]
    pub fn if_there() -> Option<Self> {
        Self::new()
            .and_then(Self::if_loaded)
            .inspect_err(|why| {
                let what = std::panic::Location::caller();
                let is_expected = std::env::var_os("REDLATCH_EXPECT_CC");
                assert!(is_expected.is_none_or(|it| it.is_empty()), "{why}");
                let word =
                    format!("\n{what}: NOT RUN, because a server's clock can't be set: {why}\n");
                io::Write::write_all(&mut io::stderr(), word.as_bytes()).ok();
            })
            .ok()
    }

    /// Not where `redis-server` is linked statically: such a program loads no library.
    fn if_loaded(self) -> Result<Self, String> {
        let mut server = Command::new("redis-server");
        let has_run = server.envs(self.environment()).arg("--version").output();
        if has_run.is_ok() && !self.is_heeded() {
            return Err("redis-server loads no library before it starts".to_owned());
        }
        self.write_number(IS_READ, 0);
        Ok(self)
    }

    /// The wall clock is the real one and so much more; or less, where it is negative.
    pub fn set_ahead_ms(&self, ms: i64) {
        self.write(OFFSET, ms * 1_000_000);
    }

    /// Stands still at this time since 1970, until it is set again.
    pub fn set(&self, since_epoch: Duration) {
        assert!(!since_epoch.is_zero(), "stands for the real time");
        let ns = i64::try_from(since_epoch.as_nanos()).unwrap();
        self.write(TIME, ns);
    }

    /// What a server is started with.
    pub(crate) fn environment(&self) -> [(&'static str, &Path); 2] {
        let library = LIBRARY.as_ref().unwrap();
        [("LD_PRELOAD", library), ("REDLATCH_CLOCK", &self.path)]
    }

    /// Some server has it, and has not passed over what it is started with.
    pub(crate) fn is_heeded(&self) -> bool {
        let mut bytes = [0; 8];
        self.file.read_exact_at(&mut bytes, IS_READ).unwrap();
        i64::from_ne_bytes(bytes) == 1
    }

    /// The copy comes last. A server that reads in between sees that the two do not fit.
    fn write(&self, at: u64, number: i64) {
        self.write_number(at, number);
        self.write_number(at + 8, !number);
    }

    fn write_number(&self, at: u64, number: i64) {
        self.file.write_all_at(&number.to_ne_bytes(), at).unwrap();
    }
}

/// The library, which is compiled once a process.
static LIBRARY: LazyLock<Result<PathBuf, String>> = LazyLock::new(|| {
    if !cfg!(target_os = "linux") {
        return Err("LD_PRELOAD is for Linux".to_owned());
    }
    let dir = scratch_dir("shim");
    let (source, library) = (dir.join("shim.c"), dir.join("shim.so"));
    fs::write(&source, include_str!("clock/shim.c")).unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-O2", "-Wall", "-o"]);
    let output = cc.args([&library, &source]).arg("-ldl").output();
    let output = output.map_err(|error| format!("there is no C compiler: cc: {error}"))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(format!("cc can't compile it: {text}"));
    }
    Ok(library)
});

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Server;

    const HOUR_MS: i64 = 3_600_000;

    /// That it can stand still is seen where scripts are compared.
    #[test]
    fn keys_of_a_server_end_by_the_clock_that_it_is_given() {
        let Some(clock) = Clock::if_there() else {
            return;
        };
        let server = Server::start_with_clock(&clock, &[]);
        server.hold("job", "token", 60 * 60 * 1000);
        for (ahead_ms, is_there) in [
            (HOUR_MS / 2, true),
            (-HOUR_MS / 2, true),
            (HOUR_MS + 9, false),
        ] {
            clock.set_ahead_ms(ahead_ms);
            assert_eq!(server.get("job").is_some(), is_there);
        }
    }
}
