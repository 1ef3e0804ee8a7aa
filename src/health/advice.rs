//! The longer texts of findings.

use std::fmt;

use super::node::{Quarantine, Reach, Role};
use crate::error::NodeError;

pub(super) fn replica(f: &mut fmt::Formatter<'_>, node: &str, role: &Role) -> fmt::Result {
    match role {
        Role::Replica {
            master: Some(master),
        } => write!(f, "{node}: a replica of {master}")?,
        Role::ActiveReplica => write!(f, "{node}: an active-replica, which shares its locks")?,
        Role::Replica { master: None } | Role::Master | Role::Other(_) | Role::Unknown => {
            write!(f, "{node}: a replica")?;
        }
    }
    f.write_str("; make it an independent master (REPLICAOF NO ONE), and not one that fails over")
}

pub(super) fn mend(reach: &Reach) -> &'static str {
    match reach {
        Reach::TimedOut => {
            "look whether its process hangs, its machine is up, or the way to it is slower than node_timeout"
        }
        Reach::Failed(NodeError::Connect { .. }) => {
            "start the server, or mend its address or the way to it"
        }
        Reach::Failed(NodeError::Login { .. }) => {
            "fix the user, the password or the database that the client gives"
        }
        Reach::Failed(NodeError::NoCredentials { .. }) => {
            "see why the program's credentials callback gives none"
        }
        Reach::Failed(NodeError::InCluster) => "give the node a server of its own",
        Reach::Failed(NodeError::PoolExhausted) => "nothing is known of the node",
        Reach::Failed(NodeError::Protocol { .. }) => "see that it is a Redis server",
        Reach::Failed(_) | Reach::Refuses(_) | Reach::Answers => "look at the server's log",
    }
}

pub(super) fn quarantined(
    f: &mut fmt::Formatter<'_>,
    node: &str,
    quarantine: Quarantine,
) -> fmt::Result {
    let why = match quarantine {
        Quarantine::Quarantined { remaining } => {
            return write!(
                f,
                "{node}: in quarantine for another {remaining:.0?}, because it may have forgotten locks; \
                 wait, it votes again by itself"
            );
        }
        Quarantine::NoMarker => "it has no marker",
        Quarantine::OtherProcess => "its marker is of another process",
        Quarantine::Unreadable => {
            return write!(
                f,
                "{node}: what is under the key of its marker is none, so it does not vote; \
                 find out who wrote it, then delete it: after a quarantine the node votes again"
            );
        }
        Quarantine::Open | Quarantine::Unknown => "its marker is not known",
    };
    write!(
        f,
        "{node}: {why}, so it may have forgotten locks, and its quarantine begins with the next lock; \
         have one taken, it votes again by itself when that is over"
    )
}
