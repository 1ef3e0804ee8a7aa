//! `Stats` as data for other programs. The names of the fields are a promise.

use std::time::Duration;

use serde::ser::{Serialize, SerializeMap, SerializeStruct, Serializer};

use super::{NodeStats, Stats};

impl Serialize for Stats {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut stats = serializer.serialize_map(None)?;
        for (name, count) in self.counters().chain([("held", self.held())]) {
            stats.serialize_entry(name, &count)?;
        }
        stats.serialize_entry("wait", &WaitTimes(self))?;
        stats.serialize_entry("nodes", &self.nodes)?;
        stats.end()
    }
}

/// The wait times of a snapshot.
struct WaitTimes<'a>(&'a Stats);

impl Serialize for WaitTimes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let within = |part| micros(self.0.wait_quantile(part));
        let mut wait = serializer.serialize_struct("WaitTimes", 6)?;
        wait.serialize_field("count", &self.0.wait_count())?;
        wait.serialize_field("mean_us", &micros(self.0.wait_mean()))?;
        wait.serialize_field("p50_us", &within(0.5))?;
        wait.serialize_field("p99_us", &within(0.99))?;
        wait.serialize_field("p999_us", &within(0.999))?;
        wait.serialize_field("max_us", &within(1.0))?;
        wait.end()
    }
}

impl Serialize for NodeStats {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut node = serializer.serialize_struct("NodeStats", 6)?;
        node.serialize_field("node", &*self.node)?;
        node.serialize_field("granted", &self.granted)?;
        node.serialize_field("refused", &self.refused)?;
        node.serialize_field("failed", &self.failed)?;
        node.serialize_field("opened", &self.opened)?;
        node.serialize_field("closed", &self.closed)?;
        node.end()
    }
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}
