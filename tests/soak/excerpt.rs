//! A part of a long history: what happened around one moment.

use std::collections::VecDeque;

use redlatch_history::{Event, History, Nanos};

/// How many events there are before the moment, and how many behind it.
pub(crate) const BEFORE: usize = 1_500;
pub(crate) const BEHIND: usize = 300;

/// The last events, until a moment is set; then those around that.
#[derive(Default)]
pub(crate) struct Excerpt {
    events: VecDeque<Event>,
    around: Option<Nanos>,
    /// How many events behind the moment there are.
    behind: usize,
}

impl Excerpt {
    /// Sets the moment, if there is none yet. It may be later than what was heard so far.
    pub(crate) fn is_around(&mut self, at: Nanos) {
        self.around.get_or_insert(at);
    }

    /// Takes the next event, in the order of time.
    pub(crate) fn hear(&mut self, event: &Event) {
        if self.around.is_some_and(|around| event.at > around) {
            if self.behind == BEHIND {
                return;
            }
            self.behind += 1;
        } else if self.events.len() == BEFORE {
            self.events.pop_front();
        }
        self.events.push_back(event.clone());
    }

    pub(crate) fn history(&self) -> History {
        let mut history = History::default();
        for event in &self.events {
            history.notes(event.at, event.what.clone());
        }
        history
    }
}
