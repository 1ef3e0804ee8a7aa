//! What operators see of several readers, over real servers. `kinds::shown` has what they see of one.

use std::time::Duration;

use redlatch::{LockStatus, Protocol, Vote};
use redlatch_testing::side_by_side;

use crate::managers::{BOTH, two_processes};
use crate::servers::readers::on_servers::ledger;
use crate::waiters::TTL;

/// How many read, for how long the first and the last of them.
#[track_caller]
fn read(status: &LockStatus) -> (u64, Duration, Duration) {
    let LockStatus::Read {
        readers,
        remaining,
        last,
        ..
    } = status
    else {
        panic!("{status}")
    };
    (*readers, *remaining, *last)
}

#[test]
fn the_status_tells_how_many_read_and_when_the_first_and_the_last_end() {
    side_by_side(BOTH, |protocol| {
        let (servers, [one, other]) = two_processes(protocol);
        let second = Duration::from_secs(1);
        let short = ledger(&other).ttl(8 * second).read().unwrap();
        let _long = [ledger(&one).read().unwrap(), ledger(&one).read().unwrap()];
        let status = other.status("ledger").unwrap();
        let (readers, first, last) = read(&status);
        assert_eq!(readers, 3);
        let is_short = first <= short.remaining() + second && first > 5 * second;
        assert!(is_short && last > 8 * second && last <= TTL, "{status}");
        let text = status.to_string();
        let head = "read by 3, oldest for another ";
        assert!(
            text.starts_with(head) && text.contains("s, last for another "),
            "{text}"
        );
        // One that only a minority has is not counted.
        servers[0].command(&["ZADD", "ledger", "9000000000000", &"4".repeat(40)]);
        let status = other.status("ledger").unwrap();
        assert_eq!(read(&status).0, 3);
        let is_four = |vote: &Vote| matches!(vote, Vote::Read { readers: 4, .. });
        let nodes = status.nodes().iter();
        assert_eq!(nodes.filter(|node| is_four(&node.vote)).count(), 1);
    });
}

#[test]
fn a_list_has_names_that_are_read_beside_those_that_are_held() {
    let (servers, [one, other]) = two_processes(Protocol::Classic);
    let _readers = [ledger(&one).read().unwrap(), ledger(&other).read().unwrap()];
    let _held = one.lock("invoices", TTL).unwrap();
    for server in &servers {
        for (key, member) in [("scores", "anna"), ("for-ever", "x")] {
            server.command(&["ZADD", key, "5", member]);
        }
        server.command(&["PEXPIRE", "scores", "60000"]);
    }
    let mut listed: Vec<_> = other.locks("").unwrap().map(Result::unwrap).collect();
    listed.sort_by(|a, b| a.resource.cmp(&b.resource));
    let names: Vec<&str> = listed.iter().map(|lock| lock.resource.as_str()).collect();
    assert_eq!(names, ["invoices", "ledger"]);
    assert_eq!(read(&listed[1].status).0, 2);
    let text = listed[1].to_string();
    let (head, end) = (
        "\"ledger\": read by 2, oldest for another ",
        ", on 3 of 3 nodes",
    );
    assert!(text.starts_with(head) && text.ends_with(end), "{text}");
}
