//! The cargo feature `tracing`: a span for each call for a lock, and one for each call of a node below it.

use std::fmt::Debug;
use std::mem::take;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use redlatch::fake::FakeNode;
use redlatch::{Fanout, LockManager};
use redlatch_testing::{eventually, is_alone};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};
use tracing_core::span::Current;

use crate::fakes::operations::broken::assert_harmless;
use crate::managers::over_fakes;

const TTL: Duration = Duration::from_secs(10);

/// A subscriber that notes what happens; or one that panics at one of its callbacks, or at all of them behind the making of a span.
#[derive(Default, Clone)]
struct Spans {
    noted: Arc<Mutex<Noted>>,
    panics_at: Option<&'static str>,
}

#[derive(Default)]
struct Noted {
    /// Each line begins with the number of the span, and a line about a field ends with its value.
    notes: Vec<String>,
    /// With the number of their owners.
    made: Vec<(&'static Metadata<'static>, u32)>,
    entered: Vec<Id>,
    panics: u32,
}

const EVERYWHERE: &str = "everywhere";

impl Spans {
    /// Panics there, or returns where something is noted, if anything is.
    fn at(&self, callback: &str) -> Option<MutexGuard<'_, Noted>> {
        // Else there is nothing else that it is called for.
        let is_begin = matches!(callback, "enabled" | "new_span");
        let is_everywhere = self.panics_at == Some(EVERYWHERE);
        let mut noted = self.noted.lock();
        if self.panics_at == Some(callback) || (is_everywhere && !is_begin) {
            noted.panics += 1;
            panic!("a subscriber that is broken at {callback}");
        }
        self.panics_at.is_none().then_some(noted)
    }
}

impl Noted {
    fn note(&mut self, id: &Id, what: &str) {
        self.notes.push(format!("{} {what}", id.into_u64()));
    }
}

fn place(id: &Id) -> usize {
    usize::try_from(id.into_u64()).unwrap() - 1
}

/// Notes the fields of a span.
struct Fields<'a>(&'a mut Noted, &'a Id);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.note(self.1, &format!("{field} {value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.note(self.1, &format!("{field} {value}"));
    }
}

impl Subscriber for Spans {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        // So that it is asked each time.
        Interest::sometimes()
    }

    fn enabled(&self, _: &Metadata<'_>) -> bool {
        self.at("enabled");
        true
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let Some(mut noted) = self.at("new_span") else {
            return Id::from_u64(1);
        };
        let about = attributes.metadata();
        noted.made.push((about, 1));
        let id = Id::from_u64(noted.made.len().try_into().unwrap());
        let (level, target, name) = (about.level(), about.target(), about.name());
        let parent = attributes.parent().map_or(0, Id::into_u64);
        noted.note(&id, &format!("below {parent}: {level} {target} {name}"));
        attributes.record(&mut Fields(&mut noted, &id));
        id
    }

    fn record(&self, id: &Id, values: &Record<'_>) {
        if let Some(mut noted) = self.at("record") {
            values.record(&mut Fields(&mut noted, id));
        }
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, id: &Id) {
        if let Some(mut noted) = self.at("enter") {
            noted.entered.push(id.clone());
        }
    }

    fn exit(&self, id: &Id) {
        if let Some(mut noted) = self.at("exit") {
            assert_eq!(noted.entered.pop().as_ref(), Some(id));
        }
    }

    fn clone_span(&self, id: &Id) -> Id {
        if let Some(span) = self.noted.lock().made.get_mut(place(id)) {
            span.1 += 1;
        }
        id.clone()
    }

    fn try_close(&self, id: Id) -> bool {
        let Some(mut noted) = self.at("try_close") else {
            return true;
        };
        let owners = &mut noted.made[place(&id)].1;
        *owners -= 1;
        let is_over = *owners == 0;
        if is_over {
            noted.note(&id, "ends");
        }
        is_over
    }

    fn current_span(&self) -> Current {
        let noted = self.noted.lock();
        let current = |id: &Id| Current::new(id.clone(), noted.made[place(id)].0);
        noted.entered.last().map_or_else(Current::none, current)
    }
}

/// What is noted while this is done: all spans have been left, and have ended.
fn notes_of(job: impl FnOnce()) -> Vec<String> {
    let spans = Spans::default();
    tracing::subscriber::with_default(spans.clone(), job);
    let noted = take(&mut *spans.noted.lock());
    assert!(noted.entered.is_empty());
    let ends = noted.notes.iter().filter(|note| note.ends_with(" ends"));
    assert_eq!(ends.count(), noted.made.len(), "{:?}", noted.notes);
    noted.notes
}

/// Whether a span is wanted is asked once and remembered, and another test that is the first to come to it at the moment when this one
/// begins to listen says no. So it is alone.
#[test]
fn a_call_for_a_lock_has_a_span_with_its_end_and_with_those_of_the_nodes_below_it_and_none_has_a_token()
 {
    if !is_alone(
        "operations::spans::a_call_for_a_lock_has_a_span_with_its_end_and_with_those_of_the_nodes_below_it_and_none_has_a_token",
    ) {
        return;
    }
    let (_, nodes, manager) = over_fakes(3);
    nodes[1].refuse();
    let mut guard = None;
    let told = notes_of(|| guard = manager.lock("job", TTL).ok());
    let mut expected = vec![
        "1 below 0: INFO redlatch::lock redlatch.lock".to_owned(),
        "1 resource job".to_owned(),
        "1 ttl 10s".to_owned(),
    ];
    let down = "no connection: connection refused";
    for ((node, id), outcome) in nodes.iter().zip(2..).zip(["answered", down, "answered"]) {
        expected.extend([
            format!("{id} below 1: DEBUG redlatch::node redlatch.node"),
            format!("{id} node {}", node.name()),
            format!("{id} command acquire"),
            format!("{id} outcome {outcome}"),
            format!("{id} ends"),
        ]);
    }
    expected.extend(["1 outcome acquired", "1 ends"].map(str::to_owned));
    assert_eq!(told, expected);

    // The release asks the others again, below what the program has entered.
    let mut told = notes_of(|| drop(guard));
    told.retain(|note| note.contains("below 0: DEBUG") || note.ends_with("command release"));
    assert_eq!(told.len(), 4, "{told:?}");

    // The span of a node ends with its own answer also where another node hangs.
    nodes[1].hang();
    let builder = LockManager::builder().fakes(&nodes);
    let manager = builder.fanout(Fanout::Overlapped).build().unwrap();
    let mut told = notes_of(|| drop(manager.lock("job", TTL)));
    told.retain(|note| note.ends_with(" ends") || note.contains("outcome"));
    // In either order.
    told[..4].sort();
    let answered = [
        "2 ends",
        "2 outcome answered",
        "4 ends",
        "4 outcome answered",
    ];
    assert_eq!(told[..4], answered);
    nodes[1].recover();

    // How it failed, and no token.
    let token = "00112233445566778899aabbccddeeff00112233";
    for node in &nodes {
        let value = format!("{token} web-3 since=2026-11-22T05:52:53Z");
        node.hold("held", &value, TTL);
    }
    let assert_told = |name: &str, expected: &[&str]| {
        let mut told = notes_of(|| assert!(manager.try_lock(name, TTL).is_err()));
        assert!(!format!("{told:?}").contains(token), "{told:?}");
        told.retain(|note| note.starts_with("1 outcome") || note.starts_with("1 held_by"));
        assert_eq!(told, expected);
    };
    let by = "1 held_by web-3 since 2026-11-22 05:52:53 UTC";
    assert_told("held", &[by, "1 outcome held"]);
    nodes[..2].iter().for_each(FakeNode::refuse);
    assert_told("other", &["1 outcome unavailable"]);
    // Nothing is asked of any node, so there is no span either.
    assert_told("", &[]);
}

/// Does this with subscribers that are broken at each of their callbacks.
fn broken(job: impl Fn()) {
    let callbacks = [
        "enabled",
        "new_span",
        "record",
        "enter",
        "exit",
        "try_close",
    ];
    for at in callbacks.into_iter().chain([EVERYWHERE]) {
        // A thread of another test that comes to a span for the first time at this moment may remember that nobody listens, until
        // the next subscriber comes.
        let is_called = eventually(TTL, || {
            let spans = Spans {
                panics_at: Some(at),
                ..Spans::default()
            };
            tracing::subscriber::with_default(spans.clone(), &job);
            spans.noted.lock().panics > 0
        });
        assert!(is_called, "{at} is never called");
    }
}

#[test]
fn a_subscriber_that_panics_leaves_no_key_and_disturbs_no_lock() {
    for fanout in [Fanout::Sequential, Fanout::Overlapped] {
        broken(|| assert_harmless(fanout));
    }
}
