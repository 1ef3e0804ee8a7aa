//! What the help and the manual page say beside the options: examples, exit codes, variables and files.
//!
//! The words are in texts beside this file, as they stand on a terminal of 80 columns. A title stands at the beginning of
//! its line.

/// Each subcommand with its examples and exit codes, to which [`CODES`] belong.
pub(crate) const PAGES: [(&str, &str); 10] = [
    ("run", include_str!("run.txt")),
    ("hold", include_str!("hold.txt")),
    ("status", include_str!("status.txt")),
    ("list", include_str!("list.txt")),
    ("watch", include_str!("watch.txt")),
    ("health", include_str!("health.txt")),
    ("unlock", include_str!("unlock.txt")),
    ("open-nodes", include_str!("open_nodes.txt")),
    ("completions", include_str!("completions.txt")),
    ("man", include_str!("man.txt")),
];

/// The exit codes that every subcommand has.
pub(crate) const CODES: &str = include_str!("codes.txt");

/// The variables and files of all subcommands.
pub(crate) const ENVIRONMENT: &str = include_str!("environment.txt");

const SHORT_WORDS: &str = "\
'redlatch SUBCOMMAND -h' has the usual options; --help has all, with examples.";

const LONG_WORDS: &str = include_str!("beginning.txt");

/// What stands behind the words of each subcommand.
const MORE: &str = "
'redlatch --help' has the variables of the environment and the files.";

/// The options that stand below a title of their own.
const OF_SERVERS: &str = "nodes config password_file tls_ca tls_cert tls_key tls_name key_prefix node_timeout \
     connect_timeout";
const OF_LOCK: &str =
    "wait no_wait ttl max_hold max fenced also shared at_least at_least_on_failure label no_label";

/// The options that are not for every day, which the short help leaves out.
const RARE: &str = "config password_file tls_ca tls_cert tls_key tls_name key_prefix node_timeout \
                    connect_timeout verbose fenced label \
                    no_label conflict_exit_code at_least_on_failure on_loss on_wanted grace metrics color";

/// The definition with the width of the terminal, the titles of options, and what each help ends with.
pub(super) fn complete(definition: clap::Command, width: usize) -> clap::Command {
    let definition = definition
        .term_width(width)
        .after_help(SHORT_WORDS)
        .after_long_help(format!("{LONG_WORDS}{ENVIRONMENT}"))
        .mut_args(in_its_place);
    PAGES.iter().fold(definition, |definition, (name, page)| {
        definition.mut_subcommand(name, |subcommand| {
            let subcommand = subcommand.after_long_help(format!("{page}{CODES}{MORE}"));
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
    let is_rare = is_among(RARE) || argument.is_hide_short_help_set();
    argument.hide_short_help(is_rare)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_is_listed_once_and_each_line_fits_on_a_terminal() {
        for (name, page) in PAGES {
            let (examples, codes) = page.split_once("\nExit status:\n").unwrap();
            assert!(examples.starts_with("Examples:\n  "), "{name}");
            let codes = codes.lines().chain(CODES.lines());
            let mut codes: Vec<&str> = codes.filter(|line| !line.starts_with("   ")).collect();
            let count = codes.len();
            codes.sort_unstable();
            codes.dedup();
            assert!(count > 3 && codes.len() == count, "{name}: {codes:?}");
        }
        let all = PAGES.map(|(_, page)| page).concat() + CODES + ENVIRONMENT + LONG_WORDS;
        for line in all.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
}
