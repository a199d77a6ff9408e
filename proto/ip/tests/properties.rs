//! No parser panics on any octets, and a parsed message is written with the octets that it was read from.

use std::net::Ipv6Addr;

use moorline_ip::arp::Arp;
use moorline_ip::icmp::{Echo, Error, Icmp, Kind};
use moorline_ip::ip4::Ip4;
use moorline_ip::mld::{Query, Report};
use moorline_ip::nd::Message;
use moorline_ip::udp::Datagram;
use moorline_ip::{Header, extension, fill_icmp_checksum, icmp4};
use proptest::collection::vec;
use proptest::prelude::*;

const ROUTER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
const HOST: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2);

/// A message of ICMPv6 with a right checksum: the first octet chooses the type.
fn icmp() -> impl Strategy<Value = Vec<u8>> {
    let kinds = prop::sample::select(vec![
        1, 2, 3, 4, 128, 129, 130, 131, 132, 133, 134, 135, 136, 137, 143,
    ]);
    let options = vec((1_u8..40, 0_u8..5, vec(any::<u8>(), 6..31)), 0..6);
    (kinds, vec(any::<u8>(), 0..40), options).prop_map(|(kind, body, options)| {
        let mut message = vec![kind, 0, 0, 0];
        message.extend(body);
        for (kind, units, contents) in options {
            let len = (8 * usize::from(units)).max(2);
            let start = message.len();
            message.extend([kind, units]);
            message.extend(contents);
            message.resize(start + len, 0);
        }
        fill_icmp_checksum(&mut message, ROUTER, HOST);
        message
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_panics(octets in vec(any::<u8>(), 0..200)) {
        let _ = Header::parse(&octets);
        let _ = Arp::parse(&octets);
        let _ = icmp4::Message::parse(&octets);
        if let Ok(header) = Ip4::read(&octets) {
            prop_assert!(header.options(&octets).count() <= 40);
        }
        let _ = Datagram::parse(ROUTER, HOST, &octets);
        let _ = extension::Routing::parse(&octets);
        let _ = extension::Fragment::parse(&octets);
        if let Ok(options) = extension::Options::parse(&octets) {
            prop_assert!(options.iter().count() <= octets.len());
        }
    }

    #[test]
    fn ipv4_headers_and_messages_with_right_checksums_are_read_without_a_panic(
        mut octets in vec(any::<u8>(), 20..80), kind in 0_u8..20,
    ) {
        octets[0] = 0x40 | octets[0] & 0x0f;
        octets[2..4].copy_from_slice(&20_u16.to_be_bytes());
        let len = usize::from(octets[0] & 0x0f) * 4;
        if let Some(header) = octets.get_mut(..len) {
            moorline_ip::fill(header, 10, moorline_ip::checksum);
        }
        if let Ok(header) = Ip4::parse(&octets) {
            prop_assert_eq!(Ip4::parse(&header.octets()), Ok(header));
        }
        octets[0] = kind;
        moorline_ip::fill(&mut octets, 2, moorline_ip::checksum);
        let message = icmp4::Message::parse(&octets).expect("right checksum");
        let mut written = vec![];
        message.emit(&mut written);
        prop_assert_eq!(icmp4::Message::parse(&written), Ok(message));
    }

    #[test]
    fn messages_of_all_types_are_read_without_a_panic(octets in icmp()) {
        let header = Header::new(ROUTER, HOST, 58, 255, 0);
        let message = Icmp::parse(ROUTER, HOST, &octets).expect("right checksum");
        let _ = Echo::parse(message.body);
        let _ = Query::parse(&Header { hop_limit: 1, ..header }, true, &message);
        let _ = Report::parse(&message);
        prop_assert_eq!(Error::parse(&message).ok().flatten().is_some(), message.kind.is_error() && message.body.len() >= 4);
        if let Ok(Some(read)) = Message::parse(&header, &message) {
            let mut written = vec![];
            read.emit(ROUTER, HOST, &mut written);
            let message = Icmp::parse(ROUTER, HOST, &written).expect("right checksum");
            prop_assert_eq!(Message::parse(&header, &message), Ok(Some(read)));
            prop_assert_ne!(message.kind, Kind::ECHO_REQUEST);
        }
    }
}
