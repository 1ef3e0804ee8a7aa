//! What is said of several keys, and what is shown of them.

use super::*;

/// Who asks for two resources: no reader.
const TAKES_TWO: &[Asks] = &[PLAIN, FENCED];

const ABOUT_TWO: &[(&[Asks], &str, &str)] = &[
    (TAKES_TWO, "+OK", "granted"),
    (
        TAKES_TWO,
        "*2 :0 *1 :1500",
        "\"b\" held by another, for another 1.5s",
    ),
    (
        TAKES_TWO,
        "*2 *2 :1500 :2 :0",
        "\"a\" read by 2, for another 1.5s",
    ),
    (&[KEEP], "*2 :1 :1", "granted"),
    (&[KEEP], "*2 :1 *1 :-2", "no key"),
    (&[KEEP], "*2 *1 :-2 :1", "no key"),
    (
        &[KEEP],
        "*2 *1 :2500 *1 :1500",
        "\"a\" held by another, for another 2.5s",
    ),
    (
        &[KEEP],
        "*2 *1 :-1 *1 :1500",
        "\"b\" held by another, for another 1.5s",
    ),
    (
        &[KEEP],
        "*2 *1 :-2 -OOM_no",
        "the server answered OOM no (the server is out of memory)",
    ),
    (
        &[KEEP, DROP],
        "-OOM_no",
        "the server answered OOM no (the server is out of memory)",
    ),
    (&[DROP], "*2 :1 :1", "released"),
    (&[DROP], "*2 :1 :2", "released, woke 2"),
    (&[KEEP], "*2 :1 :2", "granted, woke 2"),
    (&[DROP], "*2 :2 *1 :-2", "no key, woke 1"),
];

#[test]
fn a_vote_on_several_resources_is_what_tells_most() {
    assert_table(told_of_two, ABOUT_TWO);
    let named = told_of_two(KEEP, "*2 *1 :-2 *1 :-1").unwrap();
    assert!(
        named.starts_with("the key of \"b\" is not a lock: it never expires"),
        "{named}"
    );
    assert_none(
        told_of_two,
        &[
            (
                TAKES_TWO,
                &[
                    "$-1",
                    ":1",
                    "*2 :0 :0",
                    "*1 :0",
                    "*3 :0 *1 :5 :0",
                    "*2 :1 *1 :5",
                    "*2 *1 :-2 :0",
                    "*2 :1 *1 :1500",
                ],
            ),
            (
                &[KEEP, DROP],
                &[
                    "+OK",
                    "$-1",
                    ":1",
                    "*1 :1",
                    "*2 :0 :0",
                    "*2 :1 :3",
                    "*2 :1 +OK",
                    "*3 :1 :1 :1",
                ],
            ),
            (&[KEEP], &["*2 :3 :1"]),
        ],
    );
}

#[test]
fn what_is_under_a_key_is_shown_the_same_where_a_client_waits_for_it() {
    for row in [":1500 :2 $2 me", ":1500 :3 :20"] {
        let waited_for = told(SHOW, &format!("*4 {row} :1"));
        assert!(waited_for.is_some());
        assert_eq!(waited_for, told(SHOW, &format!("*3 {row}")));
    }
}

#[test]
fn what_is_under_a_key_is_shown_with_its_value_or_its_readers() {
    let never = told(KEEP, "*1 :-1").unwrap();
    let with_length = never.replace("expires;", "expires; its value has 2 bytes;");
    let other_type = told(KEEP, "*1 :-3").unwrap();
    let show = [SHOW];
    assert_table(
        told,
        &[
            (&show, "*1 :-2", "no key None false"),
            (&show, "*1 :-3", &format!("{other_type} None false")),
            (
                &show,
                "*3 :-1 :2 $2 me",
                &format!("{with_length} None true"),
            ),
            (&show, "*2 :-1 $2 me", &format!("{never} None false")),
            (
                &show,
                "*3 :1500 :2 $2 me",
                "held by me, for another 1.5s Some(\"me\") true",
            ),
            (
                &show,
                "*3 :0 :0 $0 ",
                "held by an empty value, for another 1.0ms Some(\"\") true",
            ),
            (
                &show,
                "*3 :1500 :9000 $2 me",
                "held by me\u{2026} (9000 bytes), for another 1.5s Some(\"me\u{2026} (9000 bytes)\") true",
            ),
            (
                &show,
                "*3 :9000 :3 :4000",
                "read by 3, oldest for another 4.0s, last for another 9.0s None false",
            ),
            (
                &show,
                "*2 $6 READER $2 me",
                "held by another None true as a reader",
            ),
            (&show, "-ERR_no", "the server answered ERR no None false"),
        ],
    );
    assert_table(
        |verb, reply| told_to(&command::show(&["a".into(), "b".into()]), verb, reply),
        &[
            (
                &show,
                "*2 *1 :-2 -ERR_no",
                "no key None false + the server answered ERR no None false",
            ),
            (
                &show,
                "-ERR_no",
                "the server answered ERR no None false + the server answered ERR no None false",
            ),
        ],
    );
}

#[test]
fn what_shows_no_key_is_none() {
    let show = [SHOW];
    assert_none(
        told,
        &[(
            &show,
            &[
                "+OK",
                ":1",
                ":-2",
                "$-1",
                "$2 me",
                "*0",
                "*1 :-1",
                "*2 :-2 $2 me",
                "*1 :-4",
                "*1 :1500",
                "*1 $2 -2",
                "*2 :1500 $2 me",
                "*3 :-2 :2 $2 me",
                "*3 :1500 :0 :2",
                "*3 :1500 :-1 :2",
                "*3 :1500 :2 :-1",
                "*3 :-1 :2 :2",
                "*3 :-2 :2 :2",
                "*4 :1500 :2 :2 :2",
                "*3 :1500 :2 $-1",
                // More of the value than there is.
                "*3 :1500 :1 $2 me",
                "*3 :1500 :-1 $2 me",
                "*4 :1500 :2 $2 me :2",
                "*4 :1500 :2 $2 me :0",
                "*5 :1500 :2 $2 me :1 :1",
                "*2 $6 reader $2 me",
            ],
        )],
    );
    assert_none(
        |verb, reply| told_to(&command::show(&["a".into(), "b".into()]), verb, reply),
        &[(&show, &["*1 :-2", "*1 *1 :-2", "*3 *1 :-2 *1 :-2 *1 :-2"])],
    );
}
