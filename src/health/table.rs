//! The table, the findings and the verdict, for a person who was just woken up.

use std::fmt;
use std::time::Duration;

use super::Health;
use super::facts::{Facts, Quarantine};

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
            writeln!(f, "{:<8}  {finding}", finding.severity)?;
        }
        let (severity, nodes) = (self.severity, self.nodes.len());
        let (voters, quorum) = (self.voters, self.quorum);
        let margin = margin(self.margin);
        write!(
            f,
            "verdict: {severity}; {voters} of {nodes} can vote, {quorum} have to: {margin}"
        )
    }
}

fn margin(failures: i64) -> String {
    let missing = failures.saturating_neg();
    match failures {
        0 => "no further failure is survived".into(),
        1 => "1 more failure is survived".into(),
        -1 => "no majority: 1 vote is missing".into(),
        2.. => format!("{failures} more failures are survived"),
        ..-1 => format!("no majority: {missing} votes are missing"),
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

fn row(node: &Facts) -> Row {
    // What a node would have said that says nothing is not unknown, it is not there.
    let (state, unknown) = match node.state() {
        "up" => ("up", "unknown"),
        "refuses" => ("REFUSES", "unknown"),
        "timed_out" => ("SILENT", "-"),
        _ => ("FAILED", "-"),
    };
    let or_unknown = |text: Option<String>| text.unwrap_or_else(|| unknown.into());
    [
        node.node.to_string(),
        state.into(),
        or_unknown(node.round_trip.map(|time| format!("{time:.1?}"))),
        or_unknown(server(node)),
        or_unknown(node.role.clone()),
        or_unknown(node.run_id.as_ref().map(|id| id.chars().take(8).collect())),
        or_unknown(node.uptime.map(age)),
        or_unknown(node.eviction.clone()),
        or_unknown(node.persistence.map(str::to_owned)),
        or_unknown(node.clock.map(|offset| offset.to_string())),
        or_unknown(node.quarantine.map(marker)),
    ]
}

fn marker(quarantine: Quarantine) -> String {
    match quarantine {
        Quarantine::Quarantined { remaining } => format!("quarantine {remaining:.0?}"),
        other => other.word().replace('_', " "),
    }
}

fn server(node: &Facts) -> Option<String> {
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
