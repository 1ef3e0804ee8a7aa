//! `LockManager::health` for users without rights, or with too few of them.

use redlatch::{Error, Health, LockGuard, LockStatus, Protocol, Severity};
use redlatch_testing::Server;

use crate::fakes::operations::health::{TTL, codes};
use crate::managers::{BOTH, fenced_over, with_protocol};
use crate::servers::operations::health_servers::{health, remembering};
use crate::servers::operations::page::PAGE;
use crate::servers::operations::page_users::{
    USERS as OF_THE_PAGE, apply, manager as of_page, rules, with_and_without_each,
};

/// What locks need, and what health reads.
const ALL: &str = "+ping +set +eval +evalsha +get +mget +del +pttl +pexpire +time +exists +info";

/// Of each user: what it may not, of [`ALL`], and what more its rules have; what becomes of its lock; the codes of the findings that
/// are no notices, each once; and what the report says of each server. A pattern may have the key of a lock and not that which is
/// tried. Without the run id, a restart could not be noticed. The viewer is that of the page, which tells what lets it try a lock.
const USERS: &str = "
PROTOCOL => MAY NOT => AND => ITS LOCK IS => FINDINGS => EACH SERVER
Classic => - => - => given back => - => noeviction
Classic => +info => - => given back => - => allow the user INFO
Classic => +set +get +time => - => refused => no_majority forbidden not_extended => allow the user GET and TIME
Classic => +set => - => refused => no_majority forbidden => the user may not take a lock
Classic => +set => - => refused => no_majority forbidden => allow SET
Classic => - => resetkeys ~report* ~redlatch:node => given back => untried => allow the key pattern ~PREFIX*
Classic => - => resetkeys ~other:* => refused => no_majority refuses => allow the key pattern ~PREFIX*
Classic => +evalsha +eval => - => kept => not_extended not_released => does not release a lock
Classic => +evalsha +get => - => kept => not_extended not_released => does not extend a lock
Classic => +evalsha +del => - => kept => not_released => allow SET, EVAL
Classic => +pexpire => - => given back => not_extended => an extension needs EVAL, GET, PTTL and PEXPIRE
Classic => VIEWER => - => refused => no_majority forbidden => the user may not take a lock
Classic => VIEWER => TRIES => refused => - => noeviction
Fenced => - => - => given back => - => open
Fenced => +evalsha +eval => - => refused => no_majority forbidden => the user may not take a lock
Fenced => +set => - => refused => no_majority forbidden => the user may not take a lock
Fenced => +mget => - => refused => no_majority forbidden => the user may not take a lock
Fenced => +time => - => refused => no_majority forbidden => the user may not take a lock
Fenced => +info => - => refused => no_majority refuses => run_id
Fenced => +pexpire => - => given back => not_extended => kept alive for longer than its ttl
Fenced => VIEWER => - => refused => no_majority forbidden => the user may not take a lock
Fenced => VIEWER => TRIES => refused => - => open";

/// The codes of the findings that are no notices, each once. All servers here are open to all.
fn alarms(found: &Health) -> String {
    let mut codes = codes(found);
    codes.retain(|code| {
        !["marked", "open_to_all", "no_readers", "uncounted", "hidden"].contains(code)
    });
    codes.dedup();
    codes.join(" ")
}

#[test]
fn what_an_acl_hides_is_unknown_and_what_its_user_can_not_do_is_told() {
    let servers = remembering(3);
    fenced_over(&servers);
    let knows_selectors = !servers[0].info("server").contains("redis_version:6.");
    let tries = PAGE.lines().find(|line| line.contains(" (~")).unwrap();
    for row in USERS.lines().skip(2) {
        let cells: Vec<&str> = row
            .split(" => ")
            .map(|cell| cell.trim_matches('-'))
            .collect();
        let [protocol, less, more, became, expected, words] = cells[..] else {
            panic!("{row}");
        };
        let is_fenced = protocol == "Fenced";
        if more == "TRIES" && !knows_selectors {
            continue;
        }
        let rights = if less == "VIEWER" {
            rules("locks-viewer")[6..].join(" ")
        } else {
            let is_left = |right: &&str| !less.split(' ').any(|other| other == *right);
            "~* ".to_owned() + &ALL.split(' ').filter(is_left).collect::<Vec<_>>().join(" ")
        };
        let rights = format!("reset on >secret {rights} {}", more.replace("TRIES", tries));
        let rights = rights.replace("billing:", "");
        let urls = servers.iter().map(|server| server.user(rights.trim()));
        let manager = with_protocol(BOTH[usize::from(is_fenced)])
            .nodes(urls)
            .build()
            .unwrap();
        let found = health(&manager);
        let text = found.to_string();
        assert_eq!(alarms(&found), expected, "{row}: {text}");
        assert_eq!(text.matches(words).count(), 3, "{row}: {text}");
        assert!(!text.contains("secret"), "{text}");
        let is_out = expected.contains("no_majority");
        assert_eq!(found.margin, if is_out { -2 } else { 1 }, "{text}");
        let guard = manager.try_lock("report", TTL);
        let end = match guard.map(LockGuard::unlock) {
            Ok(Ok(())) => "given back",
            Ok(Err(_)) => "kept",
            Err(_) => "refused",
        };
        assert_eq!(end, became, "{row}");
        for server in &servers {
            server.command(&["DEL", "report"]);
        }
    }
}

/// Whether a lock is taken, extended and released.
fn life_of(guard: Result<LockGuard, Error>) -> [bool; 3] {
    let Ok(guard) = guard else { return [false; 3] };
    [true, guard.extend(TTL * 2).is_ok(), guard.unlock().is_ok()]
}

fn finding(found: &Health, code: &str) -> Option<String> {
    let mut findings = found.findings.iter();
    findings.find(|it| it.code == code).map(ToString::to_string)
}

#[test]
fn health_names_each_missing_permission_that_breaks_a_lock() {
    let server = Server::start_with(&["--appendonly", "yes"]);
    for (user, protocol) in OF_THE_PAGE {
        for (permission, rights) in with_and_without_each(user) {
            server.command(&["FLUSHALL"]);
            // A script that the server knows needs no EVAL.
            server.command(&["SCRIPT", "FLUSH"]);
            apply(&server, &rules(user));
            if protocol == Protocol::Fenced {
                of_page(&server, user, protocol).open_nodes().unwrap();
            }
            apply(&server, &rights);
            let manager = of_page(&server, user, protocol);
            let found = health(&manager);
            let told = format!("{protocol:?} without {permission}: {found}");
            let lock = life_of(manager.try_lock("report", TTL));
            // A counter is there.
            let reader = manager.rw_lock("report").ttl(TTL).try_read();
            let writer = manager.try_lock("report", TTL);
            let is_held = matches!(writer, Err(Error::Held { .. }));
            let is_seen = matches!(manager.status("report"), Ok(LockStatus::Read { .. }));
            let is_well = life_of(reader) == [true; 3] && is_held && is_seen;
            let is_read_broken = lock == [true; 3] && !is_well;
            let [taken, extended, released] = lock;
            assert_eq!(found.severity == Severity::Critical, !taken, "{told}");
            assert_eq!(found.margin < 0, !taken, "{told}");
            for (code, is_broken, words) in [
                (
                    "not_extended",
                    taken && !extended,
                    "needs EVAL, GET, PTTL and PEXPIRE",
                ),
                ("not_released", taken && !released, "a lock stays there"),
                ("no_readers", is_read_broken, "--shared"),
            ] {
                let text = finding(&found, code);
                assert_eq!(text.is_some(), is_broken, "{code} {told}");
                assert!(text.is_none_or(|text| text.contains(words)), "{told}");
            }
        }
    }
}
