//! A worker: a process that takes locks, holds them in all the ways that programs do, and tells what it saw.

use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::process::exit;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use redlatch::{Fanout, LockGuard, LockManager};
use redlatch_testing::pause;

use crate::event::{Claim, Event, clock, name, nanos};
use crate::plan::{RESOURCES, TTL_MS};

/// The threads of one worker share a manager, as those of a program do.
const THREADS: u64 = 2;
/// How a worker ends that gives nothing back.
pub(crate) const ABRUPT: i32 = 3;

/// What the driver wants: `RUN`, then `CALM`, then `STOP`, then `LAST`.
static ORDERS: AtomicU8 = AtomicU8::new(RUN);
const RUN: u8 = 0;
const CALM: u8 = 1;
const STOP: u8 = 2;
const LAST: u8 = 3;

/// Works until it is told `stop`, and tells [`Event::Done`]; takes and gives back locks of its own when it is told
/// `last`, tells it again, and waits for the end of its input. Where that comes early, it ends at once and gives nothing
/// back.
pub(crate) fn run(seed: u64, urls: &[String]) {
    let listener = thread::spawn(|| {
        for line in std::io::stdin().lock().lines() {
            match line.as_deref() {
                Ok("calm") => ORDERS.store(CALM, Ordering::Relaxed),
                Ok("stop") => ORDERS.store(STOP, Ordering::Relaxed),
                Ok("last") => ORDERS.store(LAST, Ordering::Relaxed),
                _ => break,
            }
        }
        if ORDERS.load(Ordering::Relaxed) != LAST {
            exit(0);
        }
    });
    let worker = Worker::new(seed, urls);
    thread::scope(|scope| {
        for i in 0..THREADS {
            let worker = &worker;
            scope.spawn(move || {
                let mut rng = Rng::with_seed(seed + (i << 32));
                while ORDERS.load(Ordering::Relaxed) < STOP {
                    worker.take_one(&mut rng);
                }
            });
        }
    });
    tell(&Event::Done);
    while ORDERS.load(Ordering::Relaxed) != LAST {
        pause(Duration::from_millis(1));
    }
    last_ones(&worker.manager);
    tell(&Event::Done);
    listener.join().unwrap();
}

/// Takes locks that nobody else wants, for long, and gives them back in both ways: a key that stays is there for the
/// driver to see.
fn last_ones(manager: &LockManager) {
    let ttl = Duration::from_millis(*TTL_MS.end());
    for i in 0..4 {
        let key = format!("last {} {i}", std::process::id());
        match manager.lock(&key, ttl) {
            Ok(guard) if i % 2 == 0 => drop(guard),
            Ok(guard) => {
                if let Err(error) = guard.unlock() {
                    tell(&Event::Wrong(format!("a last unlock failed as: {error}")));
                }
            }
            Err(error) => tell(&Event::Wrong(format!("a last lock failed as: {error}"))),
        }
    }
}

/// Where nobody listens any more, there is nothing to be done.
fn tell(event: &Event) {
    let line = event.to_line();
    if std::io::stdout().lock().write_all(line.as_bytes()).is_err() {
        exit(0);
    }
}

fn millis(rng: &mut Rng, most: u64) -> Duration {
    Duration::from_millis(rng.u64(0..=most))
}

/// How often in succession a lock is handed over.
const HAND_OVERS: u32 = 4;

struct Worker {
    manager: LockManager,
    /// How often a lock may be handed over.
    hand_overs: u32,
    /// What each token was for, and how often that was handed over.
    known: Mutex<HashMap<String, (u32, u32)>>,
}

impl Worker {
    /// Every other one, or so, asks all nodes at once, and every other one hands its locks over.
    fn new(seed: u64, urls: &[String]) -> Self {
        let mut rng = Rng::with_seed(seed);
        let fanout = if rng.bool() {
            Fanout::Overlapped
        } else {
            Fanout::Sequential
        };
        let mut builder = LockManager::builder()
            .nodes(urls)
            .key_prefix("chaos:")
            .acquire_timeout(Duration::from_millis(1_500))
            .retry_delay(Duration::from_millis(3), Duration::from_millis(40))
            .pool_size(4)
            .fanout(fanout);
        let hand_overs = if rng.bool() { HAND_OVERS } else { 0 };
        if hand_overs > 0 {
            builder = builder.local_handover(hand_overs, Duration::from_millis(400));
        }
        Self {
            manager: builder.build().unwrap(),
            hand_overs,
            known: Mutex::default(),
        }
    }

    fn take_one(&self, rng: &mut Rng) {
        let resource = rng.u32(0..RESOURCES);
        let ttl_ms = rng.u64(TTL_MS);
        let ttl = Duration::from_millis(ttl_ms);
        let key = resource.to_string();
        let result = match rng.u32(0..4) {
            0 => self.manager.try_lock(&key, ttl),
            1 => self.manager.lock(&key, ttl),
            _ => self.manager.try_lock_for(&key, ttl, millis(rng, 600)),
        };
        let returned = clock();
        match result {
            Ok(guard) => {
                let claim = Claim::of(&guard);
                let (name, spent) = self.enter(&guard, resource);
                tell(&Event::Locked {
                    resource,
                    token: name.clone(),
                    ttl_ms,
                    returned,
                    spent: nanos(spent),
                    claim,
                });
                let mut held = Held {
                    guard,
                    name,
                    claim,
                    rng,
                };
                held.live(ttl_ms);
                held.release();
            }
            Err(error) => {
                tell(&Event::Refused(name(&error).to_owned()));
                if !matches!(name(&error), "held" | "unavailable" | "too-slow") {
                    tell(&Event::Wrong(format!("a lock failed as: {error}")));
                }
                pause(millis(rng, 15));
            }
        }
    }

    /// What to call this guard, by its token, and how long the nodes have taken for it at least.
    fn enter(&self, guard: &LockGuard, resource: u32) -> (String, Duration) {
        let token = guard.token();
        let mut known = self.known.lock().unwrap();
        if let Some((of, hand_overs)) = known.get_mut(token) {
            *hand_overs += 1;
            if *of != resource || *hand_overs > self.hand_overs {
                let text = format!(
                    "the token {token} of {of} came again for {resource}, {hand_overs} times"
                );
                tell(&Event::Wrong(text));
            }
            // The reports are those of the first holder.
            return (format!("{token}.{hand_overs}"), Duration::ZERO);
        }
        known.insert(token.to_owned(), (resource, 0));
        // Not the sum, whatever the fan-out: what a thread passes on to the next was asked of all nodes at once.
        let elapsed = guard.votes().iter().map(|report| report.elapsed);
        (token.to_owned(), elapsed.max().unwrap())
    }
}

/// A guard and what it claimed when it was last looked at; no claim when that was over by then.
struct Held<'a> {
    guard: LockGuard,
    /// What it is told as.
    name: String,
    claim: Option<Claim>,
    rng: &'a mut Rng,
}

impl Held<'_> {
    fn live(&mut self, ttl_ms: u64) {
        match self.rng.u32(0..1_000) {
            // Far beyond the lease, and then the extension of what is no longer there.
            0..25 => {
                let beyond = Duration::from_millis(self.rng.u64(1..=200));
                pause(self.guard.remaining() + beyond);
                self.check();
                self.extend();
            }
            25..300 => {
                for _ in 0..self.rng.u32(1..=3) {
                    self.work(ttl_ms / 2);
                    self.extend();
                }
                // What the extensions promised is used.
                self.work(ttl_ms);
            }
            300..370 => self.work(ttl_ms),
            370..373 if ORDERS.load(Ordering::Relaxed) == RUN => exit(ABRUPT),
            _ => self.work(20),
        }
    }

    /// Works for some time, as long as the lock is there.
    fn work(&mut self, most_ms: u64) {
        let mut left = self.rng.u64(0..=most_ms);
        while self.check() && left > 0 {
            let step = left.min(self.rng.u64(1..=5));
            pause(Duration::from_millis(step));
            left -= step;
        }
    }

    /// What `check` says has to fit what the guard claimed.
    fn check(&self) -> bool {
        let before = clock();
        let result = self.guard.check();
        let after = clock();
        let wrong = match (&result, self.claim) {
            (Ok(()), Some(claim)) => before > claim.high,
            (Ok(()), None) => true,
            (Err(_), Some(claim)) => after < claim.low,
            (Err(_), None) => false,
        };
        if wrong {
            tell(&Event::Wrong(format!(
                "check between {before} and {after} says {result:?} of {:?}, token {}",
                self.claim, self.name
            )));
        }
        result.is_ok()
    }

    fn extend(&mut self) {
        let ttl_ms = self.rng.u64(TTL_MS);
        let result = self.guard.extend(Duration::from_millis(ttl_ms));
        let returned = clock();
        let token = self.name.clone();
        let Err(error) = result else {
            self.claim = Claim::of(&self.guard);
            let claim = self.claim;
            return tell(&Event::Extended {
                token,
                ttl_ms,
                returned,
                claim,
            });
        };
        let why = name(&error).to_owned();
        if why.starts_with("lost") {
            self.claim = None;
        }
        tell(&Event::NotExtended {
            token,
            returned,
            why,
        });
    }

    fn release(self) {
        let token = self.name;
        let unlock = self.rng.bool();
        tell(&Event::Releasing {
            token: token.clone(),
            at: clock(),
        });
        if !unlock {
            return drop(self.guard);
        }
        let result = self.guard.unlock();
        let returned = clock();
        let outcome = result.as_ref().err().map_or("ok", name).to_owned();
        tell(&Event::Unlocked {
            token,
            returned,
            outcome,
        });
    }
}
