//! Leases as text, whole and damaged.

use proptest::prelude::*;

use super::*;
use crate::holder::Label;
use crate::token::Token;

const TOKEN: &str = "00112233445566778899aabbccddeeff00112233";

/// A lease without a fencing token, a label or a minimum. Of several resources, their text stands for the name.
fn lease(name: &str, kind: Kind) -> Lease {
    let resource = match &kind {
        Kind::Several(names) => String::from(&*shown(names)),
        Kind::Lock | Kind::Read | Kind::Slot(_) | Kind::Permit(_) => name.to_owned(),
    };
    Lease {
        resource,
        kind,
        value: Token::parse(TOKEN).unwrap().into(),
        fencing: None,
        nodes: 3,
        may_have_key: places(b"111", |flag| *flag == b'1'),
        expires_ms: 1_700_000_000_000,
        rests_until_ms: None,
    }
}

fn several(names: &[&str]) -> Lease {
    let names = names.iter().map(|name| Arc::from(*name));
    lease("", Kind::Several(names.collect()))
}

fn labelled(label: &str) -> Value {
    let token = Token::parse(TOKEN).unwrap();
    Value::labelled(token, &Label::new(label).unwrap(), 1_795_326_773_000_000)
}

#[test]
fn the_text_of_each_kind_of_lease_stays_as_it_is() {
    let fenced = Lease {
        fencing: Some(1_700_000_000_000_001),
        nodes: 5,
        may_have_key: places(b"11011", |flag| *flag == b'1'),
        ..lease("a b:\u{e9}", Kind::Lock)
    };
    let resting = Lease {
        rests_until_ms: Some(1_700_000_600_001),
        ..lease("a", Kind::Lock)
    };
    let with_label = Lease {
        value: labelled("web-3 \u{e9}:1"),
        ..lease("a", Kind::Lock)
    };
    let label = "%20web-3%20%C3%A9%3A1%20since=2026-11-22T05%3A52%3A53Z";
    let with_label_text = format!("redlatch2:TOKEN{label}:-:MS:111:a");
    for (lease, text) in [
        (lease("a", Kind::Lock), "redlatch1:TOKEN:-:MS:111:a"),
        (
            fenced,
            "redlatch1:TOKEN:1700000000000001:MS:11011:a%20b:%C3%A9",
        ),
        (resting, "redlatch2:TOKEN:-:MS/1700000600001:111:a"),
        (with_label, &with_label_text),
        (
            lease("job", Kind::Read),
            "redlatch1:TOKEN:-:MS:111:job~read",
        ),
        (
            lease("job", Kind::Slot(7)),
            "redlatch1:TOKEN:-:MS:111:job~7",
        ),
        (several(&["4", "5"]), "redlatch1:TOKEN:-:MS:111:2~~4~~5"),
        (
            several(&["a", "read"]),
            "redlatch1:TOKEN:-:MS:111:2~~a~~read",
        ),
        (
            several(&["a~", "~b", "~~"]),
            "redlatch1:TOKEN:-:MS:111:3~~a%7E~~%7Eb~~%7E%7E",
        ),
    ] {
        let text = text.replace("TOKEN", TOKEN).replace("MS", "1700000000000");
        assert_eq!(lease.to_string(), text);
        assert_eq!(text.parse::<Lease>().unwrap(), lease);
        assert_eq!(lease.token(), TOKEN);
        // Versions that know slots alone take what is behind the first `~` for a number. Those before them take no `~`.
        if let (None, Some((_, slot))) = (lease.slot(), text.split_once('~')) {
            assert!(slot.parse::<u32>().is_err(), "{text}");
        }
    }
}

#[test]
fn what_no_lease_has_is_an_error() {
    let names = |count: usize| {
        let names: Vec<String> = (0..count).map(|n| format!("n{n:02}")).collect();
        format!("{count}~~{}", names.join("~~"))
    };
    let good = |form: &str, middle: &str, name: &str| format!("{form}:{TOKEN}{middle}:111:{name}");
    let most = good(FORM, ":-:5", &names(64)).parse::<Lease>().unwrap();
    assert_eq!(most.resources().len(), 64);
    let (many, too_long) = (names(65), format!(":{}:5", FencingToken::LARGEST + 1));
    for (form, middle, name) in [
        // A fencing token that no attempt has.
        (FORM, ":0:5", "job"),
        (FORM, &*too_long, "job"),
        (LATER_FORM, ":-:5/-", "job"),
        // Each lease has one text, so neither form takes what belongs into the other.
        (LATER_FORM, ":-:5", "job"),
        (FORM, ":-:5/7", "job"),
        (FORM, "%20web-3:-:5", "job"),
        (LATER_FORM, "%0Aweb-3:-:5", "job"),
        (LATER_FORM, "%20%20web-3:-:5", "job"),
        // Too many names, or out of order, or one that is there twice.
        (FORM, ":-:5", &*many),
        (FORM, ":-:5", "2~~b~~a"),
        (FORM, ":-:5", "2~~a~~a"),
        // One name is an ordinary lease, and none is no lease.
        (FORM, ":-:5", "1~~a"),
        (FORM, ":-:5", "2~~~~a"),
        (FORM, ":-:5", "~read"),
        // Cut off.
        (FORM, ":-:5", "3~~a~~b"),
        // Readers have no fencing token, and no minimum.
        (FORM, ":5:5", "job~read"),
        (LATER_FORM, ":-:5/7", "job~read"),
    ] {
        let bad = good(form, middle, name);
        let error = bad.parse::<Lease>().expect_err(&bad).to_string();
        assert!(
            error.contains("damaged") || name.contains("read"),
            "{bad}: {error}"
        );
    }
}

fn any_name() -> impl Strategy<Value = String> {
    "\\PC{1,20}|[\\x00-\\x7f]{1,20}|[a~]{1,4}|[0-9]{1,2}|read"
}

fn any_lease() -> impl Strategy<Value = Lease> {
    let names = proptest::collection::btree_set(any_name().prop_map(Arc::from), 2..6);
    let kind = prop_oneof![
        Just(Kind::Lock),
        any::<u32>().prop_map(Kind::Slot),
        Just(Kind::Read),
        names.prop_map(|names| Kind::Several(names.into_iter().collect())),
    ];
    let fencing = proptest::option::of(1..=FencingToken::LARGEST);
    let rests = proptest::option::of(any::<u64>());
    let minor = ("[01]{1,7}", any::<u64>(), rests, "\\PC{0,20}");
    let parts = (any_name(), kind, fencing, minor);
    parts.prop_map(|(name, kind, fencing, (flags, expires_ms, rests, label))| {
        let lease = lease(&name, kind);
        let is_read = lease.is_read();
        Lease {
            value: match Label::new(&label) {
                Ok(_) => labelled(&label),
                Err(_) => lease.value,
            },
            fencing: fencing.filter(|_| !is_read),
            nodes: flags.len(),
            may_have_key: places(flags.as_bytes(), |flag| *flag == b'1'),
            expires_ms,
            rests_until_ms: rests.filter(|_| !is_read),
            ..lease
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_lease_is_read_back_from_one_printable_word_and_from_no_text_with_a_change(
        lease in any_lease(),
        at in any::<prop::sample::Index>(),
        byte in 0..128_u8,
    ) {
        let text = lease.to_string();
        prop_assert!(text.bytes().all(|byte| byte.is_ascii_graphic()), "{}", text);
        let at = at.index(text.len());
        let mut changed = text.clone().into_bytes();
        changed[at] = byte;
        // A change makes it the text of another lease, or of none. What is cut off before the name is of none.
        let changed = String::from_utf8(changed).unwrap();
        if let Ok(other) = changed.parse::<Lease>() {
            prop_assert_eq!(other.to_string(), changed);
        }
        let (before_name, _) = text.match_indices(':').nth(4).unwrap();
        let is_in_name = at > before_name.saturating_add(1);
        prop_assert!(is_in_name || text[..at].parse::<Lease>().is_err());
        prop_assert_eq!(text.parse::<Lease>().unwrap(), lease);
    }

    #[test]
    fn any_other_text_is_an_error(text in "(redlatch[12]:)?\\PC{0,80}|redlatch1:0{40}:-:5:1:[2-4]?(~~)?[~ab%7Er0-9]{0,12}") {
        if let Ok(lease) = text.parse::<Lease>() {
            prop_assert_eq!(lease.to_string(), text);
        }
    }
}
