//! `Stats::open_metrics`: what a strict reader of OpenMetrics makes of it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use redlatch::fake::{FakeClock, FakeNode};
use redlatch::{LockManager, Stats};
use redlatch_testing::open_metrics::{Exposition, parse};

const TTL: Duration = Duration::from_secs(10);

#[track_caller]
fn read(stats: &Stats) -> Exposition {
    let text = stats.open_metrics().to_string();
    parse(&text).unwrap_or_else(|fault| panic!("{fault}\n{text}"))
}

#[track_caller]
fn value(stats: &Stats, name: &str, labels: &[(&str, &str)]) -> f64 {
    let value = read(stats).value(name, labels);
    value.unwrap_or_else(|| panic!("no {name} {labels:?}"))
}

/// One lock that is held, one call that fails, and a node that is left out and is back.
fn busy() -> (Vec<FakeNode>, LockManager, redlatch::LockGuard) {
    let clock = FakeClock::new();
    let nodes = FakeNode::cluster_on(3, &clock);
    let manager = LockManager::builder().fakes(&nodes).build().unwrap();
    nodes[2].hang();
    let guard = manager.lock("job", TTL).unwrap();
    nodes[2].recover();
    clock.advance(TTL / 2);
    for node in &nodes {
        node.hold("other", "another", TTL);
    }
    manager.try_lock("other", TTL).unwrap_err();
    (nodes, manager, guard)
}

#[test]
fn a_new_manager_has_all_metrics_at_zero() {
    let manager = LockManager::builder().fakes(&FakeNode::cluster(3));
    let stats = manager.build().unwrap().stats();
    let exposition = read(&stats);
    for sample in exposition.families.iter().flat_map(|f| &f.samples) {
        assert_eq!(sample.value.to_bits(), 0.0_f64.to_bits(), "{sample:?}");
    }
}

#[test]
fn counters_nodes_and_wait_times_are_what_stats_says() {
    let (nodes, manager, guard) = busy();
    let stats = manager.stats();
    let is = |name: &str, labels: &[(&str, &str)], expected: u64| {
        let found = value(&stats, name, labels);
        assert!(
            (found - f64::from(u32::try_from(expected).unwrap())).abs() < 1e-9,
            "{name} {labels:?}: {found}"
        );
    };
    is("redlatch_acquired_total", &[], 1);
    is("redlatch_attempts_total", &[], stats.attempts);
    is("redlatch_failed_calls_total", &[("reason", "held")], 1);
    is(
        "redlatch_failed_calls_total",
        &[("reason", "unavailable")],
        0,
    );
    is("redlatch_failed_calls_total", &[("reason", "too_slow")], 0);
    is("redlatch_held", &[], 1);
    for node in &stats.nodes {
        let name: &str = &node.node;
        let votes = [
            ("granted", node.granted),
            ("refused", node.refused),
            ("failed", node.failed),
        ];
        for (vote, count) in votes {
            is(
                "redlatch_node_votes_total",
                &[("node", name), ("vote", vote)],
                count,
            );
        }
        is(
            "redlatch_node_left_out_total",
            &[("node", name)],
            node.opened,
        );
        is("redlatch_node_back_total", &[("node", name)], node.closed);
    }
    let slow = stats
        .nodes
        .iter()
        .find(|node| &*node.node == nodes[2].name())
        .unwrap();
    assert_eq!(
        (slow.failed, slow.opened, slow.closed),
        (1, 1, 1),
        "{stats}"
    );
    is("redlatch_wait_seconds_count", &[], 1);
    let sum = value(&stats, "redlatch_wait_seconds_sum", &[]);
    assert!(
        (sum - stats.wait().mean().as_secs_f64()).abs() <= sum / 100.0,
        "{sum} {stats}"
    );
    guard.unlock().unwrap();
    let stats = manager.stats();
    assert!(value(&stats, "redlatch_held", &[]) < 0.5);
    assert!(value(&stats, "redlatch_released_total", &[]) > 0.5);
}

#[test]
fn every_counter_of_stats_is_a_metric() {
    let manager = LockManager::builder().fakes(&FakeNode::cluster(3));
    let stats = manager.build().unwrap().stats();
    let text = stats.open_metrics().to_string();
    let fields = format!("{stats:?}");
    let (counters, _) = fields.split_once("nodes:").unwrap();
    let names = counters.trim_start_matches("Stats {").split(", ");
    let names: Vec<&str> = names
        .filter_map(|field| Some(field.split_once(':')?.0.trim()))
        .collect();
    assert!(names.len() >= 16, "{names:?}");
    for name in names {
        let metric = match name.strip_prefix("failed_") {
            Some(reason) if name != "failed_renewals" => {
                format!("redlatch_failed_calls_total{{reason=\"{reason}\"}} ")
            }
            _ => format!("redlatch_{name}_total "),
        };
        assert!(text.contains(&metric), "{metric} in {text}");
    }
}

#[test]
fn a_wait_is_in_the_buckets_that_are_long_enough_for_it() {
    let clock = FakeClock::new();
    let nodes = FakeNode::cluster_on(3, &clock);
    let manager = LockManager::builder().fakes(&nodes).build().unwrap();
    for node in &nodes {
        node.hold("job", "another", Duration::from_secs(2));
    }
    let guard = manager.request("job").ttl(TTL).try_lock_for(TTL).unwrap();
    let stats = manager.stats();
    let wait = stats.wait().max();
    assert!(
        wait > Duration::from_secs(1) && wait < Duration::from_secs(5),
        "{wait:?}"
    );
    let bucket = |le: &str| value(&stats, "redlatch_wait_seconds_bucket", &[("le", le)]);
    assert_eq!(
        [bucket("1.0"), bucket("5.0"), bucket("+Inf")].map(|count| count > 0.5),
        [false, true, true]
    );
    guard.unlock().unwrap();
}

#[test]
fn the_resource_is_a_label_of_every_sample() {
    let (_, manager, guard) = busy();
    let stats = manager.stats();
    let text = stats.open_metrics().resource("a \"job\"\\\n").to_string();
    let exposition = parse(&text).unwrap();
    for sample in exposition
        .families
        .iter()
        .flat_map(|family| &family.samples)
    {
        let (name, value) = sample.labels.first().unwrap();
        assert_eq!(
            (name.as_str(), value.as_str()),
            ("resource", "a \"job\"\\\n"),
            "{sample:?}"
        );
    }
    guard.unlock().unwrap();
}

/// Texts that a path of a socket may be: with quotes, backslashes, line breaks and what looks like the format.
fn names() -> impl Strategy<Value = Vec<String>> {
    let piece = prop_oneof![
        4 => any::<char>().prop_map(String::from),
        1 => prop::sample::select(vec!["\"", "\\", "\n", "\\n", "\"} 1\n", ",le=\"1\"", "# EOF\n", "\r"]).prop_map(String::from),
    ];
    let name = prop::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat());
    prop::collection::vec(name, 3)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_names_of_nodes_are_read_back(names in names()) {
        let (_, manager, guard) = busy();
        let mut stats = manager.stats();
        guard.unlock().unwrap();
        for (node, name) in stats.nodes.iter_mut().zip(&names) {
            node.node = Arc::from(name.as_str());
        }
        let text = stats.open_metrics().resource(&names[0]).to_string();
        let exposition = parse(&text).map_err(|fault| TestCaseError::fail(format!("{fault}\n{text}")))?;
        let votes = exposition.families.iter().find(|family| family.name == "redlatch_node_votes").unwrap();
        prop_assert_eq!(votes.samples.len(), 9);
        let distinct: BTreeSet<_> = names.iter().collect();
        // Of two nodes with one name, the second has another one here.
        if distinct.len() == names.len() {
            for (node, name) in stats.nodes.iter().zip(&names) {
                let labels = [("resource", names[0].as_str()), ("node", name), ("vote", "granted")];
                let value = exposition.value("redlatch_node_votes_total", &labels);
                prop_assert_eq!(value.map(|value| value > 0.5), Some(node.granted > 0));
            }
        }
    }
}
