//! The cargo feature `tracing`: a span for each call for a lock, and one for each call of a node below it.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use redlatch::fake::FakeNode;
use redlatch::{Error, Fanout, KeepAlive, LockManager};
use redlatch_testing::{eventually, is_alone};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};

use crate::managers::over_fakes;

const TTL: Duration = Duration::from_secs(10);

#[derive(Default, Clone, Debug)]
struct Span {
    id: u64,
    /// Level, target and name.
    kind: String,
    parent: Option<u64>,
    fields: BTreeMap<&'static str, String>,
    has_ended: bool,
    /// How many spans had no outcome when it ended.
    open_at_its_end: usize,
}

impl Span {
    fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }

    /// The command and the outcome of the call of a node.
    fn call(&self) -> (&str, &str) {
        (self.field("command"), self.field("outcome"))
    }
}

/// A subscriber that keeps all spans; or one that panics at one of its callbacks, or at all of them behind the making of a span.
#[derive(Default, Clone)]
struct Spans {
    /// The number of each is its place, counted from one.
    all: Arc<Mutex<Vec<Span>>>,
    entered: Arc<Mutex<Vec<u64>>>,
    panics_at: Option<&'static str>,
    panics: Arc<AtomicU64>,
}

const EVERYWHERE: &str = "everywhere";

impl Spans {
    fn change(&self, id: &Id, change: impl FnOnce(&mut Span)) {
        let place = usize::try_from(id.into_u64()).unwrap() - 1;
        change(&mut self.all.lock()[place]);
    }

    /// Panics there, or says whether spans are kept.
    fn keeps(&self, callback: &str) -> bool {
        // Else there is nothing else that it is called for.
        let is_begin = matches!(callback, "enabled" | "new_span");
        let is_everywhere = self.panics_at == Some(EVERYWHERE);
        if self.panics_at == Some(callback) || (is_everywhere && !is_begin) {
            self.panics.fetch_add(1, Ordering::Relaxed);
            panic!("a subscriber that is broken at {callback}");
        }
        self.panics_at.is_none()
    }
}

struct Fields<'a>(&'a mut Span);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.fields.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.fields.insert(field.name(), value.to_owned());
    }
}

impl Subscriber for Spans {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        // So that it is asked each time.
        Interest::sometimes()
    }

    fn enabled(&self, _: &Metadata<'_>) -> bool {
        self.keeps("enabled");
        true
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        if !self.keeps("new_span") {
            return Id::from_u64(1);
        }
        let mut all = self.all.lock();
        let (about, last) = (attributes.metadata(), all.len());
        let mut span = Span {
            id: u64::try_from(last).unwrap() + 1,
            kind: format!("{} {} {}", about.level(), about.target(), about.name()),
            parent: self.entered.lock().last().copied(),
            ..Span::default()
        };
        attributes.record(&mut Fields(&mut span));
        let id = Id::from_u64(span.id);
        all.push(span);
        id
    }

    fn record(&self, id: &Id, values: &Record<'_>) {
        if self.keeps("record") {
            self.change(id, |span| values.record(&mut Fields(span)));
        }
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, id: &Id) {
        if self.keeps("enter") {
            self.entered.lock().push(id.into_u64());
        }
    }

    fn exit(&self, id: &Id) {
        if self.keeps("exit") {
            assert_eq!(self.entered.lock().pop(), Some(id.into_u64()));
        }
    }

    fn try_close(&self, id: Id) -> bool {
        if self.keeps("try_close") {
            let is_open = |span: &&Span| span.field("outcome").is_empty();
            let open = self.all.lock().iter().filter(is_open).count();
            self.change(&id, |span| {
                (span.has_ended, span.open_at_its_end) = (true, open);
            });
        }
        true
    }
}

/// All spans of what is done.
fn spans_of(job: impl FnOnce()) -> Vec<Span> {
    let spans = Spans::default();
    tracing::subscriber::with_default(spans.clone(), job);
    assert!(spans.entered.lock().is_empty());
    let spans = spans.all.lock().clone();
    assert!(spans.iter().all(|span| span.has_ended), "{spans:?}");
    spans
}

// Whether a span is wanted is asked once and remembered, and another test that is the first to come to it at the moment when
// one of these begins to listen says no. So each of them is alone.

#[test]
fn a_call_for_a_lock_has_a_span_with_those_of_the_nodes_below_it() {
    if !is_alone("operations::spans::a_call_for_a_lock_has_a_span_with_those_of_the_nodes_below_it")
    {
        return;
    }
    let (_, nodes, manager) = over_fakes(3);
    nodes[1].refuse();
    let mut guard = None;
    let spans = spans_of(|| guard = manager.lock("job", TTL).ok());

    let call = &spans[0];
    assert_eq!(call.kind, "INFO redlatch::lock redlatch.lock");
    assert_eq!(call.parent, None);
    let fields = ["resource", "ttl", "outcome", "held_by"].map(|name| call.field(name));
    assert_eq!(fields, ["job", "10s", "acquired", ""]);
    assert_eq!(spans.len(), 1 + 3);
    for (span, node) in spans[1..].iter().zip(&nodes) {
        assert_eq!(span.kind, "DEBUG redlatch::node redlatch.node");
        assert_eq!(span.parent, Some(call.id));
        assert_eq!(
            (span.field("node"), span.call().0),
            (node.name(), "acquire")
        );
    }
    let outcomes = [1, 2, 3].map(|place| spans[place].call().1);
    assert_eq!((outcomes[0], outcomes[2]), ("answered", "answered"));
    assert!(outcomes[1].starts_with("no connection"), "{outcomes:?}");

    for node in [&nodes[0], &nodes[2]] {
        let value = "00112233445566778899aabbccddeeff00112233 web-3 since=2026-11-22T05:52:53Z";
        node.hold("other job", value, TTL);
    }
    let refused = spans_of(|| assert!(manager.try_lock("other job", TTL).is_err()));
    let by = refused[0].field("held_by");
    assert_eq!(by, "web-3 since 2026-11-22 05:52:53 UTC");

    // The release asks all three again, and is below what the program has entered.
    let spans = spans_of(|| drop(guard));
    assert!(spans.iter().all(|span| span.call().0 == "release"));
    assert_eq!(spans.len(), 2);
}

#[test]
fn a_call_that_fails_says_how_and_no_span_has_a_token() {
    if !is_alone("operations::spans::a_call_that_fails_says_how_and_no_span_has_a_token") {
        return;
    }
    let (_, nodes, manager) = over_fakes(3);
    let guard = manager.lock("job", TTL).unwrap();
    let spans_of = |name| spans_of(|| assert!(manager.try_lock(name, TTL).is_err()));

    let spans = spans_of("job");
    assert_eq!(spans[0].field("outcome"), "held");
    assert!(!format!("{spans:?}").contains(guard.token()), "{spans:?}");

    nodes[..2].iter().for_each(FakeNode::refuse);
    assert_eq!(spans_of("other")[0].field("outcome"), "unavailable");
    // Nothing is asked of any node, so there is no span either.
    assert!(spans_of("").is_empty());
}

#[test]
fn the_span_of_a_node_ends_with_its_own_answer_also_where_another_node_hangs() {
    if !is_alone(
        "operations::spans::the_span_of_a_node_ends_with_its_own_answer_also_where_another_node_hangs",
    ) {
        return;
    }
    let (_, nodes, _) = over_fakes(3);
    let builder = LockManager::builder().fakes(&nodes);
    let manager = builder.fanout(Fanout::Overlapped).build().unwrap();
    nodes[1].hang();
    let mut spans = spans_of(|| drop(manager.lock("job", TTL)));
    spans.retain(|span| span.call() == ("acquire", "answered"));
    assert_eq!(spans.len(), 2, "{spans:?}");
    // That of the call, and that of the node that hangs.
    let are_open = |span: &Span| span.open_at_its_end >= 2;
    assert!(spans.iter().all(are_open), "{spans:?}");
}

/// Does this with subscribers that are broken at each of their callbacks.
fn broken(job: impl Fn(&str)) {
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
            tracing::subscriber::with_default(spans.clone(), || job(at));
            spans.panics.load(Ordering::Relaxed) > 0
        });
        assert!(is_called, "{at} is never called");
    }
}

#[test]
fn a_subscriber_that_panics_leaves_no_key_and_disturbs_no_lock() {
    for fanout in [Fanout::Sequential, Fanout::Overlapped] {
        broken(|at| {
            let (clock, nodes, _) = over_fakes(3);
            let builder = LockManager::builder().fakes(&nodes).fanout(fanout);
            let manager = builder.build().unwrap();
            let guard = manager.lock("job", TTL).unwrap();
            guard.extend(TTL * 2).unwrap();
            assert!(manager.try_lock("job", TTL).is_err());
            guard.unlock().unwrap();

            // One node fails, is left out, and answers again.
            nodes[1].refuse();
            let request = manager.request("kept").ttl(TTL);
            let kept = request.keep_alive(KeepAlive::unbounded()).lock().unwrap();
            clock.advance(TTL);
            nodes[1].recover();
            clock.advance(TTL);
            assert_eq!(manager.stats().nodes[1].closed, 1, "{at}");
            kept.check().unwrap();
            drop(kept);

            nodes.iter().for_each(FakeNode::refuse);
            let refused = manager.try_lock("job", TTL);
            assert!(matches!(refused, Err(Error::Unavailable { .. })), "{at}");
            nodes.iter().for_each(FakeNode::recover);
            clock.advance(TTL);
            for key in ["job", "kept"] {
                let has_key = |node: &FakeNode| node.token_of(key).is_some();
                assert!(!nodes.iter().any(has_key), "{at}: {key} is left");
            }
            drop(manager.try_lock("job", TTL).unwrap());
        });
    }
}

#[test]
fn a_subscriber_that_panics_while_a_panic_unwinds_is_no_abort() {
    broken(|_| {
        let (_, nodes, manager) = over_fakes(3);
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            let _guard = manager.lock("job", TTL).unwrap();
            panic!("the job fails");
        }));
        assert!(unwound.is_err());
        assert!(nodes.iter().all(|node| node.token_of("job").is_none()));
    });
}
