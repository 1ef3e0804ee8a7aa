//! Pure: what a server is that does not know a command which every lock needs.

/// What to do about it, for an operator.
pub(super) const ADVICE: &str = " (this is the port of a sentinel, or the server has renamed the command: every node has to be an independent master)";

/// Whether a server says that it does not know such a command. A sentinel has none of them.
pub(super) fn is_needed(message: &str) -> bool {
    let named = message.strip_prefix("unknown command ");
    let name = named.map(|name| name.trim_matches(['\'', '`', ',', ' ']));
    let needed = ["SET", "EVAL", "EVALSHA", "SELECT", "GET"];
    name.is_some_and(|name| needed.iter().any(|known| name.eq_ignore_ascii_case(known)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_of_a_lock_are_told_apart_in_the_words_of_every_version() {
        for message in [
            "unknown command 'SET'",
            "unknown command `SET`",
            "unknown command `EVAL`, ",
            "unknown command 'evalsha'",
            "unknown command 'SELECT'",
        ] {
            assert!(is_needed(message), "{message}");
        }
        for message in [
            "",
            "unknown command",
            "unknown command 'SCAN'",
            "syntax error",
        ] {
            assert!(!is_needed(message), "{message}");
        }
    }
}
