//! Lists the locks: scans as few nodes as it takes for their keys, and asks all nodes about each key that may be a lock.
//!
//! A lock is on a quorum of Q of the N nodes, so any N − Q + 1 nodes have one of these among them: a scan of so many finds
//! every lock. `SCAN` returns each key that is there from its beginning to its end. So a lock is found if its holder has it
//! on the same nodes for the whole time; one that is acquired or released meanwhile may be missed. What is listed was held
//! when the nodes were asked about it.

use std::collections::{BTreeMap, HashSet};
use std::hash::BuildHasher;

mod scan;

use self::scan::{MOST_FAILURES, Scan};
use crate::clock::Timestamp;
use crate::cluster::Cluster;
use crate::error::{Error, NodeReport};
use crate::node::command;
use crate::node::key_report::KeyReport;
use crate::protocol::look::{judge, look_at_closed};
use crate::quorum;
use crate::status::{ListedLock, LockStatus};

/// The most keys that all nodes are asked about at once, and the most bytes of their names. More would take longer than a
/// node timeout on a link of 10 Mbit/s.
pub(super) const MOST_AT_ONCE: usize = 64;
const MOST_BYTES: usize = 16 * 1024;

/// This many listed locks are remembered, so that none is listed twice. It takes 19 MB at most.
const MOST_REMEMBERED: usize = 1 << 20;

pub(crate) struct List {
    /// What the keys begin with that are looked for.
    prefix: String,
    /// In the canonical order.
    scans: Vec<Scan>,
    /// Keys that the last scan has found and that may be locks, with the resource and the slot of each.
    found: BTreeMap<String, (String, Option<u32>)>,
    /// Hashes of the keys that were listed. That two of a million are equal happens once in 30 million lists.
    listed: HashSet<u64>,
    started: Timestamp,
    /// The part of the work that is done.
    share: f64,
    /// Whether it is complete, or has failed.
    is_over: bool,
}

impl List {
    /// Begins a list of the locks on the resources whose names begin with `prefix`.
    pub(crate) fn new(cluster: &Cluster, prefix: &str) -> Result<Self, Error> {
        let prefix = cluster.checked_prefix(prefix)?.into_owned();
        let scans = cluster.nodes().iter().map(|_| Scan::default());
        Ok(Self {
            prefix,
            scans: scans.collect(),
            found: BTreeMap::new(),
            listed: HashSet::new(),
            started: cluster.clock.now(),
            share: 0.0,
            is_over: false,
        })
    }

    /// Makes one step: one command to one node, or what it takes to ask about keys that were found. Returns the locks among these, or
    /// the error that ends the list; none after the end.
    pub(crate) fn step(&mut self, cluster: &Cluster) -> Option<Result<Vec<ListedLock>, Error>> {
        if self.is_over {
            return None;
        }
        let locks = self.advance(cluster);
        self.is_over |= locks.is_err();
        Some(locks)
    }

    fn advance(&mut self, cluster: &Cluster) -> Result<Vec<ListedLock>, Error> {
        cluster.refuse_fork()?;
        if !self.found.is_empty() {
            return self.look_at_found(cluster);
        }
        // Any majority has one of so many nodes.
        let nodes = self.scans.len();
        let needed = nodes
            .saturating_add(1)
            .saturating_sub(quorum::quorum(nodes));
        let complete = self.scans.iter().filter(|scan| scan.is_complete());
        if complete.count() >= needed {
            self.share = 1.0;
            self.is_over = true;
            return Ok(Vec::new());
        }
        let failed: Vec<_> = self.scans.iter().filter_map(Scan::failure).collect();
        let may_end = !quorum::is_ruled_out(nodes, failed.len());
        let scans = cluster
            .nodes()
            .iter()
            .zip(&mut self.scans)
            .filter(|_| may_end);
        let open = scans.filter_map(|(node, scan)| Some((scan.rank(node.is_well())?, node, scan)));
        let Some((_, node, scan)) = open.min_by_key(|(rank, ..)| *rank) else {
            return Err(self.incomplete(cluster, failed));
        };
        for key in scan.step(node, &self.prefix) {
            if let Ok(key) = String::from_utf8(key)
                && let Some(lock) = cluster.resource_of(&key)
                && !self.listed.contains(&self.listed.hasher().hash_one(&key))
            {
                self.found.insert(key, lock);
            }
        }
        let done: f64 = self.scans.iter().map(Scan::share).sum();
        let needed = u32::try_from(needed).unwrap_or(u32::MAX);
        self.share = (done / f64::from(needed)).clamp(self.share, 1.0);
        Ok(Vec::new())
    }

    /// The part of the work that is done: from 0.0 to 1.0, and never less than before.
    pub(crate) fn share(&self) -> f64 {
        self.share
    }

    /// The locks among keys that were found, as many as fit into one question and one at least.
    fn look_at_found(&mut self, cluster: &Cluster) -> Result<Vec<ListedLock>, Error> {
        let (mut batch, mut keys, mut bytes) = (Vec::new(), Vec::new(), 0_usize);
        while let Some(first) = self.found.first_entry() {
            bytes = bytes.saturating_add(first.key().len());
            if batch.len() >= MOST_AT_ONCE || (bytes > MOST_BYTES && !batch.is_empty()) {
                break;
            }
            let (key, lock) = first.remove_entry();
            keys.push(key);
            batch.push(lock);
        }
        let statuses = self.statuses(cluster, &keys)?;
        let mut locks = Vec::new();
        for ((key, (resource, slot)), status) in keys.iter().zip(batch).zip(statuses) {
            if matches!(status, LockStatus::Free { .. } | LockStatus::Blocked { .. }) {
                continue;
            }
            if self.listed.len() < MOST_REMEMBERED {
                let hash = self.listed.hasher().hash_one(key);
                self.listed.insert(hash);
            }
            locks.push(ListedLock {
                resource,
                slot,
                status,
            });
        }
        Ok(locks)
    }

    /// Asks the nodes that did not fail lately about these keys, and again if too few of them answer.
    fn statuses(&self, cluster: &Cluster, keys: &[String]) -> Result<Vec<LockStatus>, Error> {
        let command = command::show(keys.iter().map(String::as_str));
        let is_silent = |of_node: &&Vec<KeyReport>| of_node.iter().any(|key| key.vote.is_silent());
        let mut nodes = Vec::new();
        for _ in 0..MOST_FAILURES {
            nodes = look_at_closed(cluster, &command);
            let silent = nodes.iter().filter(is_silent).count();
            if !quorum::is_ruled_out(nodes.len(), silent) {
                return Ok(judge(cluster, &nodes));
            }
        }
        let first = nodes
            .into_iter()
            .filter_map(|of_node| of_node.into_iter().next());
        let mut silent = cluster.in_full(first);
        silent.retain(|report| report.vote.is_failure());
        Err(self.incomplete(cluster, silent))
    }

    /// The error for a list that can't be completed, because these nodes did not answer.
    fn incomplete(&self, cluster: &Cluster, nodes: Vec<NodeReport>) -> Error {
        let waited = cluster.clock.now().saturating_since(self.started);
        Error::Incomplete { waited, nodes }
    }
}
