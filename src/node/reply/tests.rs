//! Every reply of the scripts has its meaning, and any other reply is none.

use std::sync::{Arc, LazyLock};

use std::time::Duration;

use super::super::attempt::{Attempt, Purpose};
use super::*;
use crate::claim::{Fence, Kind};
use crate::clock::{FakeClock, Timestamp};
use crate::fencing::{FencingToken, Rules};
use crate::node::command;
use crate::node::doubles::KEEP;
use crate::wire::resp::parse;

static RULES: LazyLock<Arc<Rules>> = LazyLock::new(|| {
    let rules = Rules::new("", 3, Duration::from_mins(1), Duration::from_secs(1));
    Arc::new(rules)
});

/// The verb that a letter of the tables stands for.
fn verb(letter: char) -> Verb {
    let attempt = |is_fenced: bool, kind: Kind| {
        let mut claim = Claim::of_kind("a", kind);
        claim.fence = is_fenced.then(|| Fence {
            rules: Arc::clone(&RULES),
            token: FencingToken::new(1),
        });
        Attempt::new(claim, Duration::from_secs(1), Purpose::Lock)
    };
    match letter {
        'T' => Verb::Take(attempt(false, Kind::Lock)),
        'R' => Verb::Take(attempt(false, Kind::Read)),
        'F' => Verb::Take(attempt(true, Kind::Lock)),
        'G' => Verb::Take(attempt(true, Kind::Read)),
        'K' => KEEP,
        'D' => Verb::Drop,
        'P' => Verb::Pass(attempt(false, Kind::Lock)),
        'Q' => Verb::Pass(attempt(true, Kind::Lock)),
        'S' => Verb::Show,
        'N' => Verb::Scan,
        'O' => Verb::Open(Arc::clone(&RULES)),
        'B' => Verb::Probe,
        'L' => Verb::Look { permits: None },
        'M' => Verb::Look { permits: Some(3) },
        'W' => Verb::Listen(Arc::new(crate::node::request::Listen {
            bell: "bell".into(),
            until: Timestamp::from_nanos(0),
            patience: Duration::ZERO,
            given_up: None,
        })),
        'r' => Verb::Raw(|reply| matches!(reply, Reply::Nil | Reply::Bulk(_))),
        other => panic!("no verb {other}"),
    }
}

/// What is read from a reply as it is on the wire, but with spaces for the ends of lines and `_` for spaces.
fn told(command: &Packed, letter: char, reply: &str) -> Option<String> {
    let mut wire = reply.replace(' ', "\r\n").replace('_', " ");
    wire.push_str("\r\n");
    let clock = Clock::from(FakeClock::new());
    let (reply, length) = parse(wire.as_bytes()).unwrap();
    assert_eq!(length, wire.len());
    let mut report = read(&verb(letter), command, &reply, &clock)?;
    Some(shown(&mut report))
}

fn shown(report: &mut KeyReport) -> String {
    let vote = match &*report.vote {
        vote if report.waiters.any() => format!("{vote}, woke {}", report.waiters.0),
        vote => vote.to_string(),
    };
    match report.take_payload() {
        Payload::Nothing => vote,
        Payload::ErrorOfAnotherKey => format!("partly: {vote}"),
        Payload::NextVote(next) => {
            let next = next.map(|next| next.to_string());
            format!("{vote} / {}", next.unwrap_or("nothing".into()))
        }
        Payload::Keys(all) => {
            let each = all.iter().map(|one| {
                let value = one.value();
                let is_reader = value.is_some_and(|(_, is_reader)| is_reader);
                let is_reader = if is_reader { " as a reader" } else { "" };
                format!("{} {}{is_reader}", *one.vote, value.is_some())
            });
            each.collect::<Vec<_>>().join(" + ")
        }
        Payload::Value { .. } => panic!("a value of no key"),
        Payload::Look(look) => format!(
            "{:?} {} {:?} at {}",
            look.state, look.is_announced, look.free, look.index
        ),
        Payload::Page(page) => {
            let keys = page.keys.iter().map(|key| key.escape_ascii().to_string());
            format!("{}: {}", page.cursor, keys.collect::<Vec<_>>().join(" "))
        }
        Payload::Raw(reply) => format!("{reply:?}"),
    }
}

/// Each line of a table has the letters of verbs, and then a reply to all of them and its meaning, or `!` and replies that mean
/// nothing. In a meaning, `~` stands for any words.
#[track_caller]
fn assert_all(command: &Packed, table: &str) {
    let lines = table.lines().map(str::trim_start);
    for line in lines.filter(|line| !line.is_empty()) {
        let (verbs, rest) = line.split_once(' ').unwrap();
        for letter in verbs.chars() {
            if let Some(none) = rest.strip_prefix("! ") {
                for reply in none.split('|') {
                    assert_eq!(told(command, letter, reply), None, "{letter} {reply}");
                }
                continue;
            }
            let (reply, meaning) = rest.split_once(" => ").unwrap();
            let told = told(command, letter, reply).unwrap_or_default();
            assert!(is_meant(&told, meaning), "{letter} {reply}: {told}");
        }
    }
}

fn is_meant(told: &str, meaning: &str) -> bool {
    let Some((begin, rest)) = meaning.split_once('~') else {
        return told == meaning;
    };
    let behind = told.strip_prefix(begin);
    behind.is_some_and(|told| {
        (0..=told.len()).any(|at| told.get(at..).is_some_and(|told| is_meant(told, rest)))
    })
}

/// A command about one key.
fn of_one() -> Packed {
    command::release(&Claim::of_key("a"))
}

/// A command about two resources.
fn of_two() -> Packed {
    let names = ["a", "b"].map(Arc::from);
    command::release(&Claim::of_kind("a, b", Kind::Several(names.into())))
}

#[test]
fn a_row_about_one_key_means_what_the_table_of_the_scripts_says() {
    assert_all(
        &of_one(),
        "
        TRFG +OK => granted
        T $-1 => held by another
        TRFGKD -LOADING_wait => the server answered LOADING wait ~
        TRFGKD *1 :-3 => the key is not a lock: it holds a value of another type~
        TRFGKD *1 :-1 => the key is not a lock: it never expires; c~
        TRFGKD *2 :-1 $2 me => the key is not a lock: it never expires; c~
        TRFGKD *1 :1500 => held by another, for another 1.5s
        TRFGKD *2 :1500 $2 me => held by another, for another 1.5s
        TRFGKD *2 :1500 $7 rest:me => rests, for another 1.5s
        TFKD *2 :1500 :3 => read by 3, for another 1.5s
        RG *2 :1500 :-1 => a writer waits, for another 1.5s
        KD *1 :-2 => no key
        K :1 => granted
        K :2 => granted, woke 1
        D :1 => released
        D :2 => released, woke 1
        B :1 => granted
        B -LOADING_wait => the server answered LOADING wait ~
        O +OK => granted
        O -LOADING_wait => the server answered LOADING wait ~

        RFGKD ! $-1|*-1
        TRFG ! :0|:1|:2|*1 :-2
        RG ! *2 :1500 :0|*2 :1500 :3|*2 :-1 :-1|*2 :-3 :-1
        TFKD ! *2 :1500 :-1|*2 :-1 :3|*2 :-2 :3|*2 :-3 :3
        KD ! :3|:0|+OK
        TRKD ! *2 $5 STALE :5|*1 $6 MARKER
        TRFGKD ! +ok|$2 OK|*0|*1 +OK|*1 $2 OK|*1 :-4|*1 *1 :1500|*2 :-2 $2 me|*2 :-3 $2 me|*2 :1500 $-1
        TRFGKD ! *3 :1500 :3 :3|*3 :1500 $2 me $2 me|*3 :1500 :2 $2 me
        B ! :0|$-1|+OK|*0
        ",
    );
}

#[test]
fn a_word_of_a_node_is_read_where_it_may_come() {
    let wall = Clock::from(FakeClock::new()).wall_micros();
    // No client with this clock can pass a higher counter, so a clock is wrong.
    let latest = wall + 61_001_000;
    assert_all(
        &of_one(),
        &format!(
            "
        FGO *2 $5 STALE :{latest} => the proposed fencing token is not above its counter, {latest}
        FGO *2 $5 STALE :{} => its clock is ~ ahead of that of this machine, and 60s is allowed; set the clocks
        FGO *2 $4 SKEW :{} => its clock is ~ ahead of that of this machine~
        FGO *2 $4 SKEW :{} => its clock is ~ behind that of this machine~
        FGO *1 $6 MARKER => the key \"redlatch:node\" is in the way: it is not a marker~
        FG *2 $7 COUNTER :1 => the key \"~a~\" is in the way: it is not a counter of fencing tokens~
        FGO *2 $6 CONFIG $3 5:3 => other clients have ~ of 5:3, this one has ~
        FGO *3 $6 CLOSED :5000000 $3 new => abstains for another 5.0s: it has no marker, so it is new~
        FGO *3 $6 CLOSED :5000000 $6 reborn => abstains for another 5.0s: it was restarted, restored or promoted~
        FGO *2 $6 FUTURE :5000000 => its counter for this resource is 5.0s ahead of its clock~
        FGO *1 $7 SERVING => serves fenced clients~
        FGO *2 $7 UNKNOWN $7 CLUSTER => a node of a Redis Cluster~
        FGO *2 $7 UNKNOWN $9 NOPERM_no => the server does not tell its run_id (~NOPERM no~), which~
        FGO ! $-1|:1|*0|*1 $2 OK|*1 $5 STALE|*2 $5 STALE :-1|*2 $5 STALE $1 5|*2 $6 CLOSED :5|*2 $6 MARKER :5
        FGO ! *1 $7 COUNTER|*2 $7 COUNTER :0|*2 $7 COUNTER :2|*2 $7 COUNTER $1 2
        ",
            latest + 1,
            wall + 1,
            wall - 1,
        ),
    );
}

#[test]
fn a_pass_tells_of_the_release_and_of_what_rode_with_it() {
    assert_all(
        &of_one(),
        "
        PQ *2 :1 +OK => released / granted
        PQ *2 *1 :-2 +OK => no key / granted
        PQ *2 :1 -OOM_no => released / the server answered OOM no ~
        PQ -OOM_no => the server answered OOM no ~ / the server answered OOM no ~
        PQ *2 :2 :0 => released, woke 1 / nothing
        PQ *2 *1 :2 *1 :2 => held by another, for another 2.0ms / held by another, for another 2.0ms
        Q *2 :1 *2 $5 STALE :5 => released / the proposed fencing token is not above its counter, 5
        P ! :1|:2|+OK|$-1|*0|*1 :1|*2 :2 +OK|*2 :1 :0|*2 :1 :1|*2 +OK +OK|*2 :1 +PONG|*2 :3 +OK|*3 :1 +OK +OK
        P ! *2 :1 *2 $5 STALE :5
        ",
    );
}

#[test]
fn a_vote_on_several_resources_is_what_tells_most() {
    assert_all(
        &of_two(),
        "
        TF +OK => granted
        TF *2 :0 *1 :1500 => \"b\" held by another, for another 1.5s
        TF *2 *2 :1500 :2 :0 => \"a\" read by 2, for another 1.5s
        K *2 :1 :1 => granted
        K *2 :1 *1 :-2 => no key
        K *2 *1 :-2 :1 => no key
        K *2 *1 :2500 *1 :1500 => \"a\" held by another, for another 2.5s
        K *2 *1 :-1 *1 :1500 => \"b\" held by another, for another 1.5s
        K *2 *1 :-2 *1 :-1 => the key of \"b\" is not a lock: it never expires; choose another resource or key_prefix, or delete the key
        K *2 *1 :-2 -OOM_no => the server answered OOM no ~
        KD -OOM_no => the server answered OOM no ~
        D *2 :1 :1 => released
        D *2 :1 :2 => released, woke 2
        K *2 :1 :2 => granted, woke 2
        D *2 :2 *1 :-2 => no key, woke 1
        D *2 -OOM_no *1 :1500 => partly: \"b\" held by another, for another 1.5s
        D *2 *1 :1500 -OOM_no => partly: \"a\" held by another, for another 1.5s
        D *2 -OOM_no *1 :-3 => partly: the key of \"b\" is not a lock: it holds a value of another type; choose another resource or key_prefix, or delete the key
        D *2 :1 -OOM_no => the server answered OOM no ~

        TF ! $-1|:1|*2 :0 :0|*1 :0|*3 :0 *1 :5 :0|*2 :1 *1 :5|*2 *1 :-2 :0|*2 :1 *1 :1500
        KD ! +OK|$-1|:1|*1 :1|*2 :0 :0|*2 :1 :3|*2 :1 +OK|*3 :1 :1 :1
        ",
    );
}

#[test]
fn what_is_under_a_key_is_shown_with_its_value_or_its_readers() {
    let row = "held by me, for another 1.5s true";
    assert_all(
        &of_one(),
        &format!(
            "
        S *1 :-2 => no key false
        S *1 :-3 => the key is not a lock: it holds a value of another type~ false
        S *3 :-1 :2 $2 me => the key is not a lock: it never expires; its value has 2 bytes; \
             choose another resource or key_prefix, or delete the key true
        S *2 :-1 $2 me => the key is not a lock: it never expires; c~ false
        S *3 :1500 :2 $2 me => {row}
        S *4 :1500 :2 $2 me :1 => {row}
        S *3 :0 :0 $0  => held by an empty value, for another 1.0ms true
        S *3 :1500 :9000 $2 me => held by me\u{2026} (9000 bytes), for another 1.5s true
        S *3 :9000 :3 :4000 => read by 3, oldest for another 4.0s, last for another 9.0s false
        S *2 $6 READER $2 me => held by another true as a reader
        S -OOM_no => the server answered OOM no ~ false

        S ! +OK|:1|:-2|$-1|$2 me|*0|*1 :-1|*2 :-2 $2 me|*1 :-4|*1 :1500|*1 $2 -2|*2 :1500 $2 me|*3 :-2 :2 $2 me
        S ! *3 :1500 :0 :2|*3 :1500 :-1 :2|*3 :1500 :2 :-1|*3 :-1 :2 :2|*3 :-2 :2 :2|*4 :1500 :2 :2 :2|*3 :1500 :2 $-1
        S ! *3 :1500 :1 $2 me|*3 :1500 :-1 $2 me|*4 :1500 :2 $2 me :2|*4 :1500 :2 $2 me :0|*5 :1500 :2 $2 me :1 :1
        S ! *2 $6 reader $2 me
        "
        ),
    );
    assert_all(
        &command::show(["a", "b"].into_iter()),
        "
        S *2 *1 :-2 -OOM_no => no key false + the server answered OOM no ~ false
        S -OOM_no => the server answered OOM no ~ false + the server answered OOM no ~ false
        S ! *1 :-2|*1 *1 :-2|*3 *1 :-2 *1 :-2 *1 :-2
        ",
    );
}

#[test]
fn a_look_tells_of_a_lock_or_of_all_slots_and_a_bell_rings_or_does_not() {
    assert_all(
        &of_one(),
        "
        L *4 :1 :-2 :0 $0  => Free false [] at 0
        L *4 :1 :-1 :0 $0  => Stuck false [] at 0
        L *4 :1 :-3 :0 $0  => Deserted false [] at 0
        L *4 :1 :0 :1 $0  => Held(0ns) true [] at 0
        L *4 :1 :1500 :1 $0  => Held(1.5s) true [] at 0
        M *4 :1 :-2 :0 $3 101 => Free false [0, 2] at 0
        M *4 :1 :-2 :0 $3 000 => Free false [] at 0
        L ! :5|$-1|*4 :1 :-4 :0 $0 |*4 :1 :5 :2 $0 |*1 :5|*3 :1 :5 :1|*4 :1 :5 :1 :1|*4 :2 :5 :1 $0 |*4 :1 :-2 :0 $3 101
        M ! *4 :1 :-2 :0 $4 1010|*4 :1 :-2 :0 $2 10|*4 :1 :-2 :0 $3 1x1|*4 :1 :-2 :0 $0 \n
        W *2 $4 bell $1 1 => granted
        W *-1 => no key
        W -OOM_no => the server answered OOM no ~
        W ! +OK|:1|$1 1
        ",
    );
    assert_all(
        &of_two(),
        "
        L *4 :2 :-2 :0 $0  => Free false [] at 1
        L ! *4 :0 :-2 :0 $0 |*4 :3 :-2 :0 $0 \n",
    );
}

#[test]
fn a_page_has_a_cursor_and_keys_of_any_bytes() {
    assert_all(
        &of_one(),
        "
        N *1 $1 0 => 0:\u{20}
        N *2 $2 17 $3 job => 17: job
        N *1 $20 18446744073709551615 => 18446744073709551615:\u{20}
        N -OOM_no => the server answered OOM no ~
        N ! +OK|:0|$-1|*0|*1 :0|*1 $0 |*1 $2 -1|*1 $2 00|*1 $2 +1|*1 $20 18446744073709551616|*2 $1 0 :1|*2 $1 0 $-1
        N ! *2 $1 0 *1 $1 x
        ",
    );
    let of_keys = |count: usize| format!("*{} $1 0{}", count + 1, " $1 x".repeat(count));
    assert!(told(&of_one(), 'N', &of_keys(MOST_KEYS)).is_some());
    assert_eq!(told(&of_one(), 'N', &of_keys(MOST_KEYS + 1)), None);
}

#[test]
fn a_raw_reply_is_handed_up_if_it_is_accepted_or_an_error() {
    assert_all(
        &of_one(),
        "
        r $-1 => Nil
        r $2 OK => Bulk([79, 75])
        r -LOADING_wait => Error(~LOADING~wait~)
        r ! +OK|:1|*0|*1 $-1
        ",
    );
}
