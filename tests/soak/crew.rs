//! The workers as the driver sees them: processes that it starts, stops, kills and listens to.

use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use redlatch_history::{Does, What};
use redlatch_testing::{eventually, tell_reaper};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use crate::bounds::WORKERS;
use crate::event::Told;
use crate::held::ABRUPT;
use crate::options::{Clients, Options};
use crate::post::Post;
use crate::record::Shared;

/// Longer than anything takes on a slow machine.
const HANGS: Duration = Duration::from_secs(100);

/// All workers. They end when it is dropped, and also when this process is killed.
pub(crate) struct Crew {
    workers: Vec<Worker>,
    groups: Vec<Ipv4Addr>,
    ports: Vec<u16>,
    options: Options,
    record: Shared,
    post: Arc<Post>,
    /// How many workers there were so far.
    started: u32,
    /// How many workers ended by themselves without giving anything back.
    pub(crate) abrupt: u32,
}

/// One process. The next one in its place is another.
struct Worker {
    id: u32,
    child: Child,
    done: Arc<AtomicU32>,
    listener: Option<JoinHandle<()>>,
}

impl Crew {
    /// Starts the workers, in turn for each of the groups.
    pub(crate) fn start(
        groups: &[Ipv4Addr],
        ports: &[u16],
        options: &Options,
        record: &Shared,
    ) -> Self {
        let mut crew = Self {
            workers: Vec::new(),
            groups: groups.to_vec(),
            ports: ports.to_vec(),
            options: options.clone(),
            record: Arc::clone(record),
            post: Arc::default(),
            started: 0,
            abrupt: 0,
        };
        for i in 0..WORKERS {
            let worker = crew.spawn(i);
            crew.workers.push(worker);
        }
        crew
    }

    fn spawn(&mut self, place: usize) -> Worker {
        self.started += 1;
        let id = self.started;
        let host = self.groups[place % self.groups.len()];
        // Both protocols are in each group.
        let is_fenced = match self.options.clients {
            Clients::Classic => false,
            Clients::Fenced => true,
            Clients::Mixed => place < WORKERS / 2,
        };
        let ttl_ms = self.options.ttl_ms();
        self.record.lock().enters(id);
        let mut child = Command::new(std::env::current_exe().unwrap())
            .arg("--worker")
            .arg(id.to_string())
            .arg((self.options.seed ^ u64::from(id)).to_string())
            .arg(if is_fenced { "fenced" } else { "classic" })
            .args([ttl_ms.start(), ttl_ms.end()].map(u64::to_string))
            .args(
                self.ports
                    .iter()
                    .map(|port| format!("redis://{host}:{port}")),
            )
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // It ends with its input, but not while it is stopped.
        tell_reaper("up", &child);
        self.post.enters(id, is_fenced, child.stdin.take().unwrap());
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let (record, post) = (Arc::clone(&self.record), Arc::clone(&self.post));
        let done = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&done);
        let listener = thread::spawn(move || {
            let mut line = String::new();
            while stdout.read_line(&mut line).is_ok_and(|n| n > 0) {
                match Told::from_line(&line) {
                    Some(Told::Posts(parcel)) => post.pass_on(id, &parcel),
                    Some(told) => {
                        let is_done = told == Told::Done;
                        record.lock().hear(id, told);
                        count.fetch_add(u32::from(is_done), Ordering::Relaxed);
                    }
                    // A line that was cut off by a kill is the last.
                    None if !line.ends_with('\n') => {}
                    None => record.lock().wrong(format!("worker {id} said {line:?}")),
                }
                line.clear();
            }
            record.lock().leaves(id);
        });
        Worker {
            id,
            child,
            done,
            listener: Some(listener),
        }
    }

    /// Returns whether it is stopped now.
    pub(crate) fn stop(&self, place: usize) -> bool {
        self.note(place, Does::Stops);
        self.workers[place].signal(Signal::STOP);
        is_stopped(self.workers[place].child.id())
    }

    pub(crate) fn resume(&self, place: usize) {
        self.note(place, Does::GoesOn);
        self.workers[place].signal(Signal::CONT);
    }

    /// Notes in the history what happens to the worker at this place.
    fn note(&self, place: usize, does: Does) {
        let client = self.workers[place].id;
        let what = What::Client { client, does };
        self.record.lock().notes_now(what);
    }

    /// Kills a worker and starts another one in its place.
    pub(crate) fn replace(&mut self, place: usize) {
        let next = self.spawn(place);
        let former = std::mem::replace(&mut self.workers[place], next);
        self.post.leaves(former.id);
    }

    /// Starts others in the places of those that ended by themselves.
    pub(crate) fn look_after(&mut self) {
        for place in 0..self.workers.len() {
            let Some(status) = self.workers[place].child.try_wait().unwrap() else {
                continue;
            };
            if status.code() == Some(ABRUPT) {
                self.abrupt += 1;
            } else {
                let text = format!("the worker in place {place} ended: {status}");
                self.record.lock().wrong(text);
            }
            self.replace(place);
        }
    }

    /// Tells all workers something.
    pub(crate) fn tell(&self, order: &str) {
        self.post.tell_all(order);
    }

    /// Waits until all have said this many times that they released everything.
    pub(crate) fn wait_until_done(&self, times: u32) {
        let done = |worker: &Worker| worker.done.load(Ordering::Relaxed) >= times;
        let limit = HANGS;
        if !eventually(limit, || self.workers.iter().all(done)) {
            let text = "the workers did not stop in time".to_owned();
            self.record.lock().wrong(text);
        }
    }

    /// Lets those that are done end.
    pub(crate) fn finish(mut self) {
        for worker in &mut self.workers {
            self.post.leaves(worker.id);
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
