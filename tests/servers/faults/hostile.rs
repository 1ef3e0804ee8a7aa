//! A server that answers with anything but a vote. No such reply counts as a vote or as the reply to a later command, and it
//! costs at most the node timeout.

use std::error::Error as _;
use std::iter::{once, repeat_n};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use redlatch::fake::FakeNode;
use redlatch::{Credentials, Error, LockManager, NodeReport, Vote};
use redlatch_testing::scripted::{Command, Kind, Peer, Scripted};
use redlatch_testing::{eventually, side_by_side, within};

use crate::managers::patient;

const TTL: Duration = Duration::from_mins(1);
/// A server that behaves answers in this time on a busy machine, too.
const NODE_TIMEOUT: Duration = Duration::from_secs(1);
/// Only a hang takes so long: the node timeout comes once for SET and once for the release.
const BOUND: Duration = Duration::from_secs(30);
/// A server that plays for time goes on for longer than that.
const FOR_EVER: Duration = Duration::from_mins(1);
const RECOVERY: Duration = Duration::from_secs(30);

/// A server that plays a part when it is asked for a vote, until it is told to behave.
struct Hostile {
    server: Scripted,
    phase: Arc<AtomicU8>,
}

/// It plays its part.
const HOSTILE: u8 = 0;
/// It behaves, and another client holds every lock there.
const OCCUPIED: u8 = 1;
/// It behaves, and every lock is free.
const HONEST: u8 = 2;

impl Hostile {
    /// Starts with a part for commands of these kinds.
    #[track_caller]
    fn start<F>(kinds: &'static [Kind], part: F) -> Self
    where
        F: Fn(&mut Peer, &Command) + Send + Sync + 'static,
    {
        let phase = Arc::new(AtomicU8::new(HOSTILE));
        let now = Arc::clone(&phase);
        let server = Scripted::start(move |peer, command| {
            let kind = command.kind();
            match (now.load(Ordering::SeqCst), kind) {
                (HOSTILE, _) if kinds.contains(&kind) => part(peer, command),
                (OCCUPIED, Kind::Set | Kind::Retake) => peer.say(b"$-1\r\n"),
                (OCCUPIED, Kind::Release) => peer.say(b"*1\r\n:5000\r\n"),
                _ => peer.say(command.consent()),
            }
        });
        Self { server, phase }
    }

    fn turn(&self, phase: u8) {
        self.phase.store(phase, Ordering::SeqCst);
    }

    /// A manager over this server and some nodes that behave.
    #[track_caller]
    fn manager(&self, others: &[FakeNode]) -> LockManager {
        let builder = LockManager::builder().node(self.server.url());
        let builder = builder.fakes(others).node_timeout(NODE_TIMEOUT);
        builder.build().unwrap()
    }

    /// A manager over this server alone, which is in time in any case.
    #[track_caller]
    fn patient(&self) -> LockManager {
        patient([self.server.url()])
    }

    #[track_caller]
    fn vote<'a>(&self, votes: &'a [NodeReport]) -> &'a NodeReport {
        let name = self.server.name();
        votes.iter().find(|report| *report.node == *name).unwrap()
    }
}

const VOTES: &[Kind] = &[Kind::Set, Kind::Retake];

/// What the server does in place of a proper reply is no vote, alone and among three, and has no effect on what follows.
#[track_caller]
fn assert_never_a_vote<F>(name: &str, part: F)
where
    F: Fn(&mut Peer, &Command) + Clone + Send + Sync + 'static,
{
    let alone = Hostile::start(VOTES, part.clone());
    let manager = alone.manager(&[]);
    for _ in 0..2 {
        let asked = manager.clone();
        let result = within(BOUND, move || asked.try_lock("job", TTL));
        let is_no = matches!(result, Err(Error::Unavailable { .. } | Error::Held { .. }));
        assert!(is_no, "{name}: {result:?}");
    }
    assert_answers_count_again(name, &alone, &manager);

    let others = FakeNode::cluster(2);
    let among = Hostile::start(VOTES, part);
    let manager = among.manager(&others);
    for _ in 0..2 {
        let asked = manager.clone();
        let guard = within(BOUND, move || asked.try_lock("job", TTL)).unwrap();
        let votes = guard.votes();
        let report = among.vote(&votes);
        assert!(!matches!(report.vote, Vote::Granted), "{name}: {report}");
        assert!(report.elapsed < BOUND, "{name}: {:?}", report.elapsed);
        within(BOUND, || guard.unlock()).unwrap();
        assert!(others.iter().all(|node| node.token_of("job").is_none()));
    }
    assert_answers_count_again(name, &among, &manager);
}

/// From now on the server behaves: a reply of before, taken for one to a later command, would be seen.
#[track_caller]
fn assert_answers_count_again(name: &str, hostile: &Hostile, manager: &LockManager) {
    let soon = |wanted: fn(&Vote) -> bool| {
        let mut last = None;
        let came = eventually(RECOVERY, || {
            let votes = match manager.try_lock("job", TTL) {
                Ok(guard) => guard.votes(),
                Err(Error::Unavailable { nodes, .. } | Error::Held { nodes, .. }) => nodes,
                Err(other) => panic!("{name}: {other:?}"),
            };
            let vote = &hostile.vote(&votes).vote;
            let granted = matches!(vote, Vote::Granted);
            let occupied = hostile.phase.load(Ordering::SeqCst) == OCCUPIED;
            assert!(!(granted && occupied), "{name}: a vote out of nothing");
            last = Some(vote.clone());
            wanted(vote)
        });
        assert!(came, "{name}: {last:?}");
    };
    hostile.turn(OCCUPIED);
    soon(|vote| matches!(vote, Vote::Held { .. }));
    hostile.turn(HONEST);
    soon(|vote| matches!(vote, Vote::Granted));
}

/// The property test of the reply path plays any bytes. These are a few, on a real socket and among other nodes.
#[test]
fn bytes_that_are_no_reply_are_never_a_vote() {
    let replies = [
        "-LOADING Redis is loading the dataset in memory\r\n",
        ":1\r\n",
        "$-1\r\n",
        "$2\r\nOK\r\n",
        "+ok\r\n",
        "*1\r\n+OK\r\n",
        // Pushes, and more than was asked for.
        ">2\r\n+x\r\n+y\r\n+OK\r\n",
        "+OK\r\n+OK\r\n",
        "+OK\r\n+",
        // No reply of Redis.
        "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n",
        "\r\n+OK\r\n",
        "$99999999999999999999\r\n",
    ];
    side_by_side(replies, |reply| {
        assert_never_a_vote(reply, |peer, _| peer.say(reply.as_bytes()));
    });
    assert_never_a_vote("an echo", |peer, command| peer.say(command.raw()));
    let nested = "*1\r\n".repeat(5000);
    assert_never_a_vote("a deep nest", move |peer, _| peer.say(nested.as_bytes()));
}

#[test]
fn a_reply_that_breaks_off_or_does_not_end_is_given_up_at_the_node_timeout() {
    assert_never_a_vote("closed without a reply", |peer, _| peer.close());
    assert_never_a_vote("a good reply too slowly", |peer, _| {
        peer.drip(*b"+OK\r\n", NODE_TIMEOUT * 5);
    });
    side_by_side(["+OK\r", "$1000000000\r\n", "*1000000000\r\n"], |part| {
        assert_never_a_vote(&format!("{part:?} and a reset"), |peer, _| {
            peer.say(part.as_bytes());
            peer.reset();
        });
        assert_never_a_vote(&format!("{part:?} and silence"), |peer, _| {
            peer.say(part.as_bytes());
        });
        assert_never_a_vote(&format!("{part:?} drop by drop"), |peer, _| {
            let between = Duration::from_millis(5);
            let drops = usize::try_from(FOR_EVER.as_millis() / 5).unwrap();
            peer.drip(part.bytes().chain(repeat_n(b'A', drops)), between);
        });
        assert_never_a_vote(&format!("{part:?} and a flood"), |peer, _| {
            let flood = once(part.to_owned()).chain(repeat_n("A".repeat(1 << 16), 500));
            for wave in flood {
                peer.say(wave.as_bytes());
            }
        });
    });
}

#[test]
fn a_whole_reply_in_time_is_a_vote_though_it_came_byte_by_byte() {
    let server = Scripted::start(|peer, command| {
        peer.drip(command.consent().iter().copied(), Duration::from_millis(5));
    });
    let manager = LockManager::builder().node(server.url());
    let manager = manager.node_timeout(BOUND).pool_size(1);
    let manager = manager.build().unwrap();
    for _ in 0..3 {
        let guard = manager.try_lock("job", TTL).unwrap();
        guard.extend(TTL).unwrap();
        guard.unlock().unwrap();
    }
    assert_eq!(server.connections(), 1);
}

#[test]
fn what_comes_unasked_on_an_idle_connection_is_never_a_vote() {
    for bytes in ["+OK\r\n", "+", ">2\r\n+x\r\n+y\r\n", ":1\r\n", "\r\n"] {
        let hostile = Hostile::start(&[], |_, _| ());
        let manager = hostile.patient();
        manager.try_lock("job", TTL).unwrap().unlock().unwrap();
        hostile.server.say_unasked(bytes.as_bytes());
        assert_answers_count_again(bytes, &hostile, &manager);
    }
}

#[test]
fn a_second_reply_that_comes_later_is_never_the_vote_of_another_command() {
    for bytes in ["+OK\r\n", ":1\r\n"] {
        let hostile = Hostile::start(&[], |_, _| ());
        let manager = hostile.patient();
        let guard = manager.try_lock("job", TTL).unwrap();
        hostile.server.say_unasked(bytes.as_bytes());
        // Whether or not the release reads it for an answer, it is not there for the next command.
        guard.unlock().ok();
        assert_answers_count_again(bytes, &hostile, &manager);
    }
}

#[test]
fn a_password_that_a_server_repeats_is_never_shown() {
    const PASSWORD: &str = "secretpw";
    let answers = [
        "-ERR unknown command 'AUTH', with args beginning with: 'secretpw'\r\n",
        "-WRONGPASS no user with secretpw\r\n",
        "+secretpw\r\n",
        "$8\r\nsecretpw\r\n",
        "*2\r\n$4\r\nAUTH\r\n$8\r\nsecretpw\r\n",
        "secretpw\r\n",
        "+OK\r\n+secretpw\r\n",
        "+OK\r\n-ERR no database for secretpw\r\n",
        "+OK\r\n-secretpw\r\n",
    ];
    for answer in answers {
        let server = Scripted::start(|peer, _| peer.say(answer.as_bytes()));
        // The second command is a SELECT.
        let in_url = server.url().replace("//", &format!("//:{PASSWORD}@")) + "/1";
        let in_url = LockManager::builder().node(in_url);
        let of_callback = LockManager::builder().node(server.url() + "/1");
        let of_callback = of_callback.credentials(|_| Ok(Credentials::password(PASSWORD)));
        let mut texts = Vec::new();
        for builder in [in_url, of_callback] {
            let builder = builder.node_timeout(BOUND);
            let others = FakeNode::cluster(2);
            let alone = builder.clone().build().unwrap();
            let among = builder.fakes(&others).build().unwrap();
            // The second time the breaker repeats how the node failed.
            for _ in 0..2 {
                let error = alone.try_lock("job", TTL).unwrap_err();
                texts.extend([error.to_string(), format!("{error:?} {error:#?}")]);
                let mut source = error.source();
                while let Some(cause) = source {
                    texts.push(format!("{cause} {cause:?}"));
                    source = cause.source();
                }
                let guard = among.try_lock("job", TTL).unwrap();
                texts.push(format!("{guard:?} {:?}", guard.votes()));
                texts.extend(guard.votes().iter().map(ToString::to_string));
                texts.push(format!("{alone:?} {among:?}"));
            }
        }
        for text in texts {
            assert!(!text.contains(PASSWORD), "{answer:?}: {text}");
        }
    }
}
