//! The cargo feature `tracing`: a span for each call for a lock, and one for each call of a node below it.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use redlatch::fake::{FakeClock, FakeNode};
use redlatch::{Error, Fanout, KeepAlive, LockManager};
use redlatch_testing::is_alone;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};

const TTL: Duration = Duration::from_secs(10);

#[derive(Default, Clone, Debug)]
struct Span {
    name: &'static str,
    target: String,
    level: String,
    parent: Option<u64>,
    fields: BTreeMap<&'static str, String>,
    has_ended: bool,
    /// How many spans had no outcome when it ended.
    open_at_its_end: usize,
}

#[derive(Default, Clone)]
struct Spans {
    all: Arc<Mutex<BTreeMap<u64, Span>>>,
    entered: Arc<Mutex<Vec<u64>>>,
    last: Arc<AtomicU64>,
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
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let id = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let metadata = attributes.metadata();
        let mut span = Span {
            name: metadata.name(),
            target: metadata.target().to_owned(),
            level: metadata.level().to_string(),
            parent: self.entered.lock().last().copied(),
            ..Span::default()
        };
        attributes.record(&mut Fields(&mut span));
        self.all.lock().insert(id, span);
        Id::from_u64(id)
    }

    fn record(&self, id: &Id, values: &Record<'_>) {
        let mut spans = self.all.lock();
        values.record(&mut Fields(spans.get_mut(&id.into_u64()).unwrap()));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, id: &Id) {
        self.entered.lock().push(id.into_u64());
    }

    fn exit(&self, id: &Id) {
        assert_eq!(self.entered.lock().pop(), Some(id.into_u64()));
    }

    fn try_close(&self, id: Id) -> bool {
        let mut all = self.all.lock();
        let is_open = |span: &&Span| !span.fields.contains_key("outcome");
        let open_at_its_end = all.values().filter(is_open).count();
        let span = all.get_mut(&id.into_u64()).unwrap();
        span.has_ended = true;
        span.open_at_its_end = open_at_its_end;
        true
    }
}

/// All spans of what is done, each with its number.
fn spans_of(job: impl FnOnce()) -> Vec<(u64, Span)> {
    let spans = Spans::default();
    tracing::subscriber::with_default(spans.clone(), job);
    assert!(spans.entered.lock().is_empty());
    let spans = spans.all.lock();
    assert!(spans.values().all(|span| span.has_ended), "{spans:?}");
    spans.iter().map(|(id, span)| (*id, span.clone())).collect()
}

fn field<'a>(span: &'a Span, name: &str) -> &'a str {
    span.fields.get(name).map_or("", String::as_str)
}

#[test]
fn a_call_for_a_lock_has_a_span_with_those_of_the_nodes_below_it() {
    // Whether a span is wanted is asked once and remembered, and another test that is the first to come to it at the moment
    // when this one begins to listen says no.
    if !is_alone("operations::spans::a_call_for_a_lock_has_a_span_with_those_of_the_nodes_below_it")
    {
        return;
    }
    let nodes = FakeNode::cluster_on(3, &FakeClock::new());
    let manager = LockManager::builder().fakes(&nodes).build().unwrap();
    nodes[1].refuse();
    let mut guard = None;
    let spans = spans_of(|| guard = manager.lock("job", TTL).ok());

    let (id, call) = &spans[0];
    assert_eq!(
        (call.name, &*call.target),
        ("redlatch.lock", "redlatch::lock")
    );
    assert_eq!((&*call.level, call.parent), ("INFO", None));
    assert_eq!(
        (field(call, "resource"), field(call, "ttl")),
        ("job", "10s")
    );
    assert_eq!(field(call, "outcome"), "acquired");
    assert_eq!(spans.len(), 1 + 3);
    for ((_, span), node) in spans[1..].iter().zip(&nodes) {
        assert_eq!(
            (span.name, &*span.target),
            ("redlatch.node", "redlatch::node")
        );
        assert_eq!((&*span.level, span.parent), ("DEBUG", Some(*id)));
        assert_eq!(
            (field(span, "node"), field(span, "command")),
            (node.name(), "acquire")
        );
    }
    let outcome = |place: usize| field(&spans[place].1, "outcome");
    assert_eq!((outcome(1), outcome(3)), ("answered", "answered"));
    assert!(outcome(2).starts_with("no connection"), "{}", outcome(2));

    assert_eq!(field(call, "held_by"), "");
    for node in [&nodes[0], &nodes[2]] {
        let value = "00112233445566778899aabbccddeeff00112233 web-3 since=2026-11-22T05:52:53Z";
        node.hold("other job", value, Duration::from_secs(10));
    }
    let refused = spans_of(|| assert!(manager.try_lock("other job", TTL).is_err()));
    let by = field(&refused[0].1, "held_by");
    assert_eq!(by, "web-3 since 2026-11-22 05:52:53 UTC");

    // The release asks all three again, and is below what the program has entered.
    let spans = spans_of(|| drop(guard));
    let of_release = |(_, span): &&(u64, Span)| field(span, "command") == "release";
    assert_eq!(spans.iter().filter(of_release).count(), spans.len());
    assert_eq!(spans.len(), 2);
}

#[test]
fn a_call_that_fails_says_how_and_no_span_has_a_token() {
    if !is_alone("operations::spans::a_call_that_fails_says_how_and_no_span_has_a_token") {
        return;
    }
    let nodes = FakeNode::cluster_on(3, &FakeClock::new());
    let manager = LockManager::builder().fakes(&nodes).build().unwrap();
    let guard = manager.lock("job", TTL).unwrap();
    let outcome = |spans: &[(u64, Span)]| field(&spans[0].1, "outcome").to_owned();

    let spans = spans_of(|| assert!(manager.try_lock("job", TTL).is_err()));
    assert_eq!(outcome(&spans), "held");
    let text = format!("{spans:?}");
    assert!(!text.contains(guard.token()), "{text}");

    nodes[..2].iter().for_each(FakeNode::refuse);
    let spans = spans_of(|| assert!(manager.try_lock("other", TTL).is_err()));
    assert_eq!(outcome(&spans), "unavailable");
    // Nothing is asked of any node, so there is no span either.
    assert!(spans_of(|| assert!(manager.try_lock("", TTL).is_err())).is_empty());
}

#[test]
fn the_span_of_a_node_ends_with_its_own_answer_also_where_another_node_hangs() {
    if !is_alone(
        "operations::spans::the_span_of_a_node_ends_with_its_own_answer_also_where_another_node_hangs",
    ) {
        return;
    }
    let nodes = FakeNode::cluster_on(3, &FakeClock::new());
    let builder = LockManager::builder().fakes(&nodes);
    let manager = builder.fanout(Fanout::Overlapped).build().unwrap();
    nodes[1].hang();
    let spans = spans_of(|| drop(manager.lock("job", TTL)));
    let is_answered_vote =
        |span: &Span| (field(span, "command"), field(span, "outcome")) == ("acquire", "answered");
    let votes = spans.iter().map(|(_, span)| span);
    let votes: Vec<&Span> = votes.filter(|span| is_answered_vote(span)).collect();
    assert_eq!(votes.len(), 2, "{spans:?}");
    // That of the call, and that of the node that hangs.
    assert!(
        votes.iter().all(|vote| vote.open_at_its_end >= 2),
        "{spans:?}"
    );
}

/// A subscriber that panics at one of its callbacks, or at all of them.
struct Broken {
    at: &'static str,
    panics: Arc<AtomicU64>,
}

const EVERYWHERE: &str = "everywhere";

impl Broken {
    fn called(&self, callback: &str) {
        if self.at == callback || self.at == EVERYWHERE {
            self.panics.fetch_add(1, Ordering::Relaxed);
            panic!("a subscriber that is broken at {callback}");
        }
    }
}

impl Subscriber for Broken {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        // So that it is asked each time.
        Interest::sometimes()
    }

    fn enabled(&self, _: &Metadata<'_>) -> bool {
        // Else there is nothing else that it is called for.
        if self.at != EVERYWHERE {
            self.called("enabled");
        }
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        if self.at != EVERYWHERE {
            self.called("new_span");
        }
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {
        self.called("record");
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, _: &Id) {
        self.called("enter");
    }

    fn exit(&self, _: &Id) {
        self.called("exit");
    }

    fn try_close(&self, _: Id) -> bool {
        self.called("try_close");
        true
    }
}

/// Does this with a subscriber that is broken there; returns how often that has panicked.
fn broken_at(at: &'static str, job: impl FnOnce()) -> u64 {
    let panics = Arc::new(AtomicU64::new(0));
    let broken = Broken {
        at,
        panics: Arc::clone(&panics),
    };
    tracing::subscriber::with_default(broken, job);
    panics.load(Ordering::Relaxed)
}

const CALLBACKS: [&str; 7] = [
    "enabled",
    "new_span",
    "record",
    "enter",
    "exit",
    "try_close",
    EVERYWHERE,
];

#[test]
fn a_subscriber_that_panics_leaves_no_key_and_disturbs_no_lock() {
    for at in CALLBACKS {
        for fanout in [Fanout::Sequential, Fanout::Overlapped] {
            let clock = FakeClock::new();
            let nodes = FakeNode::cluster_on(3, &clock);
            let builder = LockManager::builder().fakes(&nodes).fanout(fanout);
            let manager = builder.build().unwrap();
            let panics = broken_at(at, || {
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
            });
            assert!(panics > 0, "{at} is never called");
            for key in ["job", "kept"] {
                let has_key = |node: &FakeNode| node.token_of(key).is_some();
                assert!(!nodes.iter().any(has_key), "{at}: {key} is left");
            }
            drop(manager.try_lock("job", TTL).unwrap());
        }
    }
}

#[test]
fn a_subscriber_that_panics_while_a_panic_unwinds_is_no_abort() {
    for at in CALLBACKS {
        let nodes = FakeNode::cluster(3);
        let manager = LockManager::builder().fakes(&nodes).build().unwrap();
        broken_at(at, || {
            let unwound = catch_unwind(AssertUnwindSafe(|| {
                let _guard = manager.lock("job", TTL).unwrap();
                panic!("the job fails");
            }));
            assert!(unwound.is_err());
        });
        assert!(nodes.iter().all(|node| node.token_of("job").is_none()));
    }
}
