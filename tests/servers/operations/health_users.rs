//! `LockManager::health` for users without a password, without rights, or with too few of them.

use std::time::Duration;

use redis::Value;
use redlatch::{Health, LockManager, Protocol, Severity};
use redlatch_testing::{Server, eventually};

use crate::fakes::operations::health::{assert_well, codes};
use crate::managers::{fenced, fenced_over};
use crate::servers::operations::health_servers::{health, manager, of, remembering};
use crate::servers::operations::page;

const TTL: Duration = Duration::from_mins(1);
const BOUND: Duration = Duration::from_secs(50);

/// Gives a user on each of these servers these rights. Returns the URLs with the user.
fn with_rights(servers: &[Server], rights: &[&str]) -> Vec<String> {
    let words = "ACL SETUSER looker reset on >pw ~* +ping".split(' ');
    let words: Vec<&str> = words.chain(rights.iter().copied()).collect();
    let url = |server: &Server| {
        assert_eq!(server.command(&words), Value::Okay);
        server.url().replace("//", "//looker:pw@")
    };
    servers.iter().map(url).collect()
}

fn health_of(servers: &[Server], rights: &str) -> (Health, LockManager) {
    let rights: Vec<&str> = rights.split(' ').collect();
    let manager = manager(with_rights(servers, &rights));
    (health(&manager), manager)
}

/// The same rights without this one.
fn without(rights: &str, less: &str) -> String {
    let rights = rights.split(' ').filter(|right| *right != less);
    rights.collect::<Vec<_>>().join(" ")
}

#[track_caller]
fn assert_no_majority(found: &Health) {
    assert_eq!(found.severity, Severity::Critical, "{found}");
    assert_eq!(found.margin, -2, "{found}");
}

/// The codes of the findings that are no notices, each once.
fn alarms(found: &Health) -> Vec<&str> {
    let mut codes = codes(found);
    codes.retain(|code| !["marked", "hidden"].contains(code));
    codes.dedup();
    codes
}

/// Of each of three servers it says this.
#[track_caller]
fn assert_thrice(found: &Health, words: &str) {
    let text = found.to_string();
    assert_eq!(text.matches(words).count(), 3, "{text}");
    assert!(!text.contains("pw"), "{text}");
}

#[test]
fn what_an_acl_hides_is_unknown_and_nothing_else_is() {
    let servers = remembering(3);
    let all = "+set +eval +del +pttl +get +time +info";
    assert_well(&health_of(&servers, all).0);

    let (found, _) = health_of(&servers, &without(all, "+info"));
    assert_eq!((found.severity, found.margin), (Severity::Notice, 1));
    for server in &servers {
        let facts = [
            "state",
            "quarantine",
            "role",
            "version",
            "eviction",
            "run_id",
        ];
        let facts = facts.map(|name| of(&found, server, name));
        assert_eq!(facts, ["up", "no_marker", "", "", "", ""]);
        assert_ne!(of(&found, server, "clock_ahead_us"), "");
    }
    assert_thrice(&found, "allow the user INFO\n");
    let text = found.to_string();
    assert!(text.lines().nth(1).unwrap().contains("unknown"));

    let (found, _) = health_of(&servers, "+info");
    assert_thrice(&found, "allow the user GET and TIME");
    for server in &servers {
        let facts = ["role", "clock_ahead_us", "quarantine"];
        let facts = facts.map(|name| of(&found, server, name));
        assert_eq!(facts, ["master", "", ""]);
    }
}

#[test]
fn a_user_who_may_take_no_lock_is_told_that_none_could_be_tried() {
    let servers = remembering(3);
    let all = "+set +eval +evalsha +get +mget +del +pttl +time +info +exists";
    assert_well(&health_of(&servers, all).0);

    let (found, manager) = health_of(&servers, &without(all, "+set"));
    assert_eq!(alarms(&found), ["untried"], "{found}");
    assert_eq!(found.severity, Severity::Warning);
    assert_thrice(&found, "could not try");
    assert_thrice(&found, "allow SET");
    assert!(manager.try_lock("report", TTL).is_err());
    // A pattern that does not have the key that is tried.
    let keys = format!("{all} resetkeys ~report* ~redlatch:node");
    let (found, manager) = health_of(&servers, &keys);
    assert_eq!(alarms(&found), ["untried"], "{found}");
    assert_thrice(&found, "allow the key pattern");
    manager.try_lock("report", TTL).unwrap().unlock().unwrap();

    // It gets locks, and keeps them.
    for right in ["+eval", "+get", "+del"] {
        let rights = without(&without(all, "+evalsha"), right);
        let (found, manager) = health_of(&servers, &rights);
        assert_eq!(alarms(&found), ["not_released"], "{right}: {found}");
        assert_thrice(&found, "allow SET, EVAL");
        assert_eq!(found.margin, 1);
        let guard = manager.try_lock("report", TTL).unwrap();
        assert!(guard.unlock().is_err());
        for server in &servers {
            server.command(&["DEL", "report"]);
        }
    }
}

#[test]
fn a_user_without_what_the_scripts_of_fencing_need_is_told_that_none_is_possible() {
    let servers = remembering(3);
    fenced_over(&servers);
    let all = "+eval +evalsha +set +get +mget +del +pttl +pexpire +time +exists +info";
    for less in ["", "+eval", "+set", "+mget", "+time", "+info"] {
        let mut rights = without(all, less);
        if less == "+eval" {
            rights = without(&rights, "+evalsha");
        }
        let rights: Vec<&str> = rights.split(' ').collect();
        let manager = fenced().nodes(with_rights(&servers, &rights));
        let manager = manager.build().unwrap();
        let found = health(&manager);
        let can_lock = manager.try_lock("report", TTL).is_ok();
        assert_eq!(can_lock, less.is_empty(), "{less}");
        match less {
            "" => assert!(alarms(&found).is_empty(), "{found}"),
            // Without the run id, a restart could not be noticed.
            "+info" => {
                assert_no_majority(&found);
                assert!(found.to_string().contains("run_id"), "{found}");
            }
            _ => assert_eq!(alarms(&found), ["untried"], "{less}: {found}"),
        }
    }
}

#[test]
fn a_replica_that_hides_its_role_and_a_user_who_may_not_touch_the_keys_have_no_votes() {
    let master = remembering(1).remove(0);
    let port = master.port().to_string();
    let replicas = [(); 3].map(|()| Server::start_with(&["--replicaof", "127.0.0.1", &port]));
    let is_linked = |server: &Server| server.info("replication").contains("link_status:up");
    assert!(eventually(BOUND, || replicas.iter().all(is_linked)));
    let (found, _) = health_of(&replicas, "+@all -info");
    assert_no_majority(&found);
    assert_thrice(&found, "READONLY");

    let (found, _) = health_of(&remembering(3), "+@all resetkeys ~other:*");
    assert_no_majority(&found);
    assert_thrice(&found, "allow the key pattern ~PREFIX*");
    assert!(!found.to_string().contains("allow the user"), "{found}");
}

#[test]
fn a_password_that_is_missing_wrong_or_needless_is_told_as_such() {
    let server = Server::start_with(&["--requirepass", "secretpw", "--appendonly", "yes"]);
    let open = Server::start();
    let with = |server: &Server, login| server.url().replace("//", &format!("//{login}"));
    for (server, login, state, told) in [
        (&server, "", "refuses", "the server answered NOAUTH "),
        (
            &server,
            ":wrong@",
            "failed",
            "AUTH was refused with WRONGPASS",
        ),
        (&open, ":needless@", "failed", "may have no password"),
    ] {
        let found = health(&manager([with(server, login)]));
        assert_eq!(of(&found, server, "state"), state, "{found}");
        assert!(of(&found, server, "error").contains(told), "{found}");
        assert_eq!(found.margin, -1);
    }
    assert_well(&health(&manager([with(&server, ":secretpw@")])));
}

#[test]
fn the_user_of_the_page_who_looks_may_be_let_try_a_lock_and_still_takes_no_other() {
    let selector = page::PAGE.lines().find(|line| line.contains(" (~"));
    let selector: Vec<&str> = selector.unwrap().split(' ').collect();
    for (locker, protocol) in page::USERS {
        let servers = remembering(3);
        if servers[0].info("server").contains("redis_version:6.") {
            return println!("not tested: the server knows no selectors");
        }
        for server in &servers {
            page::apply(server, &page::rules(locker));
            page::apply(server, &page::rules("locks-viewer"));
        }
        if protocol == Protocol::Fenced {
            let locker = page::manager(&servers, locker, protocol);
            locker.open_nodes().unwrap();
        }
        let viewer = page::manager(&servers, "locks-viewer", protocol);
        assert_eq!(alarms(&health(&viewer)), ["untried"]);

        for server in &servers {
            let more = [&["ACL", "SETUSER", "locks-viewer"][..], &selector].concat();
            page::apply(server, &more);
        }
        assert_well(&health(&viewer));
        let refusal = viewer.try_lock("report", TTL).unwrap_err().to_string();
        assert!(refusal.contains(page::FORBIDDEN), "{refusal}");
        let mut left = servers.iter().map(|server| server.get("billing:report"));
        assert!(left.all(|left| left.is_none()));
    }
}
