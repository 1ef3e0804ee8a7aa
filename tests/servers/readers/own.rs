//! Each reader has a lock of its own: where it is set again, and what follows it. `kinds::extend` has how it is extended and lost,
//! and the cases of the scripts what becomes of one beside others.

use redlatch::{Error, Protocol};
use redlatch_testing::side_by_side;

use crate::managers::{BOTH, two_processes};
use crate::servers::readers::on_servers::ledger;
use crate::servers::readers::strangers::readers;
use crate::waiters::{TTL, assert_nothing_is_left};

#[test]
fn a_reader_is_set_again_where_a_node_has_forgotten_it_with_the_classic_protocol_alone() {
    side_by_side(BOTH, |protocol| {
        let (servers, [one, other]) = two_processes(protocol);
        let guard = ledger(&one).read().unwrap();
        servers[2].command(&["DEL", "ledger"]);
        guard.extend(TTL).unwrap();
        let is_healed = protocol == Protocol::Classic;
        assert_eq!(readers(&servers[2]).len(), usize::from(is_healed));
        assert_eq!(one.stats().healed, u64::from(is_healed));

        // Never over a writer's key; but where a writer waits, which keeps out those alone that don't read yet.
        servers[2].hold("ledger", "port", 60_000);
        guard.extend(TTL).unwrap();
        assert_eq!(servers[2].get("ledger").as_deref(), Some("port"));
        servers[2].command(&["DEL", "ledger"]);
        servers[2].command(&["SET", "ledger:redlatch:intent", "1", "PX", "60000"]);
        guard.extend(TTL).unwrap();
        assert_eq!(readers(&servers[2]).len(), usize::from(is_healed));
        assert_eq!(one.stats().healed, 2 * u64::from(is_healed));
        let error = ledger(&other).try_read().unwrap_err();
        assert!(error.writer_waits(), "{error}");
        servers[2].command(&["DEL", "ledger:redlatch:intent"]);
        guard.unlock().unwrap();
        ledger(&other).try_write().unwrap().unlock().unwrap();
        if is_healed {
            assert_nothing_is_left(&servers);
        }
    });
}

#[test]
fn no_writer_comes_back_after_a_reader_with_the_fenced_protocol() {
    let (servers, [one, other]) = two_processes(Protocol::Fenced);
    let writer = ledger(&one).write().unwrap();
    let token = writer.fencing_token().unwrap();
    // As if its time were over; the counters stay.
    for server in &servers {
        server.command(&["DEL", "ledger"]);
    }
    ledger(&other).read().unwrap().unlock().unwrap();
    assert!(matches!(writer.extend(TTL), Err(Error::Lost { .. })));
    let next = ledger(&other).write().unwrap();
    assert!(next.fencing_token().unwrap() > token);
    next.unlock().unwrap();
}
