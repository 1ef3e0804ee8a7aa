//! Hands the figures on to the recorder that the program has installed for the crate `metrics`. Without the cargo feature
//! `metrics` it does nothing.
//!
//! The recorder is looked up each time, as the macros of that crate do. So it does not matter when it was installed, but
//! for the descriptions: these are given when a manager is built.

#![cfg_attr(
    not(feature = "metrics"),
    expect(unused_variables, clippy::unused_self, reason = "there is no recorder")
)]

use std::time::Duration;

#[cfg(feature = "metrics")]
use metrics::{Key, KeyName, Label, Level, Metadata, Recorder, Unit, with_recorder};

#[cfg(feature = "metrics")]
static METADATA: Metadata<'static> = Metadata::new("redlatch", Level::INFO, None);

#[derive(Debug, Clone, Copy)]
pub(super) enum FigureKind {
    Counter,
    Gauge,
    /// A histogram.
    Times,
}

/// A figure as the recorder of the program knows it.
#[derive(Debug)]
pub(super) struct Export {
    #[cfg(feature = "metrics")]
    key: Key,
}

impl Export {
    /// Describes the figure, and has it begin at zero.
    pub(super) fn new(
        kind: FigureKind,
        name: &str,
        text: &'static str,
        labels: &[(&'static str, &str)],
    ) -> Self {
        #[cfg(feature = "metrics")]
        let key = {
            let suffix = match kind {
                FigureKind::Counter => "_total",
                FigureKind::Gauge => "",
                FigureKind::Times => "_seconds",
            };
            let labels = labels.iter();
            let labels = labels.map(|(label, value)| Label::new(*label, (*value).to_owned()));
            let name = KeyName::from(format!("redlatch_{name}{suffix}"));
            let key = Key::from_parts(name.clone(), labels.collect::<Vec<_>>());
            let text = text.into();
            tell(|recorder| match kind {
                FigureKind::Counter => {
                    recorder.describe_counter(name, Some(Unit::Count), text);
                    recorder.register_counter(&key, &METADATA).increment(0);
                }
                FigureKind::Gauge => {
                    recorder.describe_gauge(name, Some(Unit::Count), text);
                    recorder.register_gauge(&key, &METADATA).increment(0.0);
                }
                FigureKind::Times => {
                    recorder.describe_histogram(name, Some(Unit::Seconds), text);
                    drop(recorder.register_histogram(&key, &METADATA));
                }
            });
            key
        };
        Self {
            #[cfg(feature = "metrics")]
            key,
        }
    }

    /// For a counter.
    pub(super) fn count(&self) {
        #[cfg(feature = "metrics")]
        tell(|recorder| recorder.register_counter(&self.key, &METADATA).increment(1));
    }

    /// For a gauge.
    pub(super) fn change(&self, by: f64) {
        #[cfg(feature = "metrics")]
        tell(|recorder| recorder.register_gauge(&self.key, &METADATA).increment(by));
    }

    /// For times.
    pub(super) fn record(&self, time: Duration) {
        #[cfg(feature = "metrics")]
        tell(|recorder| {
            let histogram = recorder.register_histogram(&self.key, &METADATA);
            histogram.record(time.as_secs_f64());
        });
    }
}

/// Every call of the recorder may panic.
#[cfg(feature = "metrics")]
fn tell(news: impl FnOnce(&dyn Recorder)) {
    crate::callbacks::despite_panics(|| with_recorder(news));
}
