//! TCP segments (RFC 9293 s3.1), and the sequence numbers that flows have sent so far; the ports of datagrams.

use alloc::collections::BTreeMap;

use moorline_types::ContextTag;

use moorline_wire::ip6::{IP6_LEN, Ip6, TCP, UDP};

/// Upper layer directly behind an IPv6 header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Payload {
    Tcp(Tcp),
    /// TCP without its whole header.
    Cut,
    /// UDP.
    Datagram(Datagram),
    Other,
}

/// Fields that the plane reads from a packet of UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Datagram {
    pub(crate) source: u16,
    pub(crate) destination: u16,
    /// Flow label of the IPv6 header.
    pub(crate) label: u32,
}

/// Fields that the plane reads from a TCP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tcp {
    pub(crate) source: u16,
    pub(crate) destination: u16,
    pub(crate) sequence: u32,
    pub(crate) acknowledgement: u32,
    header_len: usize,
    flags: u8,
}

impl Payload {
    pub(crate) fn of(ip6: &Ip6, packet: &[u8]) -> Self {
        Self::read(ip6.next_header, packet.get(IP6_LEN..).unwrap_or_default(), ip6.flow_label)
    }

    /// Reads the upper layer of this protocol. `label`: the flow label of the packet.
    pub(crate) fn read(protocol: u8, upper: &[u8], label: u32) -> Self {
        match (protocol, upper) {
            (TCP, _) => Tcp::read(upper).map_or(Self::Cut, Self::Tcp),
            (UDP, &[a, b, c, d, ..]) => Self::Datagram(Datagram {
                source: u16::from_be_bytes([a, b]),
                destination: u16::from_be_bytes([c, d]),
                label,
            }),
            _ => Self::Other,
        }
    }
}

impl Tcp {
    /// Reads the header at the start of `octets`; `None` if the header is cut.
    pub(crate) fn read(octets: &[u8]) -> Option<Self> {
        let &[a, b, c, d, e, f, g, h, i, j, k, l, offset, flags, ..] =
            octets.first_chunk::<HEADER_LEN>()?;
        Some(Self {
            source: u16::from_be_bytes([a, b]),
            destination: u16::from_be_bytes([c, d]),
            sequence: u32::from_be_bytes([e, f, g, h]),
            acknowledgement: u32::from_be_bytes([i, j, k, l]),
            header_len: usize::from(offset >> 4) * 4,
            flags,
        })
    }

    pub(crate) fn is_syn(&self) -> bool {
        self.flags & SYN != 0
    }

    pub(crate) fn is_ack(&self) -> bool {
        self.flags & ACK != 0
    }

    pub(crate) fn is_rst(&self) -> bool {
        self.flags & RST != 0
    }

    /// Whether ECN-Echo is set. In a SYN the flag is an offer of ECN, and does not count (RFC 3168 s6.1.1).
    pub(crate) fn has_ece(&self) -> bool {
        self.flags & ECE != 0 && !self.is_syn()
    }

    /// Whether Congestion Window Reduced is set. In a SYN the flag does not count (RFC 3168 s6.1.1).
    pub(crate) fn has_cwr(&self) -> bool {
        self.flags & CWR != 0 && !self.is_syn()
    }

    /// Number of sequence numbers that the segment takes. `octets` is the length of its IPv6 packet.
    pub(crate) fn span(&self, octets: usize) -> u32 {
        let data = octets.saturating_sub(IP6_LEN + self.header_len);
        let flags = u32::from(self.is_syn()) + u32::from(self.flags & FIN != 0);
        u32::try_from(data).unwrap_or(u32::MAX).wrapping_add(flags)
    }
}

/// Number of a flow of a context or session. Two flows may have the same place, and then push each other out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flow(u64);

impl Flow {
    /// Number of the flow between two ports. The tag in it keeps others from choosing ports that collide.
    pub(crate) fn new(local_tag: ContextTag, local_port: u16, peer_port: u16) -> Self {
        Self::of(local_tag.bits(), local_port, peer_port)
    }

    /// Like [`new`](Self::new), with another secret than a tag.
    pub(crate) fn of(secret: u64, local_port: u16, peer_port: u16) -> Self {
        let ports = u64::from(local_port) << 16 | u64::from(peer_port);
        let hash = secret.wrapping_mul(SPREAD.into()).wrapping_add(ports);
        let mix = |hash: u64| (hash ^ hash >> 32).wrapping_mul(MIX);
        let hash = mix(hash);
        Self(mix(hash))
    }

    pub(crate) fn place(self) -> u64 {
        (self.0 >> 32) % SEGMENTS
    }

    pub(crate) fn number(self) -> u64 {
        self.0 & 0xffff_ffff | 1
    }
}

/// The sequence numbers that flows have sent: a table in which each flow has one place.
#[derive(Debug, Default)]
pub(crate) struct Segments(BTreeMap<u64, Segment>);

#[derive(Clone, Copy, Debug)]
struct Segment {
    flow: u64,
    /// Last acknowledgement number of the peer that the plane has compared; at first the sequence number of the first
    /// segment here. At most [`LARGEST_WINDOW`] before `end`.
    acknowledged: u32,
    /// Sequence number behind everything that the flow has sent.
    end: u32,
    /// Acknowledgement number that the flow has last sent: the peer's next sequence number (RCV.NXT). After a SYN, the
    /// sequence number of the SYN, which nobody guesses either.
    expected: u32,
}

impl Segments {
    /// Notes a segment. True if some of it had been sent before. A segment with SYN and ACK pushes no other flow out:
    /// anybody can have a listening socket send one.
    pub(crate) fn note(&mut self, flow: Flow, tcp: &Tcp, span: u32) -> bool {
        let end = tcp.sequence.wrapping_add(span);
        let acknowledged = tcp.sequence;
        // The sender of a SYN knows the acknowledgement that answers the SYN.
        let is_known = tcp.is_syn() || !tcp.is_ack();
        let expected = if is_known { tcp.sequence } else { tcp.acknowledgement };
        let new = Segment { flow: flow.number(), acknowledged, end, expected };
        let known = self.0.entry(flow.place()).or_insert(Segment { flow: 0, ..new });
        if tcp.is_syn() && tcp.is_ack() && known.flow != 0 && known.flow != new.flow {
            return false;
        }
        known.expected = expected;
        if known.flow != new.flow {
            *known = new;
            return false;
        }
        if tcp.is_syn() {
            // Otherwise the segment begins a new connection with the ports of an old one.
            let again = known.end == end;
            *known = new;
            return again;
        }
        let again = is_before(tcp.sequence, known.end);
        if is_before(known.end, end) {
            known.end = end;
        }
        if known.end.wrapping_sub(known.acknowledged) > LARGEST_WINDOW {
            known.acknowledged = known.end.wrapping_sub(LARGEST_WINDOW);
        }
        again
    }

    /// Whether the flow has its place.
    pub(crate) fn has(&self, flow: Flow) -> bool {
        self.0.get(&flow.place()).is_some_and(|known| known.flow == flow.number())
    }

    /// Whether a received segment shows that its sender knows the connection: the segment acknowledges what the flow
    /// has in flight, repeats the last acknowledgement, or is the reset that answers what the flow has sent (RFC 9293
    /// s3.5.2: "the reset takes its sequence number from the ACK field of the segment").
    pub(crate) fn is_acknowledged(&mut self, flow: Flow, tcp: &Tcp) -> bool {
        let known = self.0.get_mut(&flow.place()).filter(|known| known.flow == flow.number());
        let Some(known) = known else { return false };
        if !tcp.is_ack() {
            return tcp.is_rst() && tcp.sequence == known.expected;
        }
        let in_flight = known.end.wrapping_sub(known.acknowledged);
        let is_within = tcp.acknowledgement.wrapping_sub(known.acknowledged) <= in_flight;
        if is_within {
            known.acknowledged = tcp.acknowledgement;
        }
        is_within
    }
}

/// Whether `a` is before `b` in the arithmetic of sequence numbers (RFC 9293 s3.4).
pub(crate) fn is_before(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).cast_signed() < 0
}

/// The largest window of TCP, 1 GiB (RFC 7323 s2.3): no flow has more in flight.
const LARGEST_WINDOW: u32 = 1 << 30;
/// Number of flows whose last segment is known. Not configurable.
const SEGMENTS: u64 = 16_384;
/// Derived from the golden ratio; any odd number that spreads bits would do.
pub(crate) const SPREAD: u32 = 0x9e37_79b1;
const MIX: u64 = 0xd6e8_feb8_6659_fd93;

const HEADER_LEN: usize = 20;
const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;
const ECE: u8 = 0x40;
const CWR: u8 = 0x80;

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(sequence: u32, acknowledgement: u32, flags: u8) -> Tcp {
        Tcp { source: 1, destination: 2, sequence, acknowledgement, header_len: HEADER_LEN, flags }
    }

    #[test]
    fn only_what_is_in_flight_can_be_acknowledged() {
        let flow = Flow::new(ContextTag::from_bits(7), 1, 2);
        let mut segments = Segments::default();
        let mut is_acknowledged = |number, flags| {
            let begin = u32::MAX - 99;
            segments.note(flow, &segment(begin, 0, ACK), 100);
            segments.note(flow, &segment(0, 0, ACK), 100);
            segments.is_acknowledged(flow, &segment(0, number, flags))
        };
        assert!(!is_acknowledged(u32::MAX - 100, ACK), "before the first segment");
        assert!(!is_acknowledged(101, ACK), "never sent");
        assert!(!is_acknowledged(50, 0), "no acknowledgement");
        assert!(is_acknowledged(50, ACK));
        assert!(is_acknowledged(50, ACK), "a duplicate");
        assert!(!is_acknowledged(49, ACK), "an old one");
        assert!(is_acknowledged(100, ACK));
        let other = Flow::new(ContextTag::from_bits(7), 1, 3);
        assert!(!segments.is_acknowledged(other, &segment(0, 100, ACK)), "another connection");
    }

    /// A peer that knows the connection no more answers its segments by resets without an acknowledgement.
    #[test]
    fn a_reset_has_the_sequence_number_that_was_acknowledged() {
        let flow = Flow::new(ContextTag::from_bits(7), 1, 2);
        let mut segments = Segments::default();
        segments.note(flow, &segment(0, 700, ACK), 100);
        segments.note(flow, &segment(100, 750, ACK), 100);
        let mut is_answer =
            |sequence, flags| segments.is_acknowledged(flow, &segment(sequence, 0, flags));
        assert!(!is_answer(700, RST) && !is_answer(751, RST), "not the last one");
        assert!(!is_answer(750, 0), "no reset");
        assert!(is_answer(750, RST));
        segments.note(flow, &segment(900, 0, SYN), 1);
        assert!(!segments.is_acknowledged(flow, &segment(0, 0, RST)), "the reset of a SYN has ACK");
        segments.note(flow, &segment(1_900, 70, SYN | ACK), 1);
        assert!(
            !segments.is_acknowledged(flow, &segment(70, 0, RST)),
            "the sender of a SYN knows what answers it"
        );
    }

    #[test]
    fn a_flow_loses_its_place_to_another() {
        let mut segments = Segments::default();
        let flow = |port| Flow::new(ContextTag::from_bits(7), port, 2);
        let other = (2..).find(|&port| flow(port).place() == flow(1).place()).expect("a port");
        segments.note(flow(1), &segment(0, 0, ACK), 100);
        assert!(segments.has(flow(1)) && !segments.has(flow(other)));
        segments.note(flow(other), &segment(0, 0, ACK), 100);
        assert!(segments.has(flow(other)) && !segments.has(flow(1)));
    }

    #[test]
    fn acknowledgements_that_the_plane_has_not_seen_do_not_end_the_proof() {
        let flow = Flow::new(ContextTag::from_bits(7), 1, 2);
        let mut segments = Segments::default();
        for turn in 0..9 {
            segments.note(flow, &segment(turn << 29, 0, ACK), 1 << 29);
        }
        let end = 9_u32 << 29;
        assert!(segments.is_acknowledged(flow, &segment(0, end, ACK)));
    }
}
