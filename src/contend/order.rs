//! In which order the nodes are asked in one attempt.

use crate::fanout::Fanout;

/// In which order the nodes are asked in one attempt.
///
/// Under contention, the node that all contenders ask first is the arbiter: only the contender that gets its vote asks
/// the other nodes, so that contenders don't split the votes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Order {
    fanout: Fanout,
    is_by_arbiter: bool,
}

impl Order {
    /// All nodes, whatever the first one says.
    pub(crate) fn of(fanout: Fanout) -> Self {
        Self {
            fanout,
            is_by_arbiter: false,
        }
    }

    /// The others only if the first one that answers grants.
    pub(crate) fn by_arbiter(fanout: Fanout) -> Self {
        Self {
            fanout,
            is_by_arbiter: true,
        }
    }

    /// Whether the attempt ends if the first node that answers does not grant.
    pub(crate) fn is_by_arbiter(self) -> bool {
        self.is_by_arbiter
    }

    /// How many nodes are asked before any reply is read, depending on whether a node has granted yet.
    pub(crate) fn together(self, has_one: bool) -> usize {
        match self.fanout {
            Fanout::Sequential => 1,
            Fanout::Overlapped if self.is_by_arbiter && !has_one => 1,
            Fanout::Overlapped => usize::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_asked_together_unless_one_after_the_other_or_before_the_arbiter_grants() {
        assert!(Order::by_arbiter(Fanout::Sequential).is_by_arbiter());
        assert!(!Order::of(Fanout::Sequential).is_by_arbiter());
        for has_one in [false, true] {
            assert_eq!(Order::of(Fanout::Sequential).together(has_one), 1);
            assert_eq!(Order::by_arbiter(Fanout::Sequential).together(has_one), 1);
            assert_eq!(Order::of(Fanout::Overlapped).together(has_one), usize::MAX);
            let alone = Order::by_arbiter(Fanout::Overlapped).together(has_one) == 1;
            assert_eq!(alone, !has_one);
        }
    }
}
