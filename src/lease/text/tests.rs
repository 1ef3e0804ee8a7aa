//! Leases as text, whole and damaged.

use proptest::prelude::*;

use super::*;
use crate::holder::Label;
use crate::token::Token;

/// The flags stand for the nodes, as in the text.
fn lease(resource: &str, fencing: Option<u64>, flags: &str, expires_ms: u64) -> Lease {
    Lease {
        resource: resource.to_owned(),
        kind: Kind::Lock,
        value: Token::parse("00112233445566778899aabbccddeeff00112233")
            .unwrap()
            .into(),
        fencing: fencing.map(FencingToken::new),
        nodes: flags.len(),
        may_have_key: places(flags.as_bytes(), |flag| *flag == b'1'),
        expires_ms,
        rests_until_ms: None,
    }
}

fn with_rest(mut lease: Lease, until_ms: Option<u64>) -> Lease {
    lease.rests_until_ms = until_ms;
    lease
}

#[test]
fn a_fencing_token_that_no_attempt_has_is_an_error() {
    let good = lease("job", Some(1), "1", 5).to_string();
    assert!(good.parse::<Lease>().is_ok());
    for number in ["0", "10000000000000000"] {
        let bad = good.replace(":1:5:", &format!(":{number}:5:"));
        let error = bad.parse::<Lease>().unwrap_err();
        assert!(error.to_string().contains("fencing token"), "{error}");
    }
}

#[test]
fn the_text_of_this_form_stays_as_it_is() {
    let text = "redlatch1:00112233445566778899aabbccddeeff00112233:1700000000000001:1700000000000:11011:a%20b:%C3%A9";
    let same = lease(
        "a b:é",
        Some(1_700_000_000_000_001),
        "11011",
        1_700_000_000_000,
    );
    assert_eq!(same.to_string(), text);
    assert_eq!(text.parse::<Lease>().unwrap(), same);
    let text = "redlatch2:00112233445566778899aabbccddeeff00112233:-:1700000000000/1700000600001:11011:a%20b:%C3%A9";
    let same = lease("a b:é", None, "11011", 1_700_000_000_000);
    let same = with_rest(same, Some(1_700_000_600_001));
    assert_eq!(same.to_string(), text);
    assert_eq!(text.parse::<Lease>().unwrap(), same);
}

#[test]
fn a_minimum_that_is_damaged_is_an_error() {
    let good = with_rest(lease("job", None, "1", 5), Some(7)).to_string();
    assert!(good.parse::<Lease>().is_ok());
    for (part, bad) in [
        ("/7:", "/-:"),
        ("/7:", "/07:"),
        ("/7:", "/:"),
        ("/7:", ":"),
        ("redlatch2", "redlatch1"),
    ] {
        let bad = good.replace(part, bad);
        assert!(bad.parse::<Lease>().is_err(), "{bad}");
    }
}

#[test]
fn the_text_of_a_lease_with_a_label_has_the_label_and_stays_as_it_is() {
    let text = "redlatch2:00112233445566778899aabbccddeeff00112233%20web-3%20%C3%A9%3A1%20since=2026-11-22T05%3A52%3A53Z:\
                -:1700000000000:111:job";
    let mut same = lease("job", None, "111", 1_700_000_000_000);
    same.value = labelled("web-3 \u{e9}:1");
    assert_eq!(same.to_string(), text);
    assert_eq!(text.parse::<Lease>().unwrap(), same);
    assert_eq!(same.token(), "00112233445566778899aabbccddeeff00112233");

    // Each lease has one text, so neither form takes what belongs into the other.
    for bad in [
        text.replace("redlatch2", "redlatch1"),
        text.replace("%20web-3", "%0Aweb-3"),
        text.replace("%20web-3", "%20%20web-3"),
        text.replace("%20since", " since"),
        lease("job", None, "1", 5)
            .to_string()
            .replace("redlatch1", "redlatch2"),
    ] {
        bad.parse::<Lease>().unwrap_err();
    }
}

fn labelled(label: &str) -> Value {
    let token = Token::parse("00112233445566778899aabbccddeeff00112233").unwrap();
    Value::labelled(token, &Label::new(label).unwrap(), 1_795_326_773_000_000)
}

/// A lease of a lock of this kind. With several resources, their text stands for the name.
fn on(kind: Kind) -> Lease {
    let mut lease = lease("job", None, "111", 1_700_000_000_000);
    if let Kind::Several(names) = &kind {
        lease.resource = String::from(&*shown(names));
    }
    lease.kind = kind;
    lease
}

fn several(names: &[&str]) -> Lease {
    on(Kind::Several(
        names.iter().map(|name| Arc::from(*name)).collect(),
    ))
}

/// The beginning of the texts below.
const TEXT: &str = "redlatch1:00112233445566778899aabbccddeeff00112233:-:1700000000000:111:";

#[test]
fn the_text_of_a_lease_on_several_resources_or_of_a_reader_stays_as_it_is() {
    for (lease, name) in [
        (
            several(&["account:1", "account:2"]),
            "2~~account:1~~account:2",
        ),
        (several(&["4", "5"]), "2~~4~~5"),
        (several(&["a~", "~b", "~~"]), "3~~a%7E~~%7Eb~~%7E%7E"),
        (several(&["a", "read"]), "2~~a~~read"),
        (on(Kind::Read), "job~read"),
        (on(Kind::Slot(7)), "job~7"),
    ] {
        let text = format!("{TEXT}{name}");
        assert_eq!(lease.to_string(), text);
        assert_eq!(text.parse::<Lease>().unwrap(), lease);
    }
}

/// What versions that know slots alone do with the name in the text: they take what is behind the first `~` for a number.
/// Versions before them take no `~` at all.
#[test]
fn earlier_versions_take_neither_several_resources_nor_a_reader_for_a_lock_or_a_slot() {
    for lease in [several(&["4", "5"]), several(&["a", "b"]), on(Kind::Read)] {
        let text = lease.to_string();
        let (_, slot) = text.split_once('~').unwrap();
        assert!(slot.parse::<u32>().is_err(), "{text}");
    }
}

#[test]
fn a_lease_names_its_resources_in_order() {
    let lease = several(&["a", "b", "c", "d", "e"]);
    assert_eq!(lease.resources(), ["a", "b", "c", "d", "e"]);
    assert_eq!(lease.resource(), "a, b, c and 2 more");
    assert!(!lease.is_read());
    for subject in [Kind::Lock, Kind::Slot(1), Kind::Read] {
        let lease = on(subject.clone());
        assert_eq!((lease.resources(), lease.resource()), (vec!["job"], "job"));
        assert_eq!(lease.is_read(), subject == Kind::Read);
    }
}

#[test]
fn resources_that_no_lock_has_together_are_an_error() {
    let names = |count: usize| {
        let names: Vec<String> = (0..count).map(|n| format!("n{n:02}")).collect();
        format!("{TEXT}{count}~~{}", names.join("~~"))
    };
    assert_eq!(names(64).parse::<Lease>().unwrap().resources().len(), 64);
    for bad in [
        names(65),
        format!("{TEXT}2~~b~~a"),
        format!("{TEXT}2~~a~~a"),
        format!("{TEXT}3~~a~~b~~a"),
        // One name is an ordinary lease, and none is no lease.
        format!("{TEXT}1~~a"),
        format!("{TEXT}0~~"),
        format!("{TEXT}1~~"),
        format!("{TEXT}~~"),
        format!("{TEXT}2~~a~~"),
        format!("{TEXT}2~~~~a"),
        // Cut off, or with a name too many.
        format!("{TEXT}3~~a~~b"),
        format!("{TEXT}1~~a~~b"),
        format!("{TEXT}a~~b"),
        format!("{TEXT}02~~a~~b"),
        format!("{TEXT}~~a~~b"),
        format!("{TEXT}2~~a~~~b"),
        format!("{TEXT}2~~a~~b~read"),
        format!("{TEXT}2~~a~~b~5"),
        format!("{TEXT}2~~a%2D~~b"),
        format!("{TEXT}2~~a~~%FF"),
        format!("{TEXT}2~~a b~~c"),
        format!("{}2~~a~~b", TEXT.replace("redlatch1", "redlatch2")),
    ] {
        let error = bad.parse::<Lease>().unwrap_err().to_string();
        assert!(error.contains("damaged"), "{bad}: {error}");
    }
}

#[test]
fn a_reader_that_can_not_be_one_is_an_error() {
    for bad in [
        format!("{TEXT}~read"),
        format!("{TEXT}job~Read"),
        format!("{TEXT}job~reader"),
        format!("{TEXT}job~read~"),
        format!("{TEXT}job~read~read"),
        format!("{TEXT}job~read~5"),
        // Readers have no fencing token, and no minimum.
        format!("{}job~read", TEXT.replace(":-:", ":5:")),
        format!(
            "{}job~read",
            TEXT.replace("redlatch1", "redlatch2")
                .replace("0:111", "0/1700000000001:111")
        ),
    ] {
        bad.parse::<Lease>().expect_err(&bad);
    }
}

fn any_name() -> impl Strategy<Value = String> {
    "\\PC{1,20}|[\\x00-\\x7f]{1,20}|[a~]{1,4}|[0-9]{1,2}|read"
}

fn any_kind() -> impl Strategy<Value = Kind> {
    let names = proptest::collection::btree_set(any_name().prop_map(Arc::from), 2..6);
    prop_oneof![
        Just(Kind::Lock),
        any::<u32>().prop_map(Kind::Slot),
        Just(Kind::Read),
        names.prop_map(|names| Kind::Several(names.into_iter().collect())),
    ]
}

/// Changes one byte of a text, which then is of no lease, or of another one.
fn assert_change(original: &str, at: usize, byte: u8) -> Result<(), TestCaseError> {
    let mut bytes = original.as_bytes().to_vec();
    let Some(changed) = bytes.get_mut(at).filter(|before| **before != byte) else {
        return Ok(());
    };
    *changed = byte;
    let text = String::from_utf8(bytes).unwrap();
    if let Ok(lease) = text.parse::<Lease>() {
        prop_assert_eq!(lease.to_string(), text);
    }
    let before_name = original.rfind(':').unwrap();
    prop_assert!(original[..at].parse::<Lease>().is_err() || at > before_name.saturating_add(1));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_lease_is_read_back_from_one_printable_word(
        (resource, kind) in (any_name(), any_kind()),
        fencing in proptest::option::of(1..=FencingToken::LARGEST),
        flags in "[01]{1,7}",
        expires_ms in any::<u64>(),
        rests_until_ms in proptest::option::of(any::<u64>()),
        label in "\\PC{0,20}",
    ) {
        let lease = lease(&resource, fencing, &flags, expires_ms);
        let mut lease = with_rest(lease, rests_until_ms);
        match &kind {
            Kind::Several(names) => lease.resource = String::from(&*shown(names)),
            Kind::Read => (lease.fencing, lease.rests_until_ms) = (None, None),
            Kind::Lock | Kind::Slot(_) | Kind::Permit(_) => {}
        }
        lease.kind = kind;
        if Label::new(&label).is_ok() {
            lease.value = labelled(&label);
        }
        let text = lease.to_string();
        prop_assert!(text.bytes().all(|byte| byte.is_ascii_graphic()), "{}", text);
        prop_assert_eq!(text.parse::<Lease>().unwrap(), lease);
    }

    #[test]
    fn a_text_with_a_change_is_an_error_or_another_lease(at in 0..100_usize, byte in 0..128_u8) {
        let of_one = lease("the invoices", Some(5), "11111", 1_700_000_000_000);
        for lease in [of_one, several(&["the first", "the last"]), on(Kind::Read)] {
            assert_change(&lease.to_string(), at, byte)?;
        }
    }

    #[test]
    fn any_other_text_is_an_error(text in "(redlatch[12]:)?\\PC{0,80}|redlatch1:0{40}:-:5:1:[2-4]?(~~)?[~ab%7Er0-9]{0,12}") {
        if let Ok(lease) = text.parse::<Lease>() {
            prop_assert_eq!(lease.to_string(), text);
        }
    }
}
