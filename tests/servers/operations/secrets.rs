//! A token proves who holds a lock, so none is in an error, a vote, a log line or a span, whatever a server replies.

use std::error::Error as _;
use std::time::Duration;

use log::LevelFilter;
use redlatch::fake::FakeNode;
use redlatch::{Error, Fanout, LockManager, NodeReport, Protocol};
use redlatch_testing::scripted::{Command, Kind, Peer, Scripted};
use redlatch_testing::{Server, within};

use crate::log_lines::{LINES, lines_about};
use crate::managers::{BOTH, with_protocol};

const TTL: Duration = Duration::from_mins(1);
const NODE_TIMEOUT: Duration = Duration::from_millis(100);
/// Only a hang takes this long.
const BOUND: Duration = Duration::from_secs(30);
/// So much of a token is too much.
const TOO_MUCH: usize = 16;

/// All that a program can be shown of what happened.
#[derive(Default)]
struct Shown(Vec<String>);

impl Shown {
    fn error(&mut self, error: &Error) {
        self.0
            .extend([error.to_string(), format!("{error:?} {error:#?}")]);
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

    /// Whether a part of it that is long enough to be told from others is shown.
    #[track_caller]
    fn assert_hides(&self, secret: &str, case: &str) {
        let hidden = secret.to_lowercase();
        for text in &self.0 {
            let shown = text.to_lowercase();
            let mut parts = hidden.as_bytes().windows(TOO_MUCH.min(secret.len()));
            let is_shown = parts.any(|part| shown.contains(str::from_utf8(part).unwrap()));
            assert!(!is_shown, "{case}: {secret} in {text}");
        }
    }
}

/// Takes, extends and gives back a lock over a server that says this, alone and among others, and looks at what is shown.
#[track_caller]
fn assert_keeps_tokens<F>(case: &str, protocol: Protocol, kinds: &'static [Kind], say: F)
where
    F: Fn(&mut Peer, &Command) + Clone + Send + Sync + 'static,
{
    log::set_logger(&LINES).ok();
    log::set_max_level(LevelFilter::Trace);
    for count in [0, 2] {
        let (others, part) = (FakeNode::cluster(count), say.clone());
        let server = Scripted::start(move |peer, command| {
            let kind = command.kind();
            let asks = command.asks_for_a_lock() && kinds.contains(&Kind::Set);
            let is_meant = asks || kinds.contains(&kind);
            // What opens nodes has no token.
            if is_meant && token(command).is_some() {
                part(peer, command);
            } else {
                peer.say(command.consent());
            }
        });
        let manager = LockManager::builder().node(server.url()).fakes(&others);
        let manager = manager.protocol(protocol).node_timeout(NODE_TIMEOUT);
        let manager = manager.pool_size(1).build().unwrap();
        if protocol == Protocol::Fenced {
            // The fakes alone; the server says something else, if anything.
            manager.open_nodes().ok();
        }
        let asked = manager.clone();
        let mut shown = within(BOUND, move || {
            let mut shown = Shown::default();
            // The second time, what is known of the failure is said again.
            for _ in 0..2 {
                use_lock(&asked, &mut shown);
            }
            shown.0.push(format!("{asked:?}"));
            shown
        });
        shown.0.extend(lines_about(&server.name()));
        let heard = server.heard();
        let tokens: Vec<&str> = heard.iter().filter_map(token).collect();
        // Beside others, a server that was slow for once is left out.
        let is_spared = !others.is_empty();
        assert!(is_spared || !tokens.is_empty(), "{case}: {heard:?}");
        for token in tokens {
            shown.assert_hides(token, case);
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

fn use_lock(manager: &LockManager, shown: &mut Shown) {
    let guard = match manager.try_lock("job", TTL) {
        Ok(guard) => guard,
        Err(error) => return shown.error(&error),
    };
    shown.votes(&guard.votes());
    if let Err(error) = guard.extend(TTL) {
        shown.error(&error);
    }
    // Whoever has a guard may see its token; nobody else.
    shown.0.push(format!("{:?}", guard.check()));
    if let Err(error) = guard.unlock() {
        shown.error(&error);
    }
}

/// What an echo may make of a command.
fn echoes(command: &Command) -> Vec<Vec<u8>> {
    let token = token(command).unwrap_or_default();
    let words = command.words.join(" ").replace(['\r', '\n'], " ");
    let as_redis_does =
        format!("-ERR unknown command 'SET', with args beginning with: 'job' '{token}' 'NX' ");
    let lines = [
        words.clone(),
        format!("-ERR {words}"),
        format!("-{token} no"),
        format!("-{token}"),
        format!("-ERR {}", token.to_uppercase()),
        format!("-ERR {} {token}", "x".repeat(175)),
        as_redis_does,
        format!("+{token}"),
        format!("$40\r\n{token}"),
        format!(">2\r\n+x\r\n+{token}"),
        format!("!44\r\nERR {token}"),
        format!("?{token}"),
        format!(":{token}"),
        format!("${token}"),
        format!("*2\r\n$6\r\nCONFIG\r\n$40\r\n{token}"),
    ];
    let lines = lines.map(|line| (line + "\r\n").into_bytes());
    [command.raw().to_vec()].into_iter().chain(lines).collect()
}

#[test]
fn a_token_that_a_server_repeats_is_never_shown() {
    for protocol in BOTH {
        let kinds: [&[Kind]; 3] = [
            &[Kind::Set, Kind::Retake],
            &[Kind::Extend],
            &[Kind::Release],
        ];
        for kinds in kinds {
            // All commands give as many echoes.
            for number in 0..16 {
                let case = format!("{protocol:?} {kinds:?} {number}");
                assert_keeps_tokens(&case, protocol, kinds, move |peer, command| {
                    let echoes = echoes(command);
                    assert_eq!(echoes.len(), 16);
                    peer.say(&echoes[number]);
                });
            }
        }
    }
}

#[test]
fn a_token_that_comes_back_in_parts_is_never_shown() {
    let say = |peer: &mut Peer, command: &Command| {
        for part in command.raw().chunks(7) {
            peer.say(part);
            peer.wait(Duration::from_millis(1));
        }
    };
    assert_keeps_tokens("parts", Protocol::Classic, &[Kind::Set, Kind::Retake], say);
}

#[test]
fn a_server_that_calls_a_command_otherwise_tells_no_token() {
    log::set_logger(&LINES).ok();
    log::set_max_level(LevelFilter::Trace);
    for renamed in ["SET", "EVAL", "EVALSHA"] {
        let server = Server::start_with(&["--rename-command", renamed, "ANOTHER"]);
        for protocol in BOTH {
            for fanout in [Fanout::Sequential, Fanout::Overlapped] {
                let builder = with_protocol(protocol).node(server.url());
                let manager = builder.fanout(fanout).build().unwrap();
                let mut shown = Shown::default();
                if protocol == Protocol::Fenced
                    && let Err(error) = manager.open_nodes()
                {
                    shown.error(&error);
                }
                use_lock(&manager, &mut shown);
                let token = "0123456789abcdef0123456789abcdef01234567";
                shown.error(&manager.release("job", token).unwrap_err());
                shown.0.extend(lines_about(&server.name()));
                let info = server.info("server");
                let run_id = info.lines().find_map(|line| line.strip_prefix("run_id:"));
                for text in shown.0 {
                    let text = text.replace(run_id.unwrap().trim(), "");
                    assert!(!text.contains("with args"), "{text}");
                    let longest = text.split(|c: char| !c.is_ascii_hexdigit());
                    let longest = longest.map(str::len).max().unwrap_or_default();
                    // A run of digits of this length may be a part of a token.
                    assert!(longest < TOO_MUCH, "{text}");
                }
            }
        }
    }
}

#[test]
fn a_token_of_another_program_is_not_repeated_either() {
    let token = "lease of worker-17 since noon";
    let server = Scripted::start(move |peer, command| {
        peer.say(format!("-ERR what is {} to me\r\n", command.token()).as_bytes());
    });
    let manager = LockManager::builder().node(server.url()).build().unwrap();
    let error = manager.release("job", token).unwrap_err();
    let mut shown = Shown::default();
    shown.error(&error);
    shown.assert_hides(token, "a release");
    assert!(error.to_string().contains("ERR"), "{error}");
}

/// As a status asks, an adoption sees the whole value of a key.
#[test]
fn who_adopts_is_not_told_what_another_holder_has_under_the_key() {
    const PRIVATE: &str = "of another program, and nobody's business";
    let nodes = FakeNode::cluster(3);
    let manager = LockManager::builder().fakes(&nodes).build().unwrap();
    let taken_by = |value: &str, taken: usize| {
        let lease = manager.try_lock("job", TTL).unwrap().into_lease();
        for node in &nodes[..taken] {
            node.hold("job", value, TTL);
        }
        let mut shown = Shown::default();
        let adopted = manager.adopt(lease);
        assert_eq!(adopted.is_ok(), taken == 1, "{adopted:?}");
        match adopted {
            Ok(guard) => shown.votes(&guard.votes()),
            Err(error) => shown.error(&error),
        }
        nodes.iter().for_each(FakeNode::flush);
        shown.assert_hides(value, "an adoption");
    };
    for taken in 1..=3 {
        taken_by(PRIVATE, taken);
        taken_by(&"0123456789abcdef".repeat(3)[..40], taken);
    }
}
