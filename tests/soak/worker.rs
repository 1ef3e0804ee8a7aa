//! A worker: a process that takes locks of every kind, and tells what it saw.

use std::ops::RangeInclusive;
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use parking_lot::Mutex;
use redlatch::{Builder, Fanout, LockManager, Protocol};
use redlatch_history::{Call, Leased, Origin, What, Who};
use redlatch_testing::pause;

use crate::ask::{How, Wishes, ask, count_abstentions, why};
use crate::claim::{self, clock, drift, nanos};
use crate::event::Told;
use crate::held::{Held, Left, Stay, rest_of};
use crate::hook::Hook;
use crate::keys::{LAST, PREFIX};
use crate::managers::{self, LAST_TTL};
use crate::on::{Kind, On, Weights};
use crate::parcel::Parcel;
use crate::pipe::{self, Order, happened, order, tell};

/// The threads of one worker share a manager, as those of a program do.
pub(crate) const THREADS: u32 = 2;
/// For the last locks.
const PATIENCE: Duration = Duration::from_secs(20);
const NODE_TIMEOUT: Duration = Duration::from_millis(150);
/// A lock that is kept alive has to last for three node timeouts.
const SHORTEST_KEPT_MS: u64 = 450;

/// What a worker is told when it is started.
pub(crate) struct Role {
    /// The number of the worker, which no other one has.
    pub(crate) client: u32,
    pub(crate) seed: u64,
    pub(crate) protocol: Protocol,
    pub(crate) ttl_ms: RangeInclusive<u64>,
}

impl Role {
    fn builder(&self, urls: &[String], prefix: &str) -> Builder {
        managers::builder(urls, prefix, self.protocol, *self.ttl_ms.end())
    }
}

/// Works until it is told `stop`, and tells [`Told::Done`]; takes and gives back locks of its own when it is told
/// `last`, tells it again, and waits for the end of its input. Where that comes early, it ends at once and gives nothing
/// back.
pub(crate) fn run(role: Role, urls: &[String]) {
    let listener = thread::spawn(pipe::listen);
    let worker = Worker::new(role, urls);
    thread::scope(|scope| {
        for number in 0..THREADS {
            let mut thread = Thread {
                worker: &worker,
                number,
                calls: 0,
                rng: Rng::with_seed(worker.role.seed + (u64::from(number) << 32)),
            };
            scope.spawn(move || thread.work());
        }
    });
    tell(&Told::Done);
    while order() != Order::Last {
        pause(Duration::from_millis(1));
    }
    // Nothing goes wrong any more, but the machine may be slow.
    let builder = worker.role.builder(urls, LAST);
    let builder = builder.node_timeout(PATIENCE).acquire_timeout(PATIENCE);
    last_ones(&builder.build().unwrap());
    tell(&Told::Done);
    listener.join().unwrap();
}

/// Takes locks of every kind that nobody else wants, for long, and gives them back in both ways: a key that stays is there for
/// the driver to see.
fn last_ones(manager: &LockManager) {
    let wishes = Wishes {
        how: How::Waiting,
        ttl_ms: u64::try_from(LAST_TTL.as_millis()).unwrap(),
        at_least: None,
        label: None,
        is_kept: false,
        limit: None,
    };
    for (i, kind) in Kind::ALL.into_iter().cycle().take(10).enumerate() {
        let names = ["a", "b"].map(|part| format!("last {} {i} {part}", std::process::id()));
        match ask(manager, kind, &names, &wishes) {
            Ok(guard) if i < 5 => drop(guard),
            Ok(guard) => {
                if let Err(error) = guard.unlock() {
                    tell(&Told::Wrong(format!("a last unlock failed as: {error}")));
                }
            }
            Err(error) => tell(&Told::Wrong(format!("a last lock failed as: {error}"))),
        }
    }
}

struct Worker {
    manager: LockManager,
    role: Role,
    weights: Weights,
    /// What is taken first when it is calm.
    calm: Vec<On>,
    /// A lock on its way from one thread to the other.
    parcel: Mutex<Option<Parcel>>,
}

impl Worker {
    /// Every other one, or so, asks all nodes at once.
    fn new(role: Role, urls: &[String]) -> Self {
        let mut rng = Rng::with_seed(role.seed);
        let fanout = if rng.bool() {
            Fanout::Overlapped
        } else {
            Fanout::Sequential
        };
        let builder = role
            .builder(urls, PREFIX)
            .node_timeout(NODE_TIMEOUT)
            .acquire_timeout(Duration::from_millis(1_500))
            .retry_delay(Duration::from_millis(3), Duration::from_millis(40))
            .pool_size(4)
            .fanout(fanout);
        let mut calm = On::each();
        rng.shuffle(&mut calm);
        Self {
            manager: builder.build().unwrap(),
            weights: Weights::draw(&mut rng),
            calm,
            parcel: Mutex::default(),
            role,
        }
    }
}

/// A thread of a worker.
struct Thread<'a> {
    worker: &'a Worker,
    number: u32,
    calls: u64,
    rng: Rng,
}

impl Thread<'_> {
    /// Takes locks until it is told to stop. When it is calm, each resource is at first held alone and read for a moment, so that
    /// none is left out by chance, by both threads at the same time, so that one passes its locks on to the other.
    fn work(&mut self) {
        while order() == Order::Run {
            self.adopt();
            self.take_any();
        }
        for on in &self.worker.calm {
            if order() == Order::Calm {
                self.take(on, How::Waiting, Stay::AMoment);
            }
        }
        while order() < Order::Stop {
            self.take_any();
        }
    }

    fn take_any(&mut self) {
        let on = self.worker.weights.next(&mut self.rng);
        let how = match self.rng.u32(0..4) {
            0 => How::Once,
            1 => How::Waiting,
            _ => How::For(self.millis(600)),
        };
        self.take(&on, how, Stay::AnyTime);
    }

    fn take(&mut self, on: &On, how: How, stay: Stay) {
        let wishes = self.wishes(how, stay);
        let ttl_ms = wishes.ttl_ms;
        let call = self.asks(on, Some(ttl_ms), None);
        let result = ask(&self.worker.manager, on.kind, &on.names(), &wishes);
        let returned = clock();
        let guard = match result {
            Ok(guard) => guard,
            Err(error) => {
                let why = why(&error, on);
                happened(returned, What::Fails { call, why });
                let pause_for = self.millis(15);
                return pause(pause_for);
            }
        };
        let claim = claim::of(&guard);
        // How long the nodes have taken at least. Not the sum, whatever the fan-out: what a thread passes on to the next was
        // asked of all nodes at once.
        let spent = guard.votes().iter().map(|report| report.elapsed).max();
        let spent = spent.unwrap();
        // What is kept may have been renewed by now.
        let (returned, spent) = if wishes.is_kept {
            (clock(), Duration::ZERO)
        } else {
            (returned, spent)
        };
        // A lease is the ttl less the drift, and begins before the slowest node was asked.
        let longest = (returned - nanos(spent) + ttl_ms * 1_000_000).saturating_sub(drift(ttl_ms));
        if claim.is_some_and(|claim| claim.low > longest) {
            let text = format!(
                "{on} with a ttl of {ttl_ms} ms: {claim:?} at {returned}, of which nodes took {spent:?}"
            );
            tell(&Told::Wrong(text));
        }
        let rests = wishes.at_least.filter(|_| !on.is_read());
        let mut held = Held::new(guard, call, on.clone(), ttl_ms);
        held.rests_until = rests.and_then(|span| rest_of(claim, ttl_ms, span));
        held.is_kept = wishes.is_kept;
        held.ends_by = wishes.limit.map(|limit| returned + nanos(limit));
        self.gets(&held, returned, claim, Origin::Nodes);
        if wishes.is_kept {
            happened(returned, What::Keeps { hold: call });
            tell(&Told::Counted("locks kept alive".to_owned()));
        }
        self.live(held, stay);
    }

    /// Takes over what the other thread has left, or what another worker has sent.
    fn adopt(&mut self) {
        let own = self.worker.parcel.lock().take();
        let from = if own.is_some() { "thread" } else { "worker" };
        let Some(parcel) = own.map(|own| own.to_string()).or_else(pipe::parcel) else {
            return;
        };
        let Parcel { lease, on, ttl_ms } = Parcel::from_words(&parcel).unwrap();
        let leased = Leased {
            token: lease.token().into(),
            fencing: lease.fencing_token(),
        };
        let call = self.asks(&on, None, Some(leased));
        let result = self.worker.manager.adopt(lease);
        let returned = clock();
        let guard = match result {
            Ok(guard) => guard,
            Err(error) => {
                let why = why(&error, &on);
                return happened(returned, What::Fails { call, why });
            }
        };
        tell(&Told::Counted(format!("locks adopted from another {from}")));
        let claim = claim::of(&guard);
        let mut held = Held::new(guard, call, on, ttl_ms);
        self.gets(&held, returned, claim, Origin::Adopted);
        if self.rng.u32(0..4) == 0 {
            // No lease that it may have is longer.
            held.keep(*self.worker.role.ttl_ms.end());
        }
        self.live(held, Stay::AnyTime);
    }

    fn asks(&mut self, on: &On, ttl_ms: Option<u64>, adopts: Option<Leased>) -> Call {
        let call = self.new_call();
        let who = Who {
            client: self.worker.role.client,
            thread: self.number,
        };
        let what = What::Asks {
            call,
            who,
            on: on.to_history(),
            ttl: ttl_ms.map(|ttl_ms| ttl_ms * 1_000_000),
            adopts,
        };
        happened(clock(), what);
        call
    }

    fn gets(&self, held: &Held, at: u64, end: Option<redlatch_history::Span>, origin: Origin) {
        let guard = &held.guard;
        count_abstentions(guard.votes());
        if guard.is_read() != held.on.is_read() || guard.resources() != held.on.names() {
            let text = format!("a guard for {} says that it is another: {guard:?}", held.on);
            tell(&Told::Wrong(text));
        }
        let what = What::Gets {
            call: held.call,
            token: guard.token().into(),
            fencing: guard.fencing_token(),
            slot: guard.slot(),
            end,
            origin,
        };
        happened(at, what);
        tell(&Told::Counted(held.on.kind.name().to_owned()));
        let should_fence = self.worker.role.protocol == Protocol::Fenced && !held.on.is_read();
        if guard.fencing_token().is_some() != should_fence {
            tell(&Told::Wrong(format!("a fencing token, or none: {guard:?}")));
        }
    }

    /// What is kept has a hook, and so have some of the others.
    fn live(&mut self, mut held: Held, stay: Stay) {
        if held.is_kept || stay == Stay::AnyTime && self.rng.u32(0..4) == 0 {
            held.hook = Some(Hook::of(&held.guard, held.call));
        }
        held.live(stay, &self.worker.role.ttl_ms, &mut self.rng);
        match held.release(&mut self.rng) {
            Left::Nothing => {}
            Left::Lease(parcel) if self.rng.u32(0..3) > 0 => tell(&Told::Posts(parcel.to_string())),
            Left::Lease(parcel) => *self.worker.parcel.lock() = Some(parcel),
            Left::Rest(on, slot, (from, until)) => {
                tell(&Told::Counted("locks that rested".to_owned()));
                tell(&Told::Rests {
                    call: self.new_call(),
                    on: on.to_history(),
                    slot,
                    from,
                    until,
                });
            }
        }
    }

    fn wishes(&mut self, how: How, stay: Stay) -> Wishes {
        let ttl_ms = self.rng.u64(self.worker.role.ttl_ms.clone());
        let is_kept = stay == Stay::AnyTime && order() == Order::Run && self.rng.u32(0..10) == 0;
        let ttl_ms = ttl_ms.max(if is_kept { SHORTEST_KEPT_MS } else { 0 });
        let has_limit = is_kept && self.rng.bool();
        // When a rest ends is told by when the lease ends, which moves where it is kept.
        let rests = stay == Stay::AnyTime && !is_kept && self.rng.u32(0..8) == 0;
        let is_labelled = self.rng.u32(0..4) == 0;
        Wishes {
            how,
            ttl_ms,
            at_least: rests.then(|| self.millis(600) + Duration::from_millis(1)),
            label: is_labelled.then(|| format!("worker {}", self.worker.role.client)),
            is_kept,
            limit: has_limit.then(|| Duration::from_millis(ttl_ms * self.rng.u64(2..=4))),
        }
    }

    fn new_call(&mut self) -> Call {
        self.calls += 1;
        pipe::call(self.worker.role.client, self.number, self.calls)
    }

    fn millis(&mut self, most: u64) -> Duration {
        Duration::from_millis(self.rng.u64(0..=most))
    }
}
