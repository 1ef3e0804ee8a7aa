//! The table, the findings and the verdict, for a person who was just woken up.

use std::fmt;
use std::time::Duration;

use super::Health;
use super::node::{NodeHealth, Reach, Role};

const HEAD: [&str; 11] = [
    "NODE",
    "STATE",
    "ROUND TRIP",
    "SERVER",
    "ROLE",
    "RUN ID",
    "UP",
    "EVICTION",
    "PERSISTENCE",
    "CLOCK",
    "MARKER",
];

type Row = [String; HEAD.len()];

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows: Vec<Row> = self.nodes.iter().map(row).collect();
        let head = HEAD.map(str::to_owned);
        let widths = widths(&head, &rows);
        for row in std::iter::once(&head).chain(&rows) {
            writeln!(f, "{}", line(row, &widths).trim_end())?;
        }
        for finding in &self.findings {
            writeln!(f, "{:<8}  {finding}", finding.severity())?;
        }
        let (severity, nodes) = (self.severity(), self.nodes.len());
        let (voters, quorum) = (self.voters, self.quorum);
        let margin = self.margin();
        write!(
            f,
            "verdict: {severity}; {voters} of {nodes} can vote, {quorum} have to: {margin}"
        )
    }
}

/// As many columns as the widest cell of each needs.
fn widths(head: &Row, rows: &[Row]) -> [usize; HEAD.len()] {
    let mut widths = head.each_ref().map(|cell| cell.chars().count());
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    widths
}

fn line(row: &Row, widths: &[usize]) -> String {
    let cells = row.iter().zip(widths);
    let cells: Vec<String> = cells
        .map(|(cell, width)| format!("{cell:<width$}"))
        .collect();
    cells.join("  ")
}

fn row(node: &NodeHealth) -> Row {
    // What a node would have said that says nothing is not unknown, it is not there.
    let unknown = match node.reach {
        Reach::Answers | Reach::Refuses(_) => "unknown",
        Reach::TimedOut | Reach::Failed(_) => "-",
    };
    let or_unknown = |text: Option<String>| text.unwrap_or_else(|| unknown.into());
    let role = Some(&node.role).filter(|role| **role != Role::Unknown);
    let quarantine = node.quarantine.to_string();
    [
        node.node.to_string(),
        state(&node.reach).into(),
        or_unknown(node.round_trip.map(|time| format!("{time:.1?}"))),
        or_unknown(server(node)),
        or_unknown(role.map(ToString::to_string)),
        or_unknown(node.run_id.as_ref().map(|id| id.chars().take(8).collect())),
        or_unknown(node.uptime.map(age)),
        or_unknown(node.eviction.clone()),
        or_unknown(node.persistence.map(|persistence| persistence.to_string())),
        or_unknown(node.clock.map(|difference| difference.to_string())),
        or_unknown(Some(quarantine).filter(|quarantine| quarantine != "unknown")),
    ]
}

fn state(reach: &Reach) -> &'static str {
    match reach {
        Reach::Answers => "up",
        Reach::Refuses(_) => "REFUSES",
        Reach::TimedOut => "SILENT",
        Reach::Failed(_) => "FAILED",
    }
}

fn server(node: &NodeHealth) -> Option<String> {
    match (&node.server, &node.version) {
        (Some(server), Some(version)) => Some(format!("{server} {version}")),
        (Some(one), None) | (None, Some(one)) => Some(one.clone()),
        (None, None) => None,
    }
}

/// The two largest units of a long time.
fn age(time: Duration) -> String {
    let seconds = time.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m {}s", seconds % 60),
        (0, _, _) => format!("{hours}h {}m", minutes % 60),
        (_, _, _) => format!("{days}d {}h", hours % 24),
    }
}

#[cfg(test)]
mod exact;
