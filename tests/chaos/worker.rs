//! A worker: a process that takes locks of every kind, and tells what it saw.

use std::collections::HashMap;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use redlatch::{Error, Fanout, LockGuard, LockManager};
use redlatch_testing::pause;

use crate::event::{Claim, Event, clock, name, nanos};
use crate::held::{Held, Stay};
use crate::on::{Kind, On, Weights};
use crate::pipe::{self, Order, order, tell};
use crate::plan::{RESOURCES, TTL_MS};

/// The threads of one worker share a manager, as those of a program do.
const THREADS: u64 = 2;
/// The ttl of the last locks: beyond all that the driver waits for.
const LAST_TTL: Duration = Duration::from_mins(1);
/// How often in succession a lock is handed over.
const HAND_OVERS: u32 = 4;

/// Works until it is told `stop`, and tells [`Event::Done`]; takes and gives back locks of its own when it is told
/// `last`, tells it again, and waits for the end of its input. Where that comes early, it ends at once and gives nothing
/// back.
pub(crate) fn run(seed: u64, urls: &[String]) {
    let listener = thread::spawn(pipe::listen);
    let worker = Worker::new(seed, urls);
    thread::scope(|scope| {
        for i in 0..THREADS {
            let worker = &worker;
            scope.spawn(move || worker.work(&mut Rng::with_seed(seed + (i << 32))));
        }
    });
    tell(&Event::Done);
    while order() != Order::Last {
        pause(Duration::from_millis(1));
    }
    last_ones(&worker.manager);
    tell(&Event::Done);
    listener.join().unwrap();
}

/// Takes locks of every kind that nobody else wants, for long, and gives them back in both ways: a key that stays is there for
/// the driver to see.
fn last_ones(manager: &LockManager) {
    for (i, kind) in Kind::ALL.into_iter().cycle().take(8).enumerate() {
        let names = ["a", "b"].map(|part| format!("last {} {i} {part}", std::process::id()));
        match ask(manager, kind, &names, LAST_TTL, How::Waiting) {
            Ok(guard) if i < 4 => drop(guard),
            Ok(guard) => {
                if let Err(error) = guard.unlock() {
                    tell(&Event::Wrong(format!("a last unlock failed as: {error}")));
                }
            }
            Err(error) => tell(&Event::Wrong(format!("a last lock failed as: {error}"))),
        }
    }
}

/// How long a call waits.
#[derive(Clone, Copy)]
enum How {
    Once,
    Waiting,
    For(Duration),
}

/// Asks for a lock on the first of these names, or on all of them.
fn ask(
    manager: &LockManager,
    kind: Kind,
    names: &[String],
    ttl: Duration,
    how: How,
) -> Result<LockGuard, Error> {
    let shared = manager.rw_lock(&names[0]).ttl(ttl);
    let request = match kind {
        Kind::Lock => manager.request(&names[0]).ttl(ttl),
        // In any order.
        Kind::Several => manager.request_all(names.iter().rev()).ttl(ttl),
        Kind::Write => {
            return match how {
                How::Once => shared.try_write(),
                How::Waiting => shared.write(),
                How::For(time) => shared.try_write_for(time),
            };
        }
        Kind::Read => {
            return match how {
                How::Once => shared.try_read(),
                How::Waiting => shared.read(),
                How::For(time) => shared.try_read_for(time),
            };
        }
    };
    match how {
        How::Once => request.try_lock(),
        How::Waiting => request.lock(),
        How::For(time) => request.try_lock_for(time),
    }
}

fn millis(rng: &mut Rng, most: u64) -> Duration {
    Duration::from_millis(rng.u64(0..=most))
}

struct Worker {
    manager: LockManager,
    weights: Weights,
    /// What is taken first when it is calm.
    calm: Vec<On>,
    /// How often a lock may be handed over.
    hand_overs: u32,
    /// What each token was for, and how often that was handed over.
    known: Mutex<HashMap<String, (On, u32)>>,
}

impl Worker {
    /// Every other one, or so, asks all nodes at once, and three of four hand their locks over.
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
        let hand_overs = if rng.u32(0..4) > 0 { HAND_OVERS } else { 0 };
        if hand_overs > 0 {
            builder = builder.local_handover(hand_overs, Duration::from_millis(400));
        }
        let mut calm: Vec<On> = (0..RESOURCES)
            .flat_map(|i| [Kind::Lock, Kind::Write, Kind::Read].map(|kind| On::one(kind, i)))
            .collect();
        calm.extend((1..RESOURCES).map(|i| On {
            kind: Kind::Several,
            resources: vec![i - 1, i],
        }));
        rng.shuffle(&mut calm);
        Self {
            manager: builder.build().unwrap(),
            weights: Weights::draw(&mut rng),
            calm,
            hand_overs,
            known: Mutex::default(),
        }
    }

    /// Takes locks until it is told to stop. When it is calm, each resource is at first held alone and read for a moment, so that
    /// none is left out by chance, by both threads at the same time, so that one hands its locks over to the other.
    fn work(&self, rng: &mut Rng) {
        while order() == Order::Run {
            self.take_any(rng);
        }
        for on in &self.calm {
            if order() == Order::Calm {
                self.take_one(on, How::Waiting, Stay::AMoment, rng);
            }
        }
        while order() < Order::Stop {
            self.take_any(rng);
        }
    }

    fn take_any(&self, rng: &mut Rng) {
        let on = self.weights.next(rng, RESOURCES);
        let how = match rng.u32(0..4) {
            0 => How::Once,
            1 => How::Waiting,
            _ => How::For(millis(rng, 600)),
        };
        self.take_one(&on, how, Stay::AnyTime, rng);
    }

    fn take_one(&self, on: &On, how: How, stay: Stay, rng: &mut Rng) {
        let ttl_ms = rng.u64(TTL_MS);
        let names = on.names();
        let ttl = Duration::from_millis(ttl_ms);
        let result = ask(&self.manager, on.kind, &names, ttl, how);
        let returned = clock();
        match result {
            Ok(guard) => {
                let claim = Claim::of(&guard);
                let (name, spent) = self.enter(&guard, on);
                tell(&Event::Locked {
                    on: on.clone(),
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
                held.live(stay, ttl_ms);
                held.release();
            }
            Err(error) => {
                tell(&Event::Refused(name(&error).to_owned()));
                let is_expected = if let Error::Held { resource, .. } = &error {
                    // It says which resource was in the way.
                    names.iter().any(|name| **name == **resource)
                } else {
                    matches!(name(&error), "unavailable" | "too-slow")
                };
                if !is_expected {
                    tell(&Event::Wrong(format!("a lock on {on} failed as: {error}")));
                }
                pause(millis(rng, 15));
            }
        }
    }

    /// What to call this guard, by its token, and how long the nodes have taken for it at least.
    fn enter(&self, guard: &LockGuard, on: &On) -> (String, Duration) {
        let token = guard.token();
        if guard.is_read() != on.is_read() || guard.resources() != on.names() {
            let text =
                format!("a guard for {on}, token {token}, says that it is another: {guard:?}");
            tell(&Event::Wrong(text));
        }
        let mut known = self.known.lock().unwrap();
        if let Some((of, hand_overs)) = known.get_mut(token) {
            *hand_overs += 1;
            let may_be_handed = of.is_ordinary() && of.resources == on.resources;
            if !may_be_handed || *hand_overs > self.hand_overs {
                let text =
                    format!("the token {token} of {of} came again for {on}, {hand_overs} times");
                tell(&Event::Wrong(text));
            }
            // The reports are those of the first holder.
            return (format!("{token}.{hand_overs}"), Duration::ZERO);
        }
        known.insert(token.to_owned(), (on.clone(), 0));
        // Not the sum, whatever the fan-out: what a thread passes on to the next was asked of all nodes at once.
        let elapsed = guard.votes().iter().map(|report| report.elapsed);
        (token.to_owned(), elapsed.max().unwrap())
    }
}
