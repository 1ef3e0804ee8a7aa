//! Random answers, from proper replies to noise, and a few at the bound of their size.

#![expect(
    clippy::arithmetic_side_effects,
    reason = "a test that overflows fails, as it should"
)]

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::answer::{LONGEST_PACKET, MOST_PACKETS, Outcome, RawAnswer, Then, Verb};
use super::check;
use crate::wire::pack::LONGEST_REPLY;

/// Four times the usual number of cases, for the many ways to be wrong.
fn config() -> ProptestConfig {
    let usual = ProptestConfig::default();
    ProptestConfig {
        cases: usual.cases * 4,
        failure_persistence: None,
        ..usual
    }
}

/// Replies, proper ones and others, and parts that many kinds of replies have.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let whole: Vec<&[u8]> = vec![
        b"+OK\r\n",
        b":1\r\n",
        b":2\r\n",
        b"+PONG\r\n",
        b"$-1\r\n",
        b"*-1\r\n",
        b"_\r\n",
        b":0\r\n",
        b"*1\r\n:-2\r\n",
        b"*1\r\n:-1\r\n",
        b"*1\r\n:-3\r\n",
        b"*1\r\n:59999\r\n",
        b"*2\r\n:59999\r\n$41\r\n00112233445566778899aabbccddeeff00112233 \r\n",
        b"*2\r\n:59999\r\n$45\r\n00112233445566778899aabbccddeeff00112233 web3\r\n",
        b"*2\r\n:-1\r\n$1\r\n\r\r\n",
        b"*2\r\n:-2\r\n$1\r\nx\r\n",
        b"*2\r\n:5\r\n$-1\r\n",
        b"*2\r\n:59999\r\n:3\r\n",
        b"*2\r\n:59999\r\n:-1\r\n",
        b"*2\r\n:-1\r\n:3\r\n",
        b"*2\r\n:5\r\n$01\r\nx\r\n",
        b"$2\r\nOK\r\n",
        b"-ERR no\r\n",
        b"-LOADING Redis is loading\r\n",
        b"!5\r\nERR x\r\n",
        b"=6\r\ntxt:OK\r\n",
        b"#t\r\n",
        b",1\r\n",
        b"(1\r\n",
        b"%1\r\n+a\r\n:1\r\n",
        b"~1\r\n:1\r\n",
        b"|1\r\n+a\r\n+b\r\n+OK\r\n",
        b">1\r\n+OK\r\n",
        b"*2\r\n:1\r\n:1\r\n",
        b": 1\r\n",
        b":+1\r\n",
        b"+OK\n",
        b"+ok\r\n",
        b"\r\n",
        b"*1\r\n",
        b"\n",
        b"x",
        b"*1\r\n\n",
        b"$1000000\r\n",
        b"*1000000000\r\n",
        b"=-1\r\n",
        b"|9223372036854775807\r\n",
        b"%-9223372036854775808\r\n",
    ];
    prop_oneof![
        6 => select(whole).prop_map(<[u8]>::to_vec),
        2 => r"[-+:$*%|~_,#!=(>][0-9OKa-z +-]{0,4}(\r\n|\r|\n)?".prop_map(String::into_bytes),
        2 => vec(any::<u8>(), 0..8),
        1 => (0..100_u8).prop_map(|n| b"*1\r\n".repeat(n.into())),
        1 => (b'+'..=b'-', 0..6_000_usize).prop_map(|(mark, n)| [&[mark], &vec![b'x'; n][..], b"\r\n"].concat()),
        1 => (0..6_000_usize).prop_map(|n| [format!("${n}\r\n").as_bytes(), &vec![b'\n'; n], b"\r\n"].concat()),
    ]
}

/// A byte that means something in a reply, or any.
fn byte() -> impl Strategy<Value = u8> {
    prop_oneof![select(b"\r\n +-:$*01OKPNG\0".to_vec()), any::<u8>()]
}

/// The bytes with one byte wrong, more or less, or without what is behind it.
fn mutated(bytes: impl Strategy<Value = Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    (bytes, any::<Index>(), byte(), 0..4).prop_map(|(mut bytes, at, byte, kind)| {
        let at = at.index(bytes.len() + 1);
        match kind {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, byte),
            2 if at < bytes.len() => drop(bytes.remove(at)),
            _ => {
                if let Some(old) = bytes.get_mut(at) {
                    *old = byte;
                }
            }
        }
        bytes
    })
}

/// What means yes to a question, with all that may happen to it, or any other reply.
fn bytes(verb: Verb) -> impl Strategy<Value = Vec<u8>> {
    let yes = || Just(verb.yes().to_vec());
    prop_oneof![
        1 => yes(),
        4 => mutated(yes()),
        2 => (yes(), piece()).prop_map(|(yes, more)| [yes, more].concat()),
        2 => (piece(), yes()).prop_map(|(before, yes)| [before, yes].concat()),
        4 => piece(),
        4 => mutated(piece()),
        1 => vec(piece(), 0..4).prop_map(|pieces| pieces.concat()),
    ]
}

fn answer() -> impl Strategy<Value = RawAnswer> {
    let verb = verb().prop_flat_map(|verb| (Just(verb), bytes(verb)));
    (verb, cuts(), then()).prop_map(|((verb, bytes), cuts, then)| RawAnswer {
        verb,
        bytes,
        cuts,
        then,
    })
}

fn verb() -> impl Strategy<Value = Verb> {
    use Verb::{Acquire, Extend, Probe, Release};
    select(vec![Acquire, Release, Extend, Probe])
}

fn then() -> impl Strategy<Value = Then> {
    select(vec![Then::Silence, Then::End, Then::EarlyEnd])
}

fn cuts() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![
        2 => Just(Vec::new()),
        1 => Just(vec![1; MOST_PACKETS]),
        2 => vec(1..12_usize, 0..20),
        1 => vec(1..=LONGEST_PACKET, 0..8),
    ]
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_vote_comes_of_nothing_but_the_reply_that_grants_it(answer in answer()) {
        check(&answer);
    }
}

#[test]
fn a_reply_of_the_longest_size_is_read_and_one_more_byte_is_too_much_wherever_it_is_cut() {
    let sizes = [LONGEST_REPLY - 1, LONGEST_REPLY, LONGEST_REPLY + 1];
    for (size, first) in sizes
        .into_iter()
        .flat_map(|size| (1..=1024).step_by(93).map(move |n| (size, n)))
    {
        let bytes = [&b"-"[..], &vec![b'x'; size - 3], b"\r\n"].concat();
        let answer = RawAnswer {
            verb: Verb::Acquire,
            bytes,
            cuts: vec![first],
            then: Then::End,
        };
        let expected = if size > LONGEST_REPLY {
            None
        } else {
            Some(Outcome::Refused)
        };
        assert_eq!(answer.expected().ok(), expected);
        check(&answer);
    }
}
