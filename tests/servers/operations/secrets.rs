//! A token proves who holds a lock, so none is in an error, a vote, a log line or a span, whatever a server replies.

use std::error::Error as _;
use std::fmt::Debug;
use std::time::Duration;

use redlatch::fake::FakeNode;
use redlatch::{Error, Fanout, LockManager, NodeReport, Protocol};
use redlatch_testing::scripted::{Command, Kind, Scripted};
use redlatch_testing::{side_by_side, within};

use crate::log_lines::{lines_about, listen};
use crate::managers::{BOTH, patient};

const TTL: Duration = Duration::from_mins(1);
/// Only a hang takes this long.
const BOUND: Duration = Duration::from_secs(30);
/// So much of a token is too much.
const TOO_MUCH: usize = 16;
const TOKEN: &str = "0123456789abcdef0123456789abcdef01234567";

/// All that a program can be shown of what happened.
#[derive(Default)]
struct Shown(Vec<String>);

impl Shown {
    fn error(&mut self, error: &Error) {
        self.0.push(format!("{error} {error:?}"));
        let mut source = error.source();
        while let Some(cause) = source {
            self.0.push(format!("{cause} {cause:?}"));
            source = cause.source();
        }
    }

    fn votes(&mut self, votes: &[NodeReport]) {
        self.0.push(format!("{votes:?}"));
        self.0.extend(votes.iter().map(ToString::to_string));
    }

    /// No part of it that is long enough to be told from others is shown.
    #[track_caller]
    fn assert_hides(&self, secret: &str, case: &str) {
        let secret = secret.to_lowercase();
        let parts = secret.as_bytes().windows(TOO_MUCH.min(secret.len()));
        for part in parts.map(|part| str::from_utf8(part).unwrap()) {
            for text in &self.0 {
                assert!(!text.to_lowercase().contains(part), "{case}: {text}");
            }
        }
    }

    fn use_lock(&mut self, manager: &LockManager) {
        let guard = match manager.try_lock("job", TTL) {
            Ok(guard) => guard,
            Err(error) => return self.error(&error),
        };
        self.votes(&guard.votes());
        if let Err(error) = guard.extend(TTL) {
            self.error(&error);
        }
        // Whoever has a guard may see its token; nobody else.
        self.0.push(format!("{:?}", guard.check()));
        if let Err(error) = guard.unlock() {
            self.error(&error);
        }
    }
}

/// The token of a command, if it has one.
fn token(command: &Command) -> Option<&str> {
    let is_token = |word: &&String| word.len() == 40 && word.bytes().all(|b| b.is_ascii_hexdigit());
    // A digest is as long.
    let mut words = command.words.iter().skip(2);
    words.find(is_token).map(String::as_str)
}

/// What an echo may make of a command.
fn echoes(command: &Command, token: &str) -> [Vec<u8>; 16] {
    let words = command.words.join(" ").replace(['\r', '\n'], " ");
    let lines = [
        words.clone(),
        format!("-ERR {words}"),
        format!("-{token} no"),
        format!("-{token}"),
        format!("-ERR {}", token.to_uppercase()),
        format!("-ERR {} {token}", "x".repeat(175)),
        // As Redis does.
        format!("-ERR unknown command 'SET', with args beginning with: 'job' '{token}' 'NX' "),
        format!("+{token}"),
        format!("$40\r\n{token}"),
        format!(">2\r\n+x\r\n+{token}"),
        format!("!44\r\nERR {token}"),
        format!("?{token}"),
        format!(":{token}"),
        format!("${token}"),
        format!("*2\r\n$6\r\nCONFIG\r\n$40\r\n{token}"),
        // The command as it is.
        String::from_utf8_lossy(command.raw()).into_owned(),
    ];
    lines.map(|line| (line + "\r\n").into_bytes())
}

/// Takes, extends and gives back a lock over a server that answers such commands with an echo in two parts, among so many others.
/// Returns whether the server got a token: one that is slow for once gets none.
fn keeps_tokens(protocol: Protocol, kind: Kind, number: usize, others: usize) -> bool {
    let case = format!("{protocol:?} {kind:?} {number} among {others}");
    let server = Scripted::start(move |peer, command| {
        let asks = kind == Kind::Set && command.asks_for_a_lock();
        let is_meant = asks || command.kind() == kind;
        // What opens nodes has no token.
        let token = token(command).filter(|_| is_meant);
        let echo = token.map(|token| echoes(command, token)[number].clone());
        let reply = echo.unwrap_or(command.consent().to_vec());
        let (begin, end) = reply.split_at(reply.len() / 2);
        peer.say(begin);
        peer.wait(Duration::from_millis(1));
        peer.say(end);
    });
    let others = FakeNode::cluster(others);
    let builder = LockManager::builder().node(server.url()).fakes(&others);
    let builder = builder.node_timeout(Duration::from_millis(100));
    // Each echo is met by both.
    let turn = number + usize::from(protocol == Protocol::Fenced);
    let fanout = [Fanout::Sequential, Fanout::Overlapped][turn % 2];
    let builder = builder.protocol(protocol).fanout(fanout).pool_size(1);
    let manager = builder.build().unwrap();
    if protocol == Protocol::Fenced {
        // The fakes alone; the server says something else, if anything.
        manager.open_nodes().ok();
    }
    let mut shown = within(BOUND, move || {
        let mut shown = Shown::default();
        // The second time, what is known of the failure is said again.
        for _ in 0..2 {
            shown.use_lock(&manager);
        }
        shown.0.push(format!("{manager:?}"));
        shown
    });
    shown.0.extend(lines_about(&server.name()));
    let heard = server.heard();
    let tokens: Vec<&str> = heard.iter().filter_map(token).collect();
    for token in &tokens {
        shown.assert_hides(token, &case);
    }
    !tokens.is_empty()
}

#[test]
fn a_token_that_a_server_repeats_is_never_shown() {
    listen();
    side_by_side(0..16, |number| {
        for protocol in BOTH {
            for kind in [Kind::Set, Kind::Extend, Kind::Release] {
                let keeps = |_| keeps_tokens(protocol, kind, number, 0);
                assert!((0..5).any(keeps), "{protocol:?} {kind:?} {number}");
                keeps_tokens(protocol, kind, number, 2);
            }
        }
    });
}

#[test]
fn a_token_of_another_program_is_not_repeated_either() {
    let token = "lease of worker-17 since noon";
    let server = Scripted::start(move |peer, command| {
        peer.say(format!("-ERR what is {} to me\r\n", command.token()).as_bytes());
    });
    let manager = patient([server.url()]);
    let error = manager.release("job", token).unwrap_err();
    let mut shown = Shown::default();
    shown.error(&error);
    shown.assert_hides(token, "a release");
    assert!(error.to_string().contains("ERR"), "{error}");
}

/// Programs print `Debug` by `unwrap`, `dbg!` and in their logs.
#[test]
fn debug_shows_the_first_digits_of_a_token_only() {
    let nodes = FakeNode::cluster(3);
    let manager = LockManager::builder().fakes(&nodes).build().unwrap();
    let rest = Duration::from_secs(30);
    let exports = manager.semaphore("exports", 2);
    let guards = [
        manager.lock("job", TTL),
        manager.request("named").holder("web-3").lock(),
        manager.request("rests").at_least(rest).lock(),
        manager.lock_all(["a", "b"], TTL),
        manager.rw_lock("ledger").read(),
        exports.lock(),
    ];
    for guard in guards.map(Result::unwrap) {
        let (token, name) = (guard.token().to_owned(), guard.resources()[0].to_owned());
        let mut shown = Shown::default();
        let mut show = |thing: &dyn Debug| shown.0.push(format!("{thing:?} {thing:#?}"));
        show(&guard);
        show(&guard.watch());
        // All that manager and nodes have.
        show(&manager);
        show(&nodes);
        show(&manager.status(&name));
        show(&manager.semaphore_status("exports", 2));
        show(&manager.locks("").unwrap().collect::<Vec<_>>());
        let lease = guard.into_lease();
        show(&lease);
        show(&lease.to_string().parse::<redlatch::Lease>());
        if name == "rests" {
            manager.adopt(&lease).unwrap().unlock().unwrap();
            show(&manager.status(&name));
        }
        shown.assert_hides(&token, &name);
        let hint = format!("{:?}…", &token[..8]);
        assert!(shown.0[0].contains(&hint), "{name}: {}", shown.0[0]);
    }
}

/// As a status asks, an adoption sees the whole value of a key.
#[test]
fn who_adopts_is_not_told_what_another_holder_has_under_the_key() {
    let nodes = FakeNode::cluster(3);
    let manager = LockManager::builder().fakes(&nodes).build().unwrap();
    for value in ["of another program, and nobody's business", TOKEN] {
        for taken in 1..=3 {
            let lease = manager.try_lock("job", TTL).unwrap().into_lease();
            for node in &nodes[..taken] {
                node.hold("job", value, TTL);
            }
            let mut shown = Shown::default();
            match manager.adopt(&lease) {
                Ok(guard) if taken == 1 => shown.votes(&guard.votes()),
                Err(error) if taken > 1 => shown.error(&error),
                adopted => panic!("{taken} are taken: {adopted:?}"),
            }
            nodes.iter().for_each(FakeNode::flush);
            shown.assert_hides(value, "an adoption");
        }
    }
}
