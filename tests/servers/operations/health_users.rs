//! `LockManager::health` for users without rights, or with too few of them.

use redlatch::{Health, LockGuard};

use crate::fakes::operations::health::{TTL, codes};
use crate::managers::{BOTH, fenced_over, with_protocol};
use crate::servers::operations::health_servers::{health, remembering};
use crate::servers::operations::page::PAGE;
use crate::servers::operations::page_users::rules;

/// What locks need, and what health reads.
const ALL: &str = "+ping +set +eval +evalsha +get +mget +del +pttl +pexpire +time +exists +info";

/// Of each user: what it may not, of [`ALL`], and what more its rules have; what becomes of its lock; the codes of the findings that
/// are no notices; and what the report says of each server. A pattern may have the key of a lock and not that which is tried. Without
/// the run id, a restart could not be noticed. The viewer is that of the page, which tells what lets it try a lock.
const USERS: &str = "
PROTOCOL => MAY NOT => AND => ITS LOCK IS => FINDINGS => EACH SERVER
Classic => - => - => given back => - => noeviction
Classic => +info => - => given back => - => allow the user INFO
Classic => +set +get +time => - => refused => untried => allow the user GET and TIME
Classic => +set => - => refused => untried => could not try
Classic => +set => - => refused => untried => allow SET
Classic => - => resetkeys ~report* ~redlatch:node => given back => untried => allow the key pattern
Classic => - => resetkeys ~other:* => refused => no_majority refuses => allow the key pattern ~PREFIX*
Classic => +evalsha +eval => - => kept => not_released => allow SET, EVAL
Classic => +evalsha +get => - => kept => not_released => allow SET, EVAL
Classic => +evalsha +del => - => kept => not_released => allow SET, EVAL
Classic => VIEWER => - => refused => untried => could not try
Classic => VIEWER => TRIES => refused => - => noeviction
Fenced => - => - => given back => - => open
Fenced => +evalsha +eval => - => refused => untried => could not try
Fenced => +set => - => refused => untried => could not try
Fenced => +mget => - => refused => untried => could not try
Fenced => +time => - => refused => untried => could not try
Fenced => +info => - => refused => no_majority refuses => run_id
Fenced => VIEWER => - => refused => untried => could not try
Fenced => VIEWER => TRIES => refused => - => open";

/// The codes of the findings that are no notices, each once.
fn alarms(found: &Health) -> String {
    let mut codes = codes(found);
    codes.retain(|code| !["marked", "hidden"].contains(code));
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
