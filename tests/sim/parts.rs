//! What the workers do in runs of one subject, beside the work that each draws.

use super::drawn::{LOOKS_AGAIN, OPENED, SETTLED};
use super::prelude::*;
use super::wish::Keep;

/// How long each reads, or writes, among a stream of readers.
const SECTION: Duration = Duration::from_millis(100);

/// For how long the writer waits: for the sections that are under way, and no others.
const LONGEST_WAIT_TO_WRITE: Duration = Duration::from_millis(300);

/// For how long a reader waits. One whose thread is late for the turn of readers waits for the next one, two sections later; a thread
/// of a run may be as late as a turn is long, and that more than once.
const LONGEST_WAIT_TO_READ: Duration = Duration::from_secs(1);

/// Where all want one lock, it is free for longer only where nobody is woken: who has been woken three times in vain does not listen
/// for a while.
const LONGEST_FREE: Nanos = 200 * MILLI;

/// How long lock after lock is taken before and after the pause of a day.
const BUSY: Nanos = 100 * MILLI;

/// A crowd begins at a multiple of this time.
const CROWDS: Nanos = 50 * MILLI;

impl Worker {
    pub(super) fn does_its_part(&mut self) {
        match self.plan.workload {
            Workload::Drawn => {}
            Workload::Stream => self.streams(),
            Workload::Woken => self.is_woken(),
            Workload::Idle => self.idles(),
            Workload::New => self.opens_nodes(),
            Workload::Kept => self.keeps_throughout(),
        }
    }

    /// Reads or writes until the end: neither readers nor writers wait for long.
    fn streams(&mut self) {
        let writes = (self.id, self.number) == (0, 0);
        let last = self.plan.resources - 1;
        let (on, longest) = match (writes, last) {
            (false, read) => (On::new(Way::Read, [read]), LONGEST_WAIT_TO_READ),
            (true, 0) => (On::new(Way::Write, [0]), LONGEST_WAIT_TO_WRITE),
            (true, last) => (On::new(Way::All, 0..=last), LONGEST_WAIT_TO_WRITE),
        };
        while self.is_stormy() {
            self.takes_its_turn(&on, longest, SECTION);
            if writes {
                let pause = self.some_time(SECTION * 2);
                self.sleep(pause);
            }
        }
    }

    /// Takes the lock for a moment, again and again until the end.
    fn is_woken(&mut self) {
        while self.is_stormy() {
            let pause = self.some_time(LOOKS_AGAIN / 20);
            self.sleep(pause);
            let work = self.some_time(LOOKS_AGAIN / 10);
            self.takes_its_turn(&On::new(Way::Lock, [0]), LOOKS_AGAIN * 60, work);
        }
    }

    fn takes_its_turn(&self, on: &On, longest: Duration, work: Duration) {
        let began = self.world.state().now;
        let wish = Wish {
            label: self.own_label(),
            ..Wish::new(self.plan.ttls[0], Waits::For(LOOKS_AGAIN * 60))
        };
        let id = self.id;
        let held = match self.ask(on, &wish) {
            Ok(held) => held,
            Err(error) => {
                let why = format!("P9: c{id} did not get {on} in its turn: {error}");
                return self.world.fail(why);
            }
        };
        let mut state = self.world.state();
        let waited = Duration::from_nanos(state.now - began);
        if state.now - state.witness.freed.max(began) > LONGEST_FREE {
            state.count("a free lock that somebody got by its timer alone");
        }
        if waited > longest {
            let why = format!("P17: c{id} waited for {on} for {waited:?} among others");
            state.fail(why);
        }
        drop(state);
        self.sleep(work);
        self.unlock(held);
        let mut state = self.world.state();
        state.witness.freed = state.now;
    }

    /// Takes locks before each pause, or after it.
    fn idles(&mut self) {
        let is_early = self.plan.wall_ahead[self.id] > 0;
        let moment = Duration::from_millis(2);
        for pause in self.plan.episodes.clone() {
            let (from, until) = if is_early {
                (pause.start - BUSY, pause.start - MILLI)
            } else {
                (pause.end, pause.end + BUSY)
            };
            self.world.block(from, None);
            self.takes_lock_after_lock(0, until, moment);
        }
        self.world.block(self.plan.storm, None);
    }

    /// Tries to have a lock, again and again, and works for some time whenever it has it.
    fn takes_lock_after_lock(&mut self, resource: usize, until: Nanos, work: Duration) {
        let (on, wish) = (
            On::new(Way::Lock, [resource]),
            Wish::new(self.ttl(), Waits::Once),
        );
        while self.is_stormy() && self.world.state().now < until {
            match self.ask(&on, &wish) {
                Ok(held) => {
                    let work = self.some_time(work);
                    self.sleep(work);
                    self.unlock(held);
                }
                Err(error) => self.is_refused_for_a_moment(&error),
            }
            let pause = self.some_time(2 * work);
            self.sleep(pause);
        }
    }

    fn is_refused_for_a_moment(&self, error: &Error) {
        self.refused(error);
        // Where nobody is asked, no time passes.
        self.sleep(Duration::from_micros(100));
    }

    /// Opens the nodes once or more, and goes on as all others.
    fn opens_nodes(&mut self) {
        for _ in 0..self.rng.u8(0..=3) {
            let pause = self.rng.u64(0..=OPENED / 4);
            self.sleep(Duration::from_nanos(pause));
            if self.world.state().now > OPENED || !self.is_stormy() {
                return;
            }
            let result = self.manager.open_nodes();
            let mut state = self.world.state();
            let id = self.id;
            state.note(|| format!("c{id} opens nodes: {result:?}"));
            if state.now > SETTLED - SECOND {
                state.fail(format!("P18: c{id} opened nodes for too long"));
            }
            match result {
                Ok(()) => state.count("nodes opened"),
                Err(Error::NotOpened { .. }) => state.count("nodes not opened"),
                Err(error) => {
                    state.fail(format!("c{id} got an error that makes no sense: {error}"));
                }
            }
            drop(state);
            self.sleep(Duration::from_nanos(MILLI));
        }
    }

    /// The first client keeps a lock until all servers have been restarted twice. Where the plan has that, it is a read lock or one on
    /// several resources.
    fn keeps_throughout(&mut self) {
        if self.id > 0 {
            return;
        }
        let on = match (self.plan.sharing, self.plan.seed % 4) {
            (None, _) => On::new(Way::Lock, [0]),
            (Some(_), 0 | 3) => On::new(Way::Read, [0]),
            (Some(_), _) => On::new(Way::All, [0, 1]),
        };
        let ttl = Duration::from_nanos(self.plan.longest_ttl());
        let wish = Wish {
            keep: Some(Keep {
                limit: None,
                margin: Duration::ZERO,
            }),
            ..Wish::new(ttl, Waits::For(ttl * 20))
        };
        let held = match self.ask(&on, &wish) {
            Ok(held) => held,
            Err(error) => return self.refused(&error),
        };
        while self.is_stormy() {
            self.sleep(ttl / 5);
            if let Err(error) = self.world.as_witness(|| held.guard.check()) {
                // A node is healed only when all of several resources are free there at one moment, and others want them too.
                if on.places.len() == 1 {
                    let why = format!("a kept lock did not outlive restarts: {error}");
                    self.world.fail(why);
                }
                break;
            }
        }
        self.unlock(held);
    }

    /// Perhaps takes locks of its own, from the same moment on as the other threads of its client.
    pub(super) fn crowds(&mut self) -> bool {
        if self.plan.crowds.is_none() || self.depth > 0 || self.rng.u8(0..6) == 0 {
            return false;
        }
        let now = self.world.state().now;
        self.world.block(now.next_multiple_of(CROWDS), None);
        for _ in 0..self.rng.usize(2..=8) {
            if !self.is_stormy() {
                break;
            }
            self.takes_its_own_lock();
        }
        true
    }

    fn takes_its_own_lock(&mut self) {
        let own = self.id * self.plan.workers + self.number;
        let on = self.draw_wanted_in_a_crowd(own);
        let wish = Wish::new(self.ttl(), Waits::For(Duration::ZERO));
        let call = || self.world.despite_death(|| self.call(&on, &wish));
        match self.ask_by(&on, &wish, call) {
            Some(Ok(held)) => {
                if self.rng.u8(0..4) == 0 {
                    self.extend(&held, wish.ttl);
                }
                self.unlock(held);
            }
            Some(Err(error)) => self.is_refused_for_a_moment(&error),
            None => {}
        }
    }

    /// Perhaps waits for the next replacement of servers. One whose clock is right takes lock after lock up to that moment; one whose
    /// clock is behind does so when the new server begins to vote.
    pub(super) fn hurries(&mut self) -> bool {
        let now = self.world.state().now;
        let next = self.plan.replaced.iter().find(|at| **at > now);
        let (Some(next), Some(rules)) = (next.copied(), self.plan.rules()) else {
            return false;
        };
        if self.depth > 0 || self.rng.bool() {
            return false;
        }
        let lately = 20 * MILLI + self.plan.longest_ttl() / 25;
        let span = self.rng.u64(MILLI..=lately);
        let opens = next + nanos(rules.quarantine);
        // The quarantine begins when the new server is first asked.
        let times = if self.plan.client_lags[self.id] == 0 {
            vec![(next.saturating_sub(span), next)]
        } else {
            let asked = (next + 2 * MILLI, next + 3 * MILLI);
            vec![asked, (opens + MILLI, opens + 10 * MILLI)]
        };
        let last = self.plan.resources - 1;
        for (from, until) in times {
            self.world.block(from, None);
            self.takes_lock_after_lock(last, until, Duration::ZERO);
        }
        true
    }
}
