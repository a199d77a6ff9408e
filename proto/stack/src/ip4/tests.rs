use super::*;
use alloc::vec::Vec;
use core::net::Ipv6Addr;
use core::time::Duration;

use moorline_ip::arp::{Arp, Operation};
use moorline_ip::icmp4::MAX_QUOTE;
use moorline_ip::{Mac, PacketBuf};
use moorline_types::Instant;
use proptest::prelude::*;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng as _;

use crate::Drop;
use crate::neighbor::{IN_USE, MAX_INCOMPLETE, MAX_NEIGHBORS, Output, State};

const US: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const PEER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const OTHER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 77);
const US_MAC: Mac = Mac([2, 0, 0, 0, 0, 2]);
const PEER_MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);
const EVIL_MAC: Mac = Mac([2, 0, 0, 0, 0, 0x66]);

fn config() -> Config {
    Config { address: US, prefix_len: 24, gateway: Some(PEER) }
}

/// An interface with its time.
struct Host {
    interface: Interface,
    now: Instant,
}

impl Host {
    fn new() -> Self {
        Self::with(Config { prefix_len: 8, ..config() })
    }

    fn with(config: Config) -> Self {
        let random = ChaCha20Rng::seed_from_u64(4);
        Self {
            interface: Interface::new(config, US_MAC, 1500, random),
            now: Instant::from_nanos(1),
        }
    }

    /// Sends a packet, and returns the outputs.
    fn send(&mut self, to: Ipv4Addr) -> Vec<Output> {
        let packet = PacketBuf::copy_of(&[0x45; 20]);
        let next_hop = self.interface.next_hop(to).expect("a way");
        self.interface.send(next_hop, packet, self.now).expect("room");
        self.outputs()
    }

    fn outputs(&mut self) -> Vec<Output> {
        core::iter::from_fn(|| self.interface.poll_output()).collect()
    }

    fn run(&mut self, time: Duration) -> Vec<Output> {
        let until = self.now + time;
        let mut outputs = self.outputs();
        while let Some(due) = self.interface.poll_timeout().filter(|due| *due <= until) {
            self.now = due;
            self.interface.handle_timeout(due);
            outputs.extend(self.outputs());
        }
        self.now = until;
        outputs
    }

    fn take(
        &mut self,
        operation: Operation,
        (sender, sender_mac): (Ipv4Addr, Mac),
        target: Ipv4Addr,
    ) -> Result<Option<Arp>, Drop> {
        let message = Arp { operation, sender_mac, sender, target_mac: US_MAC, target };
        self.interface.handle_arp(&message, self.now)
    }

    fn neighbor(&self, address: Ipv4Addr) -> Option<(State, Option<Mac>)> {
        let all = self.interface.neighbors(self.now);
        let mut found = all.filter(|row| row.address == address.to_ipv6_mapped());
        found.next().map(|row| (row.state, row.mac))
    }

    /// A host with an entry of the peer in a state.
    fn in_state(state: State) -> Self {
        let mut host = Self::new();
        host.send(PEER);
        if state != State::Incomplete {
            host.take(Operation::REPLY, (PEER, PEER_MAC), US).expect("an answer");
        }
        if !matches!(state, State::Incomplete | State::Reachable) {
            host.run(Duration::from_secs(60));
        }
        if !matches!(state, State::Incomplete | State::Reachable | State::Stale) {
            host.send(PEER);
        }
        match state {
            State::Probe => drop(host.run(Duration::from_millis(5_500))),
            State::Unreachable => drop(host.run(Duration::from_millis(8_500))),
            State::Incomplete | State::Reachable | State::Stale | State::Delay => {}
        }
        host.outputs();
        assert_eq!(host.neighbor(PEER).expect("an entry").0, state);
        host
    }
}

/// A request to all stations, or to one.
fn is_request(output: &Output, to: Option<Mac>) -> bool {
    matches!(output, Output::Solicit { target, to: sent, .. } if *target == PEER.to_ipv6_mapped() && *sent == to)
}

#[test]
fn a_prefix_has_two_addresses_that_no_host_has_unless_it_is_too_long() {
    let is_no_host = |prefix_len, last| {
        Config { prefix_len, ..config() }.is_no_host(Ipv4Addr::new(192, 0, 2, last))
    };
    assert!(is_no_host(24, 0) && is_no_host(24, 255) && !is_no_host(24, 1));
    assert!(is_no_host(30, 0) && is_no_host(30, 3) && !is_no_host(30, 2) && !is_no_host(30, 4));
    // RFC 3021: both addresses of a prefix of 31 bits are hosts.
    assert!(!is_no_host(31, 2) && !is_no_host(31, 3) && !is_no_host(32, 2));
    assert!(config().is_broadcast(Ipv4Addr::BROADCAST));
    assert!(!config().is_broadcast(Ipv4Addr::new(192, 0, 2, 0)));
    let everywhere = Config { prefix_len: 0, ..config() };
    assert!(everywhere.is_on_link(Ipv4Addr::new(8, 8, 8, 8)));
    assert!(!Config { prefix_len: 99, ..config() }.is_on_link(OTHER));
    assert_eq!(config().prefix().length(), 96 + 24);
}

#[test]
fn a_text_is_an_address_with_its_prefix_and_a_gateway_in_it() {
    let read = |text: &str| text.parse::<Config>();
    assert_eq!(read("192.0.2.2/24,gateway 192.0.2.1"), Ok(config()));
    assert_eq!(read("192.0.2.2/24,gateway=192.0.2.1"), Ok(config()));
    assert_eq!(read("192.0.2.2/24"), Ok(Config { gateway: None, ..config() }));
    for text in ["192.0.2.2", "192.0.2/24", "192.0.2.2/33", "192.0.2.2/24,192.0.2.1", "::1/128", ""]
    {
        assert_eq!(read(text), Err(NotConfig::Form), "{text}");
    }
    for text in ["192.0.2.255/24", "192.0.2.0/24", "224.0.0.1/4", "127.0.0.1/8", "0.0.0.0/0"] {
        assert_eq!(read(text), Err(NotConfig::Address), "{text}");
    }
    for gateway in ["192.0.3.1", "192.0.2.2", "192.0.2.255"] {
        let text = std::format!("192.0.2.2/24,gateway {gateway}");
        assert_eq!(read(&text), Err(NotConfig::Gateway), "{text}");
    }
}

#[test]
fn packets_go_to_the_neighbor_or_to_the_gateway_and_to_no_group() {
    let host = Host::with(config());
    let next_hop = |to: [u8; 4]| host.interface.next_hop(to.into());
    assert_eq!(next_hop([192, 0, 2, 77]), Some(OTHER.to_ipv6_mapped()));
    assert_eq!(next_hop([198, 51, 100, 1]), Some(PEER.to_ipv6_mapped()));
    for none in [
        [0, 0, 0, 0],
        [0, 1, 2, 3],
        [127, 0, 0, 1],
        [192, 0, 2, 255],
        [192, 0, 2, 0],
        [224, 0, 0, 1],
        [240, 0, 0, 1],
        [255, 255, 255, 255],
    ] {
        assert_eq!(next_hop(none), None, "{none:?}");
    }
    let host = Host::with(Config { gateway: None, ..config() });
    assert_eq!(host.interface.next_hop(Ipv4Addr::new(198, 51, 100, 1)), None);
}

#[test]
fn a_packet_waits_for_the_reply_to_a_request() {
    let mut host = Host::new();
    let sent = host.send(PEER);
    assert!(matches!(&sent[..], [one] if is_request(one, None)), "{sent:?}");
    let (to, request) = host.interface.request(PEER.to_ipv6_mapped(), None);
    let wanted = Arp {
        operation: Operation::REQUEST,
        sender_mac: US_MAC,
        sender: US,
        target_mac: Mac([0; 6]),
        target: PEER,
    };
    assert_eq!((to, request), (Mac::BROADCAST, wanted));
    assert_eq!(host.take(Operation::REPLY, (PEER, PEER_MAC), US), Ok(None));
    let sent = host.outputs();
    assert!(matches!(&sent[..], [Output::Send { mac, .. }] if *mac == PEER_MAC), "{sent:?}");
    assert_eq!(host.neighbor(PEER), Some((State::Reachable, Some(PEER_MAC))));
}

#[test]
fn nobody_answers_three_requests_so_the_sender_learns_of_it() {
    let mut host = Host::new();
    host.send(PEER);
    let outputs = host.run(Duration::from_secs(10));
    let requests = outputs.iter().filter(|output| is_request(output, None)).count();
    assert_eq!(requests, 2, "and one at the start");
    assert!(
        matches!(outputs.last(), Some(Output::Unreachable { packets, .. }) if packets.len() == 1)
    );
    assert_eq!(host.neighbor(PEER), None);
}

#[test]
fn a_request_is_answered_and_its_sender_has_an_entry_then() {
    let mut host = Host::new();
    let reply =
        host.take(Operation::REQUEST, (PEER, PEER_MAC), US).expect("valid").expect("a reply");
    let wanted = Arp {
        operation: Operation::REPLY,
        sender_mac: US_MAC,
        sender: US,
        target_mac: PEER_MAC,
        target: PEER,
    };
    assert_eq!(reply, wanted);
    assert_eq!(host.neighbor(PEER), Some((State::Stale, Some(PEER_MAC))));
    // A request for another host makes no entry, and no reply.
    assert_eq!(host.take(Operation::REQUEST, (OTHER, EVIL_MAC), PEER), Ok(None));
    assert_eq!(host.neighbor(OTHER), None);
    // RFC 5227 s2.1.1: a probe is answered, and teaches nothing.
    let probe = host.take(Operation::REQUEST, (Ipv4Addr::UNSPECIFIED, EVIL_MAC), US);
    assert_eq!(probe.map(|reply| reply.map(|it| it.target)), Ok(Some(Ipv4Addr::UNSPECIFIED)));
    assert_eq!(host.interface.neighbors(host.now).count(), 1);
    // A sender of another link is answered, and is no neighbor.
    let far = Ipv4Addr::new(8, 8, 8, 8);
    assert!(host.take(Operation::REQUEST, (far, EVIL_MAC), US).is_ok_and(|reply| reply.is_some()));
    assert_eq!(host.neighbor(far), None);
}

#[test]
fn senders_that_no_host_can_be_are_refused() {
    let mut host = Host::with(config());
    for sender in [
        US,
        Ipv4Addr::new(192, 0, 2, 255),
        Ipv4Addr::new(192, 0, 2, 0),
        Ipv4Addr::BROADCAST,
        Ipv4Addr::new(224, 0, 0, 1),
        Ipv4Addr::LOCALHOST,
    ] {
        for operation in [Operation::REQUEST, Operation::REPLY] {
            assert_eq!(host.take(operation, (sender, EVIL_MAC), US), Err(Drop::BadSource));
        }
    }
    let group = Mac([1, 0, 0x5e, 0, 0, 1]);
    for mac in [group, Mac::BROADCAST] {
        let refused = host.take(Operation::REQUEST, (PEER, mac), US);
        assert_eq!(refused, Err(Drop::Malformed));
    }
    assert_eq!(host.interface.neighbors(host.now).count(), 0);
}

/// Each state of an entry, with each message of a station at another address: a reply to this host, a reply to all, and requests.
#[test]
fn a_message_that_answers_nothing_moves_no_neighbor_that_answers() {
    use State::{Delay, Incomplete, Probe, Reachable, Stale, Unreachable};
    let reply = (Operation::REPLY, US);
    let announcement = (Operation::REPLY, PEER);
    let request = (Operation::REQUEST, US);
    let foreign = (Operation::REQUEST, OTHER);
    let ignored = Err(Drop::AdvertisementValue);
    for (state, messages, result, then, mac) in [
        (Incomplete, [reply].as_slice(), Ok(()), Reachable, EVIL_MAC),
        // Nobody has proven anything: a packet waited, so the entry is in use at once.
        (Incomplete, &[announcement, request, foreign], Ok(()), Delay, EVIL_MAC),
        (Reachable, &[reply, announcement, request, foreign], Ok(()), Stale, PEER_MAC),
        (Stale, &[reply, announcement, request, foreign], ignored, Stale, PEER_MAC),
        (Delay, &[reply, announcement, request, foreign], ignored, Delay, PEER_MAC),
        (Probe, &[reply, announcement, request, foreign], ignored, Probe, PEER_MAC),
        // The old station does not answer, and all stations are asked.
        (Unreachable, &[reply], Ok(()), Reachable, EVIL_MAC),
        (Unreachable, &[announcement, request, foreign], Ok(()), Stale, EVIL_MAC),
    ] {
        for (operation, target) in messages {
            let mut host = Host::in_state(state);
            let taken = host.take(*operation, (PEER, EVIL_MAC), *target);
            let is_asking = *operation == Operation::REQUEST && *target == US;
            // RFC 826: a request is answered in any case.
            let wanted = if is_asking { Ok(()) } else { result };
            assert_eq!(taken.map(drop), wanted, "{state:?} {operation:?} {target}");
            assert_eq!(taken.is_ok_and(|reply| reply.is_some()), is_asking);
            let counted = host.interface.drops().map(|it| it.of(Drop::AdvertisementValue));
            assert_eq!(counted.sum::<u64>(), u64::from(is_asking && result.is_err()));
            assert_eq!(
                host.neighbor(PEER),
                Some((then, Some(mac))),
                "{state:?} {operation:?} {target}"
            );
        }
    }
}

#[test]
fn the_right_station_confirms_itself_where_it_was_asked() {
    use State::{Delay, Probe, Reachable, Stale, Unreachable};
    for (state, then) in [
        (Reachable, Reachable),
        (Stale, Stale),
        (Delay, Delay),
        (Probe, Reachable),
        (Unreachable, Reachable),
    ] {
        let mut host = Host::in_state(state);
        assert_eq!(host.take(Operation::REPLY, (PEER, PEER_MAC), US), Ok(None));
        assert_eq!(host.neighbor(PEER), Some((then, Some(PEER_MAC))), "{state:?}");
    }
}

#[test]
fn a_reply_that_nobody_asked_for_makes_no_entry() {
    let mut host = Host::new();
    for target in [US, PEER, OTHER] {
        let taken = host.take(Operation::REPLY, (PEER, EVIL_MAC), target);
        assert_eq!(taken, Err(Drop::UnknownNeighbor));
    }
    assert_eq!(host.interface.neighbors(host.now).count(), 0);
}

#[test]
fn a_neighbor_with_a_new_station_is_found_although_nobody_is_believed() {
    let mut host = Host::in_state(State::Reachable);
    host.take(Operation::REPLY, (PEER, EVIL_MAC), PEER).expect("an announcement");
    let sent = host.send(PEER);
    assert!(matches!(&sent[..], [Output::Send { mac, .. }] if *mac == PEER_MAC));
    // RFC 1122 s2.3.2.1: a unicast poll first, and then all are asked.
    let asked = host.run(Duration::from_secs(9));
    let [one, two, three, .., all] = &asked[..] else { panic!("{asked:?}") };
    assert!([one, two, three].iter().all(|request| is_request(request, Some(PEER_MAC))));
    assert!(is_request(all, None));
    host.take(Operation::REPLY, (PEER, EVIL_MAC), US).expect("an answer");
    assert_eq!(host.neighbor(PEER), Some((State::Reachable, Some(EVIL_MAC))));
}

#[test]
fn a_flood_of_requests_fills_the_table_and_leaves_the_entry_in_use() {
    let mut host = Host::in_state(State::Reachable);
    for number in 0..10_000_u32 {
        host.now = host.now + Duration::from_micros(1);
        let sender = Ipv4Addr::from_bits(0xc001_0001 + number);
        host.take(Operation::REQUEST, (sender, EVIL_MAC), US).expect("an answer");
    }
    assert_eq!(host.interface.neighbors(host.now).count(), MAX_NEIGHBORS);
    assert_eq!(host.neighbor(PEER), Some((State::Reachable, Some(PEER_MAC))));
    let evicted = host.interface.drops().map(|drops| drops.of(Drop::NeighborLimit)).sum::<u64>();
    assert_eq!(usize::try_from(evicted), Ok(10_001 - MAX_NEIGHBORS));
    assert!(host.now.since(Instant::ZERO) < IN_USE);
}

#[test]
fn a_scan_of_the_link_leaves_1024_entries_without_an_answer() {
    let mut host = Host::in_state(State::Reachable);
    for number in 0..5_000_u32 {
        host.now = host.now + Duration::from_micros(1);
        host.send(Ipv4Addr::from_bits(0xc001_0001 + number));
    }
    let all = host.interface.neighbors(host.now);
    let incomplete = all.filter(|row| row.state == State::Incomplete).count();
    assert_eq!(incomplete, MAX_INCOMPLETE);
    assert_eq!(host.neighbor(PEER), Some((State::Reachable, Some(PEER_MAC))));
}

fn header(len: usize) -> Ip4 {
    Ip4 {
        tos: 0xb8,
        header_len: 20,
        total_len: u16::try_from(len).expect("short"),
        identification: 0xabcd,
        dont_fragment: false,
        more_fragments: false,
        offset: 0,
        ttl: 17,
        protocol: 17,
        source: PEER,
        destination: US,
    }
}

#[test]
fn a_packet_is_cut_at_multiples_of_eight_octets() {
    let mut packet = Vec::from(header(20 + 2000).octets());
    packet.extend((0..2000_u16).map(|at| u8::try_from(at % 251).expect("small")));
    let cut: Vec<_> = fragments(&packet, header(20 + 2000), 1006).collect();
    let lens: Vec<_> = cut.iter().map(|fragment| fragment.len()).collect();
    assert_eq!(lens, [20 + 984, 20 + 984, 20 + 32]);
    let mut data = Vec::new();
    for fragment in &cut {
        let read = Ip4::parse(fragment).expect("valid");
        assert_eq!(usize::from(read.offset), data.len());
        data.extend_from_slice(&fragment[20..]);
        assert_eq!(read.more_fragments, data.len() < 2000);
        assert_eq!((read.identification, read.tos, read.ttl), (0xabcd, 0xb8, 17));
    }
    assert_eq!(data, packet[20..]);
}

#[test]
fn a_fragment_is_one_of_ipv6_for_the_reassembly_and_an_error_quotes_the_one_of_ipv4() {
    let ip = Ip4 { more_fragments: true, offset: 0, ..header(20 + 16) };
    let mut packet = Vec::from(ip.octets());
    packet.extend(1..=16);
    let (fragment, header) = as_ip6(&ip, &packet).expect("a fragment");
    assert_eq!(Header::parse(&fragment), Ok(header));
    assert_eq!(header.source, PEER.to_ipv6_mapped());
    // Next Header UDP, offset zero, more fragments; UDP in front of the Identification.
    assert_eq!(fragment[40..48], [17, 0, 0, 1, 0, 17, 0xab, 0xcd]);
    assert_eq!(original(&fragment), Some(packet.clone()));
    assert_eq!(original(&packet), Some(packet));
}

#[test]
fn an_error_quotes_nothing_of_ipv6_and_no_more_than_its_limit() {
    let ip6 = moorline_ip::ip6::packet(17, Ipv6Addr::LOCALHOST, US.to_ipv6_mapped(), &[0; 9]);
    assert_eq!(original(&ip6), None);
    let mut long = Vec::from(header(1500).octets());
    long.resize(1500, 0);
    assert_eq!(original(&long).map(|quote| quote.len()), Some(MAX_QUOTE));
    let (fragment, _) = as_ip6(&header(1500), &long).expect("a fragment");
    assert_eq!(original(&fragment).map(|quote| quote.len()), Some(MAX_QUOTE));
}

#[test]
fn no_datagram_is_longer_than_65535_octets() {
    let ip = Ip4 { offset: 65_480, ..header(20 + 35) };
    let mut packet = Vec::from(ip.octets());
    packet.resize(55, 0);
    assert!(as_ip6(&ip, &packet).is_ok());
    let ip = Ip4 { offset: 65_488, ..header(20 + 28) };
    assert_eq!(as_ip6(&ip, &packet).map(drop), Err(Drop::FragmentLength));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_messages_leave_the_table_within_its_bounds(
        messages in proptest::collection::vec((1_u16..4, 0_u8..8, 0_u8..4, 0_u8..4, 0_u16..3000), 0..200)
    ) {
        let mut host = Host::with(config());
        for (operation, sender, mac, target, millis) in messages {
            let _ = host.run(Duration::from_millis(millis.into()));
            let at = |last| Ipv4Addr::new(192, 0, 2, last);
            let mac = Mac([2, 0, 0, 0, 0, mac]);
            let _ = host.take(Operation(operation), (at(sender), mac), at(target));
            if operation == 3 && !matches!(sender, 0 | 2) {
                host.send(at(sender));
            }
            prop_assert!(host.interface.neighbors(host.now).count() <= 6);
            prop_assert_eq!(host.neighbor(US), None);
        }
    }
}
