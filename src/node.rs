//! One Redis instance as the algorithm sees it: acquire, extend and release, each by a deadline.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use r2d2::{NopErrorHandler, Pool};
use redis::Value;
use scheduled_thread_pool::ScheduledThreadPool;

pub(crate) mod address;
mod breaker;
mod call;
pub(crate) mod command;
mod resolve;
mod slot;
mod socket;
#[cfg(feature = "tls-rustls")]
mod tls;
pub(crate) mod transport;

use self::breaker::{Breaker, Probe};
use self::call::Call;
use self::command::Command;
use self::slot::Slots;
use self::transport::{Connect, Fault, clean};
use crate::clock::{Clock, Timers};
use crate::error::{NodeError, NodeReport, Vote};

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
    pub(crate) owed: bool,
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
            me: Weak::clone(me),
        })
    }

    pub(crate) fn report(&self, vote: Vote, elapsed: Duration) -> NodeReport {
        NodeReport {
            node: Arc::clone(&self.name),
            vote,
            elapsed,
        }
    }

    /// The ballot of a node that is left out.
    pub(crate) fn unasked(&self, vote: Vote) -> Ballot {
        Ballot {
            report: self.report(vote, Duration::ZERO),
            owed: false,
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

    /// Asks the node for its vote. `set` and `release` are the packed commands of this attempt.
    pub(crate) fn acquire(
        &self,
        attempt: Command<'_>,
        ttl: Duration,
        set: &[u8],
        release: &[u8],
    ) -> Ballot {
        let started = self.clock.now();
        let again = || attempt.retake(ttl);
        let ballot = |vote, owed| Ballot {
            report: self.report(vote, self.clock.now().saturating_since(started)),
            owed,
        };
        let mut call = match self.call() {
            Ok(call) => call,
            Err(fault) => return ballot(fault.into_vote(), false),
        };
        // A command that was not sent whole is not executed, so nothing is owed yet.
        if let Err(fault) = call.send(set, &again) {
            return ballot(fault.into_vote(), false);
        }
        let fault = match call.reply(&again, acquire_vote) {
            Ok(vote) => return ballot(vote, true),
            Err(fault) => fault,
        };
        // The outcome is unknown. The undo goes behind the command, on the same connection: on another one it could
        // arrive first, and the key would stay.
        let undone = call.undo(release, &fault);
        ballot(fault.into_vote(), !undone)
    }

    /// Checks a slot out of the pool, without any I/O beyond a look whether its connection is still open.
    fn call(&self) -> Result<Call<'_>, Fault> {
        Call::new(self)
    }

    /// Opens the breaker if the fault is one of the node.
    fn note(&self, fault: &Fault) {
        if !fault.is_of_node() {
            return;
        }
        if let Some(probe) = self.breaker.trip(|| fault.to_string()) {
            log::warn!(
                "node {} failed ({fault}); left out until it answers again",
                self.name
            );
            self.schedule(probe);
        }
    }

    /// Notes that the node has answered.
    fn answered(&self) {
        if self.breaker.close() {
            log::info!("node {} answers again", self.name);
        }
    }

    fn schedule(&self, probe: Probe) {
        let me = Weak::clone(&self.me);
        self.timers.after(probe.after, move || {
            if let Some(node) = me.upgrade() {
                node.probe(probe);
            }
        });
    }

    /// Sends a real command, off the callers' path: a stopped server still accepts connections.
    fn probe(&self, probe: Probe) {
        if !self.breaker.wants(probe) {
            return;
        }
        let ping = command::ping();
        let answer = self.call().and_then(|mut call| {
            call.send(&ping, &|| ping.clone())?;
            call.reply(&|| ping.clone(), is_alive)
        });
        if answer.is_err()
            && let Some(next) = self.breaker.probe_failed(probe)
        {
            self.schedule(next);
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

    fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }
}

/// How long the reading of replies stays with a node that has not answered while others may have.
const PATIENCE: Duration = Duration::from_millis(2);

/// Sends one command to every node that is asked, before it reads any reply: one round trip for all.
///
/// The command is one of those that act on our own key (release, extend). Neither a breaker nor a pool without a free
/// connection stands in its way: a node that has our key must hear of it. Returns a report for each node, in order; those that are not asked have nothing of this lock.
pub(crate) fn ask_all<'n>(
    nodes: impl Iterator<Item = (&'n Node, bool)> + Clone,
    command: &[u8],
) -> Vec<NodeReport> {
    let again = || command.to_vec();
    // First on the open connections: connecting to a dead node takes time, and must not delay the others.
    let mut steps: Vec<Step<'n>> = nodes
        .clone()
        .map(|(node, asked)| {
            let mut step = Step::new(node, asked);
            step.advance(|call| call.is_warm().then(|| call.send(command, &again)));
            step
        })
        .collect();
    for step in &mut steps {
        step.advance(|call| {
            (!call.is_sent()).then(|| {
                call.renew_deadline();
                call.send(command, &again)
            })
        });
    }
    // First from those that have answered: a node that hangs must not keep the connections to the others busy.
    for step in &mut steps {
        step.finish(|call| {
            call.is_ready(PATIENCE)
                .then(|| call.reply(&again, own_key_vote))
        });
    }
    for step in &mut steps {
        step.finish(|call| Some(call.reply(&again, own_key_vote)));
    }
    let reports = steps.into_iter().zip(nodes);
    reports.map(|(step, (node, _))| step.report(node)).collect()
}

/// Where one node is in [`ask_all`].
enum Step<'n> {
    UnderWay(Call<'n>),
    Ended(Vote, Duration),
}

impl<'n> Step<'n> {
    fn new(node: &'n Node, asked: bool) -> Self {
        if !asked {
            return Self::Ended(Vote::NotAsked, Duration::ZERO);
        }
        Self::UnderWay(Call::insistent(node))
    }

    /// Does something with a call that is under way, which ends if that fails.
    fn advance(&mut self, act: impl FnOnce(&mut Call<'n>) -> Option<Result<(), Fault>>) {
        self.finish(|call| match act(call)? {
            Ok(()) => None,
            Err(fault) => Some(Err(fault)),
        });
    }

    /// Does something with a call that is under way, which ends if there is a result.
    fn finish(&mut self, act: impl FnOnce(&mut Call<'n>) -> Option<Result<Vote, Fault>>) {
        if let Self::UnderWay(call) = self
            && let Some(result) = act(call)
        {
            *self = Self::Ended(result.unwrap_or_else(Fault::into_vote), call.elapsed());
        }
    }

    fn report(self, node: &Node) -> NodeReport {
        match self {
            Self::Ended(vote, elapsed) => node.report(vote, elapsed),
            Self::UnderWay(call) => node.report(Vote::TimedOut, call.elapsed()),
        }
    }
}

/// Reads the reply to `SET NX` or retake.lua. Only `+OK` is a vote.
fn acquire_vote(reply: &Value) -> Option<Vote> {
    match reply {
        Value::Okay => Some(Vote::Granted),
        Value::Nil => Some(Vote::Held { remaining: None }),
        Value::ServerError(error) => Some(refused(error)),
        Value::Int(_) | _ => None,
    }
}

/// Reads the reply of release.lua or extend.lua.
fn own_key_vote(reply: &Value) -> Option<Vote> {
    let why_not = match reply {
        Value::Int(1) => return Some(Vote::Granted),
        Value::ServerError(error) => return Some(refused(error)),
        Value::Array(items) => items.as_slice(),
        Value::Nil | _ => &[],
    };
    match why_not {
        [Value::Int(-2)] => Some(Vote::Missing),
        [Value::Int(-1)] => Some(not_a_lock("never expires")),
        [Value::Int(-3)] => Some(not_a_lock("holds a value of another type")),
        [Value::Int(pttl @ 0..)] => Some(Vote::Held {
            remaining: Some(Duration::from_millis(pttl.unsigned_abs())),
        }),
        _ => None,
    }
}

/// Reads the reply to `PING`. A server that refuses it with an error is alive too.
fn is_alive(reply: &Value) -> Option<()> {
    match reply {
        Value::SimpleString(text) if text == "PONG" => Some(()),
        Value::ServerError(_) => Some(()),
        Value::Nil | _ => None,
    }
}

fn not_a_lock(reason: &'static str) -> Vote {
    Vote::Failed(NodeError::NotALock { reason })
}

fn refused(error: &redis::ServerError) -> Vote {
    Vote::Failed(NodeError::Refused {
        code: clean(error.code()),
        message: clean(error.details().unwrap_or_default()),
    })
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node")
            .field("name", &self.name)
            .field("closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}
