//! The cargo feature `metrics`: what the recorder of a program gets.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use redlatch::fake::{FakeClock, FakeNode};
use redlatch::{KeepAlive, LockManager, Stats};

use crate::managers::over_fakes;

const TTL: Duration = Duration::from_secs(10);

/// A figure: its unit, its description and its value.
type Recorded = (Option<Unit>, String, DebugValue);

/// What the recorder got since the last call, by names with their labels: `name{label=value,…}`.
fn recorded(seen: &Snapshotter) -> HashMap<String, Recorded> {
    let figures = seen.snapshot().into_vec().into_iter();
    let named = figures.map(|(key, unit, description, value)| {
        let labels = key.key().labels();
        let labels = labels.map(|label| format!("{}={}", label.key(), label.value()));
        let labels = labels.collect::<Vec<_>>().join(",");
        let name = format!("{}{{{labels}}}", key.key().name()).replace("{}", "");
        let description = description.map(|text| text.to_string());
        (name, (unit, description.unwrap_or_default(), value))
    });
    named.collect()
}

/// The names of all figures of the library.
pub(crate) fn metrics() -> BTreeSet<String> {
    let recorder = DebuggingRecorder::new();
    metrics::with_local_recorder(&recorder, || drop(over_fakes(1)));
    let figures = recorded(&recorder.snapshotter()).into_keys();
    let names = figures.map(|name| name.split('{').next().unwrap().to_owned());
    names.collect()
}

/// The counters of a snapshot, by the names that the recorder gets.
fn counters(stats: &Stats) -> HashMap<String, u64> {
    let json = serde_json::to_value(stats).unwrap();
    let fields = json.as_object().unwrap().iter();
    let of_manager = fields.filter(|(name, _)| !["held", "wait", "nodes"].contains(&name.as_str()));
    let of_manager = of_manager.map(|(name, count)| {
        let name = match name.strip_prefix("failed_") {
            Some(reason) if name != "failed_renewals" => {
                format!("redlatch_failed_calls_total{{reason={reason}}}")
            }
            _ => format!("redlatch_{name}_total"),
        };
        (name, count.as_u64().unwrap())
    });
    let of_nodes = stats.nodes.iter().flat_map(|stats| {
        let node = &stats.node;
        [
            ("votes_total", ",vote=granted", stats.granted),
            ("votes_total", ",vote=refused", stats.refused),
            ("votes_total", ",vote=failed", stats.failed),
            ("left_out_total", "", stats.opened),
            ("back_total", "", stats.closed),
        ]
        .map(|(name, label, count)| (format!("redlatch_node_{name}{{node={node}{label}}}"), count))
    });
    of_manager.chain(of_nodes).collect()
}

/// Plays so that nearly each figure changes, on this thread alone. Returns the manager, which holds one lock.
fn play(nodes: &[FakeNode], clock: &FakeClock) -> (LockManager, redlatch::LockGuard) {
    let manager = LockManager::builder().fakes(nodes).build().unwrap();
    nodes[2].hang();
    drop(manager.lock("job", TTL).unwrap());
    nodes[2].recover();
    clock.advance(TTL);
    // Another holder, and no majority.
    for node in nodes {
        node.hold("other", "another", TTL);
    }
    manager.try_lock("other", TTL).unwrap_err();
    nodes[..2].iter().for_each(FakeNode::refuse);
    manager.try_lock("job", TTL).unwrap_err();
    nodes.iter().for_each(FakeNode::recover);
    clock.advance(TTL);
    // A lease goes from hand to hand, and is extended, healed and lost.
    let lease = manager.lock("job", TTL).unwrap().into_lease();
    let guard = manager.adopt(lease).unwrap();
    nodes[1].flush();
    guard.extend(TTL).unwrap();
    clock.advance(TTL * 2);
    assert!(guard.check().is_err());
    drop(guard);
    let request = manager.request("kept").ttl(TTL);
    let kept = request.keep_alive(KeepAlive::unbounded()).lock().unwrap();
    clock.advance(TTL * 3);
    assert!(manager.try_lock("kept", TTL).is_err());
    (manager, kept)
}

#[test]
fn the_recorder_gets_every_figure_with_its_description_and_its_unit() {
    let (clock, nodes, _) = over_fakes(3);
    let recorder = DebuggingRecorder::new();
    let seen = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || {
        let (manager, kept) = play(&nodes, &clock);
        let stats = manager.stats();
        let mut figures = recorded(&seen);
        for (name, (_, description, _)) in &figures {
            assert!(description.ends_with('.'), "{name}: {description:?}");
        }
        let mut take = |name: &str| {
            let figure = figures.remove(name);
            let (unit, _, value) = figure.unwrap_or_else(|| panic!("no {name}"));
            (unit.unwrap(), value)
        };
        for (name, count) in counters(&stats) {
            let expected = (Unit::Count, DebugValue::Counter(count));
            assert_eq!(take(&name), expected, "{name}");
        }
        let held = (Unit::Count, DebugValue::Gauge(1.0.into()));
        assert_eq!(take("redlatch_held"), held);
        let (Unit::Seconds, DebugValue::Histogram(waits)) = take("redlatch_wait_seconds") else {
            panic!("no times");
        };
        assert_eq!(u64::try_from(waits.len()).unwrap(), stats.acquired);
        let longest = waits.iter().max().unwrap().into_inner();
        let kept_longest = stats.wait_quantile(1.0).as_secs_f64();
        let difference = (longest - kept_longest).abs();
        assert!(
            difference <= kept_longest / 100.0 + 1e-6,
            "{longest} {stats}"
        );
        assert!(figures.is_empty(), "{figures:?}");
        // The play is worth something.
        let zero = counters(&stats).into_values().filter(|count| *count == 0);
        assert!(zero.count() < 10, "{stats}");
        kept.unlock().unwrap();
    });
}

#[test]
fn all_figures_are_there_from_the_beginning() {
    let recorder = DebuggingRecorder::new();
    metrics::with_local_recorder(&recorder, || {
        let (_, _, manager) = over_fakes(3);
        let figures = recorded(&recorder.snapshotter());
        assert_eq!(figures.len(), counters(&manager.stats()).len() + 2);
        let none = [
            DebugValue::Counter(0),
            DebugValue::Gauge(0.0.into()),
            DebugValue::Histogram(Vec::new()),
        ];
        assert!(figures.values().all(|(_, _, value)| none.contains(value)));
    });
}

#[test]
fn a_recorder_that_comes_later_gets_what_is_counted_from_then_on() {
    let (_, _, manager) = over_fakes(3);
    drop(manager.lock("job", TTL).unwrap());
    let recorder = DebuggingRecorder::new();
    metrics::with_local_recorder(&recorder, || drop(manager.lock("job", TTL).unwrap()));
    let figures = recorded(&recorder.snapshotter());
    assert_eq!(figures["redlatch_acquired_total"].2, DebugValue::Counter(1));
    assert_eq!(figures["redlatch_held"].2, DebugValue::Gauge(0.0.into()));
    assert_eq!(manager.stats().acquired, 2);
}

/// A recorder that panics whenever it is called.
struct Broken;

macro_rules! broken {
    ($(fn $name:ident(&self $(, $type:ty)*) $(-> $made:ty)?;)*) => {
        impl Recorder for Broken {
            $(fn $name(&self $(, _: $type)*) $(-> $made)? { panic!("broken") })*
        }
    };
}

broken! {
    fn describe_counter(&self, KeyName, Option<Unit>, SharedString);
    fn describe_gauge(&self, KeyName, Option<Unit>, SharedString);
    fn describe_histogram(&self, KeyName, Option<Unit>, SharedString);
    fn register_counter(&self, &Key, &Metadata<'_>) -> Counter;
    fn register_gauge(&self, &Key, &Metadata<'_>) -> Gauge;
    fn register_histogram(&self, &Key, &Metadata<'_>) -> Histogram;
}

#[test]
fn a_recorder_that_panics_harms_no_lock() {
    let (clock, nodes, _) = over_fakes(3);
    metrics::with_local_recorder(&Broken, || {
        let (manager, kept) = play(&nodes, &clock);
        kept.unlock().unwrap();
        let stats = manager.stats();
        assert_eq!((stats.held(), stats.lost), (0, 1), "{stats}");
    });
}
