//! The tables for a page, and the page into which they are written.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use crate::curves::{self, Curve};
use crate::figures::short;
use crate::plot::{self, Dot};
use crate::who::{Peer, Who};

fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let mut text = String::new();
    let mut line = |cells: &[String]| writeln!(text, "| {} |", cells.join(" | ")).unwrap();
    let head: Vec<String> = head.iter().map(ToString::to_string).collect();
    line(&head);
    let rule = (0..head.len()).map(|n| if n == 0 { "---" } else { "---:" });
    line(&rule.map(str::to_owned).collect::<Vec<_>>());
    for row in rows {
        line(row);
    }
    text
}

#[derive(Default)]
pub(crate) struct Report {
    /// What stands between two marks of the page.
    tables: Vec<(&'static str, String)>,
    plots: Vec<(&'static str, String)>,
    wins: Vec<[String; 3]>,
    targets: Vec<Vec<String>>,
    /// What the page begins with.
    said: Vec<String>,
}

/// What a figure is to be.
#[derive(Clone, Copy)]
pub(crate) enum Aim {
    AtLeast(f64),
    Above(f64),
    AtMost(f64),
    Below(f64),
}

/// Which of two figures is the better one.
#[derive(Clone, Copy)]
pub(crate) enum Better {
    Less,
    More,
}

impl Report {
    /// The first column is for words, the others for figures.
    pub(crate) fn table(&mut self, name: &'static str, head: &[&str], rows: &[Vec<String>]) {
        let text = table(head, rows);
        println!("\n{name}\n\n{text}");
        self.tables.push((name, text));
    }

    /// Notes a figure that has a target.
    pub(crate) fn target(&mut self, what: &str, unit: &str, reached: f64, aim: Aim) {
        let (sign, limit, is_met) = match aim {
            Aim::AtLeast(limit) => (">=", limit, reached >= limit),
            Aim::Above(limit) => (">", limit, reached > limit),
            Aim::AtMost(limit) => ("<=", limit, reached <= limit),
            Aim::Below(limit) => ("<", limit, reached < limit),
        };
        self.targets.push(vec![
            what.to_owned(),
            format!("{} {unit}", short(reached)),
            format!("{sign} {} {unit}", short(limit)),
            if is_met { "met" } else { "missed" }.to_owned(),
        ]);
    }

    /// The table of those of this run.
    pub(crate) fn targets(&mut self) {
        let rows = std::mem::take(&mut self.targets);
        if !rows.is_empty() {
            self.table("targets", &["", "reached", "target", ""], &rows);
        }
    }

    pub(crate) fn plot(&mut self, name: &'static str, title: &str, unit: &str, dots: &[Dot]) {
        self.plots.push((name, plot::draw(title, unit, dots)));
    }

    pub(crate) fn curves(
        &mut self,
        name: &'static str,
        title: &str,
        axes: [&str; 2],
        curves: &[Curve],
    ) {
        self.plots.push((name, curves::draw(title, axes, curves)));
    }

    /// Notes where a peer, on its best runtime, is ahead of a row of the crate.
    pub(crate) fn compare(
        &mut self,
        what: &str,
        unit: &str,
        better: Better,
        figures: &[(Who, f64)],
    ) {
        let ours = figures.iter().filter(|(who, _)| who.is_redlatch());
        for &(us, our) in ours {
            for peer in [Peer::Redlock, Peer::Rslock] {
                let of_peer = figures.iter().filter(|(who, _)| who.peer() == Some(peer));
                let best = of_peer.copied().reduce(|best, other| match better {
                    Better::Less if other.1 < best.1 => other,
                    Better::More if other.1 > best.1 => other,
                    _ => best,
                });
                let Some((who, their)) = best else { continue };
                let is_win = match better {
                    Better::Less => their < our,
                    Better::More => their > our,
                };
                if is_win {
                    let figure =
                        |who: Who, value| format!("{}: {} {unit}", who.name(), short(value));
                    let row = [what.to_owned(), figure(who, their), figure(us, our)];
                    self.wins.push(row);
                }
            }
        }
    }

    /// The table of what was noted.
    pub(crate) fn wins(&mut self) {
        let mut rows: Vec<Vec<String>> = self.wins.iter().map(|row| row.to_vec()).collect();
        if rows.is_empty() {
            rows.push(vec!["nowhere".to_owned(), String::new(), String::new()]);
        }
        self.table("wins", &["where", "peer", "redlatch"], &rows);
    }

    /// Notes a sentence for the beginning of the page.
    pub(crate) fn say(&mut self, sentence: String) {
        self.said.push(sentence);
    }

    /// The beginning of the page.
    pub(crate) fn summary(&mut self) {
        let said = std::mem::take(&mut self.said);
        let lines = format!("- {}\n", said.join("\n- "));
        println!("\n{lines}");
        self.tables.push(("summary", lines));
    }

    /// What is known of some sections only is not for the page.
    pub(crate) fn leave_out(&mut self, name: &str) {
        self.tables.retain(|(table, _)| *table != name);
    }

    /// Only what was measured in this run is replaced.
    pub(crate) fn write(&self) {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        let page: PathBuf = docs.join("benchmarks.md");
        let mut text = std::fs::read_to_string(&page).unwrap();
        for (name, table) in &self.tables {
            let mark = format!("<!-- table: {name} -->\n");
            let (before, rest) = text.split_once(&mark).unwrap();
            let (_, after) = rest.split_once("<!-- end -->").unwrap();
            text = format!("{before}{mark}\n{table}\n<!-- end -->{after}");
        }
        std::fs::write(page, text).unwrap();
        for (name, svg) in &self.plots {
            let file = docs.join("benchmarks").join(format!("{name}.svg"));
            std::fs::write(file, svg).unwrap();
        }
    }
}
