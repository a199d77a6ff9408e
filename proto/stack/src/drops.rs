use moorline_types::named_enum;

named_enum! {
    /// Reason for which the host has dropped a packet, a message, or a piece of state.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Drop {
        /// The frame or packet ends before its header does, or its lengths contradict each other.
        Truncated => "truncated",
        /// The frame is for another station.
        OtherStation => "other-station",
        /// The destination address is not one of the host.
        NotOurs => "not-ours",
        /// The source address is one that no packet on the wire has.
        BadSource => "bad-source",
        /// A checksum is wrong.
        BadChecksum => "bad-checksum",
        /// The message is not valid.
        Malformed => "malformed",
        /// The packet has too many extension headers or options.
        TooManyHeaders => "too-many-headers",
        /// The packet has an option that is unknown and forbids its processing.
        UnknownOption => "unknown-option",
        /// The packet has a routing header that the host does not process, or a source route of IPv4.
        RoutingHeader => "routing-header",
        /// No protocol has the number of the upper layer.
        UnknownProtocol => "unknown-protocol",
        /// No socket has the port.
        NoSocket => "no-socket",
        /// The queue of the socket is full.
        SocketFull => "socket-full",
        /// A TCP segment has numbers that no segment of its connection has.
        Sequence => "sequence",
        /// A half-open connection got no answer, or made room for another one.
        HalfOpen => "half-open",
        /// A fragment overlaps another one (RFC 5722; so it is with IPv4 here).
        FragmentOverlap => "fragment-overlap",
        /// A fragment is not valid by its lengths.
        FragmentLength => "fragment-length",
        /// The first fragment has no upper-layer header (RFC 7112).
        FragmentChain => "fragment-chain",
        /// The fragments of a datagram did not all come in time.
        FragmentTimeout => "fragment-timeout",
        /// Fragments had to go to make room.
        FragmentLimit => "fragment-limit",
        /// A message of Neighbor Discovery came in fragments (RFC 6980).
        FragmentedDiscovery => "fragmented-discovery",
        /// The cache of neighbors, by Neighbor Discovery or ARP, is full.
        NeighborLimit => "neighbor-limit",
        /// The queue of packets for an unresolved neighbor is full.
        NeighborQueue => "neighbor-queue",
        /// The rate of solicitations for unknown neighbors is exhausted.
        SolicitationRate => "solicitation-rate",
        /// An advertisement is about a neighbor with which the host has no business.
        UnknownNeighbor => "unknown-neighbor",
        /// A neighbor did not answer.
        NeighborUnreachable => "neighbor-unreachable",
        /// There are too many routers.
        RouterLimit => "router-limit",
        /// There are too many prefixes, routes or addresses.
        PrefixLimit => "prefix-limit",
        /// There are too many multicast groups.
        GroupLimit => "group-limit",
        /// An advertisement has a value that a host must ignore.
        AdvertisementValue => "advertisement-value",
        /// A redirect is not from the first hop, or not about a destination in use.
        Redirect => "redirect",
        /// What was known about a destination had to go to make room.
        DestinationLimit => "destination-limit",
        /// A Packet Too Big message is not about a packet of ours, or its MTU is out of range.
        PacketTooBig => "packet-too-big",
        /// An ICMPv6 error quotes no packet of ours.
        ForeignError => "foreign-error",
        /// The rate of errors is exhausted.
        ErrorRate => "error-rate",
        /// RFC 4443 s2.4, or a setting, forbids an answer to the packet.
        NoAnswer => "no-answer",
        /// The host has no route to the destination.
        NoRoute => "no-route",
        /// The host has no source address for the destination.
        NoSource => "no-source",
        /// A query of MLD is not valid, or there are too many of them.
        Query => "query",
    }
}

/// Counters of drops, one for each [`Drop`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drops([u64; Drop::ALL.len()]);

impl Default for Drops {
    fn default() -> Self {
        Self([0; Drop::ALL.len()])
    }
}

impl Drops {
    /// Counts one drop with this reason.
    pub fn count(&mut self, reason: Drop) {
        if let Some(counter) = self.0.get_mut(reason as usize) {
            *counter += 1;
        }
    }

    /// Adds the counters of another machine.
    pub fn add(&mut self, other: &Self) {
        for (counter, more) in self.0.iter_mut().zip(other.0) {
            *counter += more;
        }
    }

    /// Number of drops with this reason.
    #[must_use]
    pub fn of(&self, reason: Drop) -> u64 {
        self.0.get(reason as usize).copied().unwrap_or(0)
    }

    /// The reasons that occurred, with their counters.
    pub fn iter(&self) -> impl Iterator<Item = (Drop, u64)> + '_ {
        Drop::ALL.iter().map(|&reason| (reason, self.of(reason))).filter(|(_, n)| *n > 0)
    }
}
