//! What a person sees of a violation: the page and the text, of a history that is far longer than what it is about.

use crate::{
    Assumed, Does, History, On, Origin, Restart, Rule, Span, Violation, What, Who, page, text,
};

/// One lock after the other on one resource, and two at a time once on another.
fn long() -> History {
    let mut history = History::default();
    let mut takes = |client, place, at, end| {
        let who = Who { client, thread: 0 };
        let call = history.asks(at - 3, who, On::alone(place), None);
        let gets = What::Gets {
            call,
            token: format!("<{}>", call.0).into(),
            fencing: Some(at),
            slot: None,
            end: Some(Span::exactly(end)),
            origin: Origin::Nodes,
        };
        history.notes(at, gets);
    };
    for turn in 1..10_000 {
        takes(1, 1, 100 * turn, 100 * turn + 90);
    }
    takes(2, 2, 500_010, 500_050);
    takes(3, 2, 500_040, 500_080);
    let does = Does::Starts(Restart::Empty);
    history.notes(500_020, What::Node { node: 4, does });
    history
}

#[test]
fn only_the_time_around_a_violation_is_shown() {
    let history = long();
    let violations = history.violations(&Assumed::default());
    let [violation] = violations.as_slice() else {
        panic!("{violations:?}");
    };
    let svg = page(&history, violation);
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    assert_eq!(svg.matches("class=\"wrong\"").count(), 2, "{svg}");
    assert!(svg.contains(">c2.0<") && svg.contains(">c3.0<") && svg.contains(">n4<"));
    // What is shown of a call has its token, as text that is no markup.
    assert!(
        svg.contains("token &lt;10000>, fencing token 500010"),
        "{svg}"
    );
    assert!(svg.contains("prefers-color-scheme:dark"));
    assert!(svg.len() < 50_000, "{}", svg.len());
    let text = text(&history, violation);
    assert!(text.lines().count() < 20, "{text}");
    assert!(text.contains("c2.0 asks for r2") && text.contains("n4 Starts(Empty)"));
}

/// Something that a test saw itself may be about no call: then all is shown that happened before it.
#[test]
fn the_time_before_what_is_about_no_call_is_shown() {
    let violation = Violation {
        rule: Rule::Other,
        at: 500_060,
        calls: Vec::new(),
        text: "a key is left".to_owned(),
    };
    let text = text(&long(), &violation);
    assert!(text.contains("a key is left") && text.contains("lines before"));
    assert!(text.contains("c3.0 asks for r2") && text.contains("n4 Starts(Empty)"));
    let last = text.lines().last().unwrap();
    assert!(last.starts_with("0.000500040 "), "{text}");
}
