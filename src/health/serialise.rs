//! Health as data for other programs. The names of the fields are a promise; unknown values are null.

use serde::ser::{Serialize, SerializeMap, SerializeStruct, Serializer};

use super::facts::{Facts, unit};
use super::{Finding, Health, Severity};

impl Serialize for Health {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let survives = (self.margin >= 0).then_some(self.margin);
        let mut health = serializer.serialize_struct("Health", 8)?;
        health.serialize_field("severity", &self.severity)?;
        health.serialize_field("margin", &self.margin)?;
        health.serialize_field("survives_failures", &survives)?;
        health.serialize_field("missing_votes", &self.margin.saturating_neg().max(0))?;
        health.serialize_field("voters", &self.voters)?;
        health.serialize_field("quorum", &self.quorum)?;
        health.serialize_field("findings", &self.findings)?;
        health.serialize_field("nodes", &self.nodes)?;
        health.end()
    }
}

impl Serialize for Severity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Serialize for Finding {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let nodes: Vec<&str> = self.nodes.iter().map(AsRef::as_ref).collect();
        let mut finding = serializer.serialize_struct("Finding", 6)?;
        finding.serialize_field("code", self.code)?;
        finding.serialize_field("severity", &self.severity)?;
        finding.serialize_field("nodes", &nodes)?;
        finding.serialize_field("message", &self.message)?;
        finding.serialize_field("advice", &self.advice)?;
        finding.serialize_field("text", &self.to_string())?;
        finding.end()
    }
}

impl Serialize for Facts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut facts = serializer.serialize_map(None)?;
        facts.serialize_entry("node", &*self.node)?;
        for (name, text) in self.all() {
            match unit(name) {
                Some(_) => facts.serialize_entry(name, &self.number(name))?,
                None => facts.serialize_entry(name, &text)?,
            }
        }
        facts.end()
    }
}
