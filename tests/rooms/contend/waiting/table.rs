//! The table of the wait: what comes next, by what the nodes said, without nodes.

use std::collections::BTreeSet;

use self::scene::{DELAY, Scene, error, resource};
use super::*;

#[path = "scene.rs"]
mod scene;
#[path = "ways.rs"]
mod ways;

/// The kind, and the script of a call that waits.
const ROWS: &str = "\
lock | turn -> all; hHH -> look; free -> first
lock | turn -> all; !sss -> pause; paused -> all; ?kkk -> pause
lock | turn -> all; late hHH -> end
lock | turn -> all; hHH -> look; free -> first; late h-- -> all; late hHH -> end
lock | turn -> all; hHH -> look; held 30 -> listen 32; rang -> first
lock | turn -> all; hHH -> look; held 999 -> listen 100; quiet -> look; held 9 -> listen 11; deaf -> look
lock | turn -> all; hHH -> look; none -> pause; paused -> all
lock | turn -> all; hHH -> look; stuck -> pause; paused -> all
lock | turn -> all; hHH -> look; late none -> pause; late paused -> all; late hHH -> end
lock | turn -> all; hHH -> look; held 999 -> listen 100; late quiet -> all; late hHH -> end
lock | yield -> look politely; free -> listen 10; quiet -> look; free -> first
lock | yield -> look politely; held 15 -> listen 17; quiet -> look; held 999 -> listen 100
lock | yield -> look politely; held 999 -> listen 100
lock | yield -> look politely; deserted -> first
lock | called-off -> listen 10; deaf -> look; free -> first
lock | turn -> all; tth -> all; hHH -> look
lock | turn -> all; hhx -> all; !ssx -> all; hHH -> look
lock | turn -> all; oo- -> all; oo- -> look
lock | turn -> all; !oo- -> all; !oo- -> pause
lock | turn -> all; late oo- -> end
lock | turn -> all; hHH -> look; free -> first; t-- -> first; o-- -> first; h-- -> look
read | read -> all; late hHH -> end
read | read -> all; HHH -> queue; turn -> look; held 9 -> listen 11; rang -> first
read | read -> all; HHH -> queue; go -> first; h-- -> queue; turn -> look; free -> first
read | read -> all; !sss -> queue; turn -> pause; paused -> all
read | go -> first; late w-- -> end
read | go -> first; late H-- -> all; late HHH -> end
read | go -> first; w-- -> queue; turn -> look; none -> pause; paused -> first; w-- -> look; none -> pause; late paused -> all
several | turn -> all; HHH -> look; held 30 -> listen 32; rang -> look; free -> first
permit | turn -> find 3; slots 0,1 -> all 1; k-- -> all 0; H-- -> look
permit | turn -> find 3; slots 0,1 -> all 1; hHH -> all 0; hHH -> look
permit | turn -> find 3; slots 0,1 -> all 1; !sss -> pause; paused -> find 3; taken 0,1 -> all 1
permit | turn -> find 3; slots 0,1 -> all 1; late hHH -> end
permit | turn -> find 3; slots 0,1 -> all 1; tt- -> all 1; ?kkk -> all 0; oo- -> all 0; oo- -> look
permit | turn -> find 3; taken 0,1,2 -> look; held 30 -> listen 32; rang -> look; free 2 -> first 2
permit | turn -> find 3; late taken 0,1 -> all 1; late hHH -> end
permit | turn -> find 3; slots 0 -> all 0; hHH -> look; none -> pause; paused -> find 3; taken 0,1 -> all 1; ?kkk -> all 0
permit | turn -> find 3; slots 0 -> all 0; hHH -> look; none -> pause; paused -> find 3; taken 0,1 -> all 1; hHH -> look
permit | turn -> find 3; slots -> all; --- -> look; free -> listen 100; quiet -> look; deserted -> listen 100
permit | yield -> look politely; free 1 -> listen 10; quiet -> look; free 1,2 -> first 2; h-- -> first 1";

/// The same of a call that may not wait. It asks for each slot that is free, and its one round asks on new connections as well.
const ROWS_OF_ONE_ROUND: &str = "\
lock | turn -> all; late hHH -> end
lock | turn -> all; late tth -> all; late oo- -> all; late oo- -> end
read | read -> all; late hHH -> end
permit | turn -> find 3; late slots 0,1 -> all 1; late hHH -> all 0; late hHH -> end
permit | turn -> find 3; late taken 0,1 -> all 1; late hHH -> end
permit | turn -> find 3; late slots -> all; late --- -> end";

#[test]
fn each_row_of_the_table_leads_to_what_it_says() {
    for (rows, waits) in [(ROWS, true), (ROWS_OF_ONE_ROUND, false)] {
        for (kind, script) in columns(rows) {
            Scene::new(&resource(kind), waits).play(script);
        }
    }
}

/// The two columns of a table.
fn columns(table: &str) -> impl Iterator<Item = (&str, &str)> {
    let columns = table.lines().map(|row| row.split_once('|').unwrap());
    columns.map(|(first, second)| (first.trim(), second.trim()))
}

#[test]
fn a_larger_token_is_proposed_eight_times_at_once_and_for_each_slot_anew() {
    let (lock, permit) = (resource("lock"), resource("permit"));
    let mut scene = Scene::new(&lock, true);
    scene.play("turn -> all");
    for _ in 0..MOST_RAISES {
        scene.play("tth -> all");
    }
    scene.play("tth -> look");
    let mut scene = Scene::new(&permit, true);
    scene.play("turn -> find 3; slots 0,1 -> all 1");
    for slot in [1, 0] {
        for _ in 0..MOST_RAISES {
            scene.play(&format!("tth -> all {slot}"));
        }
        scene.play(["tth -> look", "tth -> all 0"][slot]);
    }
}

/// The error that tells most is the last one.
#[test]
fn of_the_slots_the_error_of_one_that_is_held_is_told_or_else_the_first() {
    let permit = resource("permit");
    for (refusals, told) in [
        (["hHH", "?kkk", "?kkk"], 0),
        (["?kkk", "hHH", "?kkk"], 1),
        (["?kkk", "hHH", "Hh-"], 2),
        (["?kkk", "?kks", "?skk"], 0),
        (["hHH", "?kkk", "!sss"], 2),
    ] {
        let mut wait = Wait::new(&permit, true);
        drop(wait.start(Start::Turn));
        drop(wait.found(vec![0, 1, 2], false, DELAY));
        for refusal in refusals {
            assert!(wait.met.is_none());
            drop(wait.refused(error(refusal), DELAY));
        }
        let met = wait.met.unwrap().to_string();
        assert_eq!(met, error(refusals[told]).to_string(), "{refusals:?}");
    }
}

#[test]
fn at_most_eight_slots_are_asked_for_in_succession() {
    let permit = resource("permit");
    let mut wait = Wait::new(&permit, true);
    let mut next = wait.found((0..40).collect(), false, DELAY);
    let mut asked = Vec::new();
    while let Do::Attempt(Reach::AllNodes, slot) = next {
        asked.extend(slot);
        next = wait.refused(error("hHH"), DELAY);
    }
    let different: BTreeSet<u32> = asked.iter().copied().collect();
    assert_eq!((asked.len(), different.len()), (MOST_SLOTS, MOST_SLOTS));
}

/// The kind, how a call begins that is about to be refused, and how it is hinted.
const HINTS: &str = "\
lock | turn -> all; # free -> first
read | read -> all; w-- -> queue; turn -> look; none -> pause; paused -> first; # free -> first
permit | turn -> find 3; slots 0 -> all 0; # free 1 -> first 1";

#[test]
fn hints_that_come_to_nothing_at_once_are_heeded_a_few_times_and_then_slept_on() {
    for (kind, row) in columns(HINTS) {
        let (start, hint) = row.split_once("; #").unwrap();
        let of_many = kind != "lock";
        let most = if of_many {
            MOST_HINTS_OF_MANY
        } else {
            MOST_HINTS
        };
        let resource = resource(kind);
        let mut scene = Scene::new(&resource, true);
        scene.play(start);
        for _ in 0..2 {
            for _ in 0..most {
                scene.play(&format!("h-- -> look; {hint}"));
            }
            scene.play("h-- -> pause");
            scene.after("paused");
            if kind == "permit" {
                scene.after("slots 0");
            }
        }
        // With some time between them, all are heeded.
        for _ in 0..most * 3 {
            scene.play(&format!(
                "h-- -> look; held 9 -> listen 11; quiet -> look; {hint}"
            ));
        }
    }
}

#[test]
fn all_nodes_are_asked_after_eight_looks_or_at_the_end() {
    for (kind, start, asks) in [
        ("lock", "turn -> all; hHH -> look", "all"),
        ("lock", "yield -> look politely", "all"),
        ("several", "turn -> all; hHH -> look", "all"),
        ("read", "read -> all; hHH -> queue; turn -> look", "all"),
        ("permit", "turn -> find 3; taken 1 -> look", "find 3"),
    ] {
        let resource = resource(kind);
        for looks in 0..MOST_POLLS {
            let mut scene = Scene::new(&resource, true);
            scene.play(start);
            for _ in 0..looks {
                scene.play("held 999 -> listen 100; quiet -> look");
            }
            scene.after("held 999");
            let is_last = looks + 1 == MOST_POLLS;
            let event = if is_last { "quiet" } else { "late quiet" };
            scene.play(&format!("{event} -> {asks}"));
        }
    }
}

#[test]
fn a_reader_that_a_writer_keeps_out_asks_the_first_node_alone_after_eight_looks() {
    let resource = resource("read");
    for (event, asks) in [("quiet", "first"), ("late quiet", "all")] {
        let mut scene = Scene::new(&resource, true);
        scene.play("read -> all; w-- -> queue; turn -> look");
        for _ in 1..MOST_POLLS {
            scene.play("held 999 -> listen 100; quiet -> look");
        }
        scene.after("held 999");
        // The last attempt of a call tells of every node.
        scene.play(&format!("{event} -> {asks}"));
    }
}

/// The kind, the refusal of the last attempt, and at which nodes a look is useless then. With an earlier look at the first node, which
/// has led to that attempt, behind a `*`.
const USELESS: &str = "\
lock | HgH 1
lock | gHH 0
lock | ghh
lock | qHH 0
lock | fsH 01
lock | kHH
lock | bHH
lock | grr
lock | sgr 0
lock | hHH* 0
lock | HHH*
lock | hhh*
read | gww 0
permit | gHH 0
permit | kHH
permit | ssH 01
permit | mHH* 0";

/// Others name a holder, so a node that granted the lock has no key of it. Nodes that abstain or are full answer a look, and no
/// attempt. One that was left out is looked at if it is back.
#[test]
fn one_waits_at_the_first_node_that_can_tell_of_the_lock() {
    for (kind, row) in columns(USELESS) {
        let (votes, useless) = row.split_once(' ').unwrap_or((row, ""));
        let resource = resource(kind);
        let mut scene = Scene::new(&resource, true);
        let start = if votes.ends_with('*') {
            "yield -> look politely; deserted 1"
        } else {
            "turn"
        };
        start
            .split("-> look politely; ")
            .for_each(|event| drop(scene.after(event.trim())));
        scene.after(votes.trim_end_matches('*'));
        assert_eq!(scene.useless(), useless, "{row}");
    }
    // Of slots, nodes are passed over together while hints come to nothing.
    let permit = resource("permit");
    let mut scene = Scene::new(&permit, true);
    scene.play("turn -> find 3; slots 0 -> all 0; sHH -> look; free 1 @1 -> first 1; HhH -> look");
    assert_eq!(scene.useless(), "1");
    scene.play("free 1 @2 -> first 1; HHh -> look");
    assert_eq!(scene.useless(), "12");
}

/// A key or a release of others was on its way to each of them. If it is so again and again, they have forgotten slots.
#[test]
fn one_who_has_passed_over_all_nodes_looks_at_them_again_before_it_sleeps_on_hints() {
    let permit = resource("permit");
    let mut scene = Scene::new(&permit, true);
    scene.play("turn -> find 3; taken 0,1,2 -> look; held 999 -> listen 100; rang -> look");
    for hints in (2..=MOST_HINTS_OF_ALL).step_by(2) {
        scene.play("free 1 @1 -> first 1; bgH -> look; free 0 @2 -> first 0; bH- -> look");
        assert_eq!(scene.useless(), "12");
        if hints < MOST_HINTS_OF_ALL {
            scene.play("none -> look");
            assert_eq!(scene.useless(), "");
        }
    }
    scene.play("none -> pause");
    // No node was passed over, but none answers.
    scene.play("paused -> find 3; taken 0,1,2 -> all 2; bHH -> look; none -> pause");
}

/// The kind, and what comes after a refusal of a writer.
const INTENTS: &str = "\
lock | grh -> intend 0
lock | sgr -> intend 0
lock | kgr -> intend 0
lock | rgr -> look
lock | ghs -> look
lock | s-r -> look
several | ghr -> intend 1
several | ghs -> look
read | gww -> look";

/// Other readers are on their way to the first node. One that failed is not the first.
#[test]
fn a_writer_that_readers_of_other_nodes_refuse_keeps_new_ones_out_at_the_first_and_waits() {
    for (kind, row) in columns(INTENTS) {
        let resource = resource(kind);
        // Also when its hints are used up.
        for hints in [0, MOST_HINTS] {
            let mut scene = Scene::new(&resource, true);
            scene.after("turn");
            scene.wait.hints = hints;
            if row.contains("intend") {
                scene.play(&format!("{row}; free -> listen 100; deaf -> look"));
            } else if hints > 0 && kind != "read" {
                scene.play(&row.replace("look", "pause"));
            } else {
                scene.play(row);
            }
        }
    }
    // Another holder has the lock there by now: the next look announces this client.
    let lock = resource("lock");
    let intends = "turn -> all; grr -> intend 0; held 999 -> look; held 999 -> listen 100";
    Scene::new(&lock, true).play(intends);
}
