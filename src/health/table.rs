//! `Health` as text for people: the table, the findings and the verdict.

use std::fmt;
use std::time::Duration;

use super::Health;
use super::answers::Trouble;
use super::facts::Facts;

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes: Vec<_> = self.nodes.iter().map(cells).collect();
        let headings = nodes.first().cloned().unwrap_or_default();
        let mut rows = vec![headings.map(|(heading, _)| heading.to_owned())];
        rows.extend(nodes.into_iter().map(|cells| cells.map(|(_, cell)| cell)));
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
    let known = |name| node.text(name).map(str::to_owned);
    let state = match node.state() {
        "timed_out" => "SILENT".into(),
        "up" => "up".into(),
        state => state.to_uppercase(),
    };
    let round_trip = node.span("round_trip_us");
    let server = ["server", "version"].map(|name| node.text(name));
    let server: Vec<&str> = server.into_iter().flatten().collect();
    let quarantine = node.span("quarantine_remaining_ms");
    let quarantine = quarantine.map(|left| format!("quarantine {left:.0?}"));
    let marker = || Some(known("quarantine")?.replace('_', " "));
    let run_id = known("run_id").map(|id| id.chars().take(8).collect());
    let is_silent = node.trouble(Trouble::Silent).is_some();
    let unknown = if is_silent { "-" } else { "unknown" };
    [
        ("NODE", Some(node.node.to_string())),
        ("STATE", Some(state)),
        ("ROUND TRIP", round_trip.map(|time| format!("{time:.1?}"))),
        ("SERVER", (!server.is_empty()).then(|| server.join(" "))),
        ("ROLE", known("role")),
        ("RUN ID", run_id),
        ("UP", node.span("uptime_s").map(age)),
        ("EVICTION", known("eviction")),
        ("PERSISTENCE", known("persistence")),
        ("CLOCK", node.clock()),
        ("MARKER", quarantine.or_else(marker)),
    ]
    .map(|(heading, cell)| (heading, cell.unwrap_or_else(|| unknown.into())))
}

/// The two largest units of a long time.
fn age(time: Duration) -> String {
    let age = humantime::format_duration(Duration::from_secs(time.as_secs()));
    let age = age.to_string();
    age.split(' ').take(2).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod exact;
