//! The same commands by hand, with the crate `redis`: the least that a lock can cost.

use std::time::Duration;

use redis::io::tcp::TcpSettings;
use redis::{Connection, ConnectionInfo, IntoConnectionInfo, Value};
use redlatch_testing::Server;

/// The script of the Redis documentation page "Distributed Locks with Redis".
const COMPARE_AND_DELETE: &str = r#"if redis.call("get",KEYS[1]) == ARGV[1] then
    return redis.call("del",KEYS[1])
else
    return 0
end"#;

/// A bare connection to each server: no pool, no deadline, no clock, no answer to any fault.
pub(crate) struct Raw {
    connections: Vec<Connection>,
}

/// One attempt's commands, packed before anything is timed.
pub(crate) struct Packed {
    set: Vec<u8>,
    release: Vec<u8>,
}

impl Raw {
    pub(crate) fn connect(servers: &[Server]) -> Self {
        let connections = servers.iter().map(connect).collect();
        Self { connections }
    }

    /// One node after the other, as the algorithm has it. Returns the number of votes.
    pub(crate) fn acquire(&mut self, packed: &Packed) -> usize {
        let mut votes = 0;
        for connection in &mut self.connections {
            connection.send_packed_command(&packed.set).unwrap();
            votes += usize::from(connection.recv_response().unwrap() == Value::Okay);
        }
        votes
    }

    /// Sends to all before it reads any reply. Returns the number of keys that were deleted.
    pub(crate) fn release(&mut self, packed: &Packed) -> usize {
        for connection in &mut self.connections {
            connection.send_packed_command(&packed.release).unwrap();
        }
        let mut deleted = 0;
        for connection in &mut self.connections {
            deleted += usize::from(connection.recv_response().unwrap() == Value::Int(1));
        }
        deleted
    }
}

impl Packed {
    /// A token of the crate's length, and another one for each `number`. The release is sent with its text.
    pub(crate) fn new(key: &str, number: u32, ttl: Duration) -> Self {
        Self::releasing(&["EVAL", COMPARE_AND_DELETE], key, number, ttl)
    }

    /// The same, and the release names its script by the digest; the servers have to know it ([`load_script`]).
    pub(crate) fn by_digest(key: &str, number: u32, ttl: Duration) -> Self {
        let script = redis::Script::new(COMPARE_AND_DELETE);
        Self::releasing(&["EVALSHA", script.get_hash()], key, number, ttl)
    }

    fn releasing(script: &[&str; 2], key: &str, number: u32, ttl: Duration) -> Self {
        let token = format!("{number:040x}");
        let ttl_ms = u64::try_from(ttl.as_millis()).unwrap();
        let mut set = redis::cmd("SET");
        set.arg(key).arg(&token).arg("NX").arg("PX").arg(ttl_ms);
        let mut release = redis::Cmd::new();
        release.arg(script).arg(1).arg(key).arg(&token);
        Self {
            set: set.get_packed_command(),
            release: release.get_packed_command(),
        }
    }

    /// Acquire and release, each with the reply of a node that takes part.
    pub(crate) fn exchanges(&self) -> [(&[u8], &[u8]); 2] {
        [(&self.set, b"+OK\r\n"), (&self.release, b":1\r\n")]
    }
}

/// Makes the script of the release known to the server of a URL.
pub(crate) fn load_script(url: &str) {
    let mut connection = redis::Client::open(url).unwrap().get_connection().unwrap();
    let mut load = redis::cmd("SCRIPT");
    load.arg("LOAD").arg(COMPARE_AND_DELETE);
    let digest: String = load.query(&mut connection).unwrap();
    assert_eq!(digest, redis::Script::new(COMPARE_AND_DELETE).get_hash());
}

fn connect(server: &Server) -> Connection {
    let info: ConnectionInfo = server.url().into_connection_info().unwrap();
    let info = info.set_tcp_settings(TcpSettings::default().set_nodelay(true));
    let connection = redis::Client::open(info)
        .and_then(|client| client.get_connection_with_timeout(Duration::from_secs(5)))
        .unwrap();
    // Set once, it costs nothing later, and a server that dies does not hold the benchmark for ever.
    connection
        .set_read_timeout(Some(Duration::from_secs(5)))
        .unwrap();
    connection
}
