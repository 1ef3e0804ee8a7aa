//! Scripts that are called by their digests: which command has the text, and what happens when a server wants it again.

use std::time::Duration;

use redlatch::{LockGuard, LockManager, Protocol, Vote};
use redlatch_testing::scripted::{Command, Kind, Peer, Scripted};
use redlatch_testing::{Server, eventually};

use crate::managers::{fenced_over, patient};

const TTL: Duration = Duration::from_mins(1);
const BOUND: Duration = Duration::from_secs(30);

fn over(servers: &[Server], protocol: Protocol) -> LockManager {
    match protocol {
        Protocol::Fenced => fenced_over(servers),
        Protocol::Classic | _ => patient(servers.iter().map(Server::url)),
    }
}

#[track_caller]
fn assert_has_all_votes(guard: &LockGuard) {
    let votes = guard.votes();
    let is_granted = |report: &redlatch::NodeReport| matches!(report.vote, Vote::Granted);
    assert!(votes.iter().all(is_granted), "{votes:?}");
}

/// How often a server was sent a script as text, and how often by its digest.
fn calls(server: &Server) -> [u64; 2] {
    ["eval", "evalsha"].map(|command| server.count(command))
}

#[test]
fn a_script_is_sent_once_on_a_connection_and_then_called_by_its_digest() {
    let servers = [Server::start()];
    let manager = over(&servers, Protocol::Classic);
    for _ in 0..5 {
        let guard = manager.try_lock("job", TTL).unwrap();
        guard.extend(TTL).unwrap();
        guard.unlock().unwrap();
    }
    // The introduction, an extension and a release; then four extensions and four releases.
    assert_eq!(calls(&servers[0]), [3, 8]);
    assert_eq!(servers[0].keys(), 0);
}

#[test]
fn servers_that_forget_their_scripts_are_sent_them_again() {
    for protocol in [Protocol::Classic, Protocol::Fenced] {
        let servers = Server::cluster(3);
        let manager = over(&servers, protocol);
        let flush = || {
            for server in &servers {
                server.command(&["SCRIPT", "FLUSH"]);
            }
        };
        for _ in 0..3 {
            let guard = manager.try_lock("job", TTL).unwrap();
            assert_has_all_votes(&guard);
            flush();
            guard.extend(TTL).unwrap();
            flush();
            guard.unlock().unwrap();
            for server in &servers {
                assert_eq!(server.get("job"), None);
            }
            flush();
        }
    }
}

#[test]
fn a_user_who_may_not_call_scripts_by_their_digests_has_them_sent_as_text() {
    let server = Server::start();
    let manager = patient([server.user("~* +set +eval +get +del +pttl +pexpire")]);
    for _ in 0..3 {
        let guard = manager.try_lock("job", TTL).unwrap();
        guard.extend(TTL).unwrap();
        guard.unlock().unwrap();
        assert_eq!(server.get("job"), None);
    }
}

/// A node that never answers when it is asked for the lock `lost`.
fn silent_once(peer: &mut Peer, command: &Command) {
    if !(command.kind() == Kind::Set && command.key() == "lost") {
        peer.say(command.consent());
    }
}

#[test]
fn an_undo_has_the_text_although_the_connection_was_sent_it_before() {
    let node = Scripted::start(silent_once);
    let builder = LockManager::builder().node(node.url());
    let manager = builder
        .node_timeout(Duration::from_millis(200))
        .build()
        .unwrap();
    for _ in 0..2 {
        manager.try_lock("job", TTL).unwrap().unlock().unwrap();
    }
    manager.try_lock("lost", TTL).unwrap_err();
    let releases = || node.heard_of(Kind::Release);
    assert!(eventually(BOUND, || releases().len() >= 3));
    let [first, second, undo, ..] = &releases()[..] else {
        unreachable!("there are three");
    };
    assert_eq!(
        [first, second, undo].map(|release| release.connection),
        [0; 3]
    );
    assert_eq!(undo.key(), "lost");
    let in_full = [first, second, undo].map(Command::is_in_full);
    assert_eq!(in_full, [true, false, true]);
}
