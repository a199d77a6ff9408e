use std::time::Duration;

use moorline_datapath::ilnp::ChecksumMode;
use moorline_ilnp::{NonceLen, NonceMode};

/// A plan of a run.
#[derive(Clone, Debug)]
pub(super) struct IlnpPlan {
    /// Seed of all randomness.
    pub(super) seed: u64,
    /// Duration of the run.
    pub(super) duration: Duration,
    /// Settings of the two hosts.
    pub(super) hosts: [IlnpHost; 2],
    /// One-way delay.
    pub(super) delay: Duration,
    /// Largest additional delay, by which packets overtake each other.
    pub(super) jitter: Duration,
    /// Largest additional delay of a queue in each direction. The queue fills and empties all the time, within
    /// [`QUEUE_PERIOD`].
    pub(super) queue: Duration,
    /// Time between two packets of a socket.
    pub(super) interval: Duration,
    /// Time from the arrival of a control message to its handling. The planes are never late.
    pub(super) core_delay: Duration,
    /// Packets lost, of a thousand.
    pub(super) loss: u32,
    /// Whether all packets with Destination Options are lost.
    pub(super) no_options: bool,
    /// Changes, each with its time.
    pub(super) changes: Vec<(Duration, IlnpChange)>,
    /// Invented correspondents that send the second host a packet, a second.
    pub(super) flood: u32,
    /// Locator Updates with a guessed nonce, or repeated from the wire, a second.
    pub(super) forgeries: u32,
    /// Packets a second of a node in another network that has the identifier of the plain node, and to which the
    /// other host has a socket.
    pub(super) namesakes: u32,
    /// Packets that a host off the path sends to both hosts in the name of the other, and their number in a second.
    pub(super) pretended: Option<(Pretended, u32)>,
    /// Traffic of the applications.
    pub(super) traffic: IlnpTraffic,
    /// Octets of each application packet beside its number.
    pub(super) padding: usize,
}

/// Settings of a host.
#[derive(Clone, Copy, Debug)]
pub(super) struct IlnpHost {
    /// Whether the host has ILNP. Otherwise it has classic IPv6.
    pub(super) ilnp: bool,
    /// Whether the host has ILNP by the RFCs alone: see [`crate::plain::PlainNode`].
    pub(super) plain: bool,
    /// Whether each correspondent gets an entry, and not only those that have agreed.
    pub(super) open: bool,
    /// Packets that carry the nonce.
    pub(super) nonce: NonceMode,
    /// Length of nonces: 32 or 96 bits.
    pub(super) nonce_len: NonceLen,
    /// Checksum that the host asks for.
    pub(super) checksum: ChecksumMode,
    /// Largest number of sessions in the cache.
    pub(super) max_sessions: usize,
    /// Whether the host prefers none of its locators. Otherwise it prefers the newest one.
    pub(super) prefers_none: bool,
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
            prefers_none: false,
        }
    }
}

/// Sockets of the first host, which begins, and of the second host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IlnpTraffic {
    /// Segments like TCP's in both directions, between connected sockets.
    Segments,
    /// Datagrams in both directions, between connected sockets.
    Datagrams,
    /// Datagrams to a server that is not connected, and its answers.
    Server,
    /// Datagrams between two sockets that are not connected.
    Unconnected,
    /// Datagrams to a server that is not connected. It answers each of them, and sends nothing by itself.
    Requests,
}

/// Packets of a host off the path that knows the locators and identifiers of a session, and no nonce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pretended {
    /// Echo Requests, which the kernels answer.
    Echoes,
    /// Packets with the ports of the connection, and guessed numbers.
    Ports,
    /// SYNs to a port where the kernels listen.
    Syns,
}

/// Numbers of the locators of a host that lead nowhere.
pub(super) const FALSE_LOCATORS: std::ops::Range<u8> = 100..140;

/// Kinds of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IlnpChange {
    /// The host gets this locator and prefers it: a soft hand-off begins.
    Gain {
        /// The host.
        host: usize,
        /// Number of the locator.
        locator: u8,
    },
    /// The host gets [`FALSE_LOCATORS`] that lead nowhere: a stranger on its link has advertised their prefixes.
    Mislead {
        /// The host.
        host: usize,
    },
    /// The host loses this locator.
    Lose {
        /// The host.
        host: usize,
        /// Number of the locator.
        locator: u8,
    },
    /// All packets with this locator at either end are lost from now on, silently.
    Cut {
        /// The host.
        host: usize,
        /// Number of the locator.
        locator: u8,
    },
    /// The ISP of this locator of both hosts loses all packets of these hosts from now on, silently.
    CutIsp {
        /// Number of the locator.
        locator: u8,
        /// The hosts whose packets are lost.
        from: &'static [usize],
    },
    /// The ISP of this locator of both hosts, or of one, loses some packets of both hosts from now on, silently.
    Weaken {
        /// The hosts with the locator.
        hosts: &'static [usize],
        /// Number of the locator.
        locator: u8,
        /// Packets lost, of a thousand.
        loss: u32,
    },
    /// Packets with this locator pass again.
    Heal {
        /// The host.
        host: usize,
        /// Number of the locator.
        locator: u8,
    },
    /// The next Locator Update or acknowledgement of the host is lost.
    LoseUpdate {
        /// The host.
        host: usize,
    },
    /// The host loses its sessions, and its applications go on.
    BeginAnew {
        /// The host.
        host: usize,
    },
    /// The host stops to speak ILNP.
    End {
        /// The host.
        host: usize,
        /// Whether the host tells its correspondents.
        says_so: bool,
    },
    /// The host restarts with classic IPv6, and its errors about our nonce get lost. Its applications go on.
    Classic {
        /// The host.
        host: usize,
    },
    /// The host vanishes with its applications.
    Vanish {
        /// The host.
        host: usize,
    },
    /// The host names the locator of a third party as its best one, sends from there too, and goes on to acknowledge
    /// what it does not see. Its packets are small and few, and the other host sends full ones.
    Pretend {
        /// The host.
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
            queue: Duration::ZERO,
            interval: Duration::from_millis(10),
            core_delay: Duration::ZERO,
            loss: 0,
            no_options: false,
            changes: Vec::new(),
            flood: 0,
            forgeries: 0,
            namesakes: 0,
            pretended: None,
            traffic: IlnpTraffic::Datagrams,
            padding: 0,
        }
    }
}

/// Period of a queue that fills and empties.
pub(super) const QUEUE_PERIOD: Duration = Duration::from_secs(4);

/// Outcome of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct IlnpOutcome {
    /// Broken invariants.
    pub(super) violations: Vec<String>,
    /// Times when a socket received a packet with a wrong checksum, from the beginning on.
    pub(super) wrong_checksums: Vec<Duration>,
    /// Time when both ends of the first session knew that the other has it, from the beginning on.
    pub(super) agreed: Option<Duration>,
    /// Packets sent in both directions.
    pub(super) sent: u64,
    /// Packets received in both directions.
    pub(super) received: u64,
    /// Longest time between two packets to a socket while there was traffic, at either host.
    pub(super) longest_pause: Duration,
    /// End of that time, from the beginning on.
    pub(super) longest_pause_at: Duration,
    /// End of the last pause of a second or more between two packets to a socket, at either host, from the beginning
    /// on.
    pub(super) last_pause_at: Duration,
    /// Longest time from the last packet to a socket to the end of the run, at either host.
    pub(super) pause_at_end: Duration,
    /// Data packets that left with a nonce.
    pub(super) with_nonce: u64,
    /// Entries in each machine at the end.
    pub(super) sessions: [usize; 2],
    /// Largest number of entries in each machine.
    pub(super) most_sessions: [usize; 2],
    /// Sessions established at both hosts.
    pub(super) established: u64,
    /// Number of times that a session has left locators because they brought no answer, at both hosts.
    pub(super) suspicions: u64,
    /// Number of moves of sessions for any cause, at both hosts.
    pub(super) moves: u64,
    /// Locator Updates and acknowledgements that the hosts have sent.
    pub(super) updates: u64,
    /// Drops of planes and machines at both hosts: reason and count.
    pub(super) drops: Vec<(moorline_types::DropReason, u64)>,
    /// Packets with a Destination Options header that came to a host without ILNP.
    pub(super) options_to_classic: u64,
    /// Number of times that traffic was left to classic IPv6.
    pub(super) classic: u64,
    /// Octets that a host has sent since it pretends to be at the locator of a third party.
    pub(super) pretender_sent: usize,
    /// Octets that have gone to the third party.
    pub(super) third_party_got: usize,
}
