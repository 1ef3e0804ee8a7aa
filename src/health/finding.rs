//! `Finding` and `Severity`.

use std::fmt;
use std::sync::Arc;

/// A problem, or something that could not be examined. Its `Display` is one line: the nodes, the message and the
/// advice.
///
/// ```
/// # use redlatch::LockManager;
/// # let nodes = redlatch::fake::FakeNode::cluster(3);
/// # nodes[1].refuse();
/// # let manager = LockManager::builder().fakes(&nodes).build()?;
/// for finding in &manager.health()?.findings {
///     if finding.code == "unreachable" {
///         println!("restart {}", finding.nodes.join(" and "));
///     }
///     println!("{}: {finding}", finding.severity);
/// }
/// # Ok::<(), redlatch::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Finding {
    /// The kind of finding, for programs. A code keeps its meaning; later versions may have more of them.
    ///
    /// - Critical: `no_majority`, `same_server`, `replica`, `evicts`, `forbidden`, `slow`.
    /// - Warnings: `unreachable`, `slow`, `refuses`, `untried`, `not_extended`, `not_released`, `not_standalone`, `unknown_role`,
    ///   `fails_to_save`, `open_to_all`, `forgets`, `clock_differs`, `quarantined`, `settings_differ`, `thin`, `unreadable`.
    /// - Notices: `marked`, `open_to_all`, `no_readers`, `uncounted`, `hidden`.
    ///
    /// `docs/operations.md` says what each of them means.
    pub code: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// The nodes that it is about, as `host:port` or as the path of a socket; empty if it is about all nodes together.
    pub nodes: Vec<Arc<str>>,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub advice: String,
}

/// How bad a finding is. The order is that of the variants, so the worst of several is their `max`.
///
/// ```
/// use redlatch::Severity;
///
/// assert!(Severity::Critical > Severity::Warning);
/// assert_eq!(Severity::Critical.to_string(), "critical");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Severity {
    /// Nothing is wrong.
    Ok,
    /// Worth knowing, but no reason to act now: something could not be examined.
    Notice,
    /// Locks work and are exclusive, but an outage is closer than it should be.
    Warning,
    /// No locks can be taken, or two holders of one lock are possible.
    Critical,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.nodes.is_empty() {
            write!(f, "{}: ", self.nodes.join(", "))?;
        }
        write!(f, "{}; {}", self.message, self.advice)
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ok => "ok",
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Critical => "critical",
        })
    }
}
