//! The figures of the library, as it hands them to the crate `metrics`, and their text.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use metrics::atomics::AtomicU64;
use metrics::{HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry;

/// The upper bounds of the buckets of times, in seconds: from an uncontended lock to a job that waits for another one.
const BOUNDS: [f64; 17] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
    300.0, 1800.0,
];

/// All figures up to now. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Figures(Arc<Mutex<Vec<Figure>>>);

/// A figure, with one value for each set of labels.
#[derive(Debug)]
struct Figure {
    name: String,
    help: String,
    unit: Option<registry::Unit>,
    values: Vec<(Labels, Value)>,
}

type Labels = Vec<(String, String)>;

#[derive(Debug, Clone)]
enum Value {
    Count(Arc<AtomicU64>),
    /// The bits of an `f64`.
    Level(Arc<AtomicU64>),
    Times(Arc<Times>),
}

#[derive(Debug)]
struct Times(Histogram);

impl HistogramFn for Times {
    fn record(&self, seconds: f64) {
        self.0.observe(seconds);
    }
}

impl Figures {
    /// Has the managers that are built from now on hand their figures over.
    pub(crate) fn install() -> Self {
        let figures = Self::default();
        // It fails only if there is one already, and this is called once.
        metrics::set_global_recorder(figures.clone()).ok();
        figures
    }

    fn describe(&self, name: &KeyName, unit: Option<Unit>, help: &SharedString) {
        let mut figures = self.0.lock();
        if !figures.iter().any(|figure| figure.name == name.as_str()) {
            figures.push(Figure {
                name: name.as_str().to_owned(),
                help: help.to_string(),
                unit: (unit == Some(Unit::Seconds)).then_some(registry::Unit::Seconds),
                values: Vec::new(),
            });
        }
    }

    /// The value with these labels; if there is none yet, this one.
    fn value(&self, key: &Key, new: Value) -> Value {
        let labels = key.labels();
        let labels = labels.map(|label| (label.key().to_owned(), label.value().to_owned()));
        let labels: Labels = labels.collect();
        let mut figures = self.0.lock();
        // The library describes a figure before it gives it a value.
        let figure = figures.iter_mut().find(|figure| figure.name == key.name());
        let Some(Figure { values, .. }) = figure else {
            return new;
        };
        let known = values.iter().find(|(other, _)| *other == labels);
        if let Some((_, value)) = known {
            return value.clone();
        }
        values.push((labels, new.clone()));
        new
    }
}

impl Recorder for Figures {
    fn describe_counter(&self, name: KeyName, unit: Option<Unit>, help: SharedString) {
        self.describe(&name, unit, &help);
    }

    fn describe_gauge(&self, name: KeyName, unit: Option<Unit>, help: SharedString) {
        self.describe(&name, unit, &help);
    }

    fn describe_histogram(&self, name: KeyName, unit: Option<Unit>, help: SharedString) {
        self.describe(&name, unit, &help);
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> metrics::Counter {
        match self.value(key, Value::Count(Arc::default())) {
            Value::Count(count) => metrics::Counter::from_arc(count),
            Value::Level(_) | Value::Times(_) => metrics::Counter::noop(),
        }
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> metrics::Gauge {
        match self.value(key, Value::Level(Arc::default())) {
            Value::Level(level) => metrics::Gauge::from_arc(level),
            Value::Count(_) | Value::Times(_) => metrics::Gauge::noop(),
        }
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> metrics::Histogram {
        match self.value(key, Value::Times(Arc::new(Times(Histogram::new(BOUNDS))))) {
            Value::Times(times) => metrics::Histogram::from_arc(times),
            Value::Count(_) | Value::Level(_) => metrics::Histogram::noop(),
        }
    }
}

impl Collector for Figures {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for figure in self.0.lock().iter() {
            let Some((_, first)) = figure.values.first() else {
                continue;
            };
            // The encoder puts these endings there itself.
            let name = figure
                .name
                .trim_end_matches("_total")
                .trim_end_matches("_seconds");
            let kind = first.encoded().metric_type();
            let mut of_figure =
                encoder.encode_descriptor(name, &figure.help, figure.unit.as_ref(), kind)?;
            for (labels, value) in &figure.values {
                value.encoded().encode(of_figure.encode_family(labels)?)?;
            }
        }
        Ok(())
    }
}

impl Value {
    fn encoded(&self) -> Box<dyn EncodeMetric> {
        match self {
            Self::Count(count) => Box::new(ConstCounter::new(count.load(Ordering::Relaxed))),
            Self::Level(level) => Box::new(ConstGauge::new(f64::from_bits(
                level.load(Ordering::Relaxed),
            ))),
            Self::Times(times) => Box::new(times.0.clone()),
        }
    }
}
