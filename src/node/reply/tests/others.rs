//! Replies that are about no lock of the one who asks: looks, pages, and facts about a server.

use super::*;

#[test]
fn a_look_tells_of_a_lock_or_of_all_slots() {
    let lock: Asks = || Verb::Look { permits: None };
    let slots: Asks = || Verb::Look { permits: Some(3) };
    assert_table(
        told,
        &[
            (&[lock], "*4 :1 :-2 :0 $0 ", "Free false [] at 0"),
            (&[lock], "*4 :1 :-1 :0 $0 ", "Stuck false [] at 0"),
            (&[lock], "*4 :1 :-3 :0 $0 ", "Deserted false [] at 0"),
            (&[lock], "*4 :1 :0 :1 $0 ", "Held(0ns) true [] at 0"),
            (&[lock], "*4 :1 :1500 :1 $0 ", "Held(1.5s) true [] at 0"),
            (&[slots], "*4 :1 :-2 :0 $3 101", "Free false [0, 2] at 0"),
            (&[slots], "*4 :1 :-2 :0 $3 000", "Free false [] at 0"),
        ],
    );
    assert_table(
        told_of_two,
        &[(&[lock], "*4 :2 :-2 :0 $0 ", "Free false [] at 1")],
    );
    assert_none(
        told_of_two,
        &[(&[lock], &["*4 :0 :-2 :0 $0 ", "*4 :3 :-2 :0 $0 "])],
    );
    assert_none(
        told,
        &[
            (
                &[lock],
                &[
                    ":5",
                    "$-1",
                    "*4 :1 :-4 :0 $0 ",
                    "*4 :1 :5 :2 $0 ",
                    "*1 :5",
                    "*3 :1 :5 :1",
                    "*4 :1 :5 :1 :1",
                    "*4 :2 :5 :1 $0 ",
                    "*4 :1 :-2 :0 $3 101",
                ],
            ),
            (
                &[slots],
                &[
                    "*4 :1 :-2 :0 $4 1010",
                    "*4 :1 :-2 :0 $2 10",
                    "*4 :1 :-2 :0 $3 1x1",
                    "*4 :1 :-2 :0 $0 ",
                ],
            ),
        ],
    );
}

#[test]
fn a_page_has_a_cursor_and_keys_of_any_bytes() {
    let scan = [SCAN];
    assert_table(
        told,
        &[
            (&scan, "*1 $1 0", "0: "),
            (&scan, "*2 $2 17 $3 job", "17: job"),
            (
                &scan,
                "*1 $20 18446744073709551615",
                "18446744073709551615: ",
            ),
            (&scan, "-ERR_no", "the server answered ERR no"),
        ],
    );
    let of_keys =
        |count: usize| format!("*{} $1 0{}", count.saturating_add(1), " $1 x".repeat(count));
    assert!(told(SCAN, &of_keys(MOST_KEYS)).is_some());
    let many = of_keys(MOST_KEYS.saturating_add(1));
    assert_none(
        told,
        &[(
            &scan,
            &[
                "+OK",
                ":0",
                "$-1",
                "*0",
                "*1 :0",
                "*1 $0 ",
                "*1 $2 -1",
                "*1 $2 00",
                "*1 $2 +1",
                "*1 $20 18446744073709551616",
                "*2 $1 0 :1",
                "*2 $1 0 $-1",
                "*2 $1 0 *1 $1 x",
                &many,
            ],
        )],
    );
}

#[test]
fn a_fact_of_its_type_is_read_and_any_other_is_not() {
    const MARKER: Asks = || Verb::Ask(Question::Marker);
    const SERVER: Asks = || Verb::Ask(Question::Info("server"));
    const TIME: Asks = || Verb::Ask(Question::Time);
    assert_table(
        told,
        &[
            (&[MARKER], "$-1", "Nothing"),
            (&[MARKER], "$3 a|b", "Text(\"a|b\")"),
            (&[SERVER], "$0 ", "Text(\"\")"),
            (&[SERVER], "$2 ab", "Text(\"ab\")"),
            (&[TIME], "*2 $1 5 $1 7", "Time(5000007)"),
        ],
    );
    for verb in [MARKER, SERVER, TIME] {
        let refused = told(verb, "-ERR_no").unwrap();
        assert!(refused.starts_with("Refusal("), "{refused}");
    }
    assert_none(
        told,
        &[
            (&[MARKER], &["+OK", ":1", "*0"]),
            (&[SERVER], &["$-1", "+redis_version:7"]),
            (
                &[TIME],
                &[
                    "$-1",
                    "*-1",
                    "*1 $1 5",
                    "*2 :5 :7",
                    "*2 $2 -5 $1 7",
                    "*2 $1 5 $7 1000000",
                    "*2 $14 18446744073710 $1 0",
                    "*2 $1 5 $1 x",
                ],
            ),
        ],
    );
}
