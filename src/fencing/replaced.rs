//! A server is replaced by an empty one whose clock is behind by as much as is allowed.

use std::time::Duration;

use super::{FencingToken, Proposals, Rules};
use crate::fake::store::Store;
use crate::fake::store::process::Process;
use crate::node::command::{Command, Keys};
use crate::node::fence::Fence;
use crate::node::fenced::MarkerAction;
use crate::quorum;
use crate::wire::resp::Reply;

/// A larger reserve than any lead allows, so that the lead decides.
const TIMES: u32 = u32::MAX;

/// A server whose wall clock shows the time of each command.
fn server(number: u64) -> Store {
    Store::of(Process::new(number, Duration::ZERO, 0))
}

/// An attempt by a client whose clock shows `wall`, with the largest reserve, on a server whose clock shows `now`.
fn ask(
    (server, now): (&mut Store, Duration),
    (proposals, wall): (&Proposals, Duration),
    rules: &Rules,
) -> (FencingToken, FencingToken, Reply) {
    let wall = u64::try_from(wall.as_micros()).unwrap();
    let (token, reserve) = proposals.next(wall, TIMES, rules.lead);
    let value = format!("of {token}");
    let command = Command {
        keys: &Keys::Lock("job".into()),
        value: value.as_bytes(),
        fence: Some(Fence {
            rules,
            token,
            reserve,
        }),
    };
    let reply = server.execute(&command.acquire(Duration::from_millis(1)).in_full(), now);
    if reply == Reply::Okay {
        server.execute(&command.release().in_full(), now);
    }
    (token.below(reserve), token, reply)
}

#[test]
fn a_server_that_is_replaced_by_one_whose_clock_is_behind_gives_no_smaller_token() {
    for max_ttl in [20, 1_000, 60_000, 3_600_000].map(Duration::from_millis) {
        let rules = Rules::new("", 1, max_ttl, quorum::drift(max_ttl, 0.01));
        let began = Duration::from_hours(1000);
        let mut old = server(1);
        let open = MarkerAction::Open.command(&rules);
        assert_eq!(old.execute(&open.in_full(), began), Reply::Okay);

        // A client with a right clock takes lock after lock, and its tokens get ahead of the clock.
        let ahead = Proposals::default();
        let now = began + Duration::from_millis(1);
        let mut largest = None;
        for _ in 0..5 {
            let (_, last, reply) = ask((&mut old, now), (&ahead, now), &rules);
            assert_eq!(reply, Reply::Okay);
            largest = largest.max(Some(last));
        }

        // Another client has the clock of the new server.
        let mut new = server(2);
        let now = now.checked_sub(max_ttl).unwrap();
        let (.., reply) = ask((&mut new, now), (&Proposals::default(), now), &rules);
        assert!(matches!(reply, Reply::Array(_)), "{reply:?}");
        // Tokens have to be larger than the end of the quarantine.
        let now = now + rules.quarantine + Duration::from_micros(1);
        let (first, _, reply) = ask((&mut new, now), (&Proposals::default(), now), &rules);
        assert_eq!(reply, Reply::Okay);
        assert!(Some(first) > largest, "{first:?} after {largest:?}");
    }
}
