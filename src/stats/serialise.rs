//! `Stats` as data for other programs. The names of the fields are a promise.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::ser::{Serialize, SerializeMap, Serializer};

use super::{NodeStats, Stats};

impl Serialize for Stats {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let micros = |span: Duration| u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        let within = |part| micros(self.wait_quantile(part));
        let wait = BTreeMap::from([
            ("count", self.wait_count()),
            ("mean_us", micros(self.wait_mean())),
            ("p50_us", within(0.5)),
            ("p99_us", within(0.99)),
            ("p999_us", within(0.999)),
            ("max_us", within(1.0)),
        ]);
        let mut stats = serializer.serialize_map(None)?;
        for (name, count) in self.groups().into_iter().flat_map(|(_, counters)| counters) {
            stats.serialize_entry(name, &count)?;
        }
        stats.serialize_entry("held", &self.held())?;
        stats.serialize_entry("wait", &wait)?;
        stats.serialize_entry("nodes", &self.nodes)?;
        stats.end()
    }
}

impl Serialize for NodeStats {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut node = serializer.serialize_map(None)?;
        node.serialize_entry("node", &*self.node)?;
        for (name, count) in self.groups().into_iter().flat_map(|(_, counters)| counters) {
            node.serialize_entry(name, &count)?;
        }
        node.end()
    }
}
