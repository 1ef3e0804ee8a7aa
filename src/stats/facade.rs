//! Hands the figures on to the recorder that the program has installed for the crate `metrics`. Without the cargo feature
//! `metrics` there is a type without size that does nothing.
//!
//! The recorder is looked up each time, as the macros of that crate do. So it does not matter when it was installed, but
//! for the descriptions: these are given when a manager is built.

pub(super) use self::chosen::Export;

/// What a figure is.
#[derive(Debug, Clone, Copy)]
pub(super) enum FigureKind {
    Counter,
    Gauge,
    /// A histogram.
    Times,
}

#[cfg(feature = "metrics")]
mod chosen {
    use std::time::Duration;

    use metrics::{Key, KeyName, Label, Level, Metadata, Recorder, Unit, with_recorder};

    use super::FigureKind;
    use crate::callbacks::despite_panics;

    static METADATA: Metadata<'static> = Metadata::new("redlatch", Level::INFO, None);

    /// A figure as the recorder of the program knows it. Every call of the recorder may panic.
    #[derive(Debug)]
    pub(crate) struct Export {
        key: Key,
        /// The gauge that changes with this counter, and by how much.
        gauge: Option<(Key, f64)>,
    }

    impl Export {
        /// Describes the figure, and has it begin at zero.
        pub(crate) fn new(
            kind: FigureKind,
            name: &str,
            text: &'static str,
            labels: &[(&'static str, &str)],
        ) -> Self {
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
            Self { key, gauge: None }
        }

        /// Has a gauge change with this counter.
        pub(crate) fn changing(self, gauge: &Self, by: f64) -> Self {
            let gauge = Some((gauge.key.clone(), by));
            Self { gauge, ..self }
        }

        pub(crate) fn count(&self) {
            tell(|recorder| {
                recorder.register_counter(&self.key, &METADATA).increment(1);
                if let Some((gauge, by)) = &self.gauge {
                    recorder.register_gauge(gauge, &METADATA).increment(*by);
                }
            });
        }

        pub(crate) fn record(&self, time: Duration) {
            tell(|recorder| {
                let histogram = recorder.register_histogram(&self.key, &METADATA);
                histogram.record(time.as_secs_f64());
            });
        }
    }

    fn tell(news: impl FnOnce(&dyn Recorder)) {
        despite_panics(|| with_recorder(news));
    }
}

#[cfg(not(feature = "metrics"))]
#[expect(clippy::unused_self, reason = "there is nothing to use")]
mod chosen {
    use std::time::Duration;

    use super::FigureKind;

    #[derive(Debug)]
    pub(crate) struct Export;

    impl Export {
        pub(crate) fn new(
            _kind: FigureKind,
            _name: &str,
            _text: &'static str,
            _labels: &[(&'static str, &str)],
        ) -> Self {
            Self
        }

        pub(crate) fn changing(self, _gauge: &Self, _by: f64) -> Self {
            self
        }

        pub(crate) fn count(&self) {}

        pub(crate) fn record(&self, _time: Duration) {}
    }
}
