//! Every way through the table, of a few steps.

use super::scene::{Scene, resource};
use crate::claim::Resource;
use crate::contend::waiting::{MOST_POLLS, MOST_RAISES};

/// The events that may follow.
fn events(next: &str) -> &'static [&'static str] {
    match next.split(' ').next().unwrap() {
        "all" | "first" => &["hHH", "grr", "!sss", "w--", "oo-", "t--", "?kkk"],
        "look" | "intend" => &[
            "none",
            "free 1",
            "free",
            "held 5",
            "held 999",
            "stuck",
            "deserted 0",
        ],
        "listen" => &["quiet", "rang", "deaf"],
        "find" => &["slots 0,1", "taken 0,1", "slots"],
        "queue" => &["turn", "go"],
        "pause" => &["paused"],
        _ => &[],
    }
}

/// Every way through the table of so many steps: none ends while there is time, each one ends soon when the time is over, and what a
/// call has to ask for is there.
#[test]
fn every_way_ends_when_the_time_is_over_and_none_before() {
    fn walk(resource: &Resource, way: &mut Vec<&'static str>, depth: u32) {
        let mut scene = Scene::new(resource, true);
        let next = way
            .iter()
            .fold(String::new(), |_, event| scene.after(event));
        assert_ne!(next, "end", "{way:?}");
        assert!(scene.wait.looks <= MOST_POLLS, "{way:?}");
        assert!(next != "queue" || resource.is_read(), "{way:?}");
        if depth > 0 {
            for event in events(&next) {
                way.push(event);
                walk(resource, way, depth - 1);
                way.pop();
            }
            return;
        }
        // What comes last for each kind of step, when the time is over.
        let mut end = next;
        for _ in 0..MOST_RAISES + 8 {
            let last = events(&end).first().unwrap();
            end = scene.after(&format!("late {last}"));
            if end == "end" {
                return;
            }
        }
        panic!("{way:?} does not end");
    }
    for (kind, starts) in [
        ("lock", &["turn", "yield", "called-off"][..]),
        ("several", &["turn", "yield"]),
        ("permit", &["turn", "yield"]),
        ("read", &["read", "go"]),
    ] {
        for start in starts {
            walk(&resource(kind), &mut vec![start], 5);
        }
    }
}
