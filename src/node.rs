//! One Redis instance as the algorithm sees it: what it is asked, each by a deadline, and what it says.
//!
//! `exchange` is one request and its reply, and has the table of its states; `together` is one request to several nodes at
//! once. Below are `request`, what is asked and the rules that go with it; `turn`, a slot that is checked out for a request;
//! `slot`, what the r2d2 pool holds: a place for one connection, and the rule when it must not be used again; `breaker`.
//! The packed commands are in `command` and `fence`. Above are the verbs, each with the reading of its replies: `acquire`,
//! `extend`, `release`, `inspect`, `wait`, `health`, and for the fenced protocol `fenced`. `identity` tells which server is
//! at the other end, and `echo` keeps what a server repeats out of messages.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use r2d2::{NopErrorHandler, Pool};
use scheduled_thread_pool::ScheduledThreadPool;

pub(crate) mod acquire;
mod breaker;
mod checkout;
pub(crate) mod command;
mod echo;
mod exchange;
pub(crate) mod extend;
pub(crate) mod fence;
pub(crate) mod fenced;
pub(crate) mod health;
mod identity;
pub(crate) mod inspect;
mod listeners;
mod probe;
pub(crate) mod release;
#[cfg(all(any(test, fuzzing), target_os = "linux"))]
pub(crate) mod reply_path;
mod request;
mod slot;
mod together;
pub(crate) mod wait;

use self::breaker::Breaker;
use self::listeners::Listeners;
use self::slot::Slots;
use crate::clock::{Clock, Timers, Timestamp};
use crate::error::{NodeError, NodeReport, Vote};
use crate::log_lines;
use crate::stats::NodeRecorder;
use crate::wire::resp::ServerError;
use crate::wire::transport::{Connect, clean};

/// A node: its connections, and what is known of its health.
pub(crate) struct Node {
    name: Arc<str>,
    pool: Pool<Slots>,
    connector: Box<dyn Connect>,
    timeout: Duration,
    clock: Clock,
    timers: Timers,
    /// Goes up when the server turns out to have closed connections: those opened before are discarded.
    generation: AtomicU64,
    breaker: Breaker,
    listeners: Listeners,
    pub(crate) stats: NodeRecorder,
    /// For the probes, which must not keep the node alive.
    me: Weak<Self>,
}

/// What a node is made with; everything but the first two is the same for all nodes of a manager.
pub(crate) struct Setup<'a> {
    pub(crate) name: Arc<str>,
    pub(crate) connector: Box<dyn Connect>,
    pub(crate) pool_size: u32,
    pub(crate) timeout: Duration,
    pub(crate) clock: &'a Clock,
    pub(crate) timers: &'a Timers,
    /// Where r2d2 makes its slots.
    pub(crate) thread: &'a Arc<ScheduledThreadPool>,
}

/// A node's answer to an acquire.
pub(crate) struct Ballot {
    pub(crate) report: NodeReport,
    /// Whether a key of this attempt may be on the node, so that it has to be released there.
    pub(crate) may_have_key: bool,
}

impl Node {
    pub(crate) fn new(setup: Setup<'_>) -> Arc<Self> {
        let pool = Pool::builder()
            .max_size(setup.pool_size)
            // All slots are made at once and never again, so that the thread is free for the probes.
            .min_idle(None)
            .idle_timeout(None)
            .max_lifetime(None)
            .test_on_check_out(false)
            .error_handler(Box::new(NopErrorHandler))
            .thread_pool(Arc::clone(setup.thread))
            .build_unchecked(Slots);
        Arc::new_cyclic(|me| Self {
            name: setup.name,
            pool,
            connector: setup.connector,
            timeout: setup.timeout,
            clock: setup.clock.clone(),
            timers: setup.timers.clone(),
            generation: AtomicU64::new(0),
            breaker: Breaker::default(),
            listeners: Listeners::default(),
            stats: NodeRecorder::default(),
            me: Weak::clone(me),
        })
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    pub(crate) fn report(
        &self,
        vote: Vote,
        elapsed: Duration,
        server: Option<Arc<str>>,
    ) -> NodeReport {
        NodeReport {
            node: Arc::clone(&self.name),
            vote,
            elapsed,
            server,
        }
    }

    /// The ballot of a node that is left out.
    pub(crate) fn unasked(&self, vote: Vote) -> Ballot {
        Ballot {
            report: self.report(vote, Duration::ZERO, None),
            may_have_key: false,
        }
    }

    /// Whether the node has not failed lately.
    pub(crate) fn is_closed(&self) -> bool {
        !self.breaker.is_open()
    }

    /// How the node failed lately, if it did.
    pub(crate) fn recent_failure(&self) -> Option<Arc<str>> {
        self.breaker.failure()
    }

    /// Opens the breaker if the error is one of the node.
    fn note(&self, error: &NodeError) {
        if !error.is_of_node() {
            return;
        }
        if let Some(probe) = self.breaker.trip(|| error.to_string()) {
            // Before the program's logger has a chance to panic.
            self.schedule(probe);
            self.stats.opened.count();
            log_lines::node_opened(&self.name, error);
        }
    }

    /// Notes that the node has answered.
    fn answered(&self) {
        if self.breaker.close() {
            self.stats.closed.count();
            log_lines::node_closed(&self.name);
        }
    }

    /// Discards the idle connections of `generation` and before.
    fn retire(&self, generation: u64) {
        // When another thread was first, its connections of the next generation are good.
        let next = generation.wrapping_add(1);
        let _already_retired =
            self.generation
                .compare_exchange(generation, next, Ordering::AcqRel, Ordering::Acquire);
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }
}

impl Ballot {
    fn new(report: NodeReport, may_have_key: bool) -> Self {
        Self {
            report,
            may_have_key,
        }
    }

    /// Whether the node was not asked because it failed a moment ago.
    pub(crate) fn is_left_out(&self) -> bool {
        self.report.vote.is_left_out()
    }
}

fn refused(error: &ServerError) -> Vote {
    Vote::Failed(refusal(error))
}

fn refusal(error: &ServerError) -> NodeError {
    NodeError::Refused {
        code: clean(&error.code),
        message: clean(&error.message),
    }
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node")
            .field("name", &self.name)
            .field("closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}
