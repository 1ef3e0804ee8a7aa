//! The figures of the library, as they are handed to the crate `metrics`, and of the job, and their text.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use metrics::{CounterFn, HistogramFn, Key, KeyName, Level, Metadata, Recorder, SharedString};
use parking_lot::Mutex;
use prometheus_client::encoding::{EncodeMetric, MetricEncoder, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::{MetricType, TypedMetric};
use prometheus_client::registry::{Metric, Registry, Unit};

/// The upper bounds of the buckets of times, in seconds: from an uncontended lock to a job that waits for another one.
const BOUNDS: [f64; 17] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
    300.0, 1800.0,
];

type Labels = Vec<(String, String)>;

/// Figures of one kind by their names, each with one value for each set of labels.
type Families<M> = Mutex<BTreeMap<String, Family<Labels, M, fn() -> M>>>;

#[derive(Debug)]
pub(crate) struct Figures {
    registry: Mutex<Registry>,
    counts: Families<Counter>,
    levels: Families<Gauge>,
    times: Families<Histogram>,
}

impl Figures {
    /// No figures yet. Each will have the label `resource`.
    pub(crate) fn of(resource: &str) -> Arc<Self> {
        let label = ("resource".into(), resource.to_owned().into());
        Arc::new(Self {
            registry: Registry::with_labels([label].into_iter()).into(),
            counts: Mutex::default(),
            levels: Mutex::default(),
            times: Mutex::default(),
        })
    }

    /// Sets a gauge, which was described before.
    pub(crate) fn set(&self, name: &'static str, level: f64) {
        const METADATA: Metadata<'_> = Metadata::new("redlatch", Level::INFO, None);
        let gauge = self.register_gauge(&Key::from_static_name(name), &METADATA);
        gauge.set(level);
    }

    pub(crate) fn text(&self) -> String {
        let mut shown = String::new();
        // Writing to a String can't fail.
        text::encode(&mut shown, &self.registry.lock()).ok();
        shown
    }

    fn describe<M>(&self, families: &Families<M>, new: fn() -> M, name: &str, help: &str)
    where
        Family<Labels, M, fn() -> M>: Metric,
    {
        families.lock().entry(name.to_owned()).or_insert_with(|| {
            let (family, mut registry) = (Family::new_with_constructor(new), self.registry.lock());
            // The crate puts these endings there itself.
            let (name, help) = (name.trim_end_matches("_total"), help.trim_end_matches('.'));
            if let Some(name) = name.strip_suffix("_seconds") {
                registry.register_with_unit(name, help, Unit::Seconds, family.clone());
            } else {
                registry.register(name, help, family.clone());
            }
            family
        });
    }
}

/// The value with these labels of a figure, which was described before.
fn value<M: Clone>(families: &Families<M>, key: &Key) -> Option<M> {
    let labels = key.labels();
    let labels = labels.map(|label| (label.key().to_owned(), label.value().to_owned()));
    let families = families.lock();
    let family = families.get(key.name())?;
    Some(family.get_or_create_owned(&labels.collect()))
}

impl Recorder for Figures {
    fn describe_counter(&self, name: KeyName, _: Option<metrics::Unit>, help: SharedString) {
        self.describe(&self.counts, Counter::default, name.as_str(), &help);
    }

    fn describe_gauge(&self, name: KeyName, _: Option<metrics::Unit>, help: SharedString) {
        self.describe(&self.levels, Gauge::default, name.as_str(), &help);
    }

    fn describe_histogram(&self, name: KeyName, _: Option<metrics::Unit>, help: SharedString) {
        self.describe(&self.times, || Histogram::new(BOUNDS), name.as_str(), &help);
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> metrics::Counter {
        let counter = value(&self.counts, key).map(|it| Arc::new(Value(it)));
        counter.map_or_else(metrics::Counter::noop, metrics::Counter::from_arc)
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> metrics::Gauge {
        let gauge = value(&self.levels, key).map(|it| it.bits);
        gauge.map_or_else(metrics::Gauge::noop, metrics::Gauge::from_arc)
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> metrics::Histogram {
        let times = value(&self.times, key).map(|it| Arc::new(Value(it)));
        times.map_or_else(metrics::Histogram::noop, metrics::Histogram::from_arc)
    }
}

#[derive(Debug)]
struct Value<M>(M);

impl CounterFn for Value<Counter> {
    fn increment(&self, by: u64) {
        self.0.inc_by(by);
    }

    /// Nobody sets a counter.
    fn absolute(&self, _: u64) {}
}

impl HistogramFn for Value<Histogram> {
    fn record(&self, seconds: f64) {
        self.0.observe(seconds);
    }
}

/// A level that is written without a fraction where it has none.
#[derive(Debug, Default, Clone)]
struct Gauge {
    /// Of an `f64`, as the crate `metrics` changes it.
    bits: Arc<AtomicU64>,
}

impl TypedMetric for Gauge {
    const TYPE: MetricType = MetricType::Gauge;
}

impl EncodeMetric for Gauge {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let level = f64::from_bits(self.bits.load(Ordering::Relaxed));
        match level.to_string().parse::<i64>() {
            Ok(whole) => encoder.encode_gauge(&whole),
            Err(_) => encoder.encode_gauge(&level),
        }
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}
