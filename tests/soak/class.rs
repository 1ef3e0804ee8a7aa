//! The kinds of faults, and which of them a run has.

use crate::options::{Clients, Options};

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    /// Servers are stopped, and go on.
    StopServers,
    /// Servers are killed, and come back without memory after the longest ttl.
    LoseMemory,
    /// Servers are killed, or end in good order, and come back at once with all their data.
    KeepMemory,
    /// Servers are killed, and come back at once without memory.
    Wipe,
    /// Servers are killed, and come back at once with the data of a moment before.
    GoBack,
    /// Servers are flushed.
    Flush,
    /// A replica that has heard nothing for a while takes the place of its killed master, under its address.
    Promote,
    /// The clocks of servers are set back.
    SetBack,
    /// The clocks of servers are too fast, within the drift.
    RunFast,
    /// A worker is stopped, and goes on.
    StopWorker,
    /// A worker is killed, and another one takes its place.
    KillWorker,
    /// Between a group of workers and at most two servers, all bytes are held back, and passed on in the end.
    PartitionFromMinority,
    /// The same for three servers or more.
    PartitionFromMajority,
    /// Bytes come late.
    Delay,
    /// All connections are reset, once.
    Reset,
    /// Connections are reset and new ones refused.
    Refuse,
    /// Commands arrive, replies don't; in the end the connections are reset.
    LoseReplies,
    /// Commands are lost; in the end the connections are reset.
    LoseRequests,
}

impl Class {
    pub(crate) const ALL: [Self; 18] = [
        Self::StopServers,
        Self::LoseMemory,
        Self::KeepMemory,
        Self::Wipe,
        Self::GoBack,
        Self::Flush,
        Self::Promote,
        Self::SetBack,
        Self::RunFast,
        Self::StopWorker,
        Self::KillWorker,
        Self::PartitionFromMinority,
        Self::PartitionFromMajority,
        Self::Delay,
        Self::Reset,
        Self::Refuse,
        Self::LoseReplies,
        Self::LoseRequests,
    ];

    /// The faults that a run has.
    pub(crate) fn of(options: &Options) -> Vec<Self> {
        let is_there = |class: &Self| match class {
            Self::LoseMemory => options.clients != Clients::Fenced,
            Self::Wipe | Self::GoBack | Self::Flush | Self::Promote => {
                options.clients == Clients::Fenced
            }
            Self::SetBack | Self::RunFast => options.clocks,
            _ => true,
        };
        Self::ALL.into_iter().filter(is_there).collect()
    }

    /// How often the fault is in the deck that is dealt again and again.
    pub(crate) fn weight(self) -> usize {
        match self {
            Self::Refuse | Self::LoseRequests | Self::Delay | Self::RunFast => 1,
            Self::LoseMemory
            | Self::KeepMemory
            | Self::GoBack
            | Self::Flush
            | Self::Promote
            | Self::SetBack
            | Self::KillWorker
            | Self::PartitionFromMinority
            | Self::Reset
            | Self::LoseReplies => 2,
            Self::StopServers | Self::Wipe | Self::StopWorker | Self::PartitionFromMajority => 3,
        }
    }

    /// The plural, for the count.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::StopServers => "stops of servers",
            Self::LoseMemory => "losses of memory with a delay",
            Self::KeepMemory => "restarts with all data",
            Self::Wipe => "losses of memory",
            Self::GoBack => "restarts with older data",
            Self::Flush => "flushes",
            Self::Promote => "promotions",
            Self::SetBack => "clocks set back",
            Self::RunFast => "clocks too fast",
            Self::StopWorker => "stops of workers",
            Self::KillWorker => "kills of workers",
            Self::PartitionFromMinority => "partitions from a minority",
            Self::PartitionFromMajority => "partitions from a majority",
            Self::Delay => "delays",
            Self::Reset => "resets",
            Self::Refuse => "refusals",
            Self::LoseReplies => "losses of replies",
            Self::LoseRequests => "losses of requests",
        }
    }

    /// Whether the proxy makes this fault.
    pub(crate) fn is_of_links(self) -> bool {
        matches!(
            self,
            Self::PartitionFromMinority
                | Self::PartitionFromMajority
                | Self::Delay
                | Self::Reset
                | Self::Refuse
                | Self::LoseReplies
                | Self::LoseRequests
        )
    }
}
