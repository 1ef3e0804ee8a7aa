//! What operators see of readers and do with them, over real servers: status, list, release by token, leases.

use std::time::Duration;

use redlatch::{Error, LockManager, LockStatus, Protocol, Vote};
use redlatch_testing::{Server, side_by_side};

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
        let short = other
            .rw_lock("ledger")
            .ttl(Duration::from_secs(8))
            .read()
            .unwrap();
        let _long = [ledger(&one).read().unwrap(), ledger(&one).read().unwrap()];
        let status = other.status("ledger").unwrap();
        let (readers, first, last) = read(&status);
        assert_eq!(readers, 3);
        let second = Duration::from_secs(1);
        assert!(
            first <= short.remaining() + second && first > 5 * second,
            "{status}"
        );
        assert!(last > 8 * second && last <= TTL, "{status}");
        let text = status.to_string();
        assert!(
            text.starts_with("read by 3, oldest for another "),
            "{status}"
        );
        assert!(text.contains("s, last for another "), "{status}");
        assert_eq!(status.nodes().len(), 3);
        // One that only a minority has is not counted, and a node that is away does not change it.
        servers[0].command(&["ZADD", "ledger", "9000000000000", &"4".repeat(40)]);
        assert_eq!(read(&other.status("ledger").unwrap()).0, 3);
        let is_four = |vote: &Vote| matches!(vote, Vote::Read { readers: 4, .. });
        let status = other.status("ledger").unwrap();
        let nodes = status.nodes().iter();
        assert_eq!(nodes.filter(|node| is_four(&node.vote)).count(), 1);
    });
}

#[test]
fn a_set_of_another_program_is_no_lock_and_a_writer_is_an_ordinary_holder() {
    let (servers, [one, _]) = two_processes(Protocol::Classic);
    for server in &servers {
        server.command(&["ZADD", "scores", "5", "anna"]);
        server.command(&["PEXPIRE", "scores", "60000"]);
    }
    let status = one.status("scores").unwrap();
    assert!(matches!(status, LockStatus::Blocked { .. }), "{status}");
    let error = one.rw_lock("scores").try_read().unwrap_err();
    assert!(error.to_string().contains("another type"), "{error}");
    let writer = ledger(&one).write().unwrap();
    let status = one.status("ledger").unwrap();
    assert!(
        matches!(&status, LockStatus::Held { token, .. } if token == writer.token()),
        "{status}"
    );
}

#[test]
fn a_reader_is_taken_away_by_its_whole_value_too_and_nobody_by_a_part_of_it() {
    let (servers, [_, other]) = two_processes(Protocol::Classic);
    let labelled = LockManager::builder()
        .nodes(servers.iter().map(Server::url))
        .holder("web-3")
        .build()
        .unwrap();
    let reader = ledger(&labelled).read().unwrap();
    let values = redis::Client::open(servers[0].url()).unwrap();
    let values: Vec<String> = redis::cmd("ZRANGE")
        .arg(&["ledger", "0", "-1"])
        .query(&mut values.get_connection().unwrap())
        .unwrap();
    let [value] = values.as_slice() else {
        panic!("{values:?}");
    };
    assert!(value.starts_with(reader.token()) && value.contains(" web-3 since="));
    for part in [&value[..43], &value[..39], &value[41..]] {
        assert!(matches!(
            other.release("ledger", part),
            Err(Error::Lost { .. })
        ));
    }
    assert_eq!(read(&other.status("ledger").unwrap()).0, 1);
    other.release("ledger", value).unwrap();
    assert!(matches!(
        other.status("ledger").unwrap(),
        LockStatus::Free { .. }
    ));
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
        server.command(&["HSET", "hash", "x", "1"]);
        server.command(&["PEXPIRE", "hash", "60000"]);
    }
    let mut listed: Vec<_> = other.locks("").unwrap().map(Result::unwrap).collect();
    listed.sort_by(|a, b| a.resource.cmp(&b.resource));
    let names: Vec<&str> = listed.iter().map(|lock| lock.resource.as_str()).collect();
    assert_eq!(names, ["invoices", "ledger"]);
    assert_eq!(read(&listed[1].status).0, 2);
    let text = listed[1].to_string();
    assert!(
        text.starts_with("\"ledger\": read by 2, oldest for another "),
        "{text}"
    );
    assert!(text.ends_with(", on 3 of 3 nodes"), "{text}");
}
