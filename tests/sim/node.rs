//! A node of the simulation: the store of the fake nodes on a clock of its own, and the life of its process.

use super::contents::{Contents, Entry};
use super::prelude::*;
use super::wire::token_of;
use crate::fake::store::Store;
use crate::fake::store::process::Process;
use crate::fencing::Rules;
use crate::node::command;
use crate::node::command::MarkerAction;

const MILLISECOND: Duration = Duration::from_millis(1);

/// What the clock of a store shows when that of its node shows zero.
const EPOCH: Duration = Duration::from_micros(VIRTUAL_EPOCH_US);

pub(super) struct Node {
    pub(super) clock: Clockwork,
    pub(super) store: Store,
    /// What is on its disk, or on a replica.
    saved: Vec<Store>,
    /// How many troubles hold it stopped, or down.
    pub(super) hung: u32,
    pub(super) down: u32,
    /// Whether it comes up without memory.
    forgets: bool,
    /// When it last forgot something.
    pub(super) forgot: Option<Nanos>,
    /// Connections of an earlier life are gone.
    pub(super) life: u32,
    /// What has arrived while it was stopped, with the connections it came on.
    pub(super) backlog: VecDeque<(usize, Message)>,
}

pub(super) struct Executed {
    pub(super) reply: Reply,
    pub(super) before: Vec<Contents>,
    pub(super) after: Vec<Contents>,
}

impl Node {
    /// The node with this number, on a clock of its own; open, where the protocol has that.
    pub(super) fn new(number: u64, clock: Clockwork, plan: &Plan) -> Self {
        let mut store = Store::of(Process::new(number, EPOCH));
        if let Some(rules) = plan.rules().filter(|_| plan.workload != Workload::New) {
            let open = command::open(&rules, MarkerAction::Open);
            let open = open.in_full();
            let shows = EPOCH + Duration::from_nanos(clock.shows(0));
            assert_eq!(store.execute(&open, shows), Reply::Okay);
        }
        Self {
            clock,
            store,
            saved: Vec::new(),
            hung: 0,
            down: 0,
            forgets: false,
            forgot: None,
            life: 0,
            backlog: VecDeque::new(),
        }
    }

    /// Ends one cause of standing still; returns what is to be executed now.
    pub(super) fn go_on(&mut self) -> VecDeque<(usize, Message)> {
        self.hung -= 1;
        if self.hung > 0 || self.down > 0 {
            return VecDeque::new();
        }
        std::mem::take(&mut self.backlog)
    }

    pub(super) fn crash(&mut self, keeps: bool) {
        self.down += 1;
        self.forgets |= !keeps;
        self.disconnect();
    }

    pub(super) fn disconnect(&mut self) {
        self.life += 1;
        self.backlog.clear();
        self.store.leave_all();
    }

    /// Ends one cause of being down.
    pub(super) fn come_up(&mut self, now: Nanos) {
        self.down -= 1;
        if self.down > 0 {
            return;
        }
        if std::mem::take(&mut self.forgets) {
            // Until now nobody could be told that the keys are gone.
            self.flush(now);
        }
        let time = self.time(now);
        self.store.restart(time);
    }

    /// Ends one cause of being down: from now on another server is there, with nothing of what this one has saved.
    pub(super) fn is_replaced(&mut self, lag: Nanos, now: Nanos) {
        self.clock.falls_behind(lag);
        self.saved.iter_mut().for_each(Store::forget);
        self.come_up(now);
    }

    pub(super) fn flush(&mut self, now: Nanos) {
        self.forgot = Some(now);
        self.store.forget();
    }

    pub(super) fn save(&mut self) {
        self.saved.push(self.store.clone());
    }

    /// Ends, and comes up with what was saved first.
    pub(super) fn go_back(&mut self, now: Nanos) {
        let saved = self.saved.remove(0);
        self.store.go_back(saved);
        self.forgot = Some(now);
        let time = self.time(now);
        self.store.restart(time);
        self.disconnect();
    }

    /// Redis counts in milliseconds, so that a key may live for up to one less than it was told.
    pub(super) fn time(&self, now: Nanos) -> Duration {
        EPOCH + Duration::from_millis(self.clock.shows(now) / 1_000_000)
    }

    /// The first true time at which the clock of the store shows this or more.
    pub(super) fn when(&self, time: Duration) -> Nanos {
        self.clock.when(nanos(time.saturating_sub(EPOCH)))
    }

    pub(super) fn execute(&mut self, message: &Message, now: Nanos) -> Executed {
        let time = self.time(now);
        let contents = |node: &mut Self| {
            let keys = message.keys.iter();
            keys.map(|key| node.contents(key, now)).collect()
        };
        let before = contents(self);
        let reply = self.store.execute(&message.bytes, time);
        let after = contents(self);
        Executed {
            reply,
            before,
            after,
        }
    }

    /// The reply to a client that listens, if there is one at once; and else until when it listens.
    pub(super) fn listens(
        &mut self,
        connection: usize,
        message: &Message,
        now: Nanos,
    ) -> (Option<Reply>, Nanos) {
        let time = self.time(now);
        let reply = self.store.serve(connection, &message.bytes, time);
        let until = self.store.listens_until(connection).unwrap_or(time);
        (reply, self.when(until))
    }

    /// The connections of the clients that the last command has woken.
    pub(super) fn woken(&mut self, now: Nanos) -> Vec<(usize, Reply)> {
        let time = self.time(now);
        self.store.woken(time)
    }

    pub(super) fn contents(&mut self, key: &str, now: Nanos) -> Contents {
        let time = self.time(now);
        let Some(until) = self.store.get(key, time).map(|entry| entry.until) else {
            return Contents::default();
        };
        let entry = |value: &str, until| Entry {
            token: token_of(value).to_owned(),
            until,
        };
        if let Some(readers) = self.store.readers(key, time) {
            let entries = readers.map(|(value, until)| entry(value, until)).collect();
            // The key as well ends after its last ms.
            return Contents::new(entries, until.saturating_sub(MILLISECOND));
        }
        let value = self.store.value(key, time).unwrap_or_default();
        Contents::new(vec![entry(&value, until)], until)
    }

    /// Whether the marker is of the process that runs now.
    pub(super) fn has_its_marker(&mut self, rules: &Rules, now: Nanos) -> bool {
        let time = self.time(now);
        let marker = self.store.value(&rules.marker, time).unwrap_or_default();
        marker.starts_with(&self.store.run_id())
    }

    /// The true time at which this token has the key no longer, if it has it.
    pub(super) fn expiry(&mut self, key: &str, token: &str, now: Nanos) -> Option<Nanos> {
        let contents = self.contents(key, now);
        let own = contents.entry(token)?;
        Some(self.when(own.until))
    }
}
