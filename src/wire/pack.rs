//! Packs commands as arrays of bulk strings, in version 2 of the protocol of Redis.

use std::borrow::Cow;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use super::resp;
use super::scripts::Script;
use crate::claim::{Kind, Names};

/// One word of a command.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Word<'a> {
    Bytes(&'a [u8]),
    Number(u64),
}

/// Whole milliseconds, as Redis counts them. A part of a millisecond is dropped.
pub(crate) fn millis(span: Duration) -> Word<'static> {
    Word::Number(whole_millis(span))
}

pub(crate) fn whole_millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// The bytes of a command of these words.
pub(crate) fn pack(words: &[Word<'_>]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(words.len().saturating_mul(ROOM));
    push_line(&mut bytes, b'*', words.len());
    for word in words {
        match word {
            Word::Bytes(word) => {
                push_line(&mut bytes, b'$', word.len());
                bytes.extend_from_slice(word);
            }
            Word::Number(number) => {
                let digits = number.checked_ilog10().unwrap_or_default();
                let digits = digits.saturating_add(1).try_into();
                push_line(&mut bytes, b'$', digits.unwrap_or(usize::MAX));
                push_digits(&mut bytes, *number);
            }
        }
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

fn push_line(bytes: &mut Vec<u8>, mark: u8, number: usize) {
    bytes.push(mark);
    push_digits(bytes, u64::try_from(number).unwrap_or(u64::MAX));
    bytes.extend_from_slice(b"\r\n");
}

/// The formatting of std takes four times as long.
fn push_digits(bytes: &mut Vec<u8>, number: u64) {
    if number >= 10 {
        push_digits(bytes, number / 10);
    }
    let digit = u8::try_from(number % 10).unwrap_or_default();
    bytes.push(digit.saturating_add(b'0'));
}

/// Most words fit in so many bytes, with the line before them.
const ROOM: usize = 64;

/// A packed command. A clone is the same one.
#[derive(Clone)]
pub(crate) struct Packed(Arc<Command>);

/// The command of [`Packed`].
#[derive(Clone)]
pub(crate) struct Command {
    /// What it does, for people.
    pub(crate) name: &'static str,
    /// For a server that has the script, if it calls one.
    pub(crate) bytes: Vec<u8>,
    /// The script that the bytes call by its digest.
    pub(crate) script: Option<&'static Script>,
    /// The most bytes of a reply to it.
    pub(crate) longest_reply: usize,
    /// How many keys it is about: its reply has a row for each. It tells how much a server has to do for it.
    pub(crate) keys: usize,
    /// The names of the resources, if it is about several.
    pub(crate) names: Option<Names>,
}

/// The most bytes of a reply to most commands. No reply of a server comes near it.
pub(crate) const LONGEST_REPLY: usize = 4 * 1024;

/// The room for a row: the first bytes of a value, or an error.
const LONGEST_ROW: usize = 640;

impl Packed {
    pub(crate) fn new(name: &'static str, words: &[Word<'_>]) -> Self {
        Self(Arc::new(Command {
            name,
            bytes: pack(words),
            script: None,
            longest_reply: LONGEST_REPLY,
            keys: 1,
            names: None,
        }))
    }

    /// This command with a change.
    pub(crate) fn with(mut self, change: impl FnOnce(&mut Command)) -> Self {
        change(Arc::make_mut(&mut self.0));
        self
    }

    /// Calls a script, by its digest if the server has it. `rest` are the words behind the digest: the number of keys, the
    /// keys and the arguments.
    pub(crate) fn call(name: &'static str, script: &'static Script, rest: &[Word<'_>]) -> Self {
        let mut words: SmallVec<[Word<'_>; 14]> = SmallVec::new();
        words.extend(["EVALSHA".into(), script.digest().into()]);
        words.extend_from_slice(rest);
        Self::new(name, &words).with(|command| command.script = Some(script))
    }

    /// The command, which is about a lock of this kind.
    pub(crate) fn about(self, kind: &Kind) -> Self {
        let Some(names) = kind.names() else {
            return self;
        };
        let about_all = self.about_keys(names.len());
        about_all.with(|command| command.names = Some(Arc::clone(names)))
    }

    /// The command, which is about so many keys.
    pub(crate) fn about_keys(self, keys: usize) -> Self {
        self.with(|command| {
            if keys > 1 {
                let of_each = keys.saturating_mul(LONGEST_ROW);
                command.longest_reply = LONGEST_REPLY.saturating_add(of_each);
            }
            command.keys = keys;
        })
    }

    /// The command as it is kept to be sent again, for all nodes that did not answer it. It has no names, which only messages need.
    pub(crate) fn to_repeat(&self) -> Self {
        match self.names {
            Some(_) => self.clone().with(|command| command.names = None),
            None => self.clone(),
        }
    }

    /// The keys of a command that calls a script.
    pub(crate) fn keys_of_call(&self) -> Vec<Vec<u8>> {
        let words = resp::words(&self.bytes).unwrap_or_default().into_iter();
        let keys = words.skip(3).take(self.keys);
        keys.map(<[u8]>::to_vec).collect()
    }

    /// The bytes for a server that may not have the script.
    pub(crate) fn in_full(&self) -> Cow<'_, [u8]> {
        let Some(script) = self.script else {
            return Cow::Borrowed(&self.bytes);
        };
        let words = resp::words(&self.bytes).unwrap_or_default();
        let rest = words.into_iter().skip(2).map(Word::Bytes);
        let call = [Word::from("EVAL"), script.text().into()];
        let words: Vec<Word<'_>> = call.into_iter().chain(rest).collect();
        Cow::Owned(pack(&words))
    }
}

impl Deref for Packed {
    type Target = Command;

    fn deref(&self) -> &Command {
        &self.0
    }
}

impl<'a> From<&'a [u8]> for Word<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::Bytes(bytes)
    }
}

impl<'a> From<&'a str> for Word<'a> {
    fn from(text: &'a str) -> Self {
        Self::Bytes(text.as_bytes())
    }
}

impl From<u64> for Word<'_> {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// As the redis crate packs them.
    fn by_redis(words: &[Word<'_>]) -> Vec<u8> {
        let mut cmd = redis::Cmd::new();
        for word in words {
            match word {
                Word::Bytes(bytes) => cmd.arg(bytes),
                Word::Number(number) => cmd.arg(number),
            };
        }
        cmd.get_packed_command()
    }

    proptest! {
        #[test]
        fn the_redis_crate_packs_the_same(
            words in vec(prop_oneof![
                vec(any::<u8>(), 0..300).prop_map(Ok),
                (any::<u64>(), 0..64_u32).prop_map(|(number, bits)| Err(number >> bits)),
                (0..20_u32, 0..2_u64).prop_map(|(digits, less)| Err(10_u64.saturating_pow(digits).saturating_sub(less))),
            ], 1..12)
        ) {
            let words: Vec<Word<'_>> = words
                .iter()
                .map(|word| word.as_ref().map_or_else(|number| Word::from(*number), |word| word.as_slice().into()))
                .collect();
            let bytes = pack(&words);
            prop_assert_eq!(&bytes, &by_redis(&words));
            prop_assert_eq!(resp::words(&bytes).map(|words| words.len()), Some(words.len()));
        }
    }
}
