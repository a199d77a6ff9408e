use super::*;
use proptest::prelude::*;
use std::fs;
use std::io::Write as _;

/// All packets of a file with this content.
fn packets(content: &[u8]) -> anyhow::Result<Vec<Packet>> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(content).unwrap();
    open(file.path())?.collect()
}

fn problem(content: &[u8]) -> String {
    format!("{:#}", packets(content).unwrap_err())
}

fn addresses(packet: &Packet) -> (String, String) {
    (packet.source.to_string(), packet.destination.to_string())
}

/// An Ethernet frame with IPv6 and 8 octets of UDP, cut behind the IPv6 header.
fn ethernet() -> Vec<u8> {
    let mut frame = [vec![2; 12], vec![0x86, 0xdd], vec![0x60, 0, 0, 0, 0, 8, 17, 64]].concat();
    for address in ["2001:db8::1", "2001:db8::2"] {
        frame.extend(address.parse::<Ipv6Addr>().unwrap().octets());
    }
    frame
}

fn ipv4() -> Vec<u8> {
    let header = [0x45, 0, 0, 28, 0, 0, 0, 0, 64, 6, 0, 0];
    [&header[..], &[192, 0, 2, 1], &[192, 0, 2, 2], &[0; 8]].concat()
}

/// A pcap file of this link type with these packets, a second and a half apart.
fn pcap(link: u32, packets: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4, 0x0004_0002, 0, 0, 262_144, link] {
        file.extend(u32::to_le_bytes(word));
    }
    for (packet, index) in packets.iter().zip(0..) {
        let len = u32::try_from(packet.len()).unwrap();
        for word in [1000 + index * 3 / 2, index % 2 * 500_000, len, len + 8] {
            file.extend(u32::to_le_bytes(word));
        }
        file.extend(packet);
    }
    file
}

fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let body = [body, &vec![0; body.len().next_multiple_of(4) - body.len()]].concat();
    let len = u32::try_from(body.len() + 12).unwrap().to_be_bytes();
    [&kind.to_be_bytes()[..], &len, &body, &len].concat()
}

/// A pcapng file, big-endian, whose clock counts 1024ths of a second.
fn pcapng() -> Vec<u8> {
    let words =
        |words: &[u32]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<_>>();
    let section = words(&[0x1a2b_3c4d, 0x0001_0000, u32::MAX, u32::MAX]);
    // `if_tsresol` 2^-10, and the end of options.
    let interface = words(&[1 << 16, 0, 0x0009_0001, 0x8a00_0000, 0]);
    let frame = ethernet();
    let len = u32::try_from(frame.len()).unwrap();
    let packet = [words(&[0, 0, 1024 + 512, len, len]), frame].concat();
    [block(0x0a0d_0d0a, &section), block(1, &interface), block(6, &packet)].concat()
}

#[test]
fn packets_of_a_capture_have_times_addresses_and_lengths_of_their_headers() {
    let arp = [vec![2; 12], vec![8, 6], vec![0; 28]].concat();
    let found = packets(&pcap(1, &[ethernet(), arp, ethernet()])).unwrap();
    assert_eq!(found.len(), 2, "no ARP");
    let (from, to) = addresses(&found[0]);
    assert_eq!((&*from, &*to), ("2001:db8::1", "2001:db8::2"));
    assert_eq!((found[0].octets, found[0].protocol), (48, Some(17)));
    assert_eq!(found[1].at - found[0].at, Duration::from_secs(3));
}

#[test]
fn link_types_without_ethernet_are_understood_and_others_refused() {
    for (link, before) in [(101, 0), (113, 16), (0, 4)] {
        let found = packets(&pcap(link, &[[vec![0; before], ipv4()].concat()])).unwrap();
        let (from, to) = addresses(&found[0]);
        assert_eq!((&*from, &*to), ("::ffff:192.0.2.1", "::ffff:192.0.2.2"));
        assert_eq!((found[0].octets, found[0].protocol), (28, Some(6)));
    }
    assert!(problem(&pcap(127, &[ipv4()])).contains("link type 127"));
}

#[test]
fn pcapng_of_the_other_byte_order_and_another_clock_is_understood() {
    let found = packets(&pcapng()).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].at, found[0].octets), (Duration::from_millis(1500), 48));
}

#[test]
fn a_capture_that_ends_amid_a_packet_gives_those_before_and_a_huge_block_is_refused() {
    let whole = pcap(1, &[ethernet(), ethernet()]);
    assert_eq!(packets(&whole[..whole.len() - 3]).unwrap().len(), 1);
    let mut huge = pcap(1, &[vec![0; 2_000_000]]);
    huge.extend([0; 100]);
    assert!(!problem(&huge).is_empty());
}

#[test]
fn flow_records_of_nfdump_old_and_new_and_of_ipfix_say_the_same() {
    let old = "ts,te,td,sa,da,sp,dp,pr,flg,fwd,stos,ipkt,ibyt,opkt,obyt\n\
        2008-08-01 00:00:01,2008-08-01 00:00:03,2.000,192.0.2.1,192.0.2.2,1,2,TCP,...,0,0,2,300,1,100\n\
        Summary\nflows,bytes,packets\n1,400,3\n";
    let new = "firstSeen,duration,proto,srcAddr,srcPort,dstAddr,dstPort,packets,bytes,flows\n\
        2008-08-01 00:00:01.000,00:00:02.000,TCP,192.0.2.1,1,192.0.2.2,2,3,400,1\n";
    let ipfix = "flowStartMilliseconds,flowEndMilliseconds,sourceIPv4Address,sourceIPv6Address,\
        destinationIPv4Address,destinationIPv6Address,protocolIdentifier,octetDeltaCount,packetDeltaCount\n\
        1217548801000,1217548803000,192.0.2.1,::,192.0.2.2,,6,400,3\n";
    let expected = packets(old.as_bytes()).unwrap();
    assert_eq!(expected.iter().map(|packet| packet.octets).sum::<u64>(), 400);
    assert_eq!(expected.len(), 3);
    assert_eq!(expected[0].at, Duration::from_secs(1_217_548_801));
    assert_eq!(expected[2].at - expected[0].at, Duration::from_secs(2));
    assert_eq!(expected[0].protocol, Some(6));
    for other in [new, ipfix] {
        assert_eq!(packets(other.as_bytes()).unwrap(), expected, "{other}");
    }
}

#[test]
fn what_is_wrong_with_records_is_told_with_its_place() {
    let lacks = problem(b"ts,sa,ibyt\n1,::1,5\n");
    for what in ["an end (te", "a destination (da", "packets (ipkt"] {
        assert!(lacks.contains(what), "{lacks}");
    }
    assert!(!lacks.contains("a source"), "{lacks}");
    let line = |line: &str| {
        problem(format!("ts,td,sa,da,ipkt,ibyt\n1,1,::1,::2,1,1\n{line}\n").as_bytes())
    };
    assert!(line("1,1,fe80::1%eth0,::2,1,1").contains("line 3: source: column 3"));
    assert!(line("1,-1,::1,::2,1,1").contains("is no duration"));
    assert!(line("2008-13-01 00:00:00,1,::1,::2,1,1").contains("is no time"));
    assert!(line("1,1,::1,::2,1").contains("column 6"));
    assert!(line("1,99999999,::1,::2,1,1").contains("days"));
    assert!(problem(b"").contains("no column"));
}

#[test]
fn packets_of_all_records_come_in_the_order_of_their_times_with_all_octets() {
    let record = |start, seconds, octets, packets| Record {
        start: Duration::from_secs(start),
        duration: Duration::from_secs(seconds),
        source: Ipv6Addr::LOCALHOST,
        destination: Ipv6Addr::UNSPECIFIED,
        protocol: None,
        octets,
        packets,
    };
    let records = [record(0, 100, 1001, 5), record(10, 0, 7, 3), record(30, 2, 10, 1_000_000)];
    let packets: Vec<_> = Spread::new(records.into_iter()).collect();
    assert!(packets.is_sorted_by_key(|packet| packet.at));
    assert_eq!(packets.iter().map(|packet| packet.octets).sum::<u64>(), 1018);
    assert_eq!(packets.iter().map(|packet| u64::from(packet.packets)).sum::<u64>(), 1_000_008);
    let times: Vec<_> = packets.iter().map(|packet| packet.at.as_secs()).collect();
    assert!([0, 25, 50, 75, 100].iter().all(|at| times.contains(at)), "{times:?}");
    assert_eq!(packets.len(), 5 + 2 + 4, "those of a second together");
}

#[test]
fn a_campus_is_the_same_for_the_same_seed_and_sleeps_at_night() {
    let campus = Campus { rate: 1.0, ..Campus::default() };
    let take = |campus: &Campus| campus.packets().map(Result::unwrap).collect::<Vec<_>>();
    let packets = take(&campus);
    assert_eq!(packets, take(&campus));
    assert_ne!(packets, take(&Campus { seed: 2, ..campus.clone() }));
    assert!(packets.is_sorted_by_key(|packet| packet.at));
    let within = |from: u64, to: u64| {
        let hours = Duration::from_secs(from * 3600)..Duration::from_secs(to * 3600);
        packets.iter().filter(|packet| hours.contains(&packet.at)).count()
    };
    assert!(within(14, 18) > 3 * within(2, 6));
    let of = |host: Ipv6Addr| packets.iter().filter(|packet| packet.destination == host).count();
    let [first, second, third] = campus.hosts()[..] else { panic!() };
    assert!(of(first) > of(second) && of(second) > of(third) && of(third) > 0);
}

#[test]
fn a_file_that_is_no_trace_says_so() {
    assert!(problem(&[0xff, 0xfe, 0, 1, 2]).contains("no C"));
    let folder = tempfile::tempdir().unwrap();
    assert!(open(&folder.path().join("none")).is_err());
    fs::write(folder.path().join("short"), [0xd4, 0xc3, 0xb2, 0xa1]).unwrap();
    assert!(open(&folder.path().join("short")).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Any damaged capture is read to its end or refused.
    #[test]
    fn damaged_captures_do_no_harm(
        is_new in any::<bool>(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in 0usize..40,
    ) {
        let mut file = if is_new { pcapng() } else { pcap(1, &[ethernet(), ethernet()]) };
        for (index, value) in changes {
            // The first four octets stay, because they identify the capture.
            let at = 4 + index.index(file.len() - 4);
            file[at] = value;
        }
        file.truncate(file.len() - cut);
        let _ = packets(&file);
    }

    #[test]
    fn any_line_of_records_does_no_harm(line in "\\PC{0,80}", fields in proptest::collection::vec("[-0-9:.,T Z\"]{0,24}", 6)) {
        let _ = packets(format!("ts,td,sa,da,ipkt,ibyt\n{line}\n").as_bytes());
        let _ = packets(format!("ts,te,sa,da,ipkt,ibyt\n{}\n", fields.join(",")).as_bytes());
    }
}
