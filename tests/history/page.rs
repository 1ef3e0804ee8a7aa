//! A history as a page: time from left to right, a row for each thread and each node. Only the time around what was found.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::checker::Violation;
use crate::event::{Call, Event, Nanos, On, What, Who};
use crate::history::History;
use crate::text::{seconds, text, words};

/// How wide it is, and how high a row is.
const WIDTH: u64 = 1_200;
const ROW: u64 = 22;

/// How much is shown where no call says what is to be shown.
const SECOND: Nanos = 1_000_000_000;

/// Where time begins.
const LEFT: u64 = 90;

/// How many shapes and rows there are at most.
const MOST_SHAPES: usize = 1_500;
const MOST_ROWS: usize = 60;

/// Readable on white and on black.
const STYLE: &str = "<style>text{font:12px sans-serif;fill:#222}svg{background:#fff}.had{fill:#4a90d9}.read{fill:#5aa02c}\
.wrong{fill:#d62728}.asks{stroke:#999;stroke-width:2}.row{stroke:#ddd}.dot{fill:#666}.node{fill:#b8860b}\
@media(prefers-color-scheme:dark){text{fill:#ddd}svg{background:#161616}.row{stroke:#333}.dot{fill:#aaa}}</style>";

impl History {
    /// Writes the page and the text of a violation to `target/histories`, under this name, and returns where the page is.
    ///
    /// # Errors
    ///
    /// If the files can't be written.
    pub fn write(&self, name: &str, violation: &Violation) -> io::Result<PathBuf> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/histories");
        fs::create_dir_all(&folder)?;
        let folder = folder.canonicalize()?;
        fs::write(folder.join(format!("{name}.txt")), text(self, violation))?;
        let path = folder.join(format!("{name}.svg"));
        fs::write(&path, page(self, violation))?;
        Ok(path)
    }
}

/// What is known of a call, and of the guard that it got.
#[derive(Clone, Debug)]
struct Bar {
    who: Who,
    on: On,
    asked: Nanos,
    /// Until when it waited.
    answered: Option<Nanos>,
    /// From when to when the guard was valid.
    had: Option<(Nanos, Nanos)>,
    /// What is shown of it.
    title: String,
}

/// A row of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Row {
    Thread(Who),
    Node(u32),
}

/// The time that is shown.
#[derive(Clone, Copy, Debug)]
struct Window {
    from: Nanos,
    to: Nanos,
}

impl Window {
    /// Around the calls that the violation is about.
    fn around(bars: &BTreeMap<Call, Bar>, violation: &Violation) -> Self {
        let bars = violation.calls.iter().filter_map(|call| bars.get(call));
        let (mut from, mut to) = (violation.at, violation.at);
        for bar in bars {
            let (start, end) = bar.had.unwrap_or((bar.asked, violation.at));
            from = from.min(start);
            to = to.max(end);
        }
        if from == to {
            from = from.saturating_sub(SECOND);
        }
        let margin = (to - from) / 5 + 1_000;
        Self {
            from: from.saturating_sub(margin),
            to: to.saturating_add(margin),
        }
    }

    fn has(self, from: Nanos, to: Nanos) -> bool {
        from <= self.to && to >= self.from
    }

    /// How far to the right it is.
    fn x(self, at: Nanos) -> u64 {
        let at = at.clamp(self.from, self.to) - self.from;
        let share = u128::from(at) * u128::from(WIDTH - LEFT - 10);
        let share = share / u128::from((self.to - self.from).max(1));
        LEFT + u64::try_from(share).unwrap_or(0)
    }
}

/// The page of a violation, as SVG.
#[must_use]
pub fn page(history: &History, violation: &Violation) -> String {
    let events = history.in_order();
    let bars = bars(&events);
    let window = Window::around(&bars, violation);
    let shown = bars
        .iter()
        .filter(|(_, bar)| {
            let end = bar.had.map_or(bar.answered, |(_, end)| Some(end));
            window.has(bar.asked, end.unwrap_or(bar.asked))
        })
        .map(|(call, bar)| (*call, bar));
    // What it is about comes first, and is never left out.
    let (about, others): (Vec<_>, Vec<_>) =
        shown.partition(|(call, _)| violation.calls.contains(call));
    let shown: Vec<_> = about.into_iter().chain(others).take(MOST_SHAPES).collect();
    let inside = events.iter().filter(|event| window.has(event.at, event.at));
    let dots: Vec<(Row, &Event)> = inside
        .filter_map(|event| Some((row_of(&event.what, &bars)?, *event)))
        .take(MOST_SHAPES)
        .collect();
    let mut rows: Vec<Row> = Vec::new();
    let of_bars = shown.iter().map(|(_, bar)| Row::Thread(bar.who));
    for row in of_bars.chain(dots.iter().map(|(row, _)| *row)) {
        if rows.len() < MOST_ROWS && !rows.contains(&row) {
            rows.push(row);
        }
    }
    rows.sort();
    drawn(violation, window, &rows, &shown, &dots)
}

fn drawn(
    violation: &Violation,
    window: Window,
    rows: &[Row],
    shown: &[(Call, &Bar)],
    dots: &[(Row, &Event)],
) -> String {
    let count = u64::try_from(rows.len()).unwrap_or(0);
    let height = (count + 4) * ROW;
    let mut page = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\">{STYLE}\n\
         <text x=\"8\" y=\"16\">{}: {}</text>\n",
        seconds(violation.at),
        escaped(&violation.text)
    );
    let y = |row: Row| height_of(rows, row);
    put(&mut page, &names(rows));
    for (call, bar) in shown {
        if let Some(y) = y(Row::Thread(bar.who)) {
            put(
                &mut page,
                &bar.shape(window, y, violation.calls.contains(call)),
            );
        }
    }
    for (row, event) in dots {
        if let Some(y) = y(*row) {
            put(&mut page, &dot(window, (*row, event), y));
        }
    }
    let (bottom, found) = (height - ROW, window.x(violation.at));
    let (from, to) = (seconds(window.from), seconds(window.to));
    put(
        &mut page,
        &format!(
            "<line class=\"asks\" x1=\"{found}\" x2=\"{found}\" y1=\"{ROW}\" y2=\"{bottom}\" stroke-dasharray=\"3\"/>"
        ),
    );
    put(
        &mut page,
        &format!(
            "<text x=\"{LEFT}\" y=\"{}\">{from}</text><text x=\"{}\" y=\"{}\" text-anchor=\"end\">{to}</text>",
            bottom + 14,
            WIDTH - 10,
            bottom + 14
        ),
    );
    page.push_str("</svg>\n");
    page
}

/// How far down a row is, if it is shown.
fn height_of(rows: &[Row], row: Row) -> Option<u64> {
    let place = rows.iter().position(|other| *other == row)?;
    Some((u64::try_from(place).unwrap_or(0) + 2) * ROW)
}

fn names(rows: &[Row]) -> String {
    let mut names = String::new();
    for row in rows {
        let name = match row {
            Row::Thread(who) => who.to_string(),
            Row::Node(node) => format!("n{node}"),
        };
        let y = height_of(rows, *row).unwrap_or(0);
        let (text, line) = (y + 14, y + ROW - 3);
        put(
            &mut names,
            &format!(
                "<text x=\"8\" y=\"{text}\">{name}</text><line class=\"row\" x1=\"{LEFT}\" x2=\"{WIDTH}\" y1=\"{line}\" y2=\"{line}\"/>"
            ),
        );
    }
    names
}

/// Something that happened at a moment.
fn dot(window: Window, (row, event): (Row, &Event), y: u64) -> String {
    let class = if matches!(row, Row::Node(_)) {
        "node"
    } else {
        "dot"
    };
    let title = format!("{} {}", seconds(event.at), words(&event.what));
    let (x, y, title) = (window.x(event.at), y + 17, escaped(&title));
    format!(
        "<circle class=\"{class}\" cx=\"{x}\" cy=\"{y}\" r=\"2.5\"><title>{title}</title></circle>"
    )
}

impl Bar {
    fn shape(&self, window: Window, y: u64, is_wrong: bool) -> String {
        let mut shape = String::new();
        let waited = self.answered.unwrap_or(window.to);
        if window.has(self.asked, waited) {
            let (from, to) = (window.x(self.asked), window.x(waited));
            shape = format!(
                "<line class=\"asks\" x1=\"{from}\" x2=\"{to}\" y1=\"{0}\" y2=\"{0}\"><title>{1}</title></line>",
                y + 8,
                escaped(&self.title)
            );
        }
        let Some((start, end)) = self.had else {
            return shape;
        };
        let (from, to) = (window.x(start), window.x(end));
        let class = match (is_wrong, self.on.access) {
            (true, _) => "wrong",
            (_, crate::Access::Read) => "read",
            _ => "had",
        };
        let (top, wide, high) = (y + 2, (to - from).max(1), ROW - 9);
        put(
            &mut shape,
            &format!(
                "<rect class=\"{class}\" x=\"{from}\" y=\"{top}\" width=\"{wide}\" height=\"{high}\" opacity=\"0.75\"><title>{}</title></rect>",
                escaped(&self.title)
            ),
        );
        shape
    }
}

fn put(page: &mut String, shape: &str) {
    page.push_str(shape);
    page.push('\n');
}

fn row_of(what: &What, bars: &BTreeMap<Call, Bar>) -> Option<Row> {
    match what {
        What::Node { node, .. } => Some(Row::Node(*node)),
        What::Client { client, .. } => {
            let (client, thread) = (*client, 0);
            Some(Row::Thread(Who { client, thread }))
        }
        what => bars.get(&what.call()?).map(|bar| Row::Thread(bar.who)),
    }
}

/// All calls, in the order of their numbers.
fn bars(events: &[&Event]) -> BTreeMap<Call, Bar> {
    let mut bars: BTreeMap<Call, Bar> = BTreeMap::new();
    for event in events {
        let at = event.at;
        let what = &event.what;
        if let What::Asks { call, who, on, .. } = what {
            let bar = Bar {
                who: *who,
                on: on.clone(),
                asked: at,
                answered: None,
                had: None,
                title: format!("call {}: {}", call.0, words(what)),
            };
            bars.insert(*call, bar);
        }
        let Some(bar) = what.call().and_then(|call| bars.get_mut(&call)) else {
            continue;
        };
        match what {
            What::Gets { end, .. } => {
                bar.answered = Some(at);
                bar.had = Some((at, end.map_or(at, |end| end.low)));
                write!(bar.title, "; {} {}", seconds(at), words(what)).unwrap_or_default();
            }
            What::Fails { .. } => {
                bar.answered = Some(at);
                write!(bar.title, "; {} {}", seconds(at), words(what)).unwrap_or_default();
            }
            What::Moves { end, .. } => bar.ends(*end),
            What::Extended { end: Some(end), .. }
            | What::Looks {
                says: Some(end), ..
            } => {
                bar.ends(end.low);
            }
            What::Lost { .. } | What::Releases { .. } => {
                bar.had = bar.had.map(|(start, end)| (start, end.min(at)));
            }
            _ => {}
        }
    }
    bars
}

impl Bar {
    fn ends(&mut self, end: Nanos) {
        self.had = self.had.map(|(start, former)| (start, former.max(end)));
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}
