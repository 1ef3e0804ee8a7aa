//! The whole terminal, for a while: what stood there comes back at the end, and so do its keys.

use std::io::{IsTerminal, stdin};
use std::sync::mpsc::Sender;
use std::thread;

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use crate::event::Event;
use crate::output::{self, Reader};

/// Another screen, and no cursor.
const ENTER: &str = "\u{1b}[?1049h\u{1b}[?25l";
const LEAVE: &str = "\u{1b}[?25h\u{1b}[?1049l";

/// The beginning of the screen; the rest of a line away; the rest of the screen away.
const HOME: &str = "\u{1b}[H";
const END_OF_LINE: &str = "\u{1b}[K";
const END_OF_SCREEN: &str = "\u{1b}[J";

/// The terminal, until this is dropped.
pub(crate) struct Screen {
    /// How it reads keys otherwise.
    before: Option<Termios>,
}

impl Screen {
    pub(crate) fn enter() -> Self {
        let before = if stdin().is_terminal() {
            tcgetattr(stdin()).ok()
        } else {
            None
        };
        if let Some(mut modes) = before.clone() {
            // Each key is read at once, and not shown. Ctrl-C and Ctrl-Z stay signals.
            modes
                .local_modes
                .remove(LocalModes::ICANON | LocalModes::ECHO);
            tcsetattr(stdin(), OptionalActions::Now, &modes).ok();
        }
        output::control(ENTER);
        Self { before }
    }

    /// Shows these lines there, in place of those of before.
    pub(crate) fn draw(lines: &[String]) -> Reader {
        // Below the last line there is no other, which would move all of them up.
        let lines: Vec<String> = lines.iter().map(|line| output::colored(line)).collect();
        let text = lines.join(&format!("{END_OF_LINE}\r\n"));
        output::control(&format!("{HOME}{text}{END_OF_LINE}{END_OF_SCREEN}"))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        output::control(LEAVE);
        if let Some(before) = &self.before {
            tcsetattr(stdin(), OptionalActions::Now, before).ok();
        }
    }
}

/// Reads keys on a thread, and sends an event at `q`.
pub(crate) fn read_keys(events: Sender<Event>) -> std::io::Result<()> {
    let read = move || {
        let mut key = [0];
        while let Ok(1) | Err(rustix::io::Errno::INTR) = rustix::io::read(stdin(), &mut key) {
            if matches!(key, [b'q' | b'Q']) {
                events.send(Event::InputEnded).ok();
                return;
            }
        }
    };
    let thread = thread::Builder::new().name("keys".into());
    thread.spawn(read).map(drop)
}
