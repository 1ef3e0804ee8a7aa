//! The wall clock of a real server, in the hands of a test: set forward or back, or standing still at a moment of its choice.
//!
//! A small library in C is preloaded into the server (`LD_PRELOAD`). It is compiled when a test asks for a clock first, so
//! that needs Linux and a C compiler.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use crate::processes::scratch_dir;

/// Says what time it is to each server that is started with it, also when that is started again. It begins with the real
/// time.
#[derive(Debug, Clone)]
pub struct Clock {
    page: Arc<Page>,
}

#[derive(Debug)]
struct Page {
    file: File,
    path: PathBuf,
}

impl Clock {
    /// A clock, or why there can be none.
    ///
    /// # Errors
    ///
    /// Where the library can't be compiled, in words for the developer.
    pub fn new() -> Result<Self, String> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        LIBRARY.as_ref()?;
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = scratch_dir("clock").join(n.to_string());
        let mut options = File::options();
        let file = options.read(true).write(true).create_new(true).open(&path);
        let file = file.map_err(|error| format!("{}: {error}", path.display()))?;
        let page = Arc::new(Page { file, path });
        page.write(OFFSET, 0);
        page.write(TIME, 0);
        page.file.write_all_at(&[0; 8], IS_READ).unwrap();
        Ok(Self { page })
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
        self.page.file.write_all_at(&[0; 8], IS_READ).unwrap();
        Ok(self)
    }

    /// The wall clock is the real one and so much more; or less, where it is negative.
    pub fn set_ahead_ms(&self, ms: i64) {
        self.page.write(OFFSET, ms * 1_000_000);
    }

    /// Stands still at this time since 1970, until it is set again.
    pub fn set(&self, since_epoch: Duration) {
        assert!(!since_epoch.is_zero(), "stands for the real time");
        let ns = i64::try_from(since_epoch.as_nanos()).unwrap();
        self.page.write(TIME, ns);
    }

    /// Goes on with the real time, and what is added to it.
    pub fn go_on(&self) {
        self.page.write(TIME, 0);
    }

    /// What a server is started with.
    pub(crate) fn environment(&self) -> [(&'static str, &Path); 2] {
        let library = LIBRARY.as_ref().unwrap();
        [("LD_PRELOAD", library), ("REDLATCH_CLOCK", &self.page.path)]
    }

    /// Some server has it, and has not passed over what it is started with.
    pub(crate) fn is_heeded(&self) -> bool {
        self.page.number(IS_READ) == 1
    }
}

/// Where the numbers are in the file; behind each of the first two is its copy.
const OFFSET: u64 = 0;
const TIME: u64 = 16;
const IS_READ: u64 = 32;

impl Page {
    /// The copy comes last. A server that reads in between sees that the two do not fit.
    fn write(&self, at: u64, number: i64) {
        self.file.write_all_at(&number.to_ne_bytes(), at).unwrap();
        let copy = (!number).to_ne_bytes();
        self.file.write_all_at(&copy, at + 8).unwrap();
    }

    fn number(&self, at: u64) -> i64 {
        let mut bytes = [0; 8];
        self.file.read_exact_at(&mut bytes, at).unwrap();
        i64::from_ne_bytes(bytes)
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        fs::remove_file(&self.path).ok();
    }
}

/// The library, which is compiled once: test processes that do so at the same time put the same file there.
static LIBRARY: LazyLock<Result<PathBuf, String>> = LazyLock::new(|| {
    const SOURCE: &str = include_str!("clock/shim.c");
    if !cfg!(target_os = "linux") {
        return Err("LD_PRELOAD is for Linux".to_owned());
    }
    let mut hasher = DefaultHasher::new();
    SOURCE.hash(&mut hasher);
    // Beside the tests, in the folder that cargo builds them in.
    let tests = std::env::current_exe().map_err(|error| error.to_string())?;
    let library = tests.with_file_name(format!("redlatch-clock-{:016x}.so", hasher.finish()));
    if library.exists() {
        return Ok(library);
    }
    compile(SOURCE, &library)?;
    Ok(library)
});

fn compile(source: &str, library: &Path) -> Result<(), String> {
    // Both of this process alone: a source that another process is writing is an empty library.
    let own = library.with_extension(std::process::id().to_string());
    let file = library.with_extension(format!("{}.c", std::process::id()));
    fs::write(&file, source).map_err(|error| format!("{}: {error}", file.display()))?;
    let output = Command::new("cc")
        .args(["-shared", "-fPIC", "-O2", "-Wall", "-o"])
        .args([&own, &file])
        .arg("-ldl")
        .output();
    fs::remove_file(&file).ok();
    let output = output.map_err(|error| format!("there is no C compiler: cc: {error}"))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(format!("cc can't compile it: {text}"));
    }
    fs::rename(&own, library).map_err(|error| format!("{}: {error}", library.display()))
}

#[cfg(test)]
mod tests {
    use redis::{Connection, from_redis_value};

    use super::*;
    use crate::Server;

    const EPOCH: Duration = Duration::from_secs(1_700_000_000);
    const HOUR_MS: i64 = 3_600_000;

    /// The time of one server is asked between two looks at another's, which has the real time: it is ahead by so many ms.
    #[track_caller]
    fn assert_ahead_ms(ms: i64, server: &Server, real: &Server) {
        let time = |server: &Server| {
            let (seconds, micros): (i64, i64) =
                from_redis_value(server.command(&["TIME"])).unwrap();
            seconds * 1_000_000 + micros
        };
        let before = time(real);
        let its = time(server) - ms * 1000;
        let after = time(real);
        assert!((before..=after).contains(&its), "{before} {its} {after}");
    }

    fn connect(server: &Server) -> Connection {
        let client = redis::Client::open(server.url()).unwrap();
        client.get_connection().unwrap()
    }

    #[test]
    fn a_server_steps_with_its_clock_also_after_a_restart_and_keys_end_by_it() {
        let Some(clock) = Clock::if_there() else {
            return;
        };
        let mut server = Server::start_with_clock(&clock, &[]);
        let real = Server::start();
        assert_ahead_ms(0, &server, &real);
        server.hold("job", "token", 60 * 60 * 1000);
        for ahead in [HOUR_MS / 2, -HOUR_MS / 2] {
            clock.set_ahead_ms(ahead);
            assert_ahead_ms(ahead, &server, &real);
            assert!(server.get("job").is_some());
        }
        server.kill();
        server.restart();
        assert_ahead_ms(-HOUR_MS / 2, &server, &real);
        server.hold("job", "token", 60 * 60 * 1000);
        clock.set_ahead_ms(HOUR_MS);
        assert_eq!(server.get("job"), None);
    }

    #[test]
    fn a_server_stands_still_at_a_time_and_a_key_ends_at_its_millisecond() {
        let Some(clock) = Clock::if_there() else {
            return;
        };
        clock.set(EPOCH);
        let server = Server::start_with_clock(&clock, &[]);
        let mut connection = connect(&server);
        let script = "return {redis.call('TIME'), redis.call('PTTL', 'job')}";
        server.hold("job", "token", 1000);
        for (ms, left) in [(0, 1000), (0, 1000), (1, 999), (999, 1), (1000, 0)] {
            let now = EPOCH + Duration::from_millis(ms);
            clock.set(now + Duration::from_micros(7));
            let mut eval = redis::cmd("EVAL");
            let ((seconds, micros), pttl): ((u64, u32), i64) =
                eval.arg(script).arg(0).query(&mut connection).unwrap();
            assert_eq!((seconds, micros), (now.as_secs(), now.subsec_micros() + 7));
            // Redis 8.2 may remove a key when its last ms begins.
            assert_eq!(pttl.max(0), left);
        }
        // No server has it any longer.
        clock.set(EPOCH + Duration::from_millis(1001));
        assert_eq!(server.get("job"), None);
        clock.go_on();
        assert_ahead_ms(0, &server, &Server::start());
    }
}
