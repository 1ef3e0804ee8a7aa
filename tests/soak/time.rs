//! The clock of a server, and how much longer its keys may stay because it was set back.

use redlatch_testing::Clock;

use crate::bounds::OFF_MS;
use crate::options::Options;

/// What a server is told of the time.
#[derive(Debug, Default)]
pub(crate) struct Time {
    clock: Option<Clock>,
    off: Off,
}

/// How far a clock is off, and was.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_field_names, reason = "a number carries its unit")]
pub(crate) struct Off {
    ahead_ms: i64,
    /// By how much it was set back in all.
    back_ms: i64,
    /// The time that it has gained since it was set.
    gained_ms: i64,
}

impl Off {
    /// It is set to be off by no more than is allowed.
    pub(crate) fn set(&mut self, ahead_ms: i64) {
        let ahead_ms = ahead_ms.clamp(-OFF_MS, OFF_MS);
        self.back_ms += (self.ahead_ms - ahead_ms).max(0);
        self.ahead_ms = ahead_ms;
        self.gained_ms = 0;
    }

    /// Keys that were set by the former clock end by this one: they were set back by the difference, and by what was before.
    pub(crate) fn follows(&mut self, former: Self) {
        self.back_ms = former.back_ms + (former.ahead_ms - self.ahead_ms).max(0);
    }

    pub(crate) fn ahead_ms(self) -> i64 {
        self.ahead_ms
    }

    /// By how much keys may stay longer than they were set for.
    pub(crate) fn back_ms(self) -> i64 {
        self.back_ms.min(2 * OFF_MS)
    }
}

impl Time {
    /// A clock, if the clock of a server can be set here.
    pub(crate) fn new(options: &Options, ahead_ms: i64) -> Self {
        let mut time = Self {
            clock: options.clocks.then(|| Clock::new().unwrap()),
            ..Self::default()
        };
        time.set(ahead_ms);
        time
    }

    pub(crate) fn clock(&self) -> Option<&Clock> {
        self.clock.as_ref()
    }

    /// Sets the clock, if there is one.
    pub(crate) fn set(&mut self, ahead_ms: i64) {
        if let Some(clock) = &self.clock {
            self.off.set(ahead_ms);
            clock.set_ahead_ms(self.off.ahead_ms);
        }
    }

    /// The clock gains a millisecond.
    pub(crate) fn gain(&mut self) {
        let off = &mut self.off;
        if let Some(clock) = &self.clock
            && off.ahead_ms < OFF_MS
        {
            off.ahead_ms += 1;
            off.gained_ms += 1;
            clock.set_ahead_ms(off.ahead_ms);
        }
    }

    /// The server has the keys of a former one from now on.
    pub(crate) fn follows(&mut self, former: &Self) {
        self.off.follows(former.off);
    }

    pub(crate) fn has_gained(&self) -> bool {
        self.off.gained_ms > 0
    }

    pub(crate) fn ahead_ms(&self) -> i64 {
        self.off.ahead_ms()
    }

    pub(crate) fn back_ms(&self) -> i64 {
        self.off.back_ms()
    }
}
