//! The longest labels, of letters of any length: each can be read back from the value of a key.

use super::{LONGEST_LABEL, Label};
use crate::token::Token;
use crate::value::{Content, Value};

/// The longest value that scripts return to others: that of a lock that rests, with `rest:` in front of the value of the holder.
const LONGEST_VALUE: usize = 273;
const IN_FRONT: usize = "rest:".len();

#[test]
fn a_label_of_the_most_bytes_is_read_back_and_a_longer_one_is_refused() {
    let token = || Token::parse("00112233445566778899aabbccddeeff00112233").unwrap();
    for letter in ["x", "\u{e9}", "\u{20ac}", "\u{1f512}"] {
        let most = LONGEST_LABEL.checked_div(letter.len()).unwrap();
        let text = letter.repeat(most);
        let label = Label::new(&text).unwrap();
        let value = Value::labelled(token(), &label, u64::MAX);
        assert!(
            value.as_bytes().len() <= LONGEST_VALUE - IN_FRONT,
            "{letter}"
        );
        let holder = Content::read(value.as_bytes()).holder().expect("a label");
        assert_eq!(*holder.label, *text);
        assert!(Label::new(&format!("{text}{letter}")).is_err(), "{letter}");
    }
    let longest = Label::new(&"x".repeat(LONGEST_LABEL)).unwrap();
    let longest = Value::labelled(token(), &longest, u64::MAX);
    assert_eq!(longest.as_bytes().len(), LONGEST_VALUE - IN_FRONT);
}
