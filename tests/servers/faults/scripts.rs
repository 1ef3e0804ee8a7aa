//! Scripts that are called by their digests: which command has the text, and what happens when a server wants it again.

use std::time::Duration;

use redlatch_testing::scripted::{Command, Kind, Scripted};
use redlatch_testing::{Server, eventually};

use crate::managers::{BOTH, over, patient, processes_by};
use crate::servers::faults::nodes::granted;
use crate::waiters::BOUND;

const TTL: Duration = Duration::from_mins(1);

#[test]
fn servers_that_forget_their_scripts_are_sent_them_again() {
    let servers = Server::cluster(3);
    let flush = || {
        for server in &servers {
            server.command(&["SCRIPT", "FLUSH"]);
        }
    };
    for protocol in BOTH {
        let [manager] = processes_by(&over(&servers), protocol);
        for _ in 0..3 {
            let guard = manager.try_lock("job", TTL).unwrap();
            assert_eq!(granted(&guard.votes()), 3, "{:?}", guard.votes());
            flush();
            guard.extend(TTL).unwrap();
            flush();
            guard.unlock().unwrap();
            assert!(servers.iter().all(|server| server.get("job").is_none()));
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

#[test]
fn a_script_is_sent_once_as_text_but_an_undo_has_the_text_again() {
    let nodes = [Scripted::start(|peer, command| {
        if !(command.kind() == Kind::Set && command.key() == "lost") {
            peer.say(command.consent());
        }
    })];
    let builder = over(&nodes).node_timeout(Duration::from_secs(2));
    let manager = builder.build().unwrap();
    for _ in 0..2 {
        let guard = manager.try_lock("job", TTL).unwrap();
        guard.extend(TTL).unwrap();
        guard.unlock().unwrap();
    }
    let extensions = nodes[0].heard_of(Kind::Extend);
    assert!(extensions.iter().map(Command::is_in_full).eq([true, false]));
    manager.try_lock("lost", TTL).unwrap_err();
    let releases = || nodes[0].heard_of(Kind::Release);
    assert!(eventually(BOUND, || releases().len() >= 3));
    let releases = &releases()[..3];
    assert!(releases.iter().all(|release| release.connection == 0));
    assert_eq!(releases[2].key(), "lost");
    let in_full = releases.iter().map(Command::is_in_full);
    assert!(in_full.eq([true, false, true]));
}
