//! What the help and the manual page say beside the options: exit codes, examples, variables and files.
//!
//! The words are in texts beside this file. A term stands at the beginning of its lines, and its meaning is indented.

use crate::text;

/// The titles of the sections, in the order of the help.
const EXIT_STATUS: &str = "EXIT STATUS";
const EXAMPLES: &str = "EXAMPLES";
const ENVIRONMENT: &str = "ENVIRONMENT";
const FILES: &str = "FILES";

/// The options that stand below a title of their own.
const OF_SERVERS: &str =
    "nodes config password_file tls_ca tls_cert tls_key tls_name key_prefix node_timeout";
const OF_LOCK: &str =
    "wait no_wait ttl max_hold max fenced also shared at_least at_least_on_failure label no_label";

/// The options that are not for every day, which the short help leaves out.
const RARE: &str = "config password_file tls_ca tls_cert tls_key tls_name key_prefix node_timeout verbose fenced label \
                    no_label conflict_exit_code at_least_on_failure on_loss grace metrics";

/// What all subcommands have.
const COMMON: &str = include_str!("common.txt");

/// The pages of all subcommands.
pub(crate) const PAGES: [Page; 10] = [
    Page::new("run", include_str!("run.txt")),
    Page::new("hold", include_str!("hold.txt")),
    Page::new("status", include_str!("status.txt")),
    Page::new("list", include_str!("list.txt")),
    Page::new("watch", include_str!("watch.txt")),
    Page::new("health", include_str!("health.txt")),
    Page::new("unlock", include_str!("unlock.txt")),
    Page::new("open-nodes", include_str!("open_nodes.txt")),
    Page::new("completions", include_str!("completions.txt")),
    Page::new("man", include_str!("man.txt")),
];

/// A term, which may be several lines, and what it means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) term: String,
    pub(crate) meaning: String,
}

/// What belongs to a subcommand and is not part of its definition for the parser.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Page {
    pub(crate) subcommand: &'static str,
    text: &'static str,
}

impl Page {
    const fn new(subcommand: &'static str, text: &'static str) -> Self {
        Self { subcommand, text }
    }

    /// Beside those that all have.
    pub(crate) fn exit_codes(&self) -> Vec<Entry> {
        entries(self.text, EXIT_STATUS)
    }

    pub(crate) fn examples(&self) -> Vec<Entry> {
        entries(self.text, EXAMPLES)
    }

    /// What the long help ends with.
    fn closing_words(&self, width: usize) -> String {
        let codes = [self.exit_codes(), common_codes()].concat();
        let sections = [
            ("Examples", self.examples()),
            ("Exit status", codes),
            ("Environment", environment()),
            ("Files", files()),
        ];
        let sections = sections.map(|(title, entries)| {
            let entries = entries.iter().map(|entry| shown(entry, width));
            format!("{title}:\n{}", entries.collect::<String>())
        });
        sections.join("\n").trim_end().to_owned()
    }
}

/// The exit codes that every subcommand has.
pub(crate) fn common_codes() -> Vec<Entry> {
    entries(COMMON, EXIT_STATUS)
}

pub(crate) fn environment() -> Vec<Entry> {
    entries(COMMON, ENVIRONMENT)
}

pub(crate) fn files() -> Vec<Entry> {
    entries(COMMON, FILES)
}

/// The definition with the width of the terminal and what the help of each subcommand ends with.
pub(super) fn complete(definition: clap::Command, width: usize) -> clap::Command {
    let definition = definition.term_width(width);
    PAGES.iter().fold(definition, |definition, page| {
        definition.mut_subcommand(page.subcommand, |subcommand| {
            let subcommand = subcommand.after_long_help(page.closing_words(width));
            subcommand.mut_args(in_its_place)
        })
    })
}

/// The option below its title, in the long help alone if it is rare.
fn in_its_place(argument: clap::Arg) -> clap::Arg {
    let name = argument.get_id().to_string();
    let is_among = |names: &str| names.split(' ').any(|other| other == name);
    let titles = [("Lock", OF_LOCK), ("Servers", OF_SERVERS)];
    let title = titles.into_iter().find(|(_, names)| is_among(names));
    let argument = argument.help_heading(title.map(|(title, _)| title));
    if is_among(RARE) {
        argument.hide_short_help(true)
    } else {
        argument
    }
}

fn shown(entry: &Entry, width: usize) -> String {
    let term = entry.term.lines().map(|line| format!("  {line}\n"));
    let meaning = text::wrap(&entry.meaning, width.saturating_sub(6));
    let meaning = meaning.iter().map(|line| format!("      {line}\n"));
    term.chain(meaning).collect()
}

/// The entries of a section.
fn entries(text: &str, section: &str) -> Vec<Entry> {
    let is_title = |line: &&str| [EXIT_STATUS, EXAMPLES, ENVIRONMENT, FILES].contains(line);
    let mut entries: Vec<Entry> = Vec::new();
    let lines = text.lines().skip_while(|line| *line != section).skip(1);
    for line in lines.take_while(|line| !is_title(line)) {
        match (line.strip_prefix("    "), entries.last_mut()) {
            (Some(words), Some(entry)) => {
                if !entry.meaning.is_empty() {
                    entry.meaning.push(' ');
                }
                entry.meaning.push_str(words);
            }
            (None, Some(entry)) if entry.meaning.is_empty() => {
                entry.term.push('\n');
                entry.term.push_str(line);
            }
            _ => entries.push(Entry {
                term: line.to_owned(),
                meaning: String::new(),
            }),
        }
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_read_entry_by_entry() {
        let text = "EXIT STATUS\n0\n    All is\n    well.\nEXAMPLES\na \\\n  b\n    Two lines.\nc\n    One.\n";
        let entry = |term: &str, meaning: &str| Entry {
            term: term.into(),
            meaning: meaning.into(),
        };
        assert_eq!(entries(text, EXIT_STATUS), [entry("0", "All is well.")]);
        let examples = [entry("a \\\n  b", "Two lines."), entry("c", "One.")];
        assert_eq!(entries(text, EXAMPLES), examples);
    }

    #[test]
    fn each_code_is_listed_once() {
        for page in PAGES {
            let codes = [page.exit_codes(), common_codes()].concat();
            assert!(codes.len() > 3 && !page.examples().is_empty(), "{page:?}");
            for (i, code) in codes.iter().enumerate() {
                let others = codes.iter().skip(i.saturating_add(1));
                assert!(
                    others.clone().all(|other| other.term != code.term),
                    "{page:?}"
                );
            }
        }
    }

    #[test]
    fn what_the_help_ends_with_has_each_term_and_every_word_and_fits_on_a_terminal() {
        for width in [80, 120] {
            let text = PAGES[0].closing_words(width);
            assert!(text.starts_with("Examples:\n  redlatch run"), "{text}");
            let is_term = |line: &&str| line.starts_with("  ") && !line.starts_with("   ");
            let prose = text.lines().filter(|line| !is_term(line));
            for line in prose {
                assert!(line.chars().count() <= width, "{line}");
            }
            let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
            for entry in [environment(), files(), common_codes()].concat() {
                assert!(text.contains(&format!("\n  {}\n", entry.term)), "{entry:?}");
                assert!(joined.contains(&entry.meaning), "{entry:?}");
            }
        }
    }
}
