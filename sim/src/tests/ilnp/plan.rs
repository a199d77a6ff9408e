use std::time::Duration;

use moorline_datapath::ilnp::ChecksumMode;
use moorline_ilnp::{NonceLen, NonceMode};

/// What is played.
#[derive(Clone, Debug)]
pub(super) struct IlnpPlan {
    /// Of everything random.
    pub(super) seed: u64,
    /// How long.
    pub(super) duration: Duration,
    /// Settings of the two hosts.
    pub(super) hosts: [IlnpHost; 2],
    /// One way.
    pub(super) delay: Duration,
    /// Up to this much more, so that packets overtake each other.
    pub(super) jitter: Duration,
    /// Time from the arrival of a control message to its handling. The planes are never late.
    pub(super) core_delay: Duration,
    /// Packets lost, of a thousand.
    pub(super) loss: u32,
    /// Whether packets with Destination Options get lost, all of them.
    pub(super) no_options: bool,
    /// What happens when.
    pub(super) changes: Vec<(Duration, IlnpChange)>,
    /// Made-up correspondents that send the second host a packet, in a second.
    pub(super) flood: u32,
    /// Locator Updates with a guessed nonce, or taken from the wire and sent again, in a second.
    pub(super) forgeries: u32,
    /// Packets in a second of somebody who has the identifier of the plain node in another network, and to whom the other host has a socket.
    pub(super) namesakes: u32,
    /// What the applications do.
    pub(super) traffic: IlnpTraffic,
    /// Octets beside the number in each of their packets.
    pub(super) padding: usize,
}

/// A host.
#[derive(Clone, Copy, Debug)]
pub(super) struct IlnpHost {
    /// Without ILNP it is a classic IPv6 host.
    pub(super) ilnp: bool,
    /// It has ILNP by the RFCs alone: see [`super::plain::PlainNode`].
    pub(super) plain: bool,
    /// Everybody gets an entry, instead of those that were agreed on.
    pub(super) open: bool,
    /// When packets carry the nonce.
    pub(super) nonce: NonceMode,
    /// Of 32 or 96 bits.
    pub(super) nonce_len: NonceLen,
    /// What it would like.
    pub(super) checksum: ChecksumMode,
    /// Bound of its cache.
    pub(super) max_sessions: usize,
}

impl Default for IlnpHost {
    fn default() -> Self {
        Self {
            ilnp: true,
            plain: false,
            open: false,
            nonce: NonceMode::default(),
            nonce_len: NonceLen::default(),
            checksum: ChecksumMode::default(),
            max_sessions: 1000,
        }
    }
}

/// Sockets of the first host, which begins, and of the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IlnpTraffic {
    /// Segments as of TCP, each way; both connected.
    Segments,
    /// Datagrams each way; both connected.
    Datagrams,
    /// Datagrams to a server that is not connected, and its answers.
    Server,
    /// Datagrams between two sockets of which neither is connected.
    Unconnected,
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IlnpChange {
    /// The host has this locator too, and would rather use it: a soft hand-off begins.
    Gain {
        /// Which host.
        host: usize,
        /// Which of its locators.
        locator: u8,
    },
    /// The host has this locator no more.
    Lose {
        /// Which host.
        host: usize,
        /// Which of its locators.
        locator: u8,
    },
    /// What has this locator at either end gets lost from now on, and nobody says so.
    Cut {
        /// Which host.
        host: usize,
        /// Which of its locators.
        locator: u8,
    },
    /// The next Locator Update or acknowledgement of the host gets lost.
    LoseUpdate {
        /// Which host.
        host: usize,
    },
    /// The host forgets its sessions, and its applications go on: as if both had been started anew.
    BeginAnew {
        /// Which host.
        host: usize,
    },
    /// The host speaks no ILNP any more.
    End {
        /// Which host.
        host: usize,
        /// Whether it says so.
        says_so: bool,
    },
    /// The host vanishes, and its applications with it.
    Vanish {
        /// Which host.
        host: usize,
    },
    /// The applications end.
    Close,
}

impl IlnpPlan {
    /// Two hosts with the defaults that exchange datagrams for a minute.
    #[must_use]
    pub(super) fn new(seed: u64) -> Self {
        Self {
            seed,
            duration: Duration::from_secs(60),
            hosts: [IlnpHost::default(); 2],
            delay: Duration::from_millis(20),
            jitter: Duration::ZERO,
            core_delay: Duration::ZERO,
            loss: 0,
            no_options: false,
            changes: Vec::new(),
            flood: 0,
            forgeries: 0,
            namesakes: 0,
            traffic: IlnpTraffic::Datagrams,
            padding: 0,
        }
    }
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub(super) struct IlnpOutcome {
    /// What must not be.
    pub(super) violations: Vec<String>,
    /// When packets reached a socket whose checksum for it was wrong, from the beginning on.
    pub(super) wrong_checksums: Vec<Duration>,
    /// When both ends of the first session knew that the other has it, from the beginning on.
    pub(super) agreed: Option<Duration>,
    /// Of both directions.
    pub(super) sent: u64,
    /// Of both directions.
    pub(super) received: u64,
    /// Longest time between two packets that a socket got, of both, while there was traffic.
    pub(super) longest_pause: Duration,
    /// When that ended, from the beginning on.
    pub(super) longest_pause_at: Duration,
    /// Packets that left with a nonce, of those with data.
    pub(super) with_nonce: u64,
    /// Entries in each machine at the end.
    pub(super) sessions: [usize; 2],
    /// Most entries in each machine at any time.
    pub(super) most_sessions: [usize; 2],
    /// Sessions that were established, of both.
    pub(super) established: u64,
    /// Drops of planes and machines, of both: reason and count.
    pub(super) drops: Vec<(moorline_types::DropReason, u64)>,
    /// Packets with a Destination Options header that came to a host without ILNP.
    pub(super) options_to_classic: u64,
    /// Times that traffic was left to classic IPv6.
    pub(super) classic: u64,
}
