//! Lists the locks: scans as few nodes as it takes for their keys, and asks all nodes about each key that may be a lock.
//!
//! A lock is on a quorum of Q of the N nodes, so any N − Q + 1 nodes have one of these among them: a scan of so many finds
//! every lock. `SCAN` returns each key that is there from its beginning to its end. So a lock is found if its holder has it
//! on the same nodes for the whole time; one that is acquired or released meanwhile may be missed. What is listed was held
//! when the nodes were asked about it.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

mod cursor;
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
    listed: Listed,
    started: Timestamp,
    /// The part of the work that is done.
    share: f64,
    /// An error that has come after locks were found in the same step.
    error: Option<Error>,
}

impl List {
    /// Begins a list of the locks on the resources whose names begin with `prefix`.
    pub(crate) fn new(cluster: &Cluster, prefix: &str) -> Result<Self, Error> {
        let names = Names::new(cluster.checked_prefix(prefix)?);
        let scans = cluster.each().map(|_| Scan::default());
        Ok(Self {
            names,
            scans: scans.collect(),
            listed: Listed::default(),
            started: cluster.clock.now(),
            share: 0.0,
            error: None,
        })
    }

    /// Makes one step: one command to one node, and what it takes to ask about the keys that were found. Returns none if the
    /// list is complete.
    pub(crate) fn step(&mut self, cluster: &Cluster) -> Result<Option<Vec<ListedLock>>, Error> {
        cluster.refuse_fork()?;
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        if self.count(State::is_complete) >= self.scans_needed() {
            self.share = 1.0;
            return Ok(None);
        }
        let Some((node, scan)) = next_scan(cluster, &mut self.scans) else {
            return Err(self.incomplete(cluster, Vec::new()));
        };
        let keys = scan.step(node, &self.names);
        if quorum::is_ruled_out(self.scans.len(), self.count(State::is_failed)) {
            return Err(self.incomplete(cluster, Vec::new()));
        }
        self.note_share();
        Ok(Some(self.look_at(cluster, &keys)))
    }

    /// The part of the work that is done: from 0.0 to 1.0, and never less than before.
    pub(crate) fn share(&self) -> f64 {
        self.share
    }

    /// Of how many nodes any majority has one.
    fn scans_needed(&self) -> usize {
        let nodes = self.scans.len();
        nodes
            .saturating_add(1)
            .saturating_sub(quorum::quorum(nodes))
    }

    fn count(&self, kind: fn(&State) -> bool) -> usize {
        self.scans.iter().filter(|scan| kind(&scan.state)).count()
    }

    fn note_share(&mut self) {
        let done = |scan: &Scan| match scan.state {
            State::Complete => 1.0,
            State::UnderWay(cursor) => cursor.share(),
            State::NotBegun | State::Failed(_) => 0.0,
        };
        let needed = u32::try_from(self.scans_needed()).unwrap_or(u32::MAX);
        let done: f64 = self.scans.iter().map(done).sum();
        self.share = (done / f64::from(needed)).clamp(self.share, 1.0);
    }

    /// The locks among these keys.
    fn look_at(&mut self, cluster: &Cluster, keys: &[Vec<u8>]) -> Vec<ListedLock> {
        let mut found: Vec<Candidate> = Vec::new();
        for key in keys {
            if let Some(candidate) = Candidate::new(cluster, key)
                && !self.listed.has(&candidate.key)
            {
                found.push(candidate);
            }
        }
        found.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        found.dedup_by(|a, b| a.key == b.key);
        let mut locks = Vec::new();
        for batch in batches(found) {
            let statuses = match self.statuses(cluster, &batch) {
                Ok(statuses) => statuses,
                Err(error) => {
                    self.error = Some(error);
                    break;
                }
            };
            for (candidate, status) in batch.into_iter().zip(statuses) {
                if matches!(status, LockStatus::Free { .. } | LockStatus::Blocked { .. }) {
                    continue;
                }
                self.listed.note(&candidate.key);
                locks.push(candidate.with(status));
            }
        }
        locks
    }

    /// Asks all nodes about these keys. If too few answer, they are asked again, the last time a majority has to.
    fn statuses(&self, cluster: &Cluster, batch: &[Candidate]) -> Result<Vec<LockStatus>, Error> {
        let mut nodes = ask(cluster, batch);
        for _ in 1..MOST_FAILURES {
            if is_answered(&nodes) {
                break;
            }
            nodes = ask(cluster, batch);
        }
        if !is_answered(&nodes) {
            let first = nodes
                .into_iter()
                .filter_map(|reports| reports.into_iter().next());
            let silent = first.filter(|report| report.vote.is_failure());
            return Err(self.incomplete(cluster, silent.collect()));
        }
        Ok(judge(cluster, &nodes))
    }

    /// The error for a list that can't be completed, with the nodes that did not answer.
    fn incomplete(&self, cluster: &Cluster, silent: Vec<NodeReport>) -> Error {
        let failed = self.scans.iter().filter_map(|scan| match &scan.state {
            State::Failed(report) => Some(report.clone()),
            State::NotBegun | State::UnderWay(_) | State::Complete => None,
        });
        let nodes = if silent.is_empty() {
            failed.collect()
        } else {
            silent
        };
        Error::Incomplete {
            waited: cluster.clock.now().saturating_since(self.started),
            nodes,
        }
    }
}

/// The scan that is under way, or else the next one: of a node that did not fail lately, if there is one.
fn next_scan<'c, 's>(
    cluster: &'c Cluster,
    scans: &'s mut [Scan],
) -> Option<(&'c Node, &'s mut Scan)> {
    let rank = |node: &Node, scan: &Scan| match scan.state {
        State::UnderWay(_) => Some(0),
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
struct Candidate {
    key: String,
    resource: String,
    slot: Option<u32>,
}

impl Candidate {
    fn new(cluster: &Cluster, key: &[u8]) -> Option<Self> {
        let (resource, slot) = cluster.resource_of(key)?;
        let key = str::from_utf8(key).ok()?.to_owned();
        Some(Self {
            key,
            resource,
            slot,
        })
    }

    fn with(self, status: LockStatus) -> ListedLock {
        ListedLock {
            resource: self.resource,
            slot: self.slot,
            status,
        }
    }
}

/// Cuts candidates into batches that can be asked about at once.
fn batches(candidates: Vec<Candidate>) -> Vec<Vec<Candidate>> {
    let mut batches: Vec<Vec<Candidate>> = Vec::new();
    let mut bytes = 0_usize;
    for candidate in candidates {
        bytes = bytes.saturating_add(candidate.key.len());
        match batches.last_mut() {
            Some(batch) if batch.len() < MOST_AT_ONCE && bytes <= MOST_BYTES => {
                batch.push(candidate);
            }
            _ => {
                bytes = candidate.key.len();
                batches.push(vec![candidate]);
            }
        }
    }
    batches
}

/// Asks the nodes that did not fail lately about these keys. Returns what each node says of each key.
fn ask(cluster: &Cluster, batch: &[Candidate]) -> Vec<Vec<NodeReport>> {
    let keys: Vec<String> = batch.iter().map(|one| one.key.clone()).collect();
    look_at_closed(cluster, &command::show(&keys))
}

/// Whether a majority of the nodes says something of each key.
fn is_answered(nodes: &[Vec<NodeReport>]) -> bool {
    let is_silent = |reports: &&Vec<NodeReport>| reports.iter().any(|node| node.vote.is_silent());
    let silent = nodes.iter().filter(is_silent).count();
    !quorum::is_ruled_out(nodes.len(), silent)
}

/// The locks that were listed.
#[derive(Default)]
struct Listed {
    keyed: RandomState,
    /// Hashes of their keys. That two of a million are equal happens once in 30 million lists.
    hashes: HashSet<u64>,
}

impl Listed {
    fn has(&self, key: &str) -> bool {
        self.hashes.contains(&self.keyed.hash_one(key))
    }

    fn note(&mut self, key: &str) {
        if self.hashes.len() < MOST_REMEMBERED {
            self.hashes.insert(self.keyed.hash_one(key));
        }
    }
}
