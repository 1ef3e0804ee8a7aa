//! The cargo feature `metrics`: what the recorder of a program gets.

use std::collections::HashMap;
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use redlatch::fake::{FakeClock, FakeNode};
use redlatch::{KeepAlive, LockManager, Stats};

const TTL: Duration = Duration::from_secs(10);

/// A figure: its unit, its description and its value.
type Recorded = (Option<Unit>, String, DebugValue);

/// What the recorder got since the last call, by names with their labels: `name{label=value,…}`.
fn recorded(seen: &Snapshotter) -> HashMap<String, Recorded> {
    let figures = seen.snapshot().into_vec().into_iter();
    let named = figures.map(|(key, unit, description, value)| {
        let labels = key.key().labels();
        let labels: Vec<String> = labels
            .map(|label| format!("{}={}", label.key(), label.value()))
            .collect();
        let name = key.key().name();
        let mut name = name.to_owned();
        if !labels.is_empty() {
            name = format!("{name}{{{}}}", labels.join(","));
        }
        let description = description.map(|text| text.to_string());
        (name, (unit, description.unwrap_or_default(), value))
    });
    named.collect()
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
        let vote = |vote| format!("redlatch_node_votes_total{{node={node},vote={vote}}}");
        [
            (vote("granted"), stats.granted),
            (vote("refused"), stats.refused),
            (vote("failed"), stats.failed),
            (
                format!("redlatch_node_left_out_total{{node={node}}}"),
                stats.opened,
            ),
            (
                format!("redlatch_node_back_total{{node={node}}}"),
                stats.closed,
            ),
        ]
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
    let clock = FakeClock::new();
    let nodes = FakeNode::cluster_on(3, &clock);
    let recorder = DebuggingRecorder::new();
    let seen = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || {
        let (manager, kept) = play(&nodes, &clock);
        let stats = manager.stats();
        let mut figures = recorded(&seen);
        for (name, (_, description, _)) in &figures {
            assert!(description.ends_with('.'), "{name}: {description:?}");
        }
        for (name, count) in counters(&stats) {
            let (unit, _, value) = figures.remove(&name).unwrap_or_else(|| panic!("no {name}"));
            assert_eq!(
                (unit, value),
                (Some(Unit::Count), DebugValue::Counter(count)),
                "{name}"
            );
        }
        let (unit, _, value) = figures.remove("redlatch_held").unwrap();
        assert_eq!(
            (unit, value),
            (Some(Unit::Count), DebugValue::Gauge(1.0.into()))
        );
        let (unit, _, value) = figures.remove("redlatch_wait_seconds").unwrap();
        let DebugValue::Histogram(waits) = value else {
            panic!("{value:?}")
        };
        assert_eq!(unit, Some(Unit::Seconds));
        assert_eq!(u64::try_from(waits.len()).unwrap(), stats.acquired);
        let longest = waits.iter().max().unwrap().into_inner();
        let kept_longest = stats.wait_quantile(1.0).as_secs_f64();
        assert!(
            (longest - kept_longest).abs() <= kept_longest / 100.0 + 1e-6,
            "{longest} {stats}"
        );
        assert!(figures.is_empty(), "{figures:?}");
        // The play is worth something.
        let zero = counters(&stats)
            .into_iter()
            .filter(|(_, count)| *count == 0);
        let zero: Vec<String> = zero.map(|(name, _)| name).collect();
        assert!(zero.len() < 10, "{zero:?}");

        kept.unlock().unwrap();
    });
}

#[test]
fn all_figures_are_there_from_the_beginning() {
    let recorder = DebuggingRecorder::new();
    let seen = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || {
        let nodes = FakeNode::cluster(3);
        let manager = LockManager::builder().fakes(&nodes).build().unwrap();
        let figures = recorded(&seen);
        assert_eq!(figures.len(), counters(&manager.stats()).len() + 2);
        for (name, (_, _, value)) in figures {
            let nothing = [
                DebugValue::Counter(0),
                DebugValue::Gauge(0.0.into()),
                DebugValue::Histogram(Vec::new()),
            ];
            assert!(nothing.contains(&value), "{name}: {value:?}");
        }
    });
}

#[test]
fn a_recorder_that_comes_later_gets_what_is_counted_from_then_on() {
    let manager = LockManager::builder().fakes(&FakeNode::cluster(3));
    let manager = manager.build().unwrap();
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

impl Recorder for Broken {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {
        panic!("broken")
    }

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {
        panic!("broken")
    }

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {
        panic!("broken")
    }

    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        panic!("broken")
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        panic!("broken")
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        panic!("broken")
    }
}

#[test]
fn a_recorder_that_panics_harms_no_lock() {
    let clock = FakeClock::new();
    let nodes = FakeNode::cluster_on(3, &clock);
    metrics::with_local_recorder(&Broken, || {
        let (manager, kept) = play(&nodes, &clock);
        kept.unlock().unwrap();
        let stats = manager.stats();
        assert_eq!((stats.held(), stats.lost), (0, 1), "{stats}");
    });
}
