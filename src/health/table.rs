//! `Health` as text for people: the table, the findings and the verdict.

use std::fmt::{self, Write};
use std::iter;
use std::time::Duration;

use super::Health;
use super::facts::Facts;

/// What a node has in a column, if it is known.
type Cell = fn(&Facts) -> Option<String>;

/// The columns, each with its heading.
const COLUMNS: [(&str, Cell); 11] = [
    ("NODE", |node| Some(node.node.to_string())),
    ("STATE", |node| Some(state(node))),
    ("ROUND TRIP", |node| {
        Some(format!("{:.1?}", node.span("round_trip_us")?))
    }),
    ("SERVER", server),
    ("ROLE", |node| known(node, "role")),
    ("RUN ID", |node| {
        Some(node.text("run_id")?.chars().take(8).collect())
    }),
    ("UP", |node| node.span("uptime_s").map(age)),
    ("EVICTION", |node| known(node, "eviction")),
    ("PERSISTENCE", |node| known(node, "persistence")),
    ("CLOCK", Facts::clock),
    ("MARKER", marker),
];

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines = vec![String::new(); self.nodes.len().saturating_add(1)];
        for (heading, cell) in COLUMNS {
            let of_nodes = self.nodes.iter().map(|node| {
                let is_silent = node.trouble.silence.is_some();
                cell(node).unwrap_or_else(|| if is_silent { "-" } else { "unknown" }.into())
            });
            let cells: Vec<String> = iter::once(heading.to_owned()).chain(of_nodes).collect();
            let widths = cells.iter().map(|cell| cell.chars().count());
            let width = widths.max().unwrap_or_default();
            for (line, cell) in lines.iter_mut().zip(cells) {
                write!(line, "{cell:<width$}  ")?;
            }
        }
        for line in lines {
            writeln!(f, "{}", line.trim_end())?;
        }
        for finding in &self.findings {
            writeln!(f, "{:<8}  {finding}", finding.severity)?;
        }
        let (severity, nodes) = (self.severity, self.nodes.len());
        let (voters, quorum) = (self.voters, self.quorum);
        let have_to = if quorum == 1 { "has to" } else { "have to" };
        let margin = margin(self.margin);
        write!(
            f,
            "verdict: {severity}; {voters} of {nodes} can vote, {quorum} {have_to}: {margin}"
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

fn known(node: &Facts, name: &str) -> Option<String> {
    node.text(name).map(str::to_owned)
}

fn state(node: &Facts) -> String {
    match node.state() {
        "up" => "up".into(),
        "timed_out" => "SILENT".into(),
        state => state.to_uppercase(),
    }
}

fn server(node: &Facts) -> Option<String> {
    let server: Vec<&str> = ["server", "version"]
        .into_iter()
        .filter_map(|name| node.text(name))
        .collect();
    (!server.is_empty()).then(|| server.join(" "))
}

fn marker(node: &Facts) -> Option<String> {
    let Some(left) = node.span("quarantine_remaining_ms") else {
        return Some(node.text("quarantine")?.replace('_', " "));
    };
    Some(format!("quarantine {left:.0?}"))
}

/// The two largest units of a long time.
fn age(time: Duration) -> String {
    let age = humantime::format_duration(Duration::from_secs(time.as_secs()));
    let age = age.to_string();
    age.split(' ').take(2).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod exact;
