//! What a worker tells the driver: one line per event.

use std::fmt::Write;
use std::sync::Arc;

use redlatch_history::{
    Access, Call, Event, Leased, Nanos, On, Origin, Says, Span, Way, What, Who, Why,
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// For the history.
    Happened(Event),
    /// After a release, the lock is nobody's for this time.
    Rests {
        call: Call,
        on: On,
        slot: Option<u32>,
        from: Nanos,
        until: Nanos,
    },
    /// A lock is to go to another worker: a parcel as words.
    Posts(String),
    /// Something to be counted.
    Counted(String),
    /// The worker itself saw something that must not happen.
    Wrong(String),
    /// Told to stop, it has released everything; and once more after its last locks.
    Done,
}

/// The word for an empty value.
const NONE: &str = "-";
const ACCESSES: [(Access, &str); 3] = [
    (Access::Alone, "alone"),
    (Access::Read, "read"),
    (Access::Permit, "permit"),
];
const ORIGINS: [(Origin, &str); 2] = [(Origin::Nodes, "nodes"), (Origin::Adopted, "adopted")];
const WHYS: [(Why, &str); 5] = [
    (Why::Held, "held"),
    (Why::Unknown, "unknown"),
    (Why::Expired, "expired"),
    (Why::Gone, "gone"),
    (Why::Limited, "limited"),
];
const WAYS: [(Way, &str); 3] = [
    (Way::Unlock, "unlock"),
    (Way::Drop, "drop"),
    (Way::HandOn, "hand-on"),
];

fn word<T: PartialEq>(table: &[(T, &'static str)], value: &T) -> &'static str {
    let row = table.iter().find(|(other, _)| other == value);
    row.unwrap().1
}

pub(crate) fn why_word(why: Why) -> &'static str {
    word(&WHYS, &why)
}

fn says_word(says: Says) -> &'static str {
    match says {
        Says::Okay => "okay",
        Says::Nothing => NONE,
        Says::Not(why) => why_word(why),
    }
}

fn span_words(span: Option<Span>) -> String {
    span.map_or(format!("{NONE} {NONE}"), |span| {
        format!("{} {}", span.low, span.high)
    })
}

fn on_words(on: &On) -> String {
    let places: Vec<String> = on.places.iter().map(u32::to_string).collect();
    format!("{} {}", places.join(","), word(&ACCESSES, &on.access))
}

fn or_none<T: ToString>(value: Option<T>) -> String {
    value.map_or(NONE.to_owned(), |value| value.to_string())
}

impl Told {
    pub(crate) fn to_line(&self) -> String {
        let mut line = match self {
            Self::Happened(event) => event_words(event),
            Self::Rests {
                call,
                on,
                slot,
                from,
                until,
            } => {
                let (on, slot) = (on_words(on), or_none(*slot));
                format!("Z {from} {} {on} {slot} {until}", call.0)
            }
            Self::Posts(parcel) => format!("P {parcel}"),
            Self::Counted(what) => format!("C {what}"),
            Self::Wrong(text) => format!("W {}", text.replace('\n', " ")),
            Self::Done => "D".to_owned(),
        };
        line.push('\n');
        line
    }

    /// The reverse; `None` for what is no line of a worker, such as one that was cut off by a kill.
    pub(crate) fn from_line(line: &str) -> Option<Self> {
        let line = line.strip_suffix('\n')?;
        Some(match line.split_at_checked(1)? {
            ("P", parcel) => Self::Posts(parcel.strip_prefix(' ')?.to_owned()),
            ("C", what) => Self::Counted(what.strip_prefix(' ')?.to_owned()),
            ("W", text) => Self::Wrong(text.strip_prefix(' ')?.to_owned()),
            ("D", "") => Self::Done,
            ("Z", words) => Words(words.strip_prefix(' ')?.split(' ')).rest()?,
            _ => Self::Happened(Words(line.split(' ')).event()?),
        })
    }
}

fn event_words(event: &Event) -> String {
    let at = event.at;
    let mut words = String::new();
    match &event.what {
        What::Asks {
            call,
            who,
            on,
            ttl,
            adopts,
        } => {
            let (client, thread) = (who.client, who.thread);
            let token = or_none(adopts.as_ref().map(|leased| &leased.token));
            let fencing = or_none(adopts.as_ref().and_then(|leased| leased.fencing));
            let (on, ttl) = (on_words(on), or_none(*ttl));
            write!(
                words,
                "A {at} {} {client} {thread} {on} {ttl} {token} {fencing}",
                call.0
            )
        }
        What::Gets {
            call,
            token,
            fencing,
            slot,
            end,
            origin,
        } => {
            let (fencing, slot, end) = (or_none(*fencing), or_none(*slot), span_words(*end));
            let origin = word(&ORIGINS, origin);
            write!(
                words,
                "G {at} {} {token} {fencing} {slot} {end} {origin}",
                call.0
            )
        }
        What::Fails { call, why } => write!(words, "F {at} {} {}", call.0, why_word(*why)),
        What::Extends { hold, ttl } => write!(words, "E {at} {} {ttl}", hold.0),
        What::Extended { hold, end } => write!(words, "X {at} {} {}", hold.0, span_words(*end)),
        What::NotExtended { hold, why } => write!(words, "N {at} {} {}", hold.0, why_word(*why)),
        What::Keeps { hold } => write!(words, "K {at} {}", hold.0),
        What::Hooks { hold } => write!(words, "H {at} {}", hold.0),
        What::Lost { hold, why } => write!(words, "O {at} {} {}", hold.0, why_word(*why)),
        What::Looks { hold, says } => write!(words, "L {at} {} {}", hold.0, span_words(*says)),
        What::Releases { hold, way } => write!(words, "R {at} {} {}", hold.0, word(&WAYS, way)),
        What::Released { hold, says } => write!(words, "U {at} {} {}", hold.0, says_word(*says)),
        _ => panic!("no worker tells {event:?}"),
    }
    .unwrap();
    words
}

/// The words of a line that are still to be read.
struct Words<'a>(std::str::Split<'a, char>);

#[expect(
    clippy::option_option,
    reason = "the outer one says whether it can be read, the inner one is what was read"
)]
impl Words<'_> {
    fn event(mut self) -> Option<Event> {
        let letter = self.0.next()?;
        let at = self.number()?;
        let call = Call(self.number()?);
        let hold = call;
        let what = match letter {
            "A" => What::Asks {
                call,
                who: Who {
                    client: self.number()?.try_into().ok()?,
                    thread: self.number()?.try_into().ok()?,
                },
                on: self.on()?,
                ttl: self.maybe(Self::parsed)?,
                adopts: self.leased()?,
            },
            "G" => What::Gets {
                call,
                token: self.0.next()?.into(),
                fencing: self.maybe(Self::parsed)?,
                slot: self.slot()?,
                end: self.span()?,
                origin: self.of(&ORIGINS)?,
            },
            "F" => What::Fails {
                call,
                why: self.of(&WHYS)?,
            },
            "E" => What::Extends {
                hold,
                ttl: self.number()?,
            },
            "X" => What::Extended {
                hold,
                end: self.span()?,
            },
            "N" => What::NotExtended {
                hold,
                why: self.of(&WHYS)?,
            },
            "K" => What::Keeps { hold },
            "H" => What::Hooks { hold },
            "O" => What::Lost {
                hold,
                why: self.of(&WHYS)?,
            },
            "L" => What::Looks {
                hold,
                says: self.span()?,
            },
            "R" => What::Releases {
                hold,
                way: self.of(&WAYS)?,
            },
            "U" => What::Released {
                hold,
                says: self.says()?,
            },
            _ => return None,
        };
        self.0.next().is_none().then_some(Event { at, what })
    }

    fn rest(mut self) -> Option<Told> {
        Some(Told::Rests {
            from: self.number()?,
            call: Call(self.number()?),
            on: self.on()?,
            slot: self.slot()?,
            until: self.number()?,
        })
    }

    fn leased(&mut self) -> Option<Option<Leased>> {
        let token: Option<Arc<str>> = self.maybe(|text| Some(text.into()))?;
        let fencing = self.maybe(Self::parsed)?;
        Some(token.map(|token| Leased { token, fencing }))
    }

    fn slot(&mut self) -> Option<Option<u32>> {
        self.maybe(|text| text.parse().ok())
    }

    fn parsed(text: &str) -> Option<Nanos> {
        text.parse().ok()
    }

    fn number(&mut self) -> Option<Nanos> {
        Self::parsed(self.0.next()?)
    }

    /// A word that may be the one for an empty value.
    fn maybe<T>(&mut self, read: impl Fn(&str) -> Option<T>) -> Option<Option<T>> {
        match self.0.next()? {
            NONE => Some(None),
            text => read(text).map(Some),
        }
    }

    fn span(&mut self) -> Option<Option<Span>> {
        let (low, high) = (self.maybe(Self::parsed)?, self.maybe(Self::parsed)?);
        Some(low.zip(high).map(|(low, high)| Span { low, high }))
    }

    fn of<T: Copy>(&mut self, table: &[(T, &'static str)]) -> Option<T> {
        let text = self.0.next()?;
        let row = table.iter().find(|(_, word)| *word == text)?;
        Some(row.0)
    }

    fn on(&mut self) -> Option<On> {
        let places = self.0.next()?.split(',').map(|place| place.parse().ok());
        Some(On {
            places: places.collect::<Option<_>>()?,
            access: self.of(&ACCESSES)?,
        })
    }

    fn says(&mut self) -> Option<Says> {
        let text = self.0.next()?;
        let why = WHYS.iter().find(|(_, word)| *word == text);
        match text {
            "okay" => Some(Says::Okay),
            NONE => Some(Says::Nothing),
            _ => why.map(|(why, _)| Says::Not(*why)),
        }
    }
}
