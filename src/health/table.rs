//! `Health` as text for people: the table, the findings and the verdict.

use std::fmt;

use super::Health;
use super::facts::Facts;

/// What is above a column, and what is in it, unless that is unknown.
type Column = (&'static str, fn(&Facts) -> Option<String>);

/// The columns behind the name and the state of a node.
const COLUMNS: [Column; 9] = [
    ("ROUND TRIP", |node| {
        node.round_trip.map(|time| format!("{time:.1?}"))
    }),
    ("SERVER", server),
    ("ROLE", |node| node.text("role").map(str::to_owned)),
    ("RUN ID", |node| {
        node.text("run_id").map(|id| id.chars().take(8).collect())
    }),
    ("UP", |node| node.number("uptime_s").map(age)),
    ("EVICTION", |node| node.text("eviction").map(str::to_owned)),
    ("PERSISTENCE", |node| {
        node.text("persistence").map(str::to_owned)
    }),
    ("CLOCK", |node| {
        node.clock().map(|offset| offset.to_string())
    }),
    ("MARKER", marker),
];

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = ["NODE", "STATE"]
            .into_iter()
            .chain(COLUMNS.map(|(name, _)| name));
        let mut rows: Vec<Vec<String>> = vec![head.map(str::to_owned).collect()];
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

fn row(node: &Facts) -> Vec<String> {
    // An unknown fact is a dash for a silent node, and "unknown" for a node that answers.
    let (state, unknown) = match node.state() {
        "up" => ("up", "unknown"),
        "refuses" => ("REFUSES", "unknown"),
        "timed_out" => ("SILENT", "-"),
        _ => ("FAILED", "-"),
    };
    let cells = COLUMNS.map(|(_, cell)| cell(node).unwrap_or_else(|| unknown.into()));
    let start = [node.node.to_string(), state.into()];
    start.into_iter().chain(cells).collect()
}

fn marker(node: &Facts) -> Option<String> {
    if let Some(remaining) = node.remaining_quarantine() {
        return Some(format!("quarantine {remaining:.0?}"));
    }
    Some(node.text("quarantine")?.replace('_', " "))
}

fn server(node: &Facts) -> Option<String> {
    let words = [node.text("server"), node.text("version")];
    let words: Vec<&str> = words.into_iter().flatten().collect();
    (!words.is_empty()).then(|| words.join(" "))
}

/// The two largest units of a long time.
fn age(seconds: i64) -> String {
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
