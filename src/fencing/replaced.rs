//! A server is replaced by an empty one whose clock is behind by as much as is allowed.

use std::sync::Arc;
use std::time::Duration;

use super::{FencingToken, Proposals, Rules};
use crate::claim::{Claim, Fence};
use crate::fake::store::Store;
use crate::fake::store::process::Process;
use crate::node::command::{self, MarkerAction, Times};
use crate::quorum;
use crate::wire::resp::Reply;

/// A server whose wall clock shows the time of each command.
fn server(number: u64) -> Store {
    Store::of(Process::new(number, Duration::ZERO))
}

/// An attempt by a client whose clock shows `wall`, on a server whose clock shows `now`.
fn ask(
    (server, now): (&mut Store, Duration),
    (proposals, wall): (&Proposals, Duration),
    rules: &Arc<Rules>,
) -> (FencingToken, Reply) {
    let wall = u64::try_from(wall.as_micros()).unwrap();
    let token = proposals.next(wall);
    let rules = Arc::clone(rules);
    let claim = Claim {
        fence: Some(Fence { rules, token }),
        ..Claim::of_key("job")
    };
    let take = command::take(&claim, Duration::from_millis(1), Times::First);
    let reply = server.execute(&take.in_full(), now);
    if reply == Reply::Okay {
        server.execute(&command::release(&claim).in_full(), now);
    }
    (token, reply)
}

#[test]
fn a_server_that_is_replaced_by_one_whose_clock_is_behind_gives_no_smaller_token() {
    for max_ttl in [20, 1_000, 60_000, 3_600_000].map(Duration::from_millis) {
        let rules = Rules::new("", 1, max_ttl, quorum::drift(max_ttl, 0.01));
        let rules = Arc::new(rules);
        let began = Duration::from_hours(1000);
        let mut old = server(1);
        let open = command::open(&rules, MarkerAction::Open);
        assert_eq!(old.execute(&open.in_full(), began), Reply::Okay);

        // A client with a right clock takes lock after lock, all in one microsecond.
        let ahead = Proposals::default();
        let now = began + Duration::from_millis(1);
        let mut largest = None;
        for _ in 0..5 {
            let (token, reply) = ask((&mut old, now), (&ahead, now), &rules);
            assert_eq!(reply, Reply::Okay);
            largest = largest.max(Some(token));
        }

        // Another client has the clock of the new server.
        let mut new = server(2);
        let now = now.checked_sub(max_ttl).unwrap();
        let (_, reply) = ask((&mut new, now), (&Proposals::default(), now), &rules);
        assert!(matches!(reply, Reply::Array(_)), "{reply:?}");
        // Tokens have to be larger than the end of the quarantine.
        let now = now + rules.quarantine + Duration::from_micros(1);
        let (first, reply) = ask((&mut new, now), (&Proposals::default(), now), &rules);
        assert_eq!(reply, Reply::Okay);
        assert!(Some(first) > largest, "{first:?} after {largest:?}");
    }
}
