//! Waiting at one node for the release of a lock that another client holds.
//!
//! A release that is reported is a hint only. The client asks for the lock after each hint, and without one a little later.

use std::time::Duration;

use super::Node;
use super::command;
use super::request::{Kind, Request, Rule};
use super::round::exchange;
use crate::sync::AtomicBool;
use crate::wire::resp::Reply;

/// How late an idle server ends a blocking command: it checks ten times a second.
const SERVER_TICK: Duration = Duration::from_millis(100);

/// What a node says of a lock that a client waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LookReply {
    /// Of the slot that is free first, if it is a semaphore.
    pub(crate) state: LockState,
    /// Whether a release of the lock is going to wake a client.
    pub(crate) is_announced: bool,
    /// The slots of the semaphore that the node would grant.
    pub(crate) free: Vec<u32>,
    /// Of several resources, the place of the one that this is about: the first that is not free.
    pub(crate) place: usize,
}

/// What a client waits for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Target<'t> {
    /// The lock with this key.
    Lock(&'t str),
    /// The lock with this key, as a reader.
    Read(&'t str),
    /// The lock with all of these keys.
    All(&'t [String]),
    /// A slot of the semaphore with so many permits. The keys of all slots begin with this.
    Slots(&'t str, u32),
}

impl Target<'_> {
    /// How many slots it has, if it is a semaphore.
    fn permits(self) -> Option<u32> {
        if let Self::Slots(_, permits) = self {
            Some(permits)
        } else {
            None
        }
    }

    /// The key of the bell that rings when it is free; of several resources, when the one at this place is.
    pub(crate) fn bell(self, place: usize) -> String {
        match self {
            Self::All(keys) => command::bell(keys.get(place).map_or("", String::as_str)),
            Self::Lock(key) | Self::Slots(key, _) => command::bell(key),
            Self::Read(key) => command::readers_bell(key),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LockState {
    /// The node would grant the lock.
    Free,
    /// The node would grant the lock, and no woken client has come for it. There is nobody to yield to.
    Deserted,
    /// The node has the lock for this long.
    Held(Duration),
    /// The node has a key that never expires.
    Stuck,
}

/// What a client does when the lock is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WhenFree {
    /// Asks for the lock.
    Take,
    /// Lets the client have it that it has just woken.
    Yield,
    /// Keeps new readers out, and waits for those that have it on other nodes.
    Intend,
}

/// What listening for a release has led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListenOutcome {
    /// The lock was probably released.
    Release,
    /// No release in all that time.
    Nothing,
    /// The node did not answer, or refused.
    Failed,
}

/// The right to keep one of a node's connections busy with listening.
pub(crate) struct Listener<'n> {
    node: &'n Node,
}

impl Node {
    /// Lets one more client listen. Half of the connections are left for others, and the server must not forbid it.
    pub(crate) fn listener(&self) -> Option<Listener<'_>> {
        let most = self.pool.max_size() / 2;
        let joined = self.listeners.join(most, self.generation());
        // Made only then, because dropping a listener counts one less.
        joined.then(|| Listener { node: self })
    }

    /// Asks the node for how long it has a lock. Announces that a client waits, for `span`, the server's tick and a node timeout; a
    /// span of zero announces nothing. A free lock is announced only by a client that does not take it. Where an intent alone is
    /// left, it is for `span` and a node timeout. None if the node does not tell.
    pub(crate) fn look(
        &self,
        target: Target<'_>,
        span: Duration,
        when_free: WhenFree,
    ) -> Option<LookReply> {
        let announced = match span {
            Duration::ZERO => span,
            // Nobody listens, and an intent that is left over would keep readers out for nothing.
            span if when_free == WhenFree::Intend => span.saturating_add(self.timeout),
            // The next look comes when the listening has ended.
            span => span
                .saturating_add(SERVER_TICK)
                .saturating_add(self.timeout),
        };
        let permits = target.permits();
        let command = command::look(target, announced, when_free);
        if let Target::All(keys) = target {
            let accepts = |reply: &Reply, count: usize| {
                matches!(reply, Reply::Error(_)) || look_at_all(reply, count).is_some()
            };
            let rule = Rule::new(accepts, keys.len());
            let answer = exchange(self, &Request::new(&command, Kind::Brief, rule));
            return look_at_all(&answer.result.ok()?, keys.len());
        }
        // A server that refuses, or is loading, has answered.
        let accepts = |reply: &Reply, permits: usize| {
            let permits = u32::try_from(permits).ok().filter(|permits| *permits > 0);
            matches!(reply, Reply::Error(_)) || look(reply, permits).is_some()
        };
        let number = permits.and_then(|permits| usize::try_from(permits).ok());
        let rule = Rule::new(accepts, number.unwrap_or_default());
        let answer = exchange(self, &Request::new(&command, Kind::Brief, rule));
        look(&answer.result.ok()?, permits)
    }
}

impl Listener<'_> {
    /// Waits until this bell rings for `span`, for no longer than `longest` in all, and until the flag `given_up` is set. Keeps a
    /// connection busy meanwhile.
    pub(crate) fn listen(
        &self,
        bell: &str,
        span: Duration,
        longest: Duration,
        given_up: Option<&AtomicBool>,
    ) -> ListenOutcome {
        if span < command::SHORTEST_LISTENING {
            return ListenOutcome::Failed;
        }
        let until = self.node.now().saturating_add(span);
        let late = SERVER_TICK.saturating_add(self.node.timeout);
        let command = command::listen(bell, span);
        let kind = Kind::Listen {
            bell,
            until,
            patience: span.saturating_add(late).min(longest),
            given_up,
        };
        let request = Request::new(&command, kind, Rule::any());
        match exchange(self.node, &request).result {
            Ok(Reply::Array(_)) => ListenOutcome::Release,
            Ok(Reply::Nil) => ListenOutcome::Nothing,
            Ok(reply) => {
                if is_refusal(&reply) {
                    self.node.listeners.refuse(self.node.generation());
                }
                ListenOutcome::Failed
            }
            Err(_) => ListenOutcome::Failed,
        }
    }
}

impl Drop for Listener<'_> {
    fn drop(&mut self) {
        self.node.listeners.leave();
    }
}

/// Whether the server would refuse for any lock: no permission, or no such command.
fn is_refusal(reply: &Reply) -> bool {
    matches!(reply, Reply::Error(error) if matches!(error.code.as_str(), "NOPERM" | "ERR"))
}

/// Reads the reply of `LOOK_ALL`: the place of a key, from 1, and what look.lua says of it.
fn look_at_all(reply: &Reply, count: usize) -> Option<LookReply> {
    let Reply::Array(items) = reply else {
        return None;
    };
    let (Reply::Int(place), look) = items.split_first()? else {
        return None;
    };
    let place = usize::try_from(*place).ok()?.checked_sub(1)?;
    let look = look_in(look, None)?;
    (place < count).then_some(LookReply { place, ..look })
}

/// Reads the reply of look.lua.
fn look(reply: &Reply, permits: Option<u32>) -> Option<LookReply> {
    if let Reply::Array(items) = reply {
        look_in(items, permits)
    } else {
        None
    }
}

fn look_in(items: &[Reply], permits: Option<u32>) -> Option<LookReply> {
    let [Reply::Int(left), Reply::Int(announced @ 0..=1), rest @ ..] = items else {
        return None;
    };
    let free = match (rest, permits) {
        ([], None) => Vec::new(),
        ([Reply::Bulk(slots)], Some(permits)) => free_slots(slots, permits)?,
        _ => return None,
    };
    let state = match left {
        -2 => LockState::Free,
        -1 => LockState::Stuck,
        -3 => LockState::Deserted,
        0.. => LockState::Held(Duration::from_millis(left.unsigned_abs())),
        _ => return None,
    };
    Some(LookReply {
        state,
        is_announced: *announced == 1,
        free,
        place: 0,
    })
}

/// Reads `1` for each free slot, and `0` for each other.
fn free_slots(slots: &[u8], permits: u32) -> Option<Vec<u32>> {
    let is_whole =
        slots.iter().all(|slot| b"01".contains(slot)) && u32::try_from(slots.len()) == Ok(permits);
    let free = (0..permits).zip(slots).filter(|(_, slot)| **slot == b'1');
    is_whole.then(|| free.map(|(slot, _)| slot).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::clock::{Clock, FakeClock, Timers, Timestamp, one_thread};
    use crate::error::NodeError;
    use crate::node::{Setup, lanes};
    use crate::wire::resp::ServerError;
    use crate::wire::transport::{Connect, Transport};

    #[test]
    fn anything_but_the_answers_of_the_script_is_none() {
        let int = Reply::Int;
        let read = |items: &[Reply]| look(&Reply::Array(items.to_vec()), None);
        let state = |left| read(&[int(left), int(0)]).map(|look| look.state);
        assert_eq!(state(-2), Some(LockState::Free));
        assert_eq!(state(-1), Some(LockState::Stuck));
        assert_eq!(state(0), Some(LockState::Held(Duration::ZERO)));
        assert_eq!(
            state(1500),
            Some(LockState::Held(Duration::from_millis(1500)))
        );
        assert_eq!(state(-3), Some(LockState::Deserted));
        assert_eq!(state(-4), None);
        let announced = |number| read(&[int(5), int(number)]).map(|look| look.is_announced);
        assert_eq!(announced(0), Some(false));
        assert_eq!(announced(1), Some(true));
        assert_eq!(announced(2), None);
        assert_eq!(read(&[int(5)]), None);
        assert_eq!(read(&[int(5), int(1), int(1)]), None);
        assert_eq!(read(&[int(5), Reply::Nil]), None);
        assert_eq!(look(&int(5), None), None);
        assert_eq!(look(&Reply::Nil, None), None);
    }

    #[test]
    fn the_free_slots_are_read_and_have_to_be_as_many_as_there_are_permits() {
        let int = Reply::Int;
        let read = |slots: &str, permits| {
            let items = vec![int(-2), int(0), Reply::Bulk(slots.into())];
            look(&Reply::Array(items), permits).map(|look| look.free)
        };
        assert_eq!(read("101", Some(3)), Some(vec![0, 2]));
        assert_eq!(read("000", Some(3)), Some(vec![]));
        for (slots, permits) in [
            ("101", Some(4)),
            ("101", Some(2)),
            ("101", None),
            ("1 1", Some(3)),
            ("", Some(1)),
        ] {
            assert_eq!(read(slots, permits), None, "{slots} {permits:?}");
        }
        let without = Reply::Array(vec![int(-2), int(0)]);
        assert_eq!(look(&without, Some(3)), None);
    }

    /// A server that is never reached, and how often that was tried.
    #[derive(Default)]
    struct Away(Arc<AtomicU32>);

    impl Connect for Away {
        fn connect(&self, _: Timestamp) -> Result<Box<dyn Transport>, NodeError> {
            self.0.fetch_add(1, Ordering::SeqCst);
            Err(NodeError::TimedOut)
        }
    }

    fn node(pool_size: u32, tries: &Arc<AtomicU32>) -> Arc<Node> {
        Node::new(Setup {
            name: "node".into(),
            connector: Box::new(Away(Arc::clone(tries))),
            pool_size,
            common_lanes: Arc::new(lanes(pool_size)),
            timeout: Duration::from_secs(1),
            clock: &Clock::system(),
            timers: &Timers::Virtual(Arc::new(FakeClock::new())),
            thread: &one_thread("listeners"),
        })
    }

    #[test]
    fn half_of_the_connections_are_left_for_others() {
        for (connections, listening) in [(1, 0), (2, 1), (3, 1), (5, 2)] {
            let node = node(connections, &Arc::default());
            let mut joined: Vec<_> = (0..listening).map(|_| node.listener().unwrap()).collect();
            assert!(node.listener().is_none());
            if joined.pop().is_some() {
                assert!(node.listener().is_some());
            }
        }
    }

    #[test]
    fn for_less_than_the_shortest_time_nobody_is_asked() {
        let tries = Arc::default();
        let node = node(2, &tries);
        let listener = node.listener().unwrap();
        let shortest = command::SHORTEST_LISTENING;
        for (span, expected) in [(shortest / 2, 0), (shortest, 1), (shortest * 2, 2)] {
            let outcome = listener.listen("bell", span, Duration::from_secs(9), None);
            assert_eq!(outcome, ListenOutcome::Failed);
            assert_eq!(tries.load(Ordering::SeqCst), expected);
        }
    }

    #[test]
    fn a_server_refuses_to_block_by_these_errors_alone() {
        let error = |text: &str| Reply::Error(ServerError::new(text));
        for text in ["NOPERM no", "ERR unknown command"] {
            assert!(is_refusal(&error(text)));
        }
        for reply in [error("LOADING wait"), Reply::Okay, Reply::Int(1)] {
            assert!(!is_refusal(&reply), "{reply:?}");
        }
    }

    #[test]
    fn each_target_has_the_bell_of_what_is_in_the_way() {
        let keys = ["a", "b"].map(str::to_owned);
        assert_eq!(Target::All(&keys).bell(1), command::bell("b"));
        assert_eq!(Target::Lock("a").bell(0), command::bell("a"));
        assert_eq!(Target::Slots("a", 3).bell(0), command::bell("a"));
        assert_eq!(Target::Read("a").bell(0), command::readers_bell("a"));
        let bells = [
            command::bell("a"),
            command::bell("b"),
            command::readers_bell("a"),
        ];
        assert!(
            bells.iter().all(|bell| bell.contains(['a', 'b'])),
            "{bells:?}"
        );
        assert!(bells[0] != bells[1] && bells[0] != bells[2]);
    }

    #[test]
    fn a_look_at_several_says_about_which_one_it_is() {
        let read = |place| {
            let items = [place, -2, 0].map(Reply::Int).to_vec();
            look_at_all(&Reply::Array(items), 2).map(|look| look.place)
        };
        assert_eq!([0, 1, 2, 3].map(read), [None, Some(0), Some(1), None]);
    }
}
