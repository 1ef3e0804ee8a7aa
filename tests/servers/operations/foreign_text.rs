//! What a server says may have any characters in it. None of those that change how others are shown gets into a message.

use std::time::Duration;

use redlatch::fake::FakeNode;
use redlatch::{LockManager, Protocol};
use redlatch_testing::scripted::Scripted;

use crate::log_lines::{is_new, lines_about, listen};
use crate::managers::{BOTH, with_protocol};

const TTL: Duration = Duration::from_mins(1);

/// Those that turn the direction, are invisible, break lines, or are of no use at all.
const CHARACTERS: &str = "\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\u{2066}\u{2067}\u{2068}\u{2069}\u{200b}\u{200e}\u{200f}\u{61c}\
    \u{feff}\u{ad}\u{2028}\u{2029}\u{180e}\u{fff9}\u{e0001}\u{e000}\u{85}\u{1b}\u{7f}\t";

/// Whether a character shows as itself behind a letter.
pub(crate) fn is_printable(c: char) -> bool {
    let shown: String = ['a', c].iter().collect();
    matches!(c, '\\' | '"' | '\'') || shown.escape_debug().nth(1) != Some('\\')
}

#[track_caller]
fn assert_printable(case: &str, texts: impl IntoIterator<Item = String>) {
    for text in texts {
        assert!(text.chars().all(is_printable), "{case:?}: {text:?}");
        assert!(text.contains("evil"), "{case:?}: {text}");
    }
}

/// All messages of a manager over a server that says this to everything.
fn messages(protocol: Protocol, path: &str, text: String) -> Vec<String> {
    let server = Scripted::start(move |peer, _| peer.say(text.as_bytes()));
    is_new(&server.name());
    let builder = with_protocol(protocol).node(server.url() + path);
    let manager = builder.build().unwrap();
    let status = manager.status("job").unwrap();
    let listed = manager.locks("").unwrap().next().unwrap();
    let mut said = vec![
        manager.try_lock("job", TTL).unwrap_err().to_string(),
        status.to_string(),
        status.nodes()[0].to_string(),
        listed.unwrap_err().to_string(),
        manager.health().unwrap().to_string().replace('\n', " "),
    ];
    said.extend(lines_about(&server.name()));
    said
}

#[test]
fn no_message_has_characters_of_a_server_or_a_holder_that_change_how_it_reads() {
    listen();
    let token = "0123456789abcdef0123456789abcdef01234567";
    for c in CHARACTERS.chars() {
        assert!(!is_printable(c), "{c:?}");
        for (path, text) in [
            ("", format!("-ERR {c}evil{c} {c}\r\n")),
            ("", format!("-evil{c} x\r\n")),
            ("/1", format!("-ERR evil{c}\r\n")),
        ] {
            for protocol in BOTH {
                assert_printable(&text, messages(protocol, path, text.clone()));
            }
        }
        for value in [
            format!("evil{c}"),
            format!("{token} evil{c} since=2026-11-22T05:52:53Z"),
        ] {
            let nodes = FakeNode::cluster(1);
            let manager = LockManager::builder().fakes(&nodes).build().unwrap();
            let name = format!("job evil{c}");
            nodes[0].hold(&name, &value, TTL);
            let listed = manager.locks("").unwrap().next().unwrap().unwrap();
            let status = manager.status(&name).unwrap().to_string();
            let refused = manager.try_lock(&name, TTL).unwrap_err().to_string();
            assert_printable(&value, [status, refused, listed.to_string()]);
        }
    }
}
