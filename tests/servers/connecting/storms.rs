//! Servers that refuse, close or reject the login, and many threads that ask them: one thread tries, and the others get its
//! answer.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use redlatch::{Builder, Credentials, Error, LockManager, NodeError, Vote};
use redlatch_testing::{Server, eventually, now};

use crate::managers::PATIENCE;
use crate::servers::connecting::connections::TTL;

const THREADS: usize = 64;
const ATTEMPTS: usize = 20;

/// More than the connections of a pool, which may all be made before the first of them has failed.
const AT_ONCE: u32 = 20;

/// A server that does the same with each connection, and how many there were.
struct Doorman {
    port: u16,
    count: Arc<AtomicU32>,
    is_over: Arc<AtomicBool>,
}

impl Doorman {
    fn start(greet: impl Fn(&mut TcpStream) + Send + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (count, is_over) = (Arc::<AtomicU32>::default(), Arc::<AtomicBool>::default());
        let (counted, ends) = (Arc::clone(&count), Arc::clone(&is_over));
        thread::spawn(move || {
            for stream in listener.incoming() {
                if ends.load(Ordering::SeqCst) {
                    return;
                }
                counted.fetch_add(1, Ordering::SeqCst);
                let mut stream = stream.unwrap();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                greet(&mut stream);
            }
        });
        Self {
            port,
            count,
            is_over,
        }
    }

    /// A manager over this server alone, which logs in with `:password@`, or with nothing.
    fn manager(&self, login: &str) -> LockManager {
        build(LockManager::builder().node(format!("redis://{login}127.0.0.1:{}", self.port)))
    }

    fn connections(&self) -> u32 {
        self.count.load(Ordering::SeqCst)
    }
}

impl Drop for Doorman {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        // Wakes the thread that waits for connections.
        TcpStream::connect(("127.0.0.1", self.port)).ok();
    }
}

fn build(builder: Builder) -> LockManager {
    builder.node_timeout(PATIENCE).build().unwrap()
}

/// Reads what the client sends first, and answers it. Then the server has nothing more to say.
fn answer(stream: &mut TcpStream, reply: &[u8]) -> bool {
    let has_come = matches!(stream.read(&mut [0; 16 * 1024]), Ok(1..));
    has_come && stream.write_all(reply).is_ok()
}

/// Many threads ask for locks of their own, again and again. Demands that each has this answer, and that there are no more
/// connections than so many a second.
#[track_caller]
fn assert_costs(
    a_second: u32,
    manager: &LockManager,
    connections: impl Fn() -> u32,
    is_answer: impl Fn(&NodeError) -> bool + Sync,
) {
    let began = now();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (is_answer, manager) = (&is_answer, &manager);
            scope.spawn(move || {
                for _ in 0..ATTEMPTS {
                    let result = manager.try_lock(&format!("job-{thread}"), TTL);
                    let Err(Error::Unavailable { nodes, .. }) = result else {
                        panic!("{result:?}");
                    };
                    let is_told = matches!(&nodes[0].vote, Vote::Failed(error) if is_answer(error));
                    assert!(is_told, "{}", nodes[0]);
                }
            });
        }
    });
    assert_are_few(connections(), a_second, began.elapsed());
}

/// Fewer than so many a second.
#[track_caller]
fn assert_are_few(count: u32, a_second: u32, took: Duration) {
    let seconds = u32::try_from(took.as_secs()).unwrap() + 1;
    assert!(count <= AT_ONCE + a_second * seconds, "{count} in {took:?}");
}

#[test]
fn a_wrong_password_costs_few_logins_however_many_threads_ask() {
    let server = Server::start();
    let url = server.user("~* +@all").replace("secret", "wrong");
    let manager = build(LockManager::builder().node(url));
    let logins = || u32::try_from(server.count("auth")).unwrap();
    let is_answer = |error: &NodeError| matches!(error, NodeError::Login { code, command: "AUTH", .. } if code == "WRONGPASS");
    assert_costs(20, &manager, logins, is_answer);
}

#[test]
fn a_server_that_closes_each_connection_is_connected_to_at_few_times_however_many_threads_ask() {
    let is_closed = |error: &NodeError| matches!(error, NodeError::Closed { .. });
    let assert_few = |login: &str, doorman: &Doorman| {
        let connections = || doorman.connections();
        assert_costs(50, &doorman.manager(login), connections, is_closed);
    };
    assert_few("", &Doorman::start(|_| ()));
    let hears = |stream: &mut TcpStream| {
        answer(stream, b"");
    };
    assert_few("", &Doorman::start(hears));
    let logs_in = |stream: &mut TcpStream| {
        answer(stream, b"+OK\r\n");
        answer(stream, b"");
    };
    assert_few(":a-password@", &Doorman::start(logs_in));
}

#[test]
fn a_server_that_takes_no_client_is_connected_to_a_few_times_however_many_threads_ask() {
    for (reply, words) in [
        (
            &b"-ERR max number of clients reached\r\n"[..],
            "max number of clients",
        ),
        (b"-DENIED Redis is running in protected mode\r\n", "DENIED"),
        (
            b"-NOAUTH Authentication required.\r\n-NOAUTH Authentication required.\r\n",
            "NOAUTH",
        ),
        (b"-LOADING wait\r\n-LOADING wait\r\n", "LOADING"),
        (b"+CLUSTER\r\n", "Redis Cluster"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "no Redis reply"),
    ] {
        let doorman = Doorman::start(move |stream| {
            answer(stream, reply);
            // What was said must not be lost with the connection.
            stream.shutdown(Shutdown::Write).ok();
            while answer(stream, b"") {}
        });
        let is_answer = |error: &NodeError| error.to_string().contains(words);
        assert_costs(
            50,
            &doorman.manager(""),
            || doorman.connections(),
            is_answer,
        );
    }
}

#[test]
fn a_password_that_is_put_right_works_for_all_threads_and_few_calls_ask_for_it_meanwhile() {
    let server = Server::start();
    server.user("~* +@all");
    let password = Arc::new(Mutex::new("wrong"));
    let asked = Arc::new(AtomicU32::new(0));
    let manager = {
        let (password, asked) = (Arc::clone(&password), Arc::clone(&asked));
        let builder = LockManager::builder().node(format!("redis://{}", server.name()));
        build(builder.credentials(move |_| {
            asked.fetch_add(1, Ordering::SeqCst);
            Ok(Credentials::new("locker", *password.lock()))
        }))
    };
    let began = now();
    thread::scope(|scope| {
        let waits = (0..8).map(|thread| {
            let manager = &manager;
            scope.spawn(move || {
                // Each has to be told of the wrong one first.
                assert!(manager.try_lock(&format!("job-{thread}"), TTL).is_err());
                eventually(PATIENCE, || {
                    manager.try_lock(&format!("job-{thread}"), TTL).is_ok()
                })
            })
        });
        let waits: Vec<_> = waits.collect();
        assert!(eventually(PATIENCE, || asked.load(Ordering::SeqCst) > 12));
        *password.lock() = "secret";
        for wait in waits {
            assert!(wait.join().unwrap());
        }
    });
    assert_are_few(asked.load(Ordering::SeqCst), 20, began.elapsed());
}
