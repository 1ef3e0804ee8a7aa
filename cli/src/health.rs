//! `redlatch health`: a table of the servers, what is wrong with them, and the verdict.

use std::iter;
use std::time::Duration;

use redlatch::Severity;
use serde_json::json;

use crate::arguments::Health;
use crate::durations;
use crate::failure::Failure;
use crate::json;
use crate::nodes;
use crate::output;
use crate::state;
use crate::table::{BAD, Cell, GOOD, NOTICE, Overflow, PLAIN, table};
use crate::text;

/// The facts of a node, and from which width of the terminal on there is room for each: without `--fenced`, and with it.
const COLUMNS: [(&str, &str, [usize; 2]); 9] = [
    ("STATE", "state", [0, 0]),
    ("TIME", "round_trip_us", [0, 0]),
    ("SERVER", "server", [0, 0]),
    ("UP", "uptime_s", [0, 100]),
    ("SAVES", "persistence", [0, 100]),
    ("EVICTION", "eviction", [0, 120]),
    ("ROLE", "role", [100, 100]),
    ("MARKER", "quarantine", [100, 0]),
    ("RUN ID", "run_id", [120, 120]),
];

/// What to do where servers are new to the fenced protocol.
const OPEN_NODES: &str = "if these servers are new, run 'redlatch open-nodes' once with the same settings; if they were \
                          flushed or restarted, wait";

/// Returns 0 to 2, as plugins of monitoring systems do.
pub(crate) fn health(arguments: &Health) -> Result<u8, Failure> {
    let manager = nodes::judging(&arguments.servers, arguments.fenced)?;
    let health = manager.health()?;
    if arguments.json {
        output::print(&json::line(&json!(health)))?;
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
    let is_shown = |[plain, fenced]: [usize; 2]| width >= if is_fenced { fenced } else { plain };
    let columns = || COLUMNS.iter().filter(|(.., least)| is_shown(*least));
    let row = |node| {
        let facts = columns().map(|(_, name, _)| cell(health, node, name));
        iter::once(Cell::plain(node)).chain(facts).collect()
    };
    let head = iter::once("NODE").chain(columns().map(|(head, ..)| *head));
    let head: Vec<&str> = head.collect();
    let rows = health.nodes().map(row).collect();
    let mut shown = table(&head, rows, Overflow::Wrap, width);
    let said = health.findings.iter().map(|finding| {
        let nodes = finding.nodes.iter().map(AsRef::as_ref).collect();
        ((finding.severity, &finding.message, &finding.advice), nodes)
    });
    for ((severity, message, advice), nodes) in text::once_each(said) {
        let colon = if nodes.is_empty() { "" } else { ": " };
        let text = format!("{}{colon}{message}; {advice}", nodes.join(", "));
        let tone = match severity {
            Severity::Ok => GOOD,
            Severity::Notice => PLAIN,
            Severity::Warning => NOTICE,
            Severity::Critical | _ => BAD,
        };
        let severity = Cell::new(tone, &severity.to_string());
        shown.push_str(&severity.before(8, &text, width));
    }
    let is_new = |node| health.fact(node, "quarantine").as_deref() == Some("no_marker");
    // Only a client of the fenced protocol, by its options or its configuration, is told so.
    let is_told = health.findings.iter().any(|it| it.code == "quarantined");
    if is_told && health.nodes().any(is_new) {
        shown.push_str(&Cell::plain("advice").before(8, OPEN_NODES, width));
    }
    // The verdict is the last line of the library's own table.
    let all = health.to_string();
    let verdict = text::wrap(all.lines().last().unwrap_or_default(), width).join("\n");
    format!("{shown}{verdict}\n")
}

fn cell(health: &redlatch::Health, node: &str, name: &str) -> Cell {
    let Some(fact) = health.fact(node, name) else {
        return Cell::plain("-");
    };
    let number = fact.parse().unwrap_or_default();
    match (name, &*fact) {
        ("state", "up") => Cell::new(GOOD, "up"),
        ("state", "timed_out") => Cell::new(BAD, "SILENT"),
        ("state", state) => Cell::new(BAD, &state.to_uppercase()),
        ("round_trip_us", _) => Cell::plain(&durations::brief(Duration::from_micros(number))),
        ("uptime_s", _) => {
            // Its two largest units.
            let uptime = durations::exact(Duration::from_secs(number));
            Cell::plain(&uptime.split(' ').take(2).collect::<Vec<_>>().join(" "))
        }
        ("server", server) => {
            let version = health.fact(node, "version").unwrap_or_default();
            Cell::plain(&format!("{server} {version}"))
        }
        ("run_id", id) => Cell::plain(&state::short(id)),
        (_, fact) => Cell::plain(fact),
    }
}
