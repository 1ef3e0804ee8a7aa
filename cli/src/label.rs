//! What others are told of the holder of a lock: the host, the process, and what `--label` says.

use rustix::system::uname;

/// The most bytes of what the user says. There is room for the host and the process beside it.
const LONGEST: usize = 100;

/// The most bytes that are told of the name of the host.
const LONGEST_HOST: usize = 80;

/// The label of the holder, with the user's own part.
pub(crate) fn of_this_process(own: Option<&str>) -> String {
    let host = uname();
    compose(&host.nodename().to_string_lossy(), std::process::id(), own)
}

/// A host may be called anything. What is not part of the name of a host elsewhere is shown as `?`.
fn compose(host: &str, process: u32, own: Option<&str>) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    let shown = host.chars().take(LONGEST_HOST);
    let shown: String = shown.map(|c| if is_plain(c) { c } else { '?' }).collect();
    let host = if shown.is_empty() { "host" } else { &shown };
    let own = own.map_or(String::new(), |own| format!(" {own}"));
    format!("{host} {process}{own}")
}

pub(crate) fn parse(text: &str) -> Result<String, String> {
    let length = text.len();
    let reason = if text.trim().is_empty() {
        "at least one character that can be seen; leave it out, or see --no-label".to_owned()
    } else if length > LONGEST {
        format!("at most {LONGEST} bytes, this has {length}")
    } else if text.contains(char::is_control) {
        "one line of text without control characters".to_owned()
    } else {
        return Ok(text.trim().to_owned());
    };
    Err(format!("a label has {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_and_process_come_first_and_there_is_room_for_all_of_what_is_told() {
        for (host, own, label) in [
            (
                "web-3.example.org",
                Some("nightly"),
                "web-3.example.org 1 nightly",
            ),
            ("a b\n\u{e9}", None, "a?b?? 1"),
            ("", None, "host 1"),
        ] {
            assert_eq!(compose(host, 1, own), label);
        }
        let longest = compose(&"\u{e9}".repeat(300), u32::MAX, Some(&"x".repeat(LONGEST)));
        assert!(longest.len() <= 200, "{longest}");
        assert_eq!(parse(" Jürgen's job ").unwrap(), "Jürgen's job");
    }
}
