//! Lists the locks: scans as few nodes as it takes for their keys, and asks all nodes about each key that may be a lock.
//!
//! A lock is on a quorum of Q of the N nodes, so any N − Q + 1 nodes have one of these among them: a scan of so many finds
//! every lock. `SCAN` returns each key that is there from its beginning to its end. So a lock is found if its holder has it
//! on the same nodes for the whole time; one that is acquired or released meanwhile may be missed. What is listed was held
//! when the nodes were asked about it.

use std::collections::{BTreeSet, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::mem::replace;

mod scan;

use self::scan::{MOST_FAILURES, Names, Scan, State};
use crate::clock::Timestamp;
use crate::cluster::Cluster;
use crate::error::{Error, NodeReport};
use crate::node::Node;
use crate::node::command;
use crate::protocol::look::{judge, look_at_closed};
use crate::quorum;
use crate::status::{ListedLock, LockStatus};

/// The most keys that all nodes are asked about at once, and the most bytes of their names. More would take longer than a
/// node timeout on a link of 10 Mbit/s.
const MOST_AT_ONCE: usize = 64;
const MOST_BYTES: usize = 16 * 1024;

/// This many listed locks are remembered, so that none is listed twice. It takes 19 MB at most.
const MOST_REMEMBERED: usize = 1 << 20;

/// A list that is being made.
pub(crate) struct List {
    names: Names,
    /// In the canonical order.
    scans: Vec<Scan>,
    /// Hashes of the keys that were listed. That two of a million are equal happens once in 30 million lists.
    listed: HashSet<u64>,
    keyed: RandomState,
    started: Timestamp,
    /// The part of the work that is done.
    share: f64,
    /// Whether it is complete, or has failed.
    is_over: bool,
}

impl List {
    /// Begins a list of the locks on the resources whose names begin with `prefix`.
    pub(crate) fn new(cluster: &Cluster, prefix: &str) -> Result<Self, Error> {
        let names = Names::new(cluster.checked_prefix(prefix)?);
        let scans = cluster.each().map(|_| Scan::default());
        Ok(Self {
            names,
            scans: scans.collect(),
            listed: HashSet::new(),
            keyed: RandomState::new(),
            started: cluster.clock.now(),
            share: 0.0,
            is_over: false,
        })
    }

    /// Makes one step: one command to one node, and what it takes to ask about the keys that were found. Returns the locks among
    /// them, and the error that ends the list; none after the end.
    pub(crate) fn step(&mut self, cluster: &Cluster) -> Option<Vec<Result<ListedLock, Error>>> {
        if self.is_over {
            return None;
        }
        let mut locks = Vec::new();
        if let Err(error) = self.advance(cluster, &mut locks) {
            self.is_over = true;
            locks.push(Err(error));
        }
        Some(locks)
    }

    fn advance(
        &mut self,
        cluster: &Cluster,
        locks: &mut Vec<Result<ListedLock, Error>>,
    ) -> Result<(), Error> {
        cluster.refuse_fork()?;
        // Any majority has one of so many nodes.
        let nodes = self.scans.len();
        let needed = nodes
            .saturating_add(1)
            .saturating_sub(quorum::quorum(nodes));
        let is_complete = |scan: &&Scan| matches!(scan.state, State::Complete);
        if self.scans.iter().filter(is_complete).count() >= needed {
            self.share = 1.0;
            self.is_over = true;
            return Ok(());
        }
        let Some((node, scan)) = next_scan(cluster, &mut self.scans) else {
            return Err(self.incomplete(cluster, self.failed()));
        };
        let keys = scan.step(node, &self.names);
        let failed = self.failed();
        if quorum::is_ruled_out(nodes, failed.len()) {
            return Err(self.incomplete(cluster, failed));
        }
        let done: f64 = self.scans.iter().map(Scan::share).sum();
        let needed = u32::try_from(needed).unwrap_or(u32::MAX);
        self.share = (done / f64::from(needed)).clamp(self.share, 1.0);
        self.look_at(cluster, &keys, locks)
    }

    /// The part of the work that is done: from 0.0 to 1.0, and never less than before.
    pub(crate) fn share(&self) -> f64 {
        self.share
    }

    /// Adds the locks among these keys.
    fn look_at(
        &mut self,
        cluster: &Cluster,
        keys: &[Vec<u8>],
        locks: &mut Vec<Result<ListedLock, Error>>,
    ) -> Result<(), Error> {
        let candidate = |key: &Vec<u8>| {
            let key = str::from_utf8(key).ok()?.to_owned();
            let (resource, slot) = cluster.resource_of(&key)?;
            Some(Candidate {
                key,
                resource,
                slot,
            })
        };
        let candidates = keys.iter().filter_map(candidate);
        let is_new = |one: &Candidate| !self.listed.contains(&self.keyed.hash_one(&one.key));
        let found: BTreeSet<Candidate> = candidates.filter(is_new).collect();
        let mut found: Vec<Candidate> = found.into_iter().collect();
        while !found.is_empty() {
            let rest = found.split_off(at_once(&found));
            let batch = replace(&mut found, rest);
            let statuses = self.statuses(cluster, &batch)?;
            for (candidate, status) in batch.into_iter().zip(statuses) {
                if matches!(status, LockStatus::Free { .. } | LockStatus::Blocked { .. }) {
                    continue;
                }
                if self.listed.len() < MOST_REMEMBERED {
                    self.listed.insert(self.keyed.hash_one(&candidate.key));
                }
                locks.push(Ok(ListedLock {
                    resource: candidate.resource,
                    slot: candidate.slot,
                    status,
                }));
            }
        }
        Ok(())
    }

    /// Asks the nodes that did not fail lately about these keys, and again if too few of them answer.
    fn statuses(&self, cluster: &Cluster, batch: &[Candidate]) -> Result<Vec<LockStatus>, Error> {
        let keys: Vec<String> = batch.iter().map(|one| one.key.clone()).collect();
        let command = command::show(&keys);
        let is_silent = |of_node: &&Vec<NodeReport>| of_node.iter().any(|key| key.vote.is_silent());
        let mut nodes = Vec::new();
        for _ in 0..MOST_FAILURES {
            nodes = look_at_closed(cluster, &command);
            let silent = nodes.iter().filter(is_silent).count();
            if !quorum::is_ruled_out(nodes.len(), silent) {
                return Ok(judge(cluster, &nodes));
            }
        }
        let first = nodes.iter().filter_map(|of_node| of_node.first());
        let silent = first.filter(|report| report.vote.is_failure());
        Err(self.incomplete(cluster, silent.cloned().collect()))
    }

    /// The nodes whose scan has failed.
    fn failed(&self) -> Vec<NodeReport> {
        let failed = self.scans.iter().filter_map(|scan| match &scan.state {
            State::Failed(report) => Some(report.clone()),
            State::NotBegun | State::UnderWay | State::Complete => None,
        });
        failed.collect()
    }

    /// The error for a list that can't be completed, with the nodes that did not answer.
    fn incomplete(&self, cluster: &Cluster, nodes: Vec<NodeReport>) -> Error {
        let waited = cluster.clock.now().saturating_since(self.started);
        Error::Incomplete { waited, nodes }
    }
}

/// The scan that is under way, or else the next one: of a node that did not fail lately, if there is one.
fn next_scan<'c, 's>(
    cluster: &'c Cluster,
    scans: &'s mut [Scan],
) -> Option<(&'c Node, &'s mut Scan)> {
    let rank = |node: &Node, scan: &Scan| match scan.state {
        State::UnderWay => Some(0),
        State::NotBegun if node.is_closed() => Some(1),
        State::NotBegun => Some(2),
        State::Complete | State::Failed(_) => None,
    };
    let ranked = cluster
        .each()
        .zip(scans)
        .filter_map(|(node, scan)| Some((rank(node, scan)?, node, scan)));
    let first = ranked.min_by_key(|(rank, ..)| *rank);
    first.map(|(_, node, scan)| (node, scan))
}

/// A key that may be a lock.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    key: String,
    resource: String,
    slot: Option<u32>,
}

/// How many of these can be asked about at once: one at least.
fn at_once(candidates: &[Candidate]) -> usize {
    let mut bytes = 0_usize;
    let fit = candidates.iter().take(MOST_AT_ONCE).take_while(|one| {
        bytes = bytes.saturating_add(one.key.len());
        bytes <= MOST_BYTES
    });
    fit.count().max(1)
}
