//! Calls that wait, in words: what was said, and what comes next.

use std::sync::Arc;

use super::super::*;
use crate::claim::{Claim, Kind};
use crate::error::{NodeError, NodeReport, Vote};

pub(super) const DELAY: Duration = Duration::from_millis(100);

/// What is left for a call that is not late.
const LONG: Duration = Duration::from_secs(1);

/// What a node said: `g` grants the lock, `h` holds it for another and `H` also says for how long, `r` has readers (of the resource
/// `b`, if there are several), `w` has a writer that waits, `m` has no key. `s` is silent, `o` silent on an old connection, `b` left
/// out, `q` in quarantine, `f` full; `k` has a key that is no lock, `t` another fencing token, `x` a wrong clock, and `-` was not
/// asked.
fn vote(says: char) -> Vote {
    let failure = match says {
        'g' => return Vote::Granted,
        'h' => return Vote::held(None),
        'H' => return Vote::held(Some(DELAY)),
        'r' => {
            return Vote::Read {
                readers: 1,
                first: None,
                last: DELAY,
                resource: Some("b".into()),
            };
        }
        'w' => return Vote::WriterWaits { remaining: DELAY },
        'm' => return Vote::Missing,
        't' => return Vote::Stale { counter: 7 },
        '-' => return Vote::NotAsked,
        's' | 'o' => NodeError::TimedOut {
            option: None,
            limit: Duration::ZERO,
            took: None,
            idle: Some(DELAY).filter(|_| says == 'o'),
            lacks_handshake: false,
        },
        'b' => NodeError::BreakerOpen { failure: "".into() },
        'q' => NodeError::Quarantined {
            remaining: DELAY,
            has_marker: true,
        },
        'f' => NodeError::Refused {
            code: "OOM".into(),
            message: String::new(),
        },
        'x' => NodeError::ClockSkew {
            difference: DELAY,
            node_is_ahead: true,
            allowed: DELAY,
        },
        _ => NodeError::never_expires(None, None),
    };
    Vote::Failed(failure)
}

/// `Held` by these votes; `Unavailable` behind a `!`, and `NotALock` behind a `?`.
pub(super) fn error(says: &str) -> Error {
    let (resource, waited) = ("job".into(), Duration::ZERO);
    let votes = says.trim_start_matches(['!', '?']).chars().map(vote);
    let report = |vote| NodeReport::new(&"n".into(), vote, Duration::ZERO);
    let nodes = votes.map(report).collect();
    match says.chars().next() {
        Some('!') => Error::Unavailable {
            resource,
            waited,
            nodes,
        },
        Some('?') => Error::NotALock {
            resource,
            waited,
            nodes,
        },
        _ => Error::Held {
            resource,
            permits: None,
            waited,
            holder: None,
            nodes,
        },
    }
}

/// A lock, a reader, several resources, and a permit of three.
pub(super) fn resource(kind: &str) -> Resource {
    let names = ["a", "b", "c"].map(Arc::from);
    let kind = match kind {
        "lock" => Kind::Lock,
        "read" => Kind::Read,
        "several" => Kind::Several(names.into()),
        _ => Kind::Permit(3),
    };
    Resource::clone(&Claim::of_kind("job", kind).resource)
}

fn slots(text: &str) -> Vec<u32> {
    let slots = text.split(',').filter(|slot| !slot.is_empty());
    slots.map(|slot| slot.parse().unwrap()).collect()
}

/// A call, what it does next, and what the present look is for.
pub(super) struct Scene<'s> {
    pub(super) wait: Wait<'s>,
    when_free: WhenFree,
}

impl<'s> Scene<'s> {
    pub(super) fn new(resource: &'s Resource, waits: bool) -> Self {
        Self {
            wait: Wait::new(resource, waits),
            when_free: WhenFree::Take,
        }
    }

    /// What comes next after an event, in words. With `late` in front of it, the time is over.
    ///
    /// A look is `held 30 @1` where node 1 says that the lock is held for 30 ms; `free 0,2 @1` tells of free slots.
    pub(super) fn after(&mut self, event: &str) -> String {
        let is_late = event.starts_with("late");
        let left = if is_late { Duration::ZERO } else { LONG };
        let event = event.trim_start_matches("late").trim();
        let (words, index) = event.split_once('@').unwrap_or((event, "0"));
        let (word, rest) = words.trim().split_once(' ').unwrap_or((words.trim(), ""));
        let wait = &mut self.wait;
        let state = match word {
            "held" => Some(LockState::Held(Duration::from_millis(
                rest.parse().unwrap(),
            ))),
            "free" => Some(LockState::Free),
            "deserted" => Some(LockState::Deserted),
            "stuck" => Some(LockState::Stuck),
            _ => None,
        };
        let look = |state| LookReply {
            state,
            is_announced: true,
            free: if word == "held" {
                Vec::new()
            } else {
                slots(rest)
            },
            index: 0,
        };
        let sighting = state.map(|state| Sighting {
            index: index.parse().unwrap(),
            look: look(state),
            delay: DELAY,
        });
        let next = match word {
            "turn" => wait.start(Start::Turn),
            "yield" => wait.start(Start::Yield),
            "called-off" => wait.start(Start::CalledOff),
            "go" => wait.start(Start::Unqueued(Reach::ArbiterFirst)),
            "read" => wait.start(Start::Unqueued(Reach::AllNodes)),
            "slots" => wait.found(slots(rest), false, left),
            "taken" => wait.found(slots(rest), true, left),
            "rang" => wait.listened(ListenOutcome::Release, left),
            "quiet" => wait.listened(ListenOutcome::Nothing, left),
            "deaf" => wait.listened(ListenOutcome::Failed, left),
            "paused" => wait.paused(left),
            "none" => wait.looked(self.when_free, None, left),
            _ if sighting.is_some() => wait.looked(self.when_free, sighting, left),
            votes => wait.refused(error(votes), left),
        };
        if let Do::Look(when_free, _) = next {
            self.when_free = when_free;
        }
        in_words(&next)
    }

    /// The nodes at which a look is useless.
    pub(super) fn useless(&self) -> String {
        let nodes = (0..3).filter(|index| self.wait.passed_over.contains(index));
        nodes.map(|index| index.to_string()).collect()
    }

    /// Goes through `event -> what comes next` and so on.
    pub(super) fn play(&mut self, script: &str) {
        for step in script.split(';') {
            let (event, expected) = step.split_once("->").unwrap();
            assert_eq!(
                self.after(event.trim()),
                expected.trim(),
                "{step} in {script}"
            );
        }
    }
}

fn in_words(next: &Do) -> String {
    match next {
        Do::Attempt(reach, slot) => {
            let nodes = match reach {
                Reach::AllNodes => "all",
                Reach::ArbiterFirst => "first",
            };
            slot.map_or(nodes.to_owned(), |slot| format!("{nodes} {slot}"))
        }
        Do::Queue => "queue".into(),
        Do::FindSlots(permits) => format!("find {permits}"),
        Do::Look(WhenFree::Take, _) => "look".into(),
        Do::Look(WhenFree::Yield, _) => "look politely".into(),
        Do::Look(WhenFree::Intend, index) => format!("intend {}", index.unwrap()),
        Do::Listen(span) => format!("listen {}", span.as_millis()),
        Do::Pause => "pause".into(),
        Do::End(_) => "end".into(),
    }
}
