//! What a scripted server hears.

use std::fmt;

/// A command that a server got, and where.
#[derive(Clone)]
pub struct Command {
    /// Connections are numbered from 0 in the order in which they came.
    pub connection: usize,
    /// Its place among the commands of the connection.
    pub number: usize,
    /// Its name and its arguments. A script that is called by its digest is shown as if it had come with its text.
    pub words: Vec<String>,
    pub(super) raw: Vec<u8>,
}

/// What a command is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The `SET` of an acquire.
    Set,
    /// A script that takes a lock: again with the token of a lease, several at once, or as a reader.
    Retake,
    /// A script that extends.
    Extend,
    /// A script that releases, or lets a lock rest.
    Release,
    /// The script that releases, and asks for the lock for the next thread.
    Pass,
    /// A look of one who waits.
    Look,
    /// One who waits listens.
    Listen,
    /// The script by which a health report knows that scripts run.
    Probe,
    /// A question about what is under keys.
    Show,
    /// A step of a list.
    Scan,
    /// Anything else, such as the scripts of the fenced protocol.
    Other,
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The text of a script fills pages.
        let is_long = |word: &&String| word.len() > 1000;
        let words = self.words.iter().filter(|word| !is_long(word));
        let shown: Vec<_> = words.collect();
        write!(f, "#{}.{} {shown:?}", self.connection, self.number)
    }
}

impl Command {
    /// What it is for, in the classic protocol.
    pub fn kind(&self) -> Kind {
        let script = self.words.get(1).map_or("", String::as_str);
        match self.words.first().map_or("", String::as_str) {
            "SET" => Kind::Set,
            "BLPOP" => Kind::Listen,
            "EVAL" => kind_of_script(script),
            _ => Kind::Other,
        }
    }

    /// Whether it gives a lock back that has to rest.
    pub fn is_rest(&self) -> bool {
        self.kind() == Kind::Release && self.argument(2).is_some_and(|rest| rest != "0")
    }

    /// Whether it asks for a lock for the first time, in either protocol.
    pub fn asks_for_a_lock(&self) -> bool {
        self.kind() == Kind::Set || self.kind() == Kind::Retake && self.argument(4).is_some()
    }

    /// The argument of a script with this number, from 1.
    pub fn argument(&self, number: usize) -> Option<&str> {
        let keys: usize = self.words.get(2)?.parse().ok()?;
        self.words.get(2 + keys + number).map(String::as_str)
    }

    /// Whether it came with the text of its script.
    pub fn is_in_full(&self) -> bool {
        self.raw.windows(7).all(|part| part != b"EVALSHA")
    }

    /// Its bytes.
    pub fn raw(&self) -> &[u8] {
        &self.raw
    }

    /// The token of a command of the algorithm. Of a pass, that of the next holder.
    pub fn token(&self) -> &str {
        if self.kind() == Kind::Set {
            return &self.words[2];
        }
        self.argument(1).expect("a command of the algorithm")
    }

    /// The first key of a command of the algorithm. A probe has none.
    pub fn key(&self) -> &str {
        let at = if self.kind() == Kind::Set { 1 } else { 3 };
        self.words.get(at).map_or("", String::as_str)
    }

    /// The reply of a server on which every lock is free.
    pub fn consent(&self) -> &'static [u8] {
        match self.kind() {
            Kind::Set | Kind::Retake | Kind::Other => b"+OK\r\n",
            Kind::Extend | Kind::Release | Kind::Probe => b":1\r\n",
            Kind::Pass => b"*2\r\n:1\r\n+OK\r\n",
            Kind::Look => b"*4\r\n:1\r\n:-2\r\n:0\r\n$0\r\n\r\n",
            Kind::Listen => b"*-1\r\n",
            Kind::Show => b"*1\r\n:-2\r\n",
            Kind::Scan => b"*1\r\n$1\r\n0\r\n",
        }
    }
}

/// Scripts have a line with their names.
fn kind_of_script(text: &str) -> Kind {
    let name = text
        .lines()
        .find_map(|line| line.strip_prefix("-- redlatch "));
    match name {
        Some("take") => Kind::Retake,
        Some("keep") => Kind::Extend,
        Some("drop") => Kind::Release,
        Some("pass") => Kind::Pass,
        Some("look") => Kind::Look,
        Some("show") => Kind::Show,
        Some("scan") => Kind::Scan,
        _ if text == "return 1" => Kind::Probe,
        _ => Kind::Other,
    }
}
