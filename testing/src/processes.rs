//! Processes that a test starts: none of them outlives it.

use std::fmt::Display;
use std::fs::DirBuilder;
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use crate::waits::eventually;

/// A process that kills the servers, by pid, should this one end without doing so (a kill, an abort, a time limit), and
/// that removes their folders in any case.
static REAPER: LazyLock<Mutex<Option<ChildStdin>>> = LazyLock::new(|| {
    // It knows the processes that are up; its input ends with this process.
    let script = r#"
        trap '' INT TERM HUP
        up=
        while read -r what pid; do
            if [ "$what" = up ]; then up="$up $pid"; continue; fi
            rest=; for p in $up; do [ "$p" = "$pid" ] || rest="$rest $p"; done; up=$rest
        done
        [ -z "$up" ] || kill -9 $up
        # A server that is being killed may still write into its folder.
        rm -rf "$1" || { sleep 1; rm -rf "$1"; }"#;
    let reaper = Command::new("sh")
        .args(["-c", script, "reaper"])
        .arg(scratch())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    Mutex::new(reaper.ok().and_then(|mut reaper| reaper.stdin.take()))
});

/// Tells the reaper that a child is `up`, or `down`; the latter before it is waited for, while the pid is still its own.
pub fn tell_reaper(what: &str, child: &Child) {
    if let Some(reaper) = REAPER.lock().as_mut() {
        writeln!(reaper, "{what} {}", child.id()).ok();
    }
}

/// The child of a fork ends by itself, and has seen nothing wrong.
#[track_caller]
pub fn assert_ends_well(child: i32) {
    let child = Pid::from_raw(child).unwrap();
    let mut status = None;
    eventually(Duration::from_secs(60), || {
        status = waitpid(Some(child), WaitOptions::NOHANG).unwrap();
        status.is_some()
    });
    let Some((_, status)) = status else {
        kill_process(child, Signal::KILL).unwrap();
        waitpid(Some(child), WaitOptions::empty()).unwrap();
        panic!("the child hangs");
    };
    assert_eq!(status.exit_status(), Some(0), "{status:?}");
}

/// The folder of this process, which the reaper removes.
fn scratch() -> PathBuf {
    std::env::temp_dir().join(format!("redlatch-{}", std::process::id()))
}

/// A new folder; for a server, with its port as the name.
pub(crate) fn scratch_dir(name: impl Display) -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    // The reaper is there before the first folder is.
    LazyLock::force(&REAPER);
    let dir = scratch().join(format!("{name}-{n}"));
    // Nobody else may write there, whatever the umask is: the command refuses a configuration in such a folder.
    let mut folders = DirBuilder::new();
    folders.recursive(true).mode(0o755).create(&dir).unwrap();
    dir
}
