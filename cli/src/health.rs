//! `redlatch health`: a table of the servers, what is wrong with them, and the verdict.

use redlatch::{Finding, Severity};
use serde_json::json;

use crate::arguments::Health;
use crate::durations;
use crate::failure::Failure;
use crate::nodes;
use crate::output;
use crate::state;
use crate::table::{Cell, Overflow, Table, Tone};
use crate::text;

/// The facts of a node, and from which width of the terminal on there is room for each.
const COLUMNS: [(&str, &str, usize); 9] = [
    ("STATE", "state", 0),
    ("TIME", "round_trip_us", 0),
    ("SERVER", "server", 0),
    ("UP", "uptime_s", 0),
    ("SAVES", "persistence", 0),
    ("EVICTION", "eviction", 0),
    ("ROLE", "role", 100),
    ("MARKER", "quarantine", 100),
    ("RUN ID", "run_id", 120),
];

/// Returns 0 to 2, as plugins of monitoring systems do.
pub(crate) fn health(arguments: &Health) -> Result<u8, Failure> {
    let manager = nodes::asking(&arguments.servers, arguments.fenced)?;
    let health = manager.health()?;
    if arguments.form.json {
        output::print(&format!("{}\n", json!(health)))?;
    } else {
        output::print(&shown(&health, arguments.fenced))?;
    }
    Ok(match health.severity {
        Severity::Ok | Severity::Notice => 0,
        Severity::Warning => 1,
        Severity::Critical | _ => 2,
    })
}

fn shown(health: &redlatch::Health, is_fenced: bool) -> String {
    let width = text::width();
    let is_shown = |(head, _, least): &(&str, &str, usize)| {
        width >= *least || (is_fenced && *head == "MARKER")
    };
    let columns: Vec<_> = COLUMNS.into_iter().filter(is_shown).collect();
    let row = |node: &str| {
        let facts = columns.iter().map(|(_, name, _)| cell(health, node, name));
        [Cell::plain(node)].into_iter().chain(facts).collect()
    };
    let table = Table {
        head: ["NODE"]
            .into_iter()
            .chain(columns.iter().map(|(head, ..)| *head))
            .collect(),
        rows: health.nodes().map(row).collect(),
        overflow: Overflow::Wrap,
    };
    let mut shown = table.show(width);
    for (finding, nodes) in once_each(&health.findings) {
        let (message, advice) = (&finding.message, &finding.advice);
        let severity = Cell::new(tone(finding.severity), &finding.severity.to_string());
        let text = format!("{nodes}{message}; {advice}");
        shown.push_str(&severity.before(8, &text, width));
    }
    // The verdict is the last line of the library's own table.
    let all = health.to_string();
    let verdict = text::wrap(all.lines().last().unwrap_or_default(), width).join("\n");
    format!("{shown}{verdict}\n")
}

/// Each finding once, with the names of all nodes that it is about.
fn once_each(findings: &[Finding]) -> Vec<(&Finding, String)> {
    let is_same = |a: &Finding, b: &Finding| {
        (&a.message, &a.advice, a.severity) == (&b.message, &b.advice, b.severity)
    };
    let mut groups: Vec<Vec<&Finding>> = Vec::new();
    for finding in findings {
        match groups
            .iter_mut()
            .find(|group| group.iter().any(|other| is_same(other, finding)))
        {
            Some(group) => group.push(finding),
            None => groups.push(vec![finding]),
        }
    }
    let named = groups.into_iter().filter_map(|group| {
        let nodes: Vec<&str> = group
            .iter()
            .flat_map(|finding| &finding.nodes)
            .map(AsRef::as_ref)
            .collect();
        let nodes = if nodes.is_empty() {
            String::new()
        } else {
            format!("{}: ", nodes.join(", "))
        };
        Some((*group.first()?, nodes))
    });
    named.collect()
}

fn tone(severity: Severity) -> Tone {
    match severity {
        Severity::Ok => Tone::Good,
        Severity::Notice => Tone::Plain,
        Severity::Warning => Tone::Notice,
        Severity::Critical | _ => Tone::Bad,
    }
}

fn cell(health: &redlatch::Health, node: &str, name: &str) -> Cell {
    let fact = health.fact(node, name);
    let number = || fact.as_deref().and_then(|fact| fact.parse::<u64>().ok());
    match name {
        "state" => match fact.as_deref() {
            Some("up") => Cell::new(Tone::Good, "up"),
            Some("timed_out") => Cell::new(Tone::Bad, "SILENT"),
            Some(state) => Cell::new(Tone::Bad, &state.to_uppercase()),
            None => Cell::plain("-"),
        },
        "round_trip_us" => Cell::plain(&number().map_or("-".into(), durations::milliseconds)),
        "uptime_s" => Cell::plain(&number().map_or("-".into(), durations::age)),
        "server" => {
            let version = health.fact(node, "version").unwrap_or_default();
            Cell::plain(&fact.map_or("-".into(), |server| format!("{server} {version}")))
        }
        "run_id" => Cell::plain(&fact.map_or("-".into(), |id| state::short(&id))),
        _ => Cell::plain(fact.as_deref().unwrap_or("-")),
    }
}
