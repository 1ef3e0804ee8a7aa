//! A lock on its way from one worker or thread to another.

use std::fmt;

use redlatch::Lease;

use crate::on::{Kind, On};

/// A lease, and what whoever adopts it has to know of the lock.
#[derive(Debug, PartialEq)]
pub(crate) struct Parcel {
    pub(crate) lease: Lease,
    pub(crate) on: On,
    pub(crate) ttl_ms: u64,
}

impl Parcel {
    /// The reverse of its text.
    pub(crate) fn from_words(text: &str) -> Option<Self> {
        let [ttl_ms, kind, resources, lease] =
            text.split(' ').collect::<Vec<_>>().try_into().ok()?;
        let resources = resources.split(',').map(|resource| resource.parse().ok());
        let on = On {
            kind: *Kind::ALL.get(kind.parse::<usize>().ok()?)?,
            resources: resources.collect::<Option<_>>()?,
        };
        Some(Self {
            lease: lease.parse().ok()?,
            on,
            ttl_ms: ttl_ms.parse().ok()?,
        })
    }
}

/// In one line.
impl fmt::Display for Parcel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = Kind::ALL.iter().position(|kind| *kind == self.on.kind);
        let resources: Vec<String> = self.on.resources.iter().map(u32::to_string).collect();
        let (kind, resources) = (kind.unwrap_or_default(), resources.join(","));
        write!(f, "{} {kind} {resources} {}", self.ttl_ms, self.lease)
    }
}
