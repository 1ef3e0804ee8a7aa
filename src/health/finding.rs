//! What is wrong with a deployment, and what to do about it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::Severity;
use super::advice::{mend, quarantined, replica};
use super::node::{ClockDifference, NodeHealth, Persistence, Quarantine, Reach, Role};
use crate::error::NodeError;
use crate::fencing::{Protocol, Rules};

/// Clocks that are certainly further apart than this are not kept by anyone.
const LARGEST_CLOCK_DIFFERENCE: Duration = Duration::from_secs(1);

/// Something that is wrong, or that could not be seen. Its `Display` is one line: where, what, and what to do.
///
/// ```
/// use redlatch::Finding;
/// # use redlatch::LockManager;
/// # use redlatch::fake::FakeNode;
/// # let nodes = FakeNode::cluster(3);
/// # nodes[1].refuse();
/// # let manager = LockManager::builder().fakes(&nodes).build()?;
///
/// for finding in &manager.health()?.findings {
///     if let Finding::Unreachable { node, .. } = finding {
///         println!("restart {node}");
///     }
///     println!("{}: {finding}", finding.severity());
/// }
/// # Ok::<(), redlatch::Error>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Finding {
    /// Too few nodes can vote, so no lock can be taken. Critical.
    #[non_exhaustive]
    NoMajority {
        /// How many can vote.
        voters: usize,
        /// How many have to.
        quorum: usize,
    },
    /// Several nodes are one server, which would vote more than once. Critical.
    #[non_exhaustive]
    SameServer {
        /// The nodes.
        nodes: Vec<Arc<str>>,
        /// What they have in common.
        run_id: String,
    },
    /// The node is a replica, or `KeyDB`'s active-replica: what it has is not its own. Critical.
    #[non_exhaustive]
    Replica {
        /// The node.
        node: Arc<str>,
        /// Which of the two.
        role: Role,
    },
    /// The server deletes keys when its memory is used up, and locks are keys. Critical.
    #[non_exhaustive]
    Evicts {
        /// The node.
        node: Arc<str>,
        /// The server's `maxmemory-policy`.
        policy: String,
    },
    /// The node does not answer. A warning; if too many don't, there is [`NoMajority`](Self::NoMajority) as well.
    #[non_exhaustive]
    Unreachable {
        /// The node.
        node: Arc<str>,
        /// Why not.
        reach: Reach,
    },
    /// The node answers with an error that locks would meet as well, or does not vote for a client with the settings and
    /// the clock of this one. A warning.
    #[non_exhaustive]
    Refuses {
        /// The node.
        node: Arc<str>,
        /// The error.
        error: NodeError,
    },
    /// The server is a part of a Redis Cluster, or a sentinel. A warning.
    #[non_exhaustive]
    NotStandalone {
        /// The node.
        node: Arc<str>,
        /// The server's `redis_mode`.
        mode: String,
    },
    /// The role is none that this crate knows. A warning; the node counts as one that can vote.
    #[non_exhaustive]
    UnknownRole {
        /// The node.
        node: Arc<str>,
        /// What it says it is.
        role: String,
    },
    /// The server's last write to disk failed, after which it may accept no more locks. A warning.
    #[non_exhaustive]
    FailsToSave {
        /// The node.
        node: Arc<str>,
    },
    /// The servers keep no append-only file, so one that is restarted has forgotten locks, and gives its vote a second time
    /// to a client that does not fence. A warning, and none for a manager that fences.
    #[non_exhaustive]
    Forgets {
        /// The nodes.
        nodes: Vec<Arc<str>>,
    },
    /// The clocks of the node and of this client are certainly more than 1 s apart. A warning.
    #[non_exhaustive]
    ClockDiffers {
        /// The node.
        node: Arc<str>,
        /// By how much.
        difference: ClockDifference,
    },
    /// Clients that fence have been here, and this manager does not fence: what those would meet is not looked at. A notice.
    #[non_exhaustive]
    Marked {
        /// The nodes.
        nodes: Vec<Arc<str>>,
    },
    /// The node has no vote for this client, which fences, for a time. A warning.
    #[non_exhaustive]
    Quarantined {
        /// The node.
        node: Arc<str>,
        /// What its marker says.
        quarantine: Quarantine,
    },
    /// The markers were made by clients with different settings, which refuse to work together. A warning, and none for a
    /// manager that does not fence.
    #[non_exhaustive]
    SettingsDiffer {
        /// The nodes with these settings.
        nodes: Vec<(Arc<str>, String)>,
    },
    /// An answer is none to what was asked, so what it would have told is unknown. A warning.
    #[non_exhaustive]
    Unreadable {
        /// The node.
        node: Arc<str>,
        /// What came.
        error: NodeError,
    },
    /// The server does not say everything: an ACL hides it, or a command is renamed. A notice.
    #[non_exhaustive]
    Hidden {
        /// The node.
        node: Arc<str>,
        /// The commands that are refused.
        commands: Vec<&'static str>,
    },
}

impl Finding {
    /// Returns how bad it is.
    pub fn severity(&self) -> Severity {
        match self {
            Self::NoMajority { .. }
            | Self::SameServer { .. }
            | Self::Replica { .. }
            | Self::Evicts { .. } => Severity::Critical,
            Self::Unreachable { .. }
            | Self::Refuses { .. }
            | Self::NotStandalone { .. }
            | Self::UnknownRole { .. }
            | Self::FailsToSave { .. }
            | Self::Forgets { .. }
            | Self::ClockDiffers { .. }
            | Self::Quarantined { .. }
            | Self::SettingsDiffer { .. }
            | Self::Unreadable { .. } => Severity::Warning,
            Self::Marked { .. } | Self::Hidden { .. } => Severity::Notice,
        }
    }
}

/// All that is to be said of the nodes: of all together first, then of one after the other.
pub(super) fn find(
    nodes: &[NodeHealth],
    protocol: Protocol,
    own: Option<&Rules>,
    (voters, quorum): (usize, usize),
) -> Vec<Finding> {
    let no_majority = (voters < quorum).then_some(Finding::NoMajority { voters, quorum });
    let mut findings: Vec<Finding> = no_majority.into_iter().collect();
    findings.extend(same_servers(nodes));
    match protocol {
        Protocol::Fenced => findings.extend(settings_differ(nodes)),
        Protocol::Classic => findings.extend([forget(nodes), marked(nodes)].into_iter().flatten()),
    }
    for node in nodes {
        findings.extend(of_node(node, protocol));
        let objection = own.and_then(|rules| node.objection(rules));
        findings.extend(objection.map(|error| Finding::Refuses {
            node: Arc::clone(&node.node),
            error,
        }));
    }
    findings
}

/// One finding for each server that several nodes are.
fn same_servers(nodes: &[NodeHealth]) -> impl Iterator<Item = Finding> {
    nodes.iter().enumerate().filter_map(|(i, node)| {
        let mut before = nodes.iter().take(i);
        let run_id = node.run_id.clone()?;
        if before.any(|other| node.is_same_server(other)) {
            return None;
        }
        let same = nodes.iter().filter(|other| node.is_same_server(other));
        let nodes: Vec<Arc<str>> = same.map(|other| Arc::clone(&other.node)).collect();
        (nodes.len() > 1).then_some(Finding::SameServer { nodes, run_id })
    })
}

/// A node that forgets matters to a client that does not fence: nothing keeps it from voting twice.
fn forget(nodes: &[NodeHealth]) -> Option<Finding> {
    let forgets = |node: &NodeHealth| {
        let persistence = node.persistence;
        let has_no_aof = matches!(persistence, Some(Persistence::Off | Persistence::Snapshots));
        has_no_aof && node.can_vote()
    };
    let nodes = names(nodes, forgets)?;
    Some(Finding::Forgets { nodes })
}

fn marked(nodes: &[NodeHealth]) -> Option<Finding> {
    let nodes = names(nodes, |node| node.quarantine.is_marked())?;
    Some(Finding::Marked { nodes })
}

/// Those of which something is true, unless there are none.
fn names(nodes: &[NodeHealth], is_it: impl Fn(&NodeHealth) -> bool) -> Option<Vec<Arc<str>>> {
    let nodes = nodes.iter().filter(|node| is_it(node));
    let names: Vec<Arc<str>> = nodes.map(|node| Arc::clone(&node.node)).collect();
    (!names.is_empty()).then_some(names)
}

fn settings_differ(nodes: &[NodeHealth]) -> Option<Finding> {
    let of_node = |node: &NodeHealth| Some((Arc::clone(&node.node), node.settings.clone()?));
    let nodes: Vec<(Arc<str>, String)> = nodes.iter().filter_map(of_node).collect();
    let (_, first) = nodes.first()?;
    let is_mixed = nodes.iter().any(|(_, settings)| settings != first);
    is_mixed.then_some(Finding::SettingsDiffer { nodes })
}

fn of_node(health: &NodeHealth, protocol: Protocol) -> impl Iterator<Item = Finding> {
    let node = || Arc::clone(&health.node);
    let answers = matches!(health.reach, Reach::Answers);
    let reach = match &health.reach {
        Reach::Answers => None,
        Reach::Refuses(error) => Some(Finding::Refuses {
            node: node(),
            error: error.clone(),
        }),
        reach @ (Reach::TimedOut | Reach::Failed(_)) => Some(Finding::Unreachable {
            node: node(),
            reach: reach.clone(),
        }),
    };
    let role = match &health.role {
        role @ (Role::Replica { .. } | Role::ActiveReplica) => Some(Finding::Replica {
            node: node(),
            role: role.clone(),
        }),
        Role::Other(role) => Some(Finding::UnknownRole {
            node: node(),
            role: role.clone(),
        }),
        Role::Master | Role::Unknown => None,
    };
    let eviction = health.eviction.clone();
    let evicts = eviction.filter(|policy| policy != "noeviction");
    let mode = health.mode.clone().filter(|mode| mode != "standalone");
    let is_apart = |difference: &ClockDifference| {
        difference.by().saturating_sub(difference.uncertainty()) > LARGEST_CLOCK_DIFFERENCE
    };
    let is_fenced = protocol == Protocol::Fenced;
    let quarantine =
        Some(health.quarantine).filter(|state| answers && is_fenced && state.is_closed());
    // What stands in the way of everything hides everything, too.
    let hidden = answers && !health.hidden.is_empty();
    let unreadable = health.unreadable.clone().filter(|_| answers);
    [
        role,
        evicts.map(|policy| Finding::Evicts {
            node: node(),
            policy,
        }),
        reach,
        mode.map(|mode| Finding::NotStandalone { node: node(), mode }),
        health
            .fails_to_save
            .then(|| Finding::FailsToSave { node: node() }),
        health
            .clock
            .filter(is_apart)
            .map(|difference| Finding::ClockDiffers {
                node: node(),
                difference,
            }),
        quarantine.map(|quarantine| Finding::Quarantined {
            node: node(),
            quarantine,
        }),
        unreadable.map(|error| Finding::Unreadable {
            node: node(),
            error,
        }),
        hidden.then(|| Finding::Hidden {
            node: node(),
            commands: health.hidden.clone(),
        }),
    ]
    .into_iter()
    .flatten()
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoMajority { voters, quorum } => write!(
                f,
                "no lock can be taken: {voters} of the {quorum} votes that are needed can be had; \
                 mend the nodes below"
            ),
            Self::SameServer { nodes, run_id } => {
                write!(
                    f,
                    "{}: one server (run_id {run_id}) that would vote more than once; \
                     name each server once, in every client",
                    nodes.join(" and ")
                )
            }
            Self::Replica { node, role } => replica(f, node, role),
            Self::Evicts { node, policy } => write!(
                f,
                "{node}: deletes keys, and so locks, when its memory is used up ({policy}); \
                 CONFIG SET maxmemory-policy noeviction, and the same in its configuration"
            ),
            Self::Unreachable { node, reach } => write!(f, "{node}: {reach}; {}", mend(reach)),
            Self::Refuses { node, error } => write!(
                f,
                "{node}: {error}; no lock can be taken there until that is mended"
            ),
            Self::NotStandalone { node, mode } => write!(
                f,
                "{node}: runs in mode {mode}; give each node a server of its own, in mode standalone"
            ),
            Self::UnknownRole { node, role } => write!(
                f,
                "{node}: has the role {role}, which is unknown here; see that it is an independent master"
            ),
            Self::FailsToSave { node } => write!(
                f,
                "{node}: its last write to disk failed, after which a server may refuse locks (MISCONF); \
                 look at its log, and at the space on its disk"
            ),
            Self::Forgets { nodes } => write!(
                f,
                "{}: without an append-only file a restart forgets locks, which others may then have as well; \
                 set appendonly yes and appendfsync always, or let a server that went down stay down for the longest \
                 ttl, or use the fenced protocol",
                nodes.join(", ")
            ),
            Self::Marked { nodes } => write!(
                f,
                "{}: clients that fence have been here; \
                 to see what those would meet, look with the fenced protocol (redlatch health --fenced)",
                nodes.join(", ")
            ),
            Self::ClockDiffers { node, difference } => write!(
                f,
                "{node}: its clock is {difference} from this client's; \
                 set up time synchronization (NTP) on both, and let it slew the clock, not step it"
            ),
            Self::Quarantined { node, quarantine } => quarantined(f, node, *quarantine),
            Self::SettingsDiffer { nodes } => {
                for (i, (node, settings)) in nodes.iter().enumerate() {
                    let between = if i == 0 { "" } else { ", " };
                    write!(f, "{between}{node} has {settings}")?;
                }
                f.write_str(
                    ": the settings of the clients differ (nodes, quorum, max_ttl); \
                     make them the same in all clients",
                )
            }
            Self::Unreadable { node, error } => write!(
                f,
                "{node}: {error}; see that it is a Redis server, and that nothing in between changes its answers"
            ),
            Self::Hidden { node, commands } => write!(
                f,
                "{node}: does not tell everything; to see it, allow the user {}",
                commands.join(" and ")
            ),
        }
    }
}
