//! Tables for people: columns that are as wide as what is in them, within the width of the terminal.

use anstyle::{AnsiColor, Style};

use crate::output::presentable;
use crate::text::{columns, cut, wrap};

/// Between two columns.
const GAP: usize = 2;

/// The least room for the last column. If there is less, its text stands on lines of its own.
const LEAST: usize = 16;

/// What a cell says of its subject.
pub(crate) const PLAIN: Style = Style::new();
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
pub(crate) const NOTICE: Style = AnsiColor::Yellow.on_default();
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
pub(crate) const DIM: Style = Style::new().dimmed();

#[derive(Debug, Clone)]
pub(crate) struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    pub(crate) fn new(style: Style, text: &str) -> Self {
        let text = presentable(text);
        Self { text, style }
    }

    pub(crate) fn plain(text: &str) -> Self {
        Self::new(PLAIN, text)
    }

    /// The cell in a column of its own before a text, which goes on below itself.
    pub(crate) fn before(&self, column: usize, text: &str, width: usize) -> String {
        let (indent, blank) = (column.saturating_add(GAP), "");
        let lines = wrap(&presentable(text), width.saturating_sub(indent));
        let lines = lines.join(&format!("\n{blank:indent$}"));
        format!("{}{lines}\n", self.padded(indent))
    }

    /// The cell, filled up to this width.
    fn padded(&self, width: usize) -> String {
        let rest = width.saturating_sub(columns(&self.text));
        let (shown, blank) = (paint(self.style, &self.text), "");
        format!("{shown}{blank:rest$}")
    }
}

/// What becomes of a last cell that is too wide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overflow {
    /// It goes on below.
    Wrap,
    /// It is cut behind a word.
    Cut,
}

pub(crate) fn paint(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

/// The lines of a table, each with its line break. Each row has a cell for each word of the head, or lacks the last.
pub(crate) fn table(
    head: &[&str],
    mut rows: Vec<Vec<Cell>>,
    overflow: Overflow,
    width: usize,
) -> String {
    rows.insert(0, head.iter().map(|text| Cell::new(DIM, text)).collect());
    // A wide first cell has a line of its own, so that one long name leaves room in all other rows.
    let widest_first = width.checked_div(2).unwrap_or_default().max(LEAST);
    let widest = |number: usize| {
        let cells = rows.iter().filter_map(|row| row.get(number));
        let widths = cells.map(|cell| columns(&cell.text));
        let widths = widths.filter(|width| number > 0 || *width <= widest_first);
        widths.max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..head.len().saturating_sub(1)).map(widest).collect();
    let rows = rows
        .iter()
        .map(|cells| row(cells, &widths, overflow, width));
    rows.collect()
}

fn row(cells: &[Cell], widths: &[usize], overflow: Overflow, width: usize) -> String {
    let (mut line, mut used, blank) = (String::new(), 0_usize, "");
    for (number, (cell, room)) in cells.iter().zip(widths).enumerate() {
        let column = room.saturating_add(GAP);
        if number == 0 && columns(&cell.text) > *room {
            line = format!("{}\n{blank:column$}", cell.padded(0));
        } else {
            line.push_str(&cell.padded(column));
        }
        used = used.saturating_add(column);
    }
    if let Some(last) = cells.get(widths.len()) {
        let room = width.saturating_sub(used);
        let (parts, indent) = match overflow {
            Overflow::Cut => (vec![cut(&last.text, room)], used),
            Overflow::Wrap if room < LEAST && columns(&last.text) > room => {
                line.push_str("\n    ");
                (wrap(&last.text, width.saturating_sub(4)), 4)
            }
            Overflow::Wrap => (wrap(&last.text, room), used),
        };
        let parts: Vec<String> = parts.iter().map(|part| paint(last.style, part)).collect();
        line.push_str(&parts.join(&format!("\n{blank:indent$}")));
    }
    let lines = line.lines().map(|line| format!("{}\n", line.trim_end()));
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table of two nodes, without its colours.
    fn shown(overflow: Overflow, width: usize, first: &str) -> String {
        let failed = "no connection: Connection refused (os error 111)";
        let rows = [[first, "held", "web-3 4711"], ["b", "FAILED", failed]];
        let rows = rows.map(|cells| cells.map(Cell::plain).to_vec());
        let head = ["NODE", "STATE", "HOLDER"];
        let shown = table(&head, rows.to_vec(), overflow, width);
        anstream::adapter::strip_str(&shown).to_string()
    }

    #[test]
    fn no_width_breaks_it_and_what_can_be_cut_fits() {
        for width in 0..100 {
            for overflow in [Overflow::Wrap, Overflow::Cut] {
                let plain = shown(overflow, width, "127.0.0.1:7001");
                assert!(plain.contains("127.0.0.1:7001"), "{plain}");
                for line in plain.lines().filter(|_| width > 40) {
                    assert!(columns(line) <= width, "{width}: {line}");
                }
            }
        }
    }

    #[test]
    fn a_long_name_leaves_room_for_the_others() {
        let name = "x".repeat(100);
        let plain = shown(Overflow::Cut, 60, &name);
        let lines = format!("{name}\n      held    web-3");
        assert!(plain.contains(&lines), "{plain}");
    }
}
