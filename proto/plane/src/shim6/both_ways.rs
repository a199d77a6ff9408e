//! Whether the traffic of an address pair goes both ways: whether the peer has accepted a packet of this host.
//!
//! Anybody can send packets with a made-up source, so packets from the peer alone show nothing.

use moorline_wire::ip6::{IP6_LEN, TCP, Upper};

use crate::shim6::tcp::{Tcp, is_before};

/// The part of a packet that shows whether traffic goes both ways. Ports are the local port and the peer's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passage {
    /// This host sends a packet of a protocol whose acknowledgements the plane does not know.
    Sent,
    /// The peer sends such a packet.
    Received,
    /// This host sends a TCP segment.
    SentSegment {
        /// Local port and port of the peer.
        ports: (u16, u16),
        /// Sequence number behind the segment.
        end: u32,
        /// Whether the segment begins a connection.
        is_syn: bool,
    },
    /// The peer sends a TCP segment with an acknowledgement.
    Acknowledged {
        /// Local port and port of the peer.
        ports: (u16, u16),
        /// The acknowledgement number.
        number: u32,
    },
    /// The packet shows nothing.
    Unknown,
}

impl Passage {
    /// Looks at a packet that this host sends. `octets`: its length by the IPv6 header.
    pub(crate) fn sent(upper: Upper, packet: &[u8], octets: usize) -> Self {
        if upper.protocol != TCP {
            return Self::Sent;
        }
        let Some((at, tcp)) = segment(upper, packet) else { return Self::Unknown };
        let octets = octets.saturating_sub(at - IP6_LEN);
        Self::SentSegment {
            ports: (tcp.source, tcp.destination),
            end: tcp.sequence.wrapping_add(tcp.span(octets)),
            is_syn: tcp.is_syn(),
        }
    }

    /// Looks at a packet of the peer.
    pub(crate) fn received(upper: Upper, packet: &[u8]) -> Self {
        if upper.protocol != TCP {
            return Self::Received;
        }
        match segment(upper, packet) {
            Some((_, tcp)) if tcp.is_ack() => Self::Acknowledged {
                ports: (tcp.destination, tcp.source),
                number: tcp.acknowledgement,
            },
            Some(_) | None => Self::Unknown,
        }
    }
}

/// The TCP segment of a packet, with its place. `None` for a reset, which is no part of a connection: a kernel answers
/// a stray segment by a reset with a sequence number that the sender of the segment has chosen.
fn segment(upper: Upper, packet: &[u8]) -> Option<(usize, Tcp)> {
    let at = upper.at?;
    let tcp = Tcp::read(packet.get(at..)?)?;
    (!tcp.is_rst()).then_some((at, tcp))
}

/// How far the traffic of a pair has shown that the peer accepts the packets of this host.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BothWays {
    stage: Stage,
    /// Ports of the last TCP segment that this host has sent. Zeros: none.
    ports: (u16, u16),
    /// Sequence numbers behind the first and the last segment with these ports.
    begin: u32,
    end: u32,
}

/// How well an address pair shows that its peer is at its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Standing {
    /// Nothing shows it.
    Stranger,
    /// Traffic goes both ways. A server that answers each datagram has such traffic with made-up sources as well.
    BothWays,
    /// The peer has acknowledged a TCP segment of this host, or has completed a handshake of Shim6.
    Known,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    New,
    /// The peer began, and this host has not answered its last packet.
    Received,
    /// The peer began, and this host has answered.
    Replied,
    BothWays,
    /// The peer has acknowledged a TCP segment of this host.
    Acknowledged,
}

impl BothWays {
    /// How well the traffic of the pair shows that the peer is at its address.
    pub(crate) fn standing(&self) -> Standing {
        match self.stage {
            Stage::New | Stage::Received | Stage::Replied => Standing::Stranger,
            Stage::BothWays => Standing::BothWays,
            Stage::Acknowledged => Standing::Known,
        }
    }

    /// Notes a packet. For protocols without known acknowledgements: if this host begins, its program wants to talk to
    /// the peer. If the peer begins, an answer of this host and a further packet of the peer count.
    pub(crate) fn note(&mut self, passage: Passage) {
        self.stage = match (passage, self.stage) {
            (_, Stage::Acknowledged) => Stage::Acknowledged,
            (Passage::Sent | Passage::Received, Stage::BothWays) | (Passage::Sent, Stage::New) => {
                Stage::BothWays
            }
            (Passage::Sent, Stage::Received | Stage::Replied) => Stage::Replied,
            (Passage::Received, Stage::Replied) => Stage::BothWays,
            (Passage::Received, Stage::New | Stage::Received) => Stage::Received,
            (Passage::Acknowledged { ports, number }, _) if self.is_ours(ports, number) => {
                Stage::Acknowledged
            }
            (Passage::SentSegment { ports, end, is_syn }, stage) => {
                self.note_segment(ports, end, is_syn);
                stage
            }
            (Passage::Acknowledged { .. } | Passage::Unknown, stage) => stage,
        };
    }

    fn note_segment(&mut self, ports: (u16, u16), end: u32, is_syn: bool) {
        if self.ports != ports || is_syn {
            (self.ports, self.begin, self.end) = (ports, end, end);
        } else if is_before(self.end, end) {
            self.end = end;
        }
    }

    /// Whether an acknowledgement is of a segment of this host.
    fn is_ours(&self, ports: (u16, u16), number: u32) -> bool {
        let is_within = number.wrapping_sub(self.begin) <= self.end.wrapping_sub(self.begin);
        ports != (0, 0) && ports == self.ports && is_within
    }
}
