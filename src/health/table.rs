//! `Health` as text for people: the table, the findings and the verdict.

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
        let mut rows: Vec<Row> = vec![HEAD.map(str::to_owned)];
        rows.extend(self.nodes.iter().map(row));
        let column = |number| rows.iter().filter_map(move |row| row.get(number));
        let length = |cell: &String| cell.chars().count();
        let width = |number| column(number).map(length).max().unwrap_or_default();
        for row in &rows {
            let cells = row.iter().enumerate();
            let cells = cells.map(|(number, cell)| format!("{cell:<0$}", width(number)));
            let line = cells.collect::<Vec<_>>().join("  ");
            writeln!(f, "{}", line.trim_end())?;
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

fn row(node: &Facts) -> Row {
    // An unknown fact is a dash for a silent node, and "unknown" for a node that answers.
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
    if let Quarantine::Quarantined { remaining } = quarantine {
        return format!("quarantine {remaining:.0?}");
    }
    quarantine.word().replace('_', " ")
}

fn server(node: &Facts) -> Option<String> {
    let words = [node.server.as_deref(), node.version.as_deref()];
    let words: Vec<&str> = words.into_iter().flatten().collect();
    (!words.is_empty()).then(|| words.join(" "))
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
