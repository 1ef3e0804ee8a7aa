//! Commands on a connection without a login.

use super::Node;
use crate::wire::pack::Packed;
use crate::wire::resp::Reply;

impl Node {
    /// Asks on a connection without a login. Returns None if the clients of the node have no login themselves, or if a reply
    /// does not come in time.
    pub(crate) fn ask_without_login(&self, commands: &[Packed]) -> Option<Vec<Reply>> {
        let deadline = self.now().saturating_add(self.timeout);
        let mut transport = self.connector.connect_without_login(deadline)?.ok()?;
        let packed: Vec<u8> = commands.iter().flat_map(|it| it.bytes.clone()).collect();
        transport.send(&packed, deadline).ok()?;
        let replies = commands.iter().map(|_| transport.recv(deadline).ok());
        replies.collect()
    }
}
