//! What a worker tells the driver: one line per event, and the time that both are on.

use std::fmt::Write;
use std::time::Duration;

use redlatch::{Error, LockGuard, LossCause};
use rustix::time::{ClockId, clock_gettime};

use crate::on::On;

/// A claim that is known this well is taken at its upper end: less than the drift (2 ms and 1 % of the ttl) that lies
/// between the end of every lease and the expiry of its keys.
const SHARP: u64 = 1_000_000;

/// The time in nanoseconds on a clock that all processes of one machine share.
pub(crate) fn clock() -> u64 {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let id = ClockId::Boottime;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let id = ClockId::Monotonic;
    let time = clock_gettime(id);
    u64::try_from(time.tv_sec).unwrap() * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap()
}

pub(crate) fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap()
}

/// The end of a guard's lease, which lies between two readings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Claim {
    /// The lease does not end before.
    pub(crate) low: u64,
    /// The lease does not end after.
    pub(crate) high: u64,
}

impl Claim {
    /// Reads until when the guard is valid; `None` when it no longer is.
    ///
    /// The lease ends at one instant, and `remaining` is the way to it from some moment between a reading of the clock
    /// before the call and one after it. So the reading before gives a lower bound and the one after an upper bound.
    /// Where the process was held up in between, they are far apart, and it reads again.
    pub(crate) fn of(guard: &LockGuard) -> Option<Self> {
        let mut claim = Self {
            low: 0,
            high: u64::MAX,
        };
        for _ in 0..100 {
            let before = clock();
            let left = guard.remaining();
            let after = clock();
            if left.is_zero() {
                claim.high = claim.high.min(after);
                break;
            }
            claim.low = claim.low.max(before + nanos(left));
            claim.high = claim.high.min(after + nanos(left));
            if claim.is_sharp() {
                break;
            }
        }
        (claim.low > 0).then_some(claim)
    }

    fn is_sharp(self) -> bool {
        self.high - self.low <= SHARP
    }

    /// When the critical section ends at the latest: never understated, and overstated by less than the drift; but for
    /// a process that was held up at each reading, where the lower bound is all that is certain.
    pub(crate) fn end(self) -> u64 {
        if self.is_sharp() { self.high } else { self.low }
    }
}

/// Times are in nanoseconds on [`clock`].
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Event {
    /// `lock` has returned a guard: the clock right after, and the guard's claim unless it was over by then.
    Locked {
        on: On,
        /// For one who was handed the lock, with its number behind a dot: another one had the token before.
        token: String,
        ttl_ms: u64,
        returned: u64,
        /// How long the nodes took for it at least, by the guard's reports.
        spent: u64,
        claim: Option<Claim>,
    },
    /// `lock` has returned an error.
    Refused(String),
    /// `extend` has succeeded; without a claim if that was over when it was read.
    Extended {
        token: String,
        ttl_ms: u64,
        returned: u64,
        claim: Option<Claim>,
    },
    NotExtended {
        token: String,
        returned: u64,
        why: String,
    },
    /// The clock before `unlock` or drop was called, told before the call, so that a worker that is killed in between
    /// has told it.
    Releasing { token: String, at: u64 },
    Unlocked {
        token: String,
        returned: u64,
        /// `ok` or what [`name`] makes of the error.
        outcome: String,
    },
    /// The worker itself saw something that must not be.
    Wrong(String),
    /// Told to stop, it has released everything; and once more after its last locks.
    Done,
}

impl Event {
    pub(crate) fn to_line(&self) -> String {
        let mut line = String::new();
        let pair = |claim: &Option<Claim>| claim.map_or((0, 0), |claim| (claim.low, claim.high));
        match self {
            Self::Locked {
                on,
                token,
                ttl_ms,
                returned,
                spent,
                claim,
            } => {
                let (low, high) = pair(claim);
                write!(
                    line,
                    "L {on} {token} {ttl_ms} {returned} {spent} {low} {high}"
                )
            }
            Self::Refused(why) => write!(line, "N {why}"),
            Self::Extended {
                token,
                ttl_ms,
                returned,
                claim,
            } => {
                let (low, high) = pair(claim);
                write!(line, "E {token} {ttl_ms} {returned} {low} {high}")
            }
            Self::NotExtended {
                token,
                returned,
                why,
            } => write!(line, "X {token} {returned} {why}"),
            Self::Releasing { token, at } => write!(line, "R {token} {at}"),
            Self::Unlocked {
                token,
                returned,
                outcome,
            } => write!(line, "U {token} {returned} {outcome}"),
            Self::Wrong(text) => write!(line, "W {}", text.replace('\n', " ")),
            Self::Done => write!(line, "D"),
        }
        .unwrap();
        line.push('\n');
        line
    }

    /// The reverse; `None` for what is no line of a worker, such as one that was cut off by a kill.
    pub(crate) fn from_line(line: &str) -> Option<Self> {
        let line = line.strip_suffix('\n')?;
        let words: Vec<&str> = line.split(' ').collect();
        let number = |i: usize| words.get(i)?.parse::<u64>().ok();
        let text = |i: usize| words.get(i).map(|&word| word.to_owned());
        let claim = |i: usize| {
            let (low, high) = (number(i)?, number(i + 1)?);
            Some((low > 0).then_some(Claim { low, high }))
        };
        Some(match *words.first()? {
            "L" => Self::Locked {
                on: On::from_word(words.get(1)?)?,
                token: text(2)?,
                ttl_ms: number(3)?,
                returned: number(4)?,
                spent: number(5)?,
                claim: claim(6)?,
            },
            "N" => Self::Refused(text(1)?),
            "E" => Self::Extended {
                token: text(1)?,
                ttl_ms: number(2)?,
                returned: number(3)?,
                claim: claim(4)?,
            },
            "X" => Self::NotExtended {
                token: text(1)?,
                returned: number(2)?,
                why: text(3)?,
            },
            "R" => Self::Releasing {
                token: text(1)?,
                at: number(2)?,
            },
            "U" => Self::Unlocked {
                token: text(1)?,
                returned: number(2)?,
                outcome: text(3)?,
            },
            "W" => Self::Wrong(line.get(2..)?.to_owned()),
            "D" => Self::Done,
            _ => return None,
        })
    }
}

/// An error in one word. Those of a lost lock begin with `lost`.
pub(crate) fn name(error: &Error) -> &'static str {
    match error {
        Error::Held { .. } => "held",
        Error::Unavailable { .. } => "unavailable",
        Error::TooSlow { .. } => "too-slow",
        Error::Lost { cause, .. } => match cause {
            LossCause::Expired { .. } => "lost-expired",
            LossCause::Taken { .. } => "lost-taken",
            LossCause::Vanished { .. } => "lost-vanished",
            LossCause::Unreachable { .. } | LossCause::MaxHold { .. } | LossCause::Released | _ => {
                "lost"
            }
        },
        Error::InvalidTtl { .. }
        | Error::InvalidResource { .. }
        | Error::InvalidLease { .. }
        | Error::NoThread { .. }
        | Error::InvalidConfig { .. }
        | Error::Forked
        | Error::NoRandomness { .. }
        | _ => "other",
    }
}
