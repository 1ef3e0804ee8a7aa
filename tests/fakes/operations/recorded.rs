//! The cargo feature `metrics`: what the recorder of a program gets. And the same figures as JSON.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use redlatch::{Fanout, Stats};

use crate::fakes::operations::broken::{assert_harmless, play};
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

/// The names of all figures of the library, which are there from the beginning, with nothing in them.
pub(crate) fn metrics() -> BTreeSet<String> {
    let recorder = DebuggingRecorder::new();
    let seen = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || {
        let (_, _, manager) = over_fakes(1);
        let figures = recorded(&seen);
        assert_eq!(figures.len(), counters(&manager.stats()).len() + 2);
        let none = [
            DebugValue::Counter(0),
            DebugValue::Gauge(0.0.into()),
            DebugValue::Histogram(Vec::new()),
        ];
        assert!(figures.values().all(|(_, _, value)| none.contains(value)));
        let names = figures.into_keys();
        let names = names.map(|name| name.split('{').next().unwrap().to_owned());
        names.collect()
    })
}

/// The counters of a snapshot as JSON, by the names that the recorder gets.
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
    let of_nodes = json["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|of_node| {
            let node = of_node["node"].as_str().unwrap();
            [
                ("votes_total", ",vote=granted", "granted"),
                ("votes_total", ",vote=refused", "refused"),
                ("votes_total", ",vote=failed", "failed"),
                ("left_out_total", "", "opened"),
                ("back_total", "", "closed"),
            ]
            .map(|(name, label, field)| {
                let name = format!("redlatch_node_{name}{{node={node}{label}}}");
                (name, of_node[field].as_u64().unwrap())
            })
        });
    of_manager.chain(of_nodes).collect()
}

#[test]
fn the_recorder_gets_every_figure_with_its_description_and_its_unit() {
    let (clock, nodes, _) = over_fakes(3);
    let recorder = DebuggingRecorder::new();
    let seen = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || {
        let (manager, kept) = play(&nodes, &clock, Fanout::Sequential);
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
        let json = serde_json::to_value(&stats).unwrap();
        assert_eq!(json["held"], 1, "{json}");
        assert_eq!(json["wait"]["count"], stats.acquired, "{json}");
        let longest = stats.wait_quantile(1.0).as_micros().to_string();
        assert_eq!(json["wait"]["max_us"].to_string(), longest, "{json}");
        assert_eq!(json["wait"]["p99_us"], json["wait"]["max_us"], "{json}");
        // The play is worth something.
        let zero = counters(&stats).into_values().filter(|count| *count == 0);
        assert!(zero.count() < 10, "{stats}");
        kept.unlock().unwrap();
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
    metrics::with_local_recorder(&Broken, || assert_harmless(Fanout::Sequential));
}
