//! `Health` as text for people: the table, the findings and the verdict.

use std::fmt;
use std::iter;
use std::time::Duration;

use super::Health;
use super::facts::Facts;

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headings = cells(&Facts::default()).map(|(heading, _)| heading.to_owned());
        let nodes = self.nodes.iter();
        let nodes = nodes.map(|node| cells(node).map(|(_, cell)| cell));
        let rows: Vec<_> = iter::once(headings).chain(nodes).collect();
        let width = |column: usize| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            let widths = cells.map(|cell| cell.chars().count());
            widths.max().unwrap_or_default()
        };
        for row in &rows {
            let cells = row.iter().enumerate();
            let cells = cells.map(|(column, cell)| format!("{cell:<0$}", width(column)));
            let line = cells.collect::<Vec<_>>().join("  ");
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

/// The cells of a node, each under the heading of its column.
fn cells(node: &Facts) -> [(&'static str, String); 11] {
    let unknown = if node.trouble.silence.is_some() {
        "-"
    } else {
        "unknown"
    };
    let or_unknown = |cell: Option<String>| cell.unwrap_or_else(|| unknown.into());
    let known = |name| or_unknown(node.text(name).map(str::to_owned));
    let state = match node.state() {
        "up" => "up",
        "refuses" => "REFUSES",
        "timed_out" => "SILENT",
        _ => "FAILED",
    };
    let server = ["server", "version"].map(|name| node.text(name));
    let server: Vec<&str> = server.into_iter().flatten().collect();
    let server = Some(server.join(" ")).filter(|server| !server.is_empty());
    let round_trip = node.span("round_trip_us");
    let quarantine = node.span("quarantine_remaining_ms");
    let marker = quarantine.map(|left| format!("quarantine {left:.0?}"));
    [
        ("NODE", node.node.to_string()),
        ("STATE", state.into()),
        (
            "ROUND TRIP",
            or_unknown(round_trip.map(|time| format!("{time:.1?}"))),
        ),
        ("SERVER", or_unknown(server)),
        ("ROLE", known("role")),
        ("RUN ID", known("run_id").chars().take(8).collect()),
        ("UP", or_unknown(node.span("uptime_s").map(age))),
        ("EVICTION", known("eviction")),
        ("PERSISTENCE", known("persistence")),
        ("CLOCK", or_unknown(node.clock())),
        (
            "MARKER",
            marker.unwrap_or_else(|| known("quarantine").replace('_', " ")),
        ),
    ]
}

/// The two largest units of a long time.
fn age(time: Duration) -> String {
    let age = humantime::format_duration(Duration::from_secs(time.as_secs()));
    let age = age.to_string();
    age.split(' ').take(2).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod exact;
