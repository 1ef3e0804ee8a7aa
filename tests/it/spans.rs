//! The cargo feature `tracing`: a span for each call for a lock, and one for each call of a node below it.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use redlatch::LockManager;
use redlatch::fake::{FakeClock, FakeNode};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::alone::is_alone;

const TTL: Duration = Duration::from_secs(10);

#[derive(Default, Clone, Debug)]
struct Span {
    name: &'static str,
    target: String,
    level: String,
    parent: Option<u64>,
    fields: BTreeMap<&'static str, String>,
    has_ended: bool,
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
        self.all.lock().get_mut(&id.into_u64()).unwrap().has_ended = true;
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
    if !is_alone("spans::a_call_for_a_lock_has_a_span_with_those_of_the_nodes_below_it") {
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

    // The release asks all three again, and is below what the program has entered.
    let spans = spans_of(|| drop(guard));
    let of_release = |(_, span): &&(u64, Span)| field(span, "command") == "release";
    assert_eq!(spans.iter().filter(of_release).count(), spans.len());
    assert_eq!(spans.len(), 2);
}

#[test]
fn a_call_that_fails_says_how_and_no_span_has_a_token() {
    if !is_alone("spans::a_call_that_fails_says_how_and_no_span_has_a_token") {
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
