//! MLD between the whole host and a router that is made of octets (RFC 3810).

use moorline_ip::address::solicited_node;
use moorline_ip::icmp::Icmp;
use moorline_ip::ip6::HOP_BY_HOP;

use super::conformance::{dropped, give};
use super::*;
use crate::Drop;

//= rfc8504#5.3-3 (test)
//= rfc3810#5-1 rfc3810#5.2.13-1 (test)
//= rfc8200#4-1 rfc8200#4.2-5 rfc8200#4.2-7 (test)
#[test]
fn frames_have_the_octets_that_rfc_3810_demands() {
    let mut link = Link::new(Config::default());
    link.run(Duration::from_secs(3));
    let reports = link.packets(HOP_BY_HOP);
    assert!(!reports.is_empty());
    for (header, octets) in reports {
        assert_eq!((header.next_header, header.hop_limit), (HOP_BY_HOP, 1));
        assert!(header.source.is_unspecified() || header.source.is_unicast_link_local());
        // The Router Alert option, and PadN for the two octets that are left.
        assert_eq!(octets[..8], [ICMPV6, 0, 5, 2, 0, 0, 1, 0]);
    }
}

/// Gives the host a message of MLD with a hop limit of 1 and a Router Alert option.
fn give_mld(link: &mut Link, destination: Ipv6Addr, kind: Kind, body: &[u8]) {
    let mut octets = vec![];
    Icmp { kind, code: 0, body }.emit(ROUTER, destination, &mut octets);
    let payload = [&moorline_ip::mld::HOP_BY_HOP_ROUTER_ALERT[..], &octets].concat();
    give(link, Header::new(ROUTER, destination, HOP_BY_HOP, 1, 0), &payload);
}

/// A General Query of version 2 with a Maximum Response Delay of a second.
fn general_query() -> Vec<u8> {
    let mut query = vec![0; 24];
    query[..2].copy_from_slice(&1000_u16.to_be_bytes());
    query
}

//= rfc3810#5.1.15-1 (test)
#[test]
fn a_query_to_any_address_of_the_interface_is_answered() {
    for destination in ["ff02::1", "fe80::ff:fe00:2", "2001:db8:1:0:0:ff:fe00:2"] {
        let mut link = configured();
        give_mld(&mut link, address(destination), Kind::MLD_QUERY, &general_query());
        assert!(link.reports().is_empty(), "not at once");
        link.run(Duration::from_secs(1));
        assert_eq!(link.reports().len(), 1, "{destination}");
    }
}

//= rfc3810#5.1.12-1 rfc3810#5.1.12-2 (test)
#[test]
fn additional_octets_of_a_query_count_for_the_checksum_only() {
    let mut link = configured();
    let query = [&general_query()[..], &[0xff; 5]].concat();
    give_mld(&mut link, address("ff02::1"), Kind::MLD_QUERY, &query);
    link.run(Duration::from_secs(1));
    assert_eq!(link.reports().len(), 1);
}

//= rfc3810#8.1-1 (test)
#[test]
fn queries_of_other_lengths_are_ignored() {
    let mut link = configured();
    for len in [19, 21, 22, 23] {
        let mut query = general_query();
        query.truncate(len);
        give_mld(&mut link, address("ff02::1"), Kind::MLD_QUERY, &query);
        link.run(Duration::from_secs(5));
        assert!(link.reports().is_empty(), "{len} octets behind the checksum");
    }
    assert_eq!(dropped(&link, Drop::Truncated), 4);
}

//= rfc3810#5.2.14-1 (test)
#[test]
fn a_report_of_version_1_counts_wherever_it_is_sent_to() {
    let group = solicited_node(host());
    let answers = |destination: Option<Ipv6Addr>| {
        let mut link = configured();
        // A General Query of version 1: 20 octets behind the checksum.
        let query = &general_query()[..20];
        give_mld(&mut link, address("ff02::1"), Kind::MLD_QUERY, query);
        if let Some(destination) = destination {
            let report = [&[0; 4][..], &group.octets()].concat();
            give_mld(&mut link, destination, Kind::MLD_REPORT, &report);
        }
        link.run(Duration::from_secs(1));
        let sent = link.packets(HOP_BY_HOP);
        sent.iter().filter(|(header, _)| header.destination == group).count()
    };
    assert_eq!(answers(None), 1);
    for destination in [group, address("ff02::1"), host()] {
        assert_eq!(answers(Some(destination)), 0, "{destination}");
    }
}
