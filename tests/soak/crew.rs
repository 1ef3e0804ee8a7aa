//! The workers as the driver sees them: processes that it starts, stops, kills and listens to.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use redlatch::Protocol;
use redlatch_testing::{eventually, tell_reaper};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use crate::options::{GROUPS, Options, WORKERS};
use crate::record::Shared;
use crate::told::Told;
use crate::worker::Role;

/// Longer than anything takes on a slow machine.
const HANGS: Duration = Duration::from_secs(100);

/// All workers. They end when it is dropped, and also when this process is killed.
pub(crate) struct Crew {
    workers: Vec<Worker>,
    /// The nodes as each group names them.
    urls: [Vec<String>; GROUPS],
    options: Options,
    record: Shared,
    started: u32,
}

struct Worker {
    child: Child,
    done: Arc<AtomicU32>,
    listener: Option<JoinHandle<()>>,
}

impl Crew {
    pub(crate) fn start(urls: [Vec<String>; GROUPS], options: &Options, record: &Shared) -> Self {
        let mut crew = Self {
            workers: Vec::new(),
            urls,
            options: options.clone(),
            record: Arc::clone(record),
            started: 0,
        };
        crew.workers = (0..WORKERS).map(|place| crew.spawn(place)).collect();
        crew
    }

    fn spawn(&mut self, place: usize) -> Worker {
        self.started += 1;
        let id = self.started;
        let ttl_ms = self.options.ttl_ms();
        let longest_ms = *ttl_ms.end();
        let role = Role {
            client: id,
            seed: self.options.seed ^ u64::from(id),
            is_fenced: self.options.protocol_of(place) == Protocol::Fenced,
            ttl_ms,
            urls: self.urls[place % GROUPS].clone(),
        };
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(role.arguments())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // It ends with its input, but not while it is stopped.
        tell_reaper("up", &child);
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let done = Arc::new(AtomicU32::new(0));
        let (record, count) = (Arc::clone(&self.record), Arc::clone(&done));
        let listener = thread::spawn(move || {
            hear(id, stdout, &record, &count);
            record.lock().leaves(id, longest_ms);
        });
        Worker {
            child,
            done,
            listener: Some(listener),
        }
    }

    /// Returns whether it is stopped now.
    pub(crate) fn stop(&self, place: usize) -> bool {
        self.workers[place].signal(Signal::STOP);
        is_stopped(self.workers[place].child.id())
    }

    pub(crate) fn resume(&self, place: usize) {
        self.workers[place].signal(Signal::CONT);
    }

    /// Kills a worker and starts another one in its place.
    pub(crate) fn replace(&mut self, place: usize) {
        self.workers[place] = self.spawn(place);
    }

    /// Starts others in the places of those that ended by themselves.
    pub(crate) fn look_after(&mut self) {
        for place in 0..self.workers.len() {
            if let Some(status) = self.workers[place].child.try_wait().unwrap() {
                let text = format!("the worker in place {place} ended: {status}");
                self.record.lock().wrong(text);
                self.replace(place);
            }
        }
    }

    /// Gives all of them the next order.
    pub(crate) fn tell(&mut self) {
        for worker in &mut self.workers {
            let stdin = worker.child.stdin.as_mut().unwrap();
            // One that has ended is found by `look_after`, or by `finish`.
            writeln!(stdin).ok();
        }
    }

    /// Waits until all have said this many times that they released everything.
    pub(crate) fn wait_until_done(&self, times: u32) {
        let done = |worker: &Worker| worker.done.load(Ordering::Relaxed) >= times;
        if !eventually(HANGS, || self.workers.iter().all(done)) {
            let text = "the workers did not stop in time".to_owned();
            self.record.lock().wrong(text);
        }
    }

    pub(crate) fn finish(mut self) {
        for worker in &mut self.workers {
            drop(worker.child.stdin.take());
            let mut status = None;
            eventually(HANGS, || {
                status = worker.child.try_wait().unwrap();
                status.is_some()
            });
            if !status.is_some_and(|status| status.success()) {
                let text = format!("a worker ended with {status:?} when it was to end");
                self.record.lock().wrong(text);
            }
        }
    }
}

/// Hears a worker to its end.
fn hear(id: u32, mut stdout: impl BufRead, record: &Shared, done: &AtomicU32) {
    let mut line = String::new();
    while stdout.read_line(&mut line).is_ok_and(|n| n > 0) {
        match Told::from_line(&line) {
            Some(Told::Done) => drop(done.fetch_add(1, Ordering::Relaxed)),
            Some(told) => record.lock().hear(id, told),
            // A line that was cut off by a kill is the last.
            None if !line.ends_with('\n') => {}
            None => record.lock().wrong(format!("worker {id} said {line:?}")),
        }
        line.clear();
    }
}

/// Whether a child that was sent a signal to stop does so.
pub(crate) fn is_stopped(child: u32) -> bool {
    let pid = i32::try_from(child).ok().and_then(Pid::from_raw);
    let look = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
    pid.is_some_and(|pid| {
        eventually(Duration::from_secs(1), || {
            waitid(WaitId::Pid(pid), look).is_ok_and(|status| status.is_some())
        })
    })
}

impl Worker {
    fn signal(&self, signal: Signal) {
        // One that has just ended by itself is not waited for yet, so its pid is its own.
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // A worker that is stopped ends as well.
        self.child.kill().ok();
        tell_reaper("down", &self.child);
        self.child.wait().ok();
        // What it had said before is in the pipe, which ends now.
        self.listener.take().map(JoinHandle::join);
    }
}
