//! Tables for people: columns that are as wide as what is in them, within the width of the terminal.

use anstyle::{AnsiColor, Style};

use crate::output::presentable;
use crate::text::{columns, cut, wrap};

/// Between two columns.
const GAP: usize = 2;

/// The least room for the last column. If there is less, its text stands on lines of its own.
const LEAST: usize = 16;

/// What a cell says of its subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Good,
    Notice,
    Bad,
    Dim,
}

impl Tone {
    fn style(self) -> Style {
        let color = |color: AnsiColor| Style::new().fg_color(Some(color.into()));
        match self {
            Self::Plain => Style::new(),
            Self::Good => color(AnsiColor::Green),
            Self::Notice => color(AnsiColor::Yellow),
            Self::Bad => color(AnsiColor::Red).bold(),
            Self::Dim => Style::new().dimmed(),
        }
    }

    /// The text in this tone.
    pub(crate) fn paint(self, text: &str) -> String {
        let style = self.style();
        format!("{style}{text}{style:#}")
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    pub(crate) fn new(tone: Tone, text: &str) -> Self {
        let text = presentable(text);
        Self { text, tone }
    }

    pub(crate) fn plain(text: &str) -> Self {
        Self::new(Tone::Plain, text)
    }

    /// The cell in a column of its own before a text, which goes on below itself.
    pub(crate) fn before(&self, column: usize, text: &str, width: usize) -> String {
        let room = width.saturating_sub(column.saturating_add(GAP));
        let lines = wrap(&presentable(text), room).join(&format!(
            "\n{:1$}",
            "",
            column.saturating_add(GAP)
        ));
        format!("{}  {lines}\n", self.padded(column))
    }

    /// The cell, filled up to this width.
    fn padded(&self, width: usize) -> String {
        let rest = width.saturating_sub(columns(&self.text));
        let (shown, blank) = (self.tone.paint(&self.text), "");
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

#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) head: Vec<&'static str>,
    pub(crate) rows: Vec<Vec<Cell>>,
    pub(crate) overflow: Overflow,
}

impl Table {
    /// The lines of the table, each with its line break.
    pub(crate) fn show(&self, width: usize) -> String {
        let head = self.head.iter().map(|text| Cell::new(Tone::Dim, text));
        let head: Vec<Cell> = head.collect();
        let rows = || [&head].into_iter().chain(&self.rows);
        // A wide first cell has a line of its own, so that one long name leaves room in all other rows.
        let widest_first = width.checked_div(2).unwrap_or_default().max(LEAST);
        let widest = |number: usize| {
            let cells = rows().filter_map(|row| row.get(number));
            let widths = cells.map(|cell| columns(&cell.text));
            let widths = widths.filter(|width| number > 0 || *width <= widest_first);
            widths.max().unwrap_or_default()
        };
        let before_last = self.head.len().saturating_sub(1);
        let widths: Vec<usize> = (0..before_last).map(widest).collect();
        rows().map(|row| self.row(row, &widths, width)).collect()
    }

    fn row(&self, row: &[Cell], widths: &[usize], width: usize) -> String {
        let (mut line, mut used, blank) = (String::new(), 0_usize, "");
        for (number, (cell, room)) in row.iter().zip(widths).enumerate() {
            let column = room.saturating_add(GAP);
            if number == 0 && columns(&cell.text) > *room {
                line = format!("{}\n{blank:column$}", cell.padded(0));
            } else {
                line.push_str(&cell.padded(column));
            }
            used = used.saturating_add(column);
        }
        let Some(last) = row.get(widths.len()) else {
            return format!("{}\n", line.trim_end());
        };
        let room = width.saturating_sub(used);
        let (parts, indent) = match self.overflow {
            Overflow::Cut => (vec![cut(&last.text, room)], used),
            Overflow::Wrap if room < LEAST && columns(&last.text) > room => {
                line.push('\n');
                line.push_str("    ");
                (wrap(&last.text, width.saturating_sub(4)), 4)
            }
            Overflow::Wrap => (wrap(&last.text, room), used),
        };
        let parts: Vec<String> = parts.iter().map(|part| last.tone.paint(part)).collect();
        line.push_str(&parts.join(&format!("\n{blank:indent$}")));
        let lines = line.lines().map(|line| format!("{}\n", line.trim_end()));
        lines.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(overflow: Overflow) -> Table {
        let row = |cells: [&str; 3]| cells.map(Cell::plain).to_vec();
        Table {
            head: vec!["NODE", "STATE", "HOLDER"],
            rows: vec![
                row(["127.0.0.1:7001", "held", "web-3 4711"]),
                row([
                    "b",
                    "FAILED",
                    "no connection: Connection refused (os error 111)",
                ]),
            ],
            overflow,
        }
    }

    #[test]
    fn columns_are_aligned_and_long_texts_go_on_below() {
        let shown = table(Overflow::Wrap).show(50);
        let plain = anstream::adapter::strip_str(&shown).to_string();
        let expected = "\
NODE            STATE   HOLDER
127.0.0.1:7001  held    web-3 4711
b               FAILED  no connection: Connection
                        refused (os error 111)
";
        assert_eq!(plain, expected);
    }

    #[test]
    fn no_width_breaks_it_and_what_can_be_cut_fits() {
        for width in 0..100 {
            for overflow in [Overflow::Wrap, Overflow::Cut] {
                let shown = table(overflow).show(width);
                let plain = anstream::adapter::strip_str(&shown).to_string();
                assert!(plain.contains("127.0.0.1:7001"), "{plain}");
                if width > 40 {
                    for line in plain.lines() {
                        assert!(columns(line) <= width, "{width}: {line}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_long_name_leaves_room_for_the_others() {
        let mut table = table(Overflow::Cut);
        table.rows[0][0] = Cell::plain(&"x".repeat(100));
        let plain = anstream::adapter::strip_str(&table.show(60)).to_string();
        assert!(
            plain.contains(&format!("{}\n      held    web-3", "x".repeat(100))),
            "{plain}"
        );
    }

    #[test]
    fn a_cell_can_not_change_what_a_terminal_shows() {
        assert_eq!(Cell::plain("a\u{1b}[31m\nb").text, "a\\u{1b}[31m\\nb");
    }
}
