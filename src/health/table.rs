//! `Health` as text for people: the table, the findings and the verdict.

use std::fmt;
use std::time::Duration;

use super::Health;
use super::facts::Facts;

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = cells(&Facts::default()).map(|(heading, _)| heading);
        let mut rows: Vec<Vec<String>> = vec![columns.map(str::to_owned).into()];
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

fn row(node: &Facts) -> Vec<String> {
    let unknown = if node.failure().is_some() {
        "-"
    } else {
        "unknown"
    };
    let cells = cells(node).map(|(_, cell)| cell.unwrap_or_else(|| unknown.into()));
    cells.into()
}

/// What is above each column, and what is in it, unless that is unknown.
fn cells(node: &Facts) -> [(&'static str, Option<String>); 11] {
    let state = match node.state() {
        "up" => "up",
        "refuses" => "REFUSES",
        "timed_out" => "SILENT",
        _ => "FAILED",
    };
    let (server, version) = node.info.server();
    let server: Vec<String> = [server, version].into_iter().flatten().collect();
    let (role, _) = node.info.role();
    let run_id = node.info.run_id();
    let marker = node.marker();
    let quarantine = |ms| format!("quarantine {:.0?}", Duration::from_millis(ms));
    let marker = marker
        .remaining_ms
        .map(quarantine)
        .or_else(|| Some(marker.quarantine?.replace('_', " ")));
    [
        ("NODE", Some(node.node.to_string())),
        ("STATE", Some(state.into())),
        (
            "ROUND TRIP",
            node.round_trip.map(|time| format!("{time:.1?}")),
        ),
        ("SERVER", Some(server.join(" ")).filter(|it| !it.is_empty())),
        ("ROLE", role),
        ("RUN ID", run_id.map(|id| id.chars().take(8).collect())),
        ("UP", node.info.uptime_s().map(age)),
        ("EVICTION", node.info.eviction()),
        ("PERSISTENCE", node.info.persistence().map(Into::into)),
        ("CLOCK", node.clock().map(|offset| offset.to_string())),
        ("MARKER", marker),
    ]
}

/// The two largest units of a long time.
fn age(seconds: u64) -> String {
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
