//! The sections of the manual page that list terms with their meaning. The help of a subcommand has them as well.

use std::fmt::Write as _;

/// A term, and what it means.
pub(crate) type Entry = (&'static str, &'static str);

/// The exit codes that every subcommand has.
pub(crate) const COMMON_CODES: [Entry; 3] = [
    (
        "64",
        "The arguments, the environment or the configuration can't be used.",
    ),
    (
        "71",
        "The system gives no process, no thread, no pipe or no random bytes.",
    ),
    ("74", "The output can't be written."),
];

pub(crate) const ENVIRONMENT: [Entry; 9] = [
    (
        "REDLATCH_NODES",
        "The URLs of the servers, separated by commas or white space. They count where there is no --node. The command \
         does not inherit them if one of them has a password.",
    ),
    (
        "REDLATCH_PASSWORD",
        "The password for servers whose URL has none. It counts where there is no --password-file. The command does not \
         inherit it.",
    ),
    (
        "REDLATCH_CONFIG",
        "The configuration file. It counts where there is no --config.",
    ),
    (
        "REDLATCH_RESOURCE",
        "For the command of run: the name of the lock.",
    ),
    (
        "REDLATCH_RESOURCES",
        "For the command of run with --also: all names, each on a line, in the order of their bytes.",
    ),
    (
        "REDLATCH_TOKEN",
        "For the command of run: the token that the lock is held with.",
    ),
    (
        "REDLATCH_FENCING_TOKEN",
        "For the command of run with --fenced: the number that grows from holder to holder, for the resource to compare. A \
         run that is --shared has none.",
    ),
    (
        "REDLATCH_SLOT",
        "For the command of run with --max: which of the permits it has, from 0 to one less than the number.",
    ),
    (
        "NOTIFY_SOCKET",
        "For run --forever: the socket of the service manager, which is told of the start, of who leads, and of the end. \
         The command does not inherit it then.",
    ),
];

pub(crate) const FILES: [Entry; 2] = [
    (
        "redlatch.toml",
        "The configuration, in $XDG_CONFIG_HOME, or ~/.config where that is not set, else in /etc. It counts where neither \
         --config nor REDLATCH_CONFIG names another file. It is refused if users other than root and the caller may write \
         it, or its folder without the sticky bit. Its keys, with examples: nodes = [\"redis://10.0.0.1\", \"redis://10.0.0.2\", \
         \"redis://10.0.0.3\"], username = \"locks\", password_file = \"/etc/redlatch.password\", key_prefix = \
         \"billing:\", node_timeout = \"50ms\", ttl = \"30s\", wait = \"5m\", max_hold = \"2h\", protocol = \"classic\" or \
         \"fenced\", max_ttl = \"1h\", drift_factor = 0.01.",
    ),
    (
        "password file",
        "The first line of the file of --password-file, or of the key password_file, is the password for servers whose \
         URL has none. The file is read again at each new connection, so a password can change meanwhile. URLs in \
         REDLATCH_NODES and in the configuration may have a password as well. In --node, where all users of the machine \
         can see it, it is refused.",
    ),
];

/// What the help of a subcommand ends with.
pub(super) fn closing_words(codes: &[Entry]) -> String {
    let mut text = String::new();
    let codes: Vec<Entry> = codes.iter().chain(&COMMON_CODES).copied().collect();
    for (title, entries) in [
        ("Exit status", codes.as_slice()),
        ("Environment", &ENVIRONMENT),
        ("Files", &FILES),
    ] {
        // Writing to a String can't fail.
        write!(text, "{title}:").ok();
        for (term, meaning) in entries {
            write!(text, "\n  {term}").ok();
            for line in lines(meaning) {
                write!(text, "\n          {line}").ok();
            }
        }
        text.push_str("\n\n");
    }
    text.truncate(text.trim_end().len());
    text
}

/// Breaks a text into lines that fit on a terminal of 100 columns, as clap does.
fn lines(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        if let Some(line) = lines.last_mut()
            && line.len().saturating_add(word.len()) < 88
        {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_help_ends_with_has_each_term_and_every_word_and_fits_on_a_terminal() {
        let text = closing_words(&[("3", "The third case.")]);
        assert!(text.starts_with("Exit status:\n  3\n          The third case.\n  64\n"));
        assert!(text.lines().all(|line| line.len() <= 100), "{text}");
        for (term, meaning) in ENVIRONMENT.iter().chain(&FILES).chain(&COMMON_CODES) {
            assert!(text.contains(&format!("\n  {term}\n")), "{term}");
            let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(joined.contains(meaning), "{meaning}");
        }
    }
}
