//! A TCP server that answers each command as a script says.

use std::collections::HashMap;
use std::io::Write;
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use std::{fmt, thread};

use parking_lot::Mutex;
use socket2::SockRef;

mod command;

pub use self::command::{Command, Kind};
use crate::arrival::wait_for_arrival;
use crate::resp::{read_value, words};
use crate::waits::{now, pause};

/// A server whose script says what is done about each command. It ends when it goes out of scope.
pub struct Scripted {
    port: u16,
    stage: Arc<Stage>,
}

type Script = dyn Fn(&mut Peer, &Command) + Send + Sync;

struct Stage {
    script: Box<Script>,
    /// Done before it says who it is.
    introduction: Box<dyn Fn(&Peer) + Send + Sync>,
    heard: Mutex<Vec<Command>>,
    /// The texts of the scripts that were sent, by their digests.
    texts: Mutex<HashMap<String, String>>,
    /// By the number of the connection; its thread owns it.
    streams: Mutex<Vec<Weak<TcpStream>>>,
    over: AtomicBool,
}

/// One connection, as the script sees it.
pub struct Peer {
    /// None once it is closed.
    stream: Option<Arc<TcpStream>>,
    connection: usize,
    /// What has come behind the command that the script is called for.
    rest: Vec<u8>,
    upstream: Option<TcpStream>,
    stage: Arc<Stage>,
}

impl fmt::Debug for Scripted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scripted({})", self.port)
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Peer({})", self.connection)
    }
}

impl Scripted {
    /// Starts a server. The script is called for one command of a connection after the other.
    #[track_caller]
    pub fn start(script: impl Fn(&mut Peer, &Command) + Send + Sync + 'static) -> Self {
        Self::start_shy(|_| (), script)
    }

    /// Starts a server that does something on each connection before it says who it is.
    #[track_caller]
    pub fn start_shy(
        introduction: impl Fn(&Peer) + Send + Sync + 'static,
        script: impl Fn(&mut Peer, &Command) + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let stage = Arc::new(Stage {
            script: Box::new(script),
            introduction: Box::new(introduction),
            heard: Mutex::default(),
            texts: Mutex::default(),
            streams: Mutex::default(),
            over: AtomicBool::new(false),
        });
        let doorman = Arc::clone(&stage);
        thread::spawn(move || doorman.take_in(&listener));
        Self { port, stage }
    }

    /// The port that it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its name in reports and log lines.
    pub fn name(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// How many connections there have been.
    pub fn connections(&self) -> usize {
        self.stage.streams.lock().len()
    }

    /// All commands up to now.
    pub fn heard(&self) -> Vec<Command> {
        self.stage.heard.lock().clone()
    }

    /// The commands of this kind up to now.
    pub fn heard_of(&self, kind: Kind) -> Vec<Command> {
        let mut heard = self.heard();
        heard.retain(|command| command.kind() == kind);
        heard
    }

    /// The kinds of the commands on one connection, in order.
    pub fn heard_on(&self, connection: usize) -> Vec<Kind> {
        let heard = self.heard();
        let here = heard.iter().filter(|c| c.connection == connection);
        here.map(Command::kind).collect()
    }

    /// Sends what nobody has asked for on every connection that is open. The clients can read it when this returns.
    pub fn say_unasked(&self, bytes: &[u8]) {
        for stream in self.stage.open_streams() {
            stream.as_ref().write_all(bytes).unwrap();
            wait_for_arrival(&stream);
        }
    }
}

/// Five servers in the canonical order, each of which answers as its script says to its place.
pub fn in_order(
    script: impl Fn(usize, &mut Peer, &Command) + Clone + Send + Sync + 'static,
) -> Vec<Scripted> {
    let places: Vec<Arc<AtomicUsize>> = (0..5).map(|_| Arc::default()).collect();
    let servers = places.iter().map(|place| {
        let (place, script) = (Arc::clone(place), script.clone());
        Scripted::start(move |peer, command| {
            script(place.load(Ordering::SeqCst), peer, command);
        })
    });
    let mut servers: Vec<(Scripted, &Arc<AtomicUsize>)> = servers.zip(&places).collect();
    servers.sort_by_key(|(server, _)| server.name());
    for (i, (_, place)) in servers.iter().enumerate() {
        place.store(i, Ordering::SeqCst);
    }
    servers.into_iter().map(|(server, _)| server).collect()
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.stage.over.store(true, Ordering::SeqCst);
        for stream in self.stage.open_streams() {
            stream.shutdown(Shutdown::Both).ok();
        }
        // Wakes the thread that waits for connections.
        TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).ok();
    }
}

impl Stage {
    fn take_in(self: Arc<Self>, listener: &TcpListener) {
        for stream in listener.incoming() {
            let Ok(stream) = stream else { continue };
            let mut streams = self.streams.lock();
            if self.over.load(Ordering::SeqCst) {
                return;
            }
            stream.set_nodelay(true).ok();
            let stream = Arc::new(stream);
            let mut peer = Peer {
                connection: streams.len(),
                rest: Vec::new(),
                upstream: None,
                stage: Arc::clone(&self),
                stream: Some(Arc::clone(&stream)),
            };
            streams.push(Arc::downgrade(&stream));
            thread::spawn(move || peer.listen());
        }
    }

    /// The words with the text of a script in place of its digest, if the text was sent before.
    fn with_text(&self, mut words: Vec<String>) -> Option<Vec<String>> {
        let mut texts = self.texts.lock();
        match words.as_mut_slice() {
            [name, text, ..] if name == "EVAL" => {
                let digest = redis::Script::new(text).get_hash().to_owned();
                texts.insert(digest, text.clone());
            }
            [name, digest, ..] if name == "EVALSHA" => {
                let text = texts.get(digest)?.clone();
                (*name, *digest) = ("EVAL".to_owned(), text);
            }
            _ => (),
        }
        Some(words)
    }

    fn open_streams(&self) -> Vec<Arc<TcpStream>> {
        let streams = self.streams.lock();
        streams.iter().filter_map(Weak::upgrade).collect()
    }
}

impl Peer {
    fn listen(&mut self) {
        let (mut number, mut is_introduced) = (0, false);
        while let Some(raw) = self
            .stream
            .as_deref()
            .and_then(|s| read_value(s, &mut self.rest))
        {
            let Some(words) = self.stage.with_text(words(&raw)) else {
                self.say(b"-NOSCRIPT No matching script. Please use EVAL.\r\n");
                continue;
            };
            let command = Command {
                connection: self.connection,
                number,
                words,
                raw,
            };
            // Asked first on every connection; no part of the play.
            let is_introduction = !std::mem::replace(&mut is_introduced, true);
            if is_introduction && command.words[0] == "EVAL" && command.words[2] == "0" {
                let stage = Arc::clone(&self.stage);
                (stage.introduction)(self);
                let text = format!("{:p}", Arc::as_ptr(&self.stage));
                self.say(format!("${}\r\n{text}\r\n", text.len()).as_bytes());
                continue;
            }
            number += 1;
            let stage = Arc::clone(&self.stage);
            stage.heard.lock().push(command.clone());
            (stage.script)(self, &command);
        }
    }

    /// Sends bytes.
    pub fn say(&self, bytes: &[u8]) {
        if let Some(mut stream) = self.stream.as_deref() {
            // The client may be gone, which is its right.
            stream.write_all(bytes).ok();
        }
    }

    /// Sends one byte at a time, until the client is gone.
    pub fn drip(&self, bytes: impl IntoIterator<Item = u8>, between: Duration) {
        let Some(mut stream) = self.stream.as_deref() else {
            return;
        };
        for byte in bytes {
            if stream.write_all(&[byte]).is_err() {
                return;
            }
            self.wait(between);
        }
    }

    /// Waits, unless the test is over.
    pub fn wait(&self, span: Duration) {
        let until = now() + span;
        while now() < until && !self.stage.over.load(Ordering::SeqCst) {
            let left = until.saturating_duration_since(now());
            pause(left.min(Duration::from_millis(20)));
        }
    }

    /// Closes the connection in an orderly way.
    pub fn close(&mut self) {
        if let Some(stream) = self.stream.take() {
            stream.shutdown(Shutdown::Both).ok();
        }
    }

    /// Closes the connection with a reset.
    pub fn reset(&mut self) {
        if let Some(stream) = self.stream.take() {
            SockRef::from(&*stream)
                .set_linger(Some(Duration::ZERO))
                .unwrap();
        }
    }

    /// Sends the command on to a real server and returns its reply.
    pub fn ask(&mut self, port: u16, command: &Command) -> Vec<u8> {
        let upstream = self
            .upstream
            .get_or_insert_with(|| TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap());
        upstream.write_all(&command.raw).unwrap();
        read_value(upstream, &mut Vec::new()).unwrap_or_default()
    }
}
