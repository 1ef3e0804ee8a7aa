//! The tables for a page, their figures, and the page into which they are written.

use std::fmt::Write;
use std::path::Path;

#[derive(Default)]
pub(crate) struct Report {
    /// What stands between two marks of the page.
    tables: Vec<(&'static str, String)>,
}

impl Report {
    /// The first column is for words, the others for figures.
    pub(crate) fn table(&mut self, name: &'static str, head: &[&str], rows: &[Vec<String>]) {
        self.tables.push((name, printed(name, head, rows)));
    }

    /// Only what was measured in this run is replaced.
    pub(crate) fn write(&self) {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/benchmarks.md");
        let mut text = std::fs::read_to_string(&page).unwrap();
        for (name, table) in &self.tables {
            let mark = format!("<!-- table: {name} -->\n");
            let (before, rest) = text.split_once(&mark).unwrap();
            let (_, after) = rest.split_once("<!-- end -->").unwrap();
            text = format!("{before}{mark}\n{table}\n<!-- end -->{after}");
        }
        std::fs::write(page, text).unwrap();
    }
}

/// Prints a table, and returns it.
pub(crate) fn printed(name: &str, head: &[&str], rows: &[Vec<String>]) -> String {
    let mut text = String::new();
    writeln!(text, "| {} |", head.join(" | ")).unwrap();
    writeln!(text, "|---{}|", "|---:".repeat(head.len() - 1)).unwrap();
    for row in rows {
        writeln!(text, "| {} |", row.join(" | ")).unwrap();
    }
    println!("\n{name}\n\n{text}");
    text
}

/// A number for people: three digits or so, and all before the point.
pub(crate) fn short(value: f64) -> String {
    match value {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        0.1.. => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

pub(crate) fn times(ratio: f64) -> String {
    format!("{} x", short(ratio))
}
