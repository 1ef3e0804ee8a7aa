//! Random answers, from proper replies to noise, and a few at the bound of their size.

#![expect(
    clippy::arithmetic_side_effects,
    reason = "a test that overflows fails, as it should"
)]

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::*;

/// Whole replies, proper ones and others.
fn replies() -> Vec<Vec<u8>> {
    // With spaces for the ends of lines.
    let whole = "+OK |:1 |:2 |+PONG |$-1 |*-1 |_ |:0 |*1 :-2 |*1 :-1 |*1 :-3 |*1 :59999 |*2 :59999 $4 abcd |*2 :-1 $1 x |*2 :-2 $1 x \
        |*2 :5 $-1 |*2 :59999 :3 |*2 :59999 :-1 |*2 :-1 :3 |*2 :5 $01 x |$2 OK |-ERR |-LOADING |!5 ERR_x |=6 txt:OK |#t |,1 |(1 \
        |%1 +a :1 |~1 :1 ||1 +a +b +OK |>1 +OK |*2 :1 :1 |:+1 |+ok ||*1 |x|*1 \n|$1000000 |*9223372036854775807 \
        |$9223372036854775807 |=-1 |%-9223372036854775808 ";
    let replies = whole.split('|').map(|reply| reply.replace(' ', "\r\n"));
    replies.map(String::into_bytes).collect()
}

/// What means yes to a question, another reply, or a part that many kinds of replies have.
fn piece(question: Question) -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        9 => Just([question.yes(), b"\r\n"].concat()),
        6 => select(replies()),
        2 => r"[-+:$*%|~_,#!=(>][0-9OKa-z +-]{0,4}(\r\n|\r|\n)?".prop_map(String::into_bytes),
        2 => vec(any::<u8>(), 0..8),
        1 => (0..100_u8).prop_map(|n| b"*1\r\n".repeat(n.into())),
        1 => (b'+'..=b'-', 0..6_000_usize).prop_map(|(mark, n)| [&[mark], &vec![b'x'; n][..], b"\r\n"].concat()),
        1 => (0..6_000_usize).prop_map(|n| [format!("${n}\r\n").as_bytes(), &vec![b'\n'; n], b"\r\n"].concat()),
    ]
}

/// A piece, or some; perhaps with one byte wrong, more or less, or without what is behind it.
fn bytes(question: Question) -> impl Strategy<Value = Vec<u8>> {
    let count = prop_oneof![5 => Just(1_usize), 3 => 0..4_usize];
    let pieces = count.prop_flat_map(move |count| vec(piece(question), count));
    // A byte that means something in a reply, or any.
    let byte = prop_oneof![select(b"\r\n +-:$*01OKPNG\0".to_vec()), any::<u8>()];
    (pieces, any::<Index>(), byte, 0..8).prop_map(|(pieces, at, byte, change)| {
        let mut bytes = pieces.concat();
        let at = at.index(bytes.len() + 1);
        match change {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, byte),
            2 if at < bytes.len() => drop(bytes.remove(at)),
            3 if at < bytes.len() => bytes[at] = byte,
            _ => {}
        }
        bytes
    })
}

fn cuts() -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![
        2 => Just(Vec::new()),
        1 => Just(vec![1; MOST_PACKETS]),
        2 => vec(1..12_usize, 0..20),
        1 => vec(1..=LONGEST_PACKET, 0..8),
    ]
}

/// The answer with and without the end of the stream behind it.
fn check_both(question: Question, bytes: &[u8], cuts: &[usize]) {
    for ends in [false, true] {
        let (bytes, cuts) = (bytes.to_vec(), cuts.to_vec());
        check(&RawAnswer {
            question,
            bytes,
            cuts,
            ends,
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        // Twice the usual number of cases, for the many ways to be wrong.
        cases: ProptestConfig::default().cases * 2,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_vote_comes_of_nothing_but_the_reply_that_grants_it(
        (question, bytes) in select(&QUESTIONS[..]).prop_flat_map(|one| (Just(one), bytes(one))),
        cuts in cuts(),
    ) {
        check_both(question, &bytes, &cuts);
    }
}

#[test]
fn each_kind_of_reply_grants_what_it_says_and_nothing_else() {
    for bytes in replies() {
        for question in QUESTIONS {
            check_both(question, &bytes, &[]);
        }
    }
}

#[test]
fn a_reply_of_the_longest_size_is_read_and_one_more_byte_is_too_much_wherever_it_is_cut() {
    for size in LONGEST_REPLY - 1..=LONGEST_REPLY + 1 {
        let bytes = [&b"-"[..], &vec![b'x'; size - 3], b"\r\n"].concat();
        for first in (1..=LONGEST_PACKET).step_by(93) {
            let (cuts, ends, question) = (vec![first], true, Question::Probe);
            let bytes = bytes.clone();
            let answer = RawAnswer {
                question,
                bytes,
                cuts,
                ends,
            };
            assert_eq!(answer.grants(), size <= LONGEST_REPLY);
            check(&answer);
        }
    }
}
