//! What a connection without a login may do.

use super::Node;
use crate::health::Stranger;
use crate::wire::pack::pack;
use crate::wire::resp::Reply;

impl Node {
    /// Asks on a connection without a login. Returns None if the clients of the node have no login themselves, or if no answer
    /// comes in time. The commands are about a key that nobody has, and create no key.
    pub(crate) fn stranger(&self, key: &str) -> Option<Stranger> {
        let deadline = self.now().saturating_add(self.timeout);
        let mut transport = self.connector.connect_without_login(deadline)?;
        let commands = [
            &["DEL", key][..],
            &["SET", key, "x", "XX", "PX", "1"],
            &["GET", key],
            &["PING"],
        ];
        let packed = commands.map(|words| {
            let words: Vec<_> = words.iter().map(|word| (*word).into()).collect();
            pack(&words).into()
        });
        transport.send(&packed, deadline).ok()?;
        let mut may = [false; 4];
        for may in &mut may {
            let reply = transport.recv(deadline).ok()?;
            *may = !matches!(reply, Reply::Error(_));
        }
        let [may_delete, may_set, may_read, may_run] = may;
        Some(match (may_delete || may_set, may_read, may_run) {
            (true, _, _) => Stranger::Writes,
            (false, true, _) => Stranger::Reads,
            // Whether it may flush can't be tried.
            (false, false, true) => Stranger::Runs,
            (false, false, false) => Stranger::Nothing,
        })
    }
}
