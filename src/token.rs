//! The random value of a lock's key, which no other attempt has.

use std::fmt;

use crate::clock::Clock;

/// 20 random bytes of the operating system as 40 hexadecimal characters; each attempt has its own.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Token([u8; Self::HEX_LEN]);

impl Token {
    const BYTES: usize = 20;
    pub(crate) const HEX_LEN: usize = 40;

    pub(crate) fn random(clock: &Clock) -> Result<Self, getrandom::Error> {
        let mut bytes = [0; Self::BYTES];
        clock.fill_token(&mut bytes)?;
        Ok(Self::from_bytes(bytes))
    }

    fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        let digit = |nibble| b"0123456789abcdef".get(usize::from(nibble)).copied();
        let mut hex = [b'0'; Self::HEX_LEN];
        for (pair, byte) in hex.chunks_exact_mut(2).zip(bytes) {
            let digits = [byte >> 4, byte & 0x0f].map(digit);
            pair.copy_from_slice(&digits.map(|digit| digit.unwrap_or(b'0')));
        }
        Self(hex)
    }

    /// Parses the text of [`Self::as_str`].
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let hex: [u8; Self::HEX_LEN] = text.as_bytes().try_into().ok()?;
        let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        hex.iter().all(is_digit).then_some(Self(hex))
    }

    pub(crate) fn as_str(&self) -> &str {
        // The bytes are always hexadecimal digits.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&Hint(self.as_str()), f)
    }
}

/// The `Debug` of a token, or of another value under a key. It shows only the first characters, because anybody who knows the whole
/// token can release the lock.
pub(crate) struct Hint<'a>(pub(crate) &'a str);

impl Hint<'_> {
    const LEN: usize = 8;
}

impl fmt::Debug for Hint<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0.chars();
        let first: String = rest.by_ref().take(Self::LEN).collect();
        let end = if rest.as_str().is_empty() { "" } else { "…" };
        write!(f, "{first:?}{end}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_its_bytes_in_hexadecimal() {
        let mut bytes = [0; Token::BYTES];
        (bytes[0], bytes[19]) = (0xab, 0x0f);
        let text = "ab0000000000000000000000000000000000000f";
        assert_eq!(Token::from_bytes(bytes).as_str(), text);
    }

    #[test]
    fn random_tokens_differ() {
        let [one, other] = [(); 2].map(|()| Token::random(&Clock::system()).unwrap());
        assert_ne!(one, other);
    }
}
