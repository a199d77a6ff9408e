use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use moorline_ip::arp::Arp;
use moorline_ip::extension::Fragment;
use moorline_ip::icmp::{Cause, REASSEMBLY};
use moorline_ip::ip4::Ip4;
use moorline_ip::ip6::{
    DESTINATION_OPTIONS, FRAGMENT, HOP_BY_HOP, ICMPV6, ROUTING, TCP, UDP, packet,
};
use moorline_ip::{Header, Mac, PacketBuf, checksum, fill};
use moorline_stack::chain::{MAX_HEADERS, Position, Step, Verdict, walk};
use moorline_stack::error::{Errors, Limits, Quote};
use moorline_stack::fragment::fragments;
use moorline_stack::reassembly::{
    Arrival, MAX_EXPIRED, MAX_MEMORY, MAX_OF_SOURCE, MAX_RANGES, Reassembly, TIMEOUT, Whole,
};
use moorline_stack::stack::{Config, Stack, WireConfig, WireId};
use moorline_stack::{address, ip4};
use moorline_types::Instant;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng as _;

use crate::input::Input;
use crate::shared::polled;

/// Packets with any extension headers and any fragments come to a host, and the host sends fragments to itself.
///
/// Promises: no panic; the walk ends after eight headers, within the packet; what is reassembled is a packet without a
/// gap in its lengths; the octets held are within their limit, and none are left after the time of reassembly; the
/// fragments of a packet make that packet again; an error quotes a packet that [`Quote`] may read.
///
/// Frames of IPv4 and ARP come to a whole host, with right checksums in the header and in ICMP. Promises: no panic, and each frame that the host
/// sends then is one of its own that is valid.
///
/// An input is well formed if a packet was reassembled.
pub(crate) fn stack(input: &[u8]) -> bool {
    let mut input = Input::new(input);
    let mut host = Host::new();
    while let Some(step) = input.step() {
        host.step(step, &mut input);
        host.check();
    }
    host.end();
    host.reassembled > 0
}

struct Host {
    /// A host with an IPv4 address, from the first frame for it on.
    ip4: Option<Box<Stack>>,
    reassembly: Reassembly<u8>,
    errors: Errors,
    now: Instant,
    /// Identifications of packets that the host has cut.
    cut: u32,
    reassembled: usize,
}

impl Host {
    fn new() -> Self {
        let now = Instant::from_nanos(1);
        let errors = Errors::new(Limits::default(), ChaCha20Rng::seed_from_u64(1), now);
        Self { ip4: None, reassembly: Reassembly::default(), errors, now, cut: 0, reassembled: 0 }
    }

    fn step(&mut self, step: u8, input: &mut Input<'_>) {
        if step >= IP4_STEPS {
            return self.ip4_frame(step, input);
        }
        match step % 8 {
            0..=3 => self.fragment(input),
            4 | 5 => self.any(input),
            6 => self.own(input),
            _ => {
                self.now = self.now + Duration::from_millis(input.word().into());
                self.reassembly.handle_timeout(self.now);
            }
        }
    }

    /// A frame of ARP or IPv4, with any octets behind its addresses.
    fn ip4_frame(&mut self, step: u8, input: &mut Input<'_>) {
        let len = usize::from(input.octet());
        let frame = if step.is_multiple_of(4) { arp_frame(input) } else { ip4_frame(input, len) };
        let now = self.now;
        let host = self.ip4.get_or_insert_with(|| Box::new(ip4_host(now)));
        host.handle_frame(WireId(0), PacketBuf::from(frame), now);
        host.handle_timeout(now);
        for (_, frame) in polled(MAX_FRAMES, || host.poll_frame()) {
            check_sent(&frame);
        }
        while host.poll_event().is_some() {}
    }

    /// A fragment of a few datagrams, with a length and an offset of a few units.
    fn fragment(&mut self, input: &mut Input<'_>) {
        let flags = input.octet();
        let offset = u16::from(input.octet()) * if flags & 2 == 2 { 256 } else { 8 };
        let next_header = input.pick(&NUMBERS);
        let has_more = flags & 1 == 1;
        let fields =
            Fragment { next_header, offset, has_more, identification: (flags >> 2 & 3).into() };
        let mut payload = Vec::from(fields.octets());
        let len = usize::from(input.octet() % 16) * 8 + usize::from(flags >> 6);
        payload.extend(input.take(8));
        payload.resize(8 + len, flags);
        let mut octets = packet(FRAGMENT, address(flags >> 4 & 3), us(), &payload);
        octets[1] |= input.octet() & 0x30;
        self.take(&octets, flags);
    }

    /// A packet with any octets behind its header.
    fn any(&mut self, input: &mut Input<'_>) {
        let flags = input.octet();
        let to = if flags & 4 == 4 { Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1) } else { us() };
        let next_header = input.pick(&NUMBERS);
        let len = input.octet();
        let octets = packet(next_header, address(flags & 3), to, input.take(len.into()));
        self.take(&octets, flags);
    }

    /// A packet that the host cuts for an MTU, and whose fragments come back in another order.
    fn own(&mut self, input: &mut Input<'_>) {
        let next_header = input.pick(&NUMBERS);
        let len = usize::from(input.word() % 4096);
        let mtu = u32::from(input.word() % 2048);
        let turn = usize::from(input.octet());
        let mut payload = Vec::from(input.take(24));
        payload.resize(len, 0);
        let whole = packet(next_header, us(), us(), &payload);
        self.cut += 1;
        let Ok(pieces) = fragments(&whole, mtu, 0x1_0000 + self.cut) else { return };
        let mut pieces: Vec<PacketBuf> = pieces.collect();
        assert!(pieces.iter().all(|piece| piece.len() <= mtu.max(1) as usize), "{mtu}");
        let turn = turn % pieces.len();
        pieces.rotate_left(turn);
        if let [alone] = &pieces[..] {
            assert_eq!(**alone, *whole, "it fits");
            return;
        }
        let numbers: BTreeSet<usize> = pieces.iter().map(|piece| piece.len()).collect();
        assert!(numbers.len() <= 2, "all fragments but the last one have the same length");
        // Options and routing headers in front of the Fragment header can have a verdict of their own.
        let results: Vec<_> = pieces.iter().map(|piece| self.deliver(piece, 0)).collect();
        if let Ok(Some(done)) = &results[results.len() - 1]
            && pieces.len() <= MAX_RANGES
        {
            assert_eq!(*done.packet, *whole);
            self.reassembled += 1;
        }
    }

    /// Takes a packet in, walks through its headers, and reports what is wrong with it.
    fn take(&mut self, octets: &[u8], flags: u8) {
        let result = self.deliver(octets, flags);
        if let Err(Verdict::Report(_, cause)) = result {
            self.report(cause, octets, flags);
        }
        let mut last = result.ok().flatten();
        while let Some(whole) = last {
            self.reassembled += 1;
            let header = Header::parse(&whole.packet).expect("a packet");
            assert_eq!((header, header.packet_len()), (whole.header, whole.packet.len()));
            assert!(whole.position.was_fragmented && whole.position.headers <= MAX_HEADERS);
            let next = self.walk(&whole.packet, &header, whole.position, flags);
            if let Err(Verdict::Report(_, cause)) = next {
                self.report(cause, &whole.packet, flags);
            }
            last = next.ok().flatten();
        }
    }

    fn deliver(&mut self, octets: &[u8], flags: u8) -> Result<Option<Whole>, Verdict> {
        let header = Header::parse(octets).expect("a header");
        self.walk(octets, &header, Position::start(&header), flags)
    }

    /// One walk; a fragment at its end goes to the reassembly.
    fn walk(
        &mut self,
        octets: &[u8],
        header: &Header,
        position: Position,
        flags: u8,
    ) -> Result<Option<Whole>, Verdict> {
        let arrival = Arrival { wire: flags & 1, is_link_multicast: flags & 8 == 8 };
        match walk(octets, header, position)? {
            Step::Fragment(position) => {
                self.reassembly.handle_fragment(octets, header, position, arrival, self.now)
            }
            Step::Upper(position) => {
                assert!(position.at <= octets.len() && position.headers <= MAX_HEADERS);
                assert_eq!(octets[position.field], position.protocol);
                Err(position.unrecognized())
            }
            Step::NoNextHeader => Ok(None),
        }
    }

    fn report(&mut self, cause: Cause, octets: &[u8], flags: u8) {
        let Ok(report) = self.errors.report(cause, octets, flags & 8 == 8, self.now) else {
            return;
        };
        let mut message = Vec::new();
        report.emit(us(), &mut message);
        assert!(message.len() <= 1240 && octets.starts_with(report.error.quote));
        if let Cause::ParameterProblem(_, pointer) = cause {
            assert!((pointer as usize) < octets.len(), "{pointer} of {}", octets.len());
        }
        if let Some(quote) = Quote::parse(report.error.quote) {
            assert_eq!(quote.source, report.destination);
        }
    }

    fn check(&mut self) {
        assert!(self.reassembly.memory() <= MAX_MEMORY);
        // Four made-up sources, one of them on two links, and the host itself.
        assert!(self.reassembly.len() <= 6 * MAX_OF_SOURCE);
        let expired = polled(MAX_POLLED, || self.reassembly.poll_output());
        for one in expired {
            let flags = if one.arrival.is_link_multicast { 8 } else { 0 };
            self.report(Cause::TimeExceeded(REASSEMBLY), &one.quote, flags);
        }
    }

    fn end(&mut self) {
        self.reassembly.handle_timeout(self.now + TIMEOUT);
        assert_eq!((self.reassembly.memory(), self.reassembly.poll_timeout()), (0, None));
    }
}

/// A host at 192.0.2.2, with a socket that answers nothing.
fn ip4_host(now: Instant) -> Stack {
    let mut host = Stack::new(Config::default(), [1; 32], now);
    let addressing = address::Config::new(Mac([2, 0, 0, 0, 0, 2]));
    let ip4 = ip4::Config {
        address: Ipv4Addr::new(192, 0, 2, 2),
        prefix_len: 24,
        gateway: Some(Ipv4Addr::new(192, 0, 2, 1)),
    };
    host.add_wire(WireConfig { mtu: 1500, addressing, ip4: Some(ip4) }, now);
    host.tcp_listen(None, 80, 1).expect("a free port");
    host
}

fn arp_frame(input: &mut Input<'_>) -> Vec<u8> {
    let mut frame = Vec::from(link(0x0806));
    frame.extend([0, 1, 8, 0, 6, 4, 0, input.octet() % 4]);
    for _ in 0..2 {
        frame.extend([2, 0, 0, 0, 0, input.octet() % 4, 192, 0, 2, input.octet() % 8]);
    }
    frame
}

fn ip4_frame(input: &mut Input<'_>, len: usize) -> Vec<u8> {
    let words = 5 + input.octet() % 11;
    let flags = input.word() & 0x203f;
    let protocol = input.pick(&[1, 6, 17, 17, 99]);
    let [from, to] = [input.octet() % 8, input.pick(&[2, 2, 2, 255])];
    let options = usize::from(words) * 4 - 20;
    let mut payload = Vec::from(input.take(options + len));
    payload.resize(options + len, 0);
    if protocol == 1 {
        fill(&mut payload[options..], 2, checksum);
    }
    let mut packet = vec![0x40 | words, 0];
    packet.extend(u16::try_from(20 + payload.len()).expect("short").to_be_bytes());
    packet.extend([0, from & 1]);
    packet.extend(flags.to_be_bytes());
    packet.extend([64, protocol, 0, 0, 192, 0, 2, from, 192, 0, 2, to]);
    packet.extend(payload);
    fill(&mut packet[..usize::from(words) * 4], 10, checksum);
    let mut frame = Vec::from(link(0x0800));
    frame.extend(packet);
    frame
}

/// The header of a frame to the host of [`ip4_host`].
const fn link(ether_type: u16) -> [u8; 14] {
    let [high, low] = ether_type.to_be_bytes();
    [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, high, low]
}

fn check_sent(frame: &[u8]) {
    assert!(frame.len() <= 14 + 1500);
    let own = Ipv4Addr::new(192, 0, 2, 2);
    match u16::from_be_bytes([frame[12], frame[13]]) {
        0x0800 => assert_eq!(Ip4::parse(&frame[14..]).expect("valid").source, own),
        0x0806 => assert_eq!(Arp::parse(&frame[14..]).expect("valid").sender, own),
        _ => drop(Header::parse(&frame[14..]).expect("valid")),
    }
}

fn us() -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2)
}

/// A source: two in one /64, another one, and a link-local one.
fn address(number: u8) -> Ipv6Addr {
    let number = u16::from(number);
    match number {
        3 => Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1),
        _ => Ipv6Addr::new(0x2001, 0xdb8, 1, number / 2, 0, 0, 0, number),
    }
}

const NUMBERS: [u8; 8] =
    [UDP, TCP, ICMPV6, HOP_BY_HOP, DESTINATION_OPTIONS, ROUTING, FRAGMENT, NO_NEXT_HEADER];
const NO_NEXT_HEADER: u8 = moorline_ip::header::NO_NEXT_HEADER;
/// Steps from this number on are frames of IPv4.
const IP4_STEPS: u8 = 0xe0;
/// More frames than one frame and the timers of a new host cause.
const MAX_FRAMES: usize = 200;
/// More errors than wait at any time.
const MAX_POLLED: usize = MAX_EXPIRED + 1;
