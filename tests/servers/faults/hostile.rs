//! A server that answers with anything but a vote. No such reply counts as a vote or as the reply to a later command, and it
//! costs at most the node timeout.

use std::error::Error as _;
use std::iter::repeat_n;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use redlatch::fake::FakeNode;
use redlatch::{Credentials, Error, LockManager};
use redlatch_testing::scripted::{Command, Kind, Peer, Scripted};
use redlatch_testing::{eventually, side_by_side, within};

use crate::managers::over;

const TTL: Duration = Duration::from_mins(1);
/// A server that behaves answers in this time on a busy machine, too.
const NODE_TIMEOUT: Duration = Duration::from_secs(1);
/// Only a hang takes so long: the node timeout comes once for SET and once for the release.
const BOUND: Duration = Duration::from_secs(30);
/// A server that plays for time goes on for longer than that.
const FOR_EVER: Duration = Duration::from_mins(1);

/// A server that plays a part when it is asked for a vote, until it is told to behave.
struct Hostile {
    server: Scripted,
    manager: LockManager,
    phase: Arc<AtomicU8>,
}

/// It plays its part.
const HOSTILE: u8 = 0;
/// It behaves, and another client holds every lock there.
const OCCUPIED: u8 = 1;
/// It behaves, and every lock is free.
const HONEST: u8 = 2;

impl Hostile {
    #[track_caller]
    fn start(
        node_timeout: Duration,
        part: impl Fn(&mut Peer, &Command) + Send + Sync + 'static,
    ) -> Self {
        let phase = Arc::new(AtomicU8::new(HOSTILE));
        let now = Arc::clone(&phase);
        let server = Scripted::start(move |peer, command| {
            match (now.load(Ordering::SeqCst), command.kind()) {
                (HOSTILE, Kind::Set | Kind::Retake) => part(peer, command),
                (OCCUPIED, Kind::Set | Kind::Retake) => peer.say(b"$-1\r\n"),
                (OCCUPIED, Kind::Release) => peer.say(b"*1\r\n:5000\r\n"),
                _ => peer.say(command.consent()),
            }
        });
        let builder = LockManager::builder().node(server.url());
        let manager = builder.node_timeout(node_timeout).build().unwrap();
        Self {
            server,
            manager,
            phase,
        }
    }

    /// From now on the server behaves: a reply of before, taken for one to a later command, would be seen.
    #[track_caller]
    fn assert_answers_count_again(&self, name: &str) {
        for (phase, is_granted) in [(OCCUPIED, false), (HONEST, true)] {
            self.phase.store(phase, Ordering::SeqCst);
            let mut last = String::new();
            let came = eventually(BOUND, || {
                let result = self.manager.try_lock("job", TTL);
                last = format!("{name}: {result:?}");
                assert!(
                    is_granted || result.is_err(),
                    "a vote out of nothing, {last}"
                );
                result.is_ok() || !is_granted && matches!(result, Err(Error::Held { .. }))
            });
            assert!(came, "{last}");
        }
    }
}

/// What the server does in place of a proper reply is no vote, and has no effect on what follows.
#[track_caller]
fn assert_never_a_vote(name: &str, part: impl Fn(&mut Peer, &Command) + Send + Sync + 'static) {
    let hostile = Hostile::start(NODE_TIMEOUT, part);
    for _ in 0..2 {
        let manager = hostile.manager.clone();
        let result = within(BOUND, move || manager.try_lock("job", TTL));
        let is_no = matches!(result, Err(Error::Unavailable { .. } | Error::Held { .. }));
        assert!(is_no, "{name}: {result:?}");
    }
    hostile.assert_answers_count_again(name);
}

/// The property test of the reply path plays any bytes. These are a few, on a real socket.
#[test]
fn bytes_that_are_no_reply_are_never_a_vote() {
    let nested = "*1\r\n".repeat(5000);
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
        &nested,
    ];
    side_by_side(replies, |reply| {
        let bytes = reply.as_bytes().to_vec();
        assert_never_a_vote(reply, move |peer, _| peer.say(&bytes));
    });
    assert_never_a_vote("an echo", |peer, command| peer.say(command.raw()));
}

type Act = fn(&mut Peer);

/// What may come behind a part of a reply.
const GOES_ON: [(&str, Act); 4] = [
    ("a reset", Peer::reset),
    ("silence", |_| ()),
    ("drops", |peer| {
        let drops = usize::try_from(FOR_EVER.as_millis() / 5).unwrap();
        peer.drip(repeat_n(b'A', drops), Duration::from_millis(5));
    }),
    ("a flood", |peer| {
        for wave in repeat_n("A".repeat(1 << 16), 500) {
            peer.say(wave.as_bytes());
        }
    }),
];

#[test]
fn a_reply_that_breaks_off_or_does_not_end_is_given_up_at_the_node_timeout() {
    assert_never_a_vote("closed without a reply", |peer, _| peer.close());
    assert_never_a_vote("a good reply too slowly", |peer, _| {
        peer.drip(*b"+OK\r\n", NODE_TIMEOUT * 5);
    });
    side_by_side(["+OK\r", "$1000000000\r\n", "*1000000000\r\n"], |part| {
        for (name, go_on) in GOES_ON {
            assert_never_a_vote(&format!("{part:?} and {name}"), move |peer, _| {
                peer.say(part.as_bytes());
                go_on(peer);
            });
        }
    });
}

#[test]
fn a_whole_reply_in_time_is_a_vote_though_it_came_byte_by_byte() {
    let servers = [Scripted::start(|peer, command| {
        peer.drip(command.consent().iter().copied(), Duration::from_millis(5));
    })];
    let guard = over(&servers).build().unwrap().lock("job", TTL).unwrap();
    guard.extend(TTL).unwrap();
    guard.unlock().unwrap();
    assert_eq!(servers[0].connections(), 1);
}

#[test]
fn a_second_reply_that_comes_later_is_never_the_vote_of_another_command() {
    for bytes in ["+OK\r\n", "+", ">2\r\n+x\r\n+y\r\n", ":1\r\n", "\r\n"] {
        for is_idle in [true, false] {
            let hostile = Hostile::start(BOUND, |peer, command| peer.say(command.consent()));
            let mut guard = Some(hostile.manager.try_lock("job", TTL).unwrap());
            if is_idle {
                drop(guard.take());
            }
            hostile.server.say_unasked(bytes.as_bytes());
            // Whether or not the release reads it for an answer, it is not there for the next command.
            drop(guard);
            hostile.assert_answers_count_again(bytes);
        }
    }
}

#[test]
fn a_password_that_a_server_repeats_is_never_shown() {
    const PASSWORD: &str = "secretpw";
    for answer in [
        "-ERR unknown command 'AUTH', with args beginning with: 'secretpw'\r\n",
        "-WRONGPASS no user with secretpw\r\n",
        "+secretpw\r\n",
        "$8\r\nsecretpw\r\n",
        "*2\r\n$4\r\nAUTH\r\n$8\r\nsecretpw\r\n",
        "secretpw\r\n",
        "+OK\r\n+secretpw\r\n",
        "+OK\r\n-ERR no database for secretpw\r\n",
        "+OK\r\n-secretpw\r\n",
    ] {
        let server = Scripted::start(|peer, _| peer.say(answer.as_bytes()));
        // The second command is a SELECT.
        let in_url = server.url().replace("//", &format!("//:{PASSWORD}@")) + "/1";
        let of_callback = LockManager::builder().node(server.url() + "/1");
        let of_callback = of_callback.credentials(|_| Ok(Credentials::password(PASSWORD)));
        let mut texts = Vec::new();
        for builder in [LockManager::builder().node(in_url), of_callback] {
            let builder = builder.node_timeout(BOUND);
            let alone = builder.clone().build().unwrap();
            let among = builder.fakes(&FakeNode::cluster(2)).build().unwrap();
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
