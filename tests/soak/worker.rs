//! A worker: a process that takes locks of every kind, and tells what it saw.

use std::ops::RangeInclusive;
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use parking_lot::Mutex;
use redlatch::{Builder, Fanout, Lease, LockManager, Protocol};
use redlatch_history::{Asks, Call, Given, Leased, Nanos, On, Span, Way, What};
use redlatch_testing::pause;

use crate::ask::{count_abstentions, draw, each, names, when_calm, why};
use crate::held::{Held, end_of, rest_of};
use crate::options::{LAST, LAST_TTL, PERMITS, PREFIX, builder};
use crate::told::{Order, call, clock, counted, done, happened, listen, order, wrong};
use crate::wish::{Keep, Waits, Wish};

/// The threads of one worker share a manager, as those of a program do.
const THREADS: u32 = 2;
/// For the last locks.
const PATIENCE: Duration = Duration::from_secs(20);
const NODE_TIMEOUT: Duration = Duration::from_millis(150);
/// A lock that is kept alive has to last for three node timeouts.
const SHORTEST_KEPT: Duration = Duration::from_millis(450);

/// What a worker is told when it is started.
pub(crate) struct Role {
    pub(crate) client: u32,
    pub(crate) seed: u64,
    pub(crate) is_fenced: bool,
    pub(crate) ttl_ms: RangeInclusive<u64>,
    pub(crate) urls: Vec<String>,
}

impl Role {
    /// The arguments of a worker's program.
    pub(crate) fn arguments(&self) -> [String; 2] {
        let (least, most) = (self.ttl_ms.start(), self.ttl_ms.end());
        let own = (self.client, self.seed, self.is_fenced);
        let text = serde_json::to_string(&(own, least, most, &self.urls));
        ["--worker".to_owned(), text.unwrap()]
    }

    /// The reverse; `None` if these are not the arguments of a worker.
    pub(crate) fn parse(arguments: &[String]) -> Option<Self> {
        let text = arguments.get(1).filter(|_| arguments[0] == "--worker")?;
        let ((client, seed, is_fenced), least, most, urls) = serde_json::from_str(text).unwrap();
        Some(Self {
            client,
            seed,
            is_fenced,
            ttl_ms: least..=most,
            urls,
        })
    }

    fn builder(&self, prefix: &str) -> Builder {
        let protocols = [Protocol::Classic, Protocol::Fenced];
        let protocol = protocols[usize::from(self.is_fenced)];
        builder(&self.urls, prefix, protocol, *self.ttl_ms.end())
    }
}

/// Works until it is told to stop, and tells that it is done; takes and gives back locks of its own when it is told so, tells
/// it again, and waits for the end of its input. Where that comes early, it ends at once and gives nothing back.
pub(crate) fn run(role: &Role) {
    let listener = thread::spawn(listen);
    let worker = Worker::new(role);
    thread::scope(|scope| {
        for number in 0..THREADS {
            let mut thread = Thread {
                worker: &worker,
                number,
                calls: 0,
                rng: Rng::with_seed(role.seed + (u64::from(number) << 32)),
            };
            scope.spawn(move || thread.work());
        }
    });
    done();
    while order() != Order::Last {
        pause(Duration::from_millis(1));
    }
    // Nothing goes wrong any more, but the machine may be slow.
    let builder = role.builder(LAST);
    let builder = builder.node_timeout(PATIENCE).acquire_timeout(PATIENCE);
    last_ones(&builder.build().unwrap());
    done();
    listener.join().unwrap();
}

/// Takes locks of every kind that nobody else wants, for long, and gives them back in both ways: a key that stays is there for
/// the driver to see.
fn last_ones(manager: &LockManager) {
    let wish = Wish::new(LAST_TTL, Waits::AsUsual);
    for (i, way) in Way::EACH.into_iter().cycle().take(10).enumerate() {
        let names = ["a", "b"].map(|part| format!("last {} {i} {part}", std::process::id()));
        match wish.ask(manager, way, &names, PERMITS) {
            Ok(guard) if i < 5 => drop(guard),
            Ok(guard) => {
                if let Err(error) = guard.unlock() {
                    wrong(&format!("P6: a last unlock failed as: {error}"));
                }
            }
            Err(error) => wrong(&format!("P9: a last lock failed as: {error}")),
        }
    }
}

struct Worker<'a> {
    manager: LockManager,
    role: &'a Role,
    /// What is taken first when it is calm.
    calm: Vec<On>,
    /// A lock on its way from one thread to the other, as text, with what it is on and its ttl.
    parcel: Mutex<Option<(String, On, u64)>>,
}

impl<'a> Worker<'a> {
    /// Every other one, or so, asks all nodes at once.
    fn new(role: &'a Role) -> Self {
        let mut rng = Rng::with_seed(role.seed);
        let fanout = if rng.bool() {
            Fanout::Overlapped
        } else {
            Fanout::Sequential
        };
        let builder = role
            .builder(PREFIX)
            .node_timeout(NODE_TIMEOUT)
            .acquire_timeout(Duration::from_millis(1_500))
            .retry_delay(Duration::from_millis(3), Duration::from_millis(40))
            .pool_size(4)
            .fanout(fanout);
        let mut calm = each();
        rng.shuffle(&mut calm);
        Self {
            manager: builder.build().unwrap(),
            calm,
            parcel: Mutex::default(),
            role,
        }
    }
}

struct Thread<'a> {
    worker: &'a Worker<'a>,
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
                let wish = Wish::new(self.ttl(), Waits::AsUsual);
                self.take(on, &wish);
            }
        }
        while order() < Order::Stop {
            self.take_any();
        }
    }

    fn take_any(&mut self) {
        let on = draw(&mut self.rng);
        let waits = match self.rng.u32(0..4) {
            0 => Waits::Once,
            1 => Waits::AsUsual,
            _ => Waits::For(self.millis(600)),
        };
        let wish = self.wish(waits);
        self.take(&on, &wish);
    }

    fn take(&mut self, on: &On, wish: &Wish) {
        let ttl_ms = u64::try_from(wish.ttl.as_millis()).unwrap();
        let call = self.asks(on, Some(ttl_ms), None);
        let result = wish.ask(&self.worker.manager, on.way, &names(on), PERMITS);
        let returned = clock();
        let guard = match result {
            Ok(guard) => guard,
            Err(error) => {
                happened(returned, call, What::Fails(why(&error, on)));
                let pause_for = self.millis(15);
                return pause(pause_for);
            }
        };
        let end = end_of(&guard);
        // What is kept may have been renewed by now.
        let returned = if wish.keep.is_some() {
            clock()
        } else {
            returned
        };
        let rests = wish.at_least.filter(|_| !on.is_read());
        let mut held = Held::new(guard, call, on.clone(), ttl_ms);
        held.rests_until = rests.and_then(|span| rest_of(end, ttl_ms, span));
        held.is_kept = wish.keep.is_some();
        held.has_limit = wish.keep.is_some_and(|keep| keep.limit.is_some());
        self.gets(&held, returned, end);
        if held.is_kept {
            happened(returned, call, What::Keeps);
            counted("locks kept alive");
        }
        self.live(held);
    }

    /// Takes over what the other thread has left.
    fn adopt(&mut self) {
        let Some((lease, on, ttl_ms)) = self.worker.parcel.lock().take() else {
            return;
        };
        let lease: Lease = lease.parse().unwrap();
        let leased = Leased {
            token: lease.token().into(),
            fencing: lease.fencing_token(),
        };
        let call = self.asks(&on, None, Some(leased));
        let result = self.worker.manager.adopt(&lease);
        let returned = clock();
        let guard = match result {
            Ok(guard) => guard,
            Err(error) => return happened(returned, call, What::Fails(why(&error, &on))),
        };
        counted("locks adopted");
        let end = end_of(&guard);
        let mut held = Held::new(guard, call, on, ttl_ms);
        self.gets(&held, returned, end);
        if self.rng.u32(0..4) == 0 {
            // No lease that it may have is longer.
            held.keep(*self.worker.role.ttl_ms.end());
        }
        self.live(held);
    }

    fn asks(&mut self, on: &On, ttl_ms: Option<u64>, adopts: Option<Leased>) -> Call {
        self.calls += 1;
        let (client, thread) = (self.worker.role.client, self.number);
        let call = call(client, thread, self.calls);
        let what = What::Asks(Asks {
            client,
            on: on.clone(),
            ttl: ttl_ms.map(|ttl_ms| ttl_ms * 1_000_000),
            adopts,
        });
        happened(clock(), call, what);
        call
    }

    fn gets(&self, held: &Held, at: Nanos, end: Option<Span>) {
        let (guard, on) = (&held.guard, &held.on);
        count_abstentions(&guard.votes());
        let is_fenced = self.worker.role.is_fenced && !on.is_read();
        if guard.is_read() != on.is_read()
            || guard.resources() != names(on)
            || guard.fencing_token().is_some() != is_fenced
        {
            wrong(&format!("a guard for {on} says that it is: {guard:?}"));
        }
        let given = Given {
            token: guard.token().into(),
            fencing: guard.fencing_token(),
            slot: guard.slot(),
            end,
        };
        happened(at, held.call, What::Gets(given));
        counted(&format!("guards: {:?}", on.way));
        if end.is_some() && order() == Order::Calm {
            counted(&when_calm(on));
        }
    }

    /// What is kept has a hook, and so have some of the others.
    fn live(&mut self, mut held: Held) {
        if held.is_kept || self.rng.u32(0..4) == 0 {
            held.hook();
        }
        held.live(&self.worker.role.ttl_ms, &mut self.rng);
        let (on, ttl_ms) = (held.on.clone(), held.ttl_ms);
        if let Some(lease) = held.release(&mut self.rng) {
            *self.worker.parcel.lock() = Some((lease.to_string(), on, ttl_ms));
        }
    }

    fn wish(&mut self, waits: Waits) -> Wish {
        let mut wish = Wish::new(self.ttl(), waits);
        if order() == Order::Run && self.rng.u32(0..10) == 0 {
            wish.ttl = wish.ttl.max(SHORTEST_KEPT);
            let longest = wish.ttl * self.rng.u32(2..=4);
            let limit = self.rng.bool().then_some(longest);
            let margin = Duration::ZERO;
            wish.keep = Some(Keep { limit, margin });
        } else if self.rng.u32(0..8) == 0 {
            // When a rest ends is told by when the lease ends, which moves where it is kept.
            wish.at_least = Some(self.millis(600) + Duration::from_millis(1));
        }
        let is_labelled = self.rng.u32(0..4) == 0;
        wish.label = is_labelled.then(|| format!("worker {}", self.worker.role.client));
        wish
    }

    fn ttl(&mut self) -> Duration {
        Duration::from_millis(self.rng.u64(self.worker.role.ttl_ms.clone()))
    }

    fn millis(&mut self, most: u64) -> Duration {
        Duration::from_millis(self.rng.u64(0..=most))
    }
}
