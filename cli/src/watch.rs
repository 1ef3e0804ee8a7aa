//! `redlatch watch`: locks and servers live on a terminal, or a line for each change where there is none.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{IsTerminal, stdin, stdout};
use std::sync::mpsc::Sender;
use std::time::Duration;

use redlatch::{Error, LockManager, LockStatus, NodeReport};
use rustix::io::Errno;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use signal_hook::consts::{
    SIGALRM, SIGPROF, SIGTSTP, SIGUSR1, SIGUSR2, SIGVTALRM, SIGXCPU, SIGXFSZ,
};

use crate::arguments::Watch;
use crate::clock;
use crate::durations;
use crate::event::{Event, Events};
use crate::failure::{Failure, start_thread};
use crate::list;
use crate::nodes;
use crate::output::{self, Reader};
use crate::permits;
use crate::state::{self, State};
use crate::table::{BAD, Cell, GOOD, Overflow, table};
use crate::text::{self, count};

/// A name that has no lock, for the servers' sake.
const NOBODY: &str = "redlatch watch";

/// Further signals that end a process. Without a handler, the terminal would keep the screen of the watch.
const DEADLY: [i32; 7] = [
    SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGXCPU, SIGXFSZ,
];

/// What was seen at one time.
#[derive(Default)]
struct View {
    locks: Vec<(String, State)>,
    nodes: Vec<NodeReport>,
    /// Why there may be more locks.
    missing: Option<String>,
}

/// Shows what it sees until `q` is pressed, a signal comes, or nobody reads any more.
pub(crate) fn watch(arguments: &Watch) -> Result<u8, Failure> {
    let manager = nodes::asking(&arguments.servers, false)?;
    // A name that can't be used is told before the screen is taken.
    let mut view = View::of(&manager, arguments)?;
    let events = Events::listen_also(&DEADLY)?;
    let mut screen = stdout().is_terminal().then(Screen::enter);
    if screen.is_some() && stdin().is_terminal() {
        let sender = events.sender.clone();
        start_thread("keys", move || read_keys(&sender))?;
    }
    let mut told = BTreeMap::new();
    loop {
        let reader = if screen.is_some() {
            Screen::draw(&view.show(text::size(stdout())))
        } else {
            output::print_more(&view.changes(&mut told))?
        };
        if reader == Reader::Gone || is_over(&events, arguments.every, &mut screen) {
            return Ok(0);
        }
        view = View::of(&manager, arguments)?;
    }
}

/// Waits for so long, and returns whether a key or a signal has ended the watch meanwhile.
fn is_over(events: &Events, every: Duration, screen: &mut Option<Screen>) -> bool {
    let end = clock::now().checked_add(every);
    while let Some(event) = events.next(end) {
        let is_stop = matches!(event, Event::Signal(SIGTSTP));
        let had_screen = is_stop && screen.take().is_some();
        if event.heed_in_wait().is_some() {
            return true;
        }
        if had_screen {
            *screen = Some(Screen::enter());
        }
    }
    false
}

impl View {
    fn of(manager: &LockManager, arguments: &Watch) -> Result<Self, Error> {
        let mut view = Self::default();
        for name in &arguments.names {
            let status = manager.status(name.as_str())?;
            view.nodes = status.nodes().to_vec();
            let slots = permits::beside(&status, manager, name);
            if slots.is_empty() {
                view.locks.push((name.to_string(), State::of(&status)));
            }
            let slots = slots.iter().enumerate();
            let slots =
                slots.map(|(slot, status)| (format!("{name} slot {slot}"), State::of(status)));
            view.locks
                .extend(slots.filter(|(_, state)| state.word != "free"));
        }
        if arguments.names.is_empty() {
            let status = manager.status(NOBODY)?;
            view.nodes = status.nodes().to_vec();
            // A list would try for seconds, in which q and Ctrl-C are not heeded.
            let locks = if matches!(status, LockStatus::Unknown { .. }) {
                Err("too few nodes answer".to_owned())
            } else {
                list::collect(manager).map_err(|error| error.to_string())
            };
            match locks {
                Ok(locks) => view.locks = locks,
                Err(missing) => view.missing = Some(missing),
            }
        }
        Ok(view)
    }

    fn show(&self, (width, height): (usize, usize)) -> Vec<String> {
        let mut lines = self.lines(width, false);
        if lines.len() > height && height > 0 {
            lines = self.lines(width, true);
        }
        if lines.len() > height && height > 0 {
            let more = lines.split_off(height.saturating_sub(1)).len();
            lines.push(text::cut(&format!("… and {more} more"), width));
        }
        lines
    }

    /// On a terminal with few lines, locks are shown in place of the servers that are up.
    fn lines(&self, width: usize, is_short: bool) -> Vec<String> {
        let is_up = |node: &&NodeReport| condition(node).0 == "up";
        let (up, down): (Vec<_>, Vec<_>) = self.nodes.iter().partition(is_up);
        let time = humantime::format_rfc3339_seconds(clock::wall());
        let locks = count(self.locks.len(), "lock");
        let (up, of) = (up.len(), count(self.nodes.len(), "server"));
        let title = text::cut(&format!("{time}  {locks}  {up} of {of} up  q: quit"), width);
        let locks = state::table("NAME", &self.locks, Overflow::Cut, width);
        let nodes = |nodes: Vec<&NodeReport>| {
            let rows = nodes.into_iter().map(node_row).collect();
            table(&["NODE", "STATE", "TIME", ""], rows, Overflow::Cut, width)
        };
        let shown = if !is_short {
            let nodes = nodes(self.nodes.iter().collect());
            format!("{title}\n\n{nodes}\n{locks}")
        } else if down.is_empty() {
            format!("{title}\n{locks}")
        } else {
            format!("{title}\n{}{locks}", nodes(down))
        };
        let mut lines: Vec<String> = shown.lines().map(str::to_owned).collect();
        if let Some(missing) = &self.missing {
            lines.push(text::cut(&output::presentable(missing), width));
        }
        lines
    }

    /// What is different from what was told before, in lines with the time.
    fn changes(&self, told: &mut BTreeMap<String, String>) -> String {
        let nodes = self.nodes.iter().map(|report| {
            let (node, (word, why)) = (output::presentable(&report.node), condition(report));
            let colon = if why.is_empty() { "" } else { ": " };
            let line = format!("{node} is {word}{colon}{why}");
            (format!("node {node}"), word.to_owned(), line)
        });
        let locks = self.locks.iter().map(|(name, state)| {
            let what = format!("{}{:?}", state.word, state.token);
            let line = format!("{name} {}", state.sentence());
            (format!("lock {name}"), what, line)
        });
        let now: Vec<(String, String, String)> = nodes.chain(locks).collect();
        let names: BTreeSet<&str> = now.iter().map(|(name, ..)| &**name).collect();
        let mut lines = Vec::new();
        told.retain(|name, _| {
            let lock = name.strip_prefix("lock ");
            // One that is not listed may still be there if the list is not complete.
            let gone = lock.filter(|_| self.missing.is_none() && !names.contains(&**name));
            // Do not say that a name is free if its slots are shown now.
            let slot = format!("{name} slot ");
            let is_free = |_: &&str| !names.iter().any(|name| name.starts_with(&slot));
            lines.extend(gone.filter(is_free).map(|lock| format!("{lock} is free")));
            gone.is_none()
        });
        for (name, what, line) in now {
            if told.get(&name) != Some(&what) {
                lines.push(line);
            }
            told.insert(name, what);
        }
        let time = humantime::format_rfc3339_seconds(clock::wall());
        let lines = lines.iter().map(|line| format!("{time} {line}\n"));
        lines.collect()
    }
}

/// Whether a node is up, and why not.
fn condition(report: &NodeReport) -> (&'static str, String) {
    state::failure(report).map_or(("up", String::new()), |word| {
        (word, state::cause(&report.vote))
    })
}

fn node_row(report: &NodeReport) -> Vec<Cell> {
    let (word, why) = condition(report);
    // As wide as most of them, so that the table stands still.
    let time = format!("{:>7}", durations::brief(report.elapsed));
    let (tone, time) = if word == "up" {
        (GOOD, &*time)
    } else {
        (BAD, "")
    };
    let [node, time, why] = [&*report.node, time, &why].map(Cell::plain);
    vec![node, Cell::new(tone, word), time, why]
}

/// Another screen, and no cursor.
const ENTER: &str = "\u{1b}[?1049h\u{1b}[?25l";
const LEAVE: &str = "\u{1b}[?25h\u{1b}[?1049l";

/// The beginning of the screen; the rest of a line away; the rest of the screen away.
const HOME: &str = "\u{1b}[H";
const END_OF_LINE: &str = "\u{1b}[K";
const END_OF_SCREEN: &str = "\u{1b}[J";

/// The whole terminal, until this is dropped: what stood there comes back at the end, and so do its keys.
struct Screen {
    /// How it reads keys otherwise.
    before: Option<Termios>,
}

impl Screen {
    fn enter() -> Self {
        // None where standard input is no terminal.
        let before = tcgetattr(stdin()).ok();
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
    fn draw(lines: &[String]) -> Reader {
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

/// Reads keys, and sends an event at `q`.
fn read_keys(events: &Sender<Event>) {
    let mut key = [0];
    while let Ok(1) | Err(Errno::INTR) = rustix::io::read(stdin(), &mut key) {
        if matches!(key, [b'q' | b'Q']) {
            events.send(Event::InputEnded).ok();
            return;
        }
    }
}
