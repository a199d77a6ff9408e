use alloc::vec::Vec;

use moorline_types::Prefix;

use super::*;
use alloc::vec;

fn envelope() -> Envelope {
    Envelope { ifindex: 3, source: "fe80::1".parse().unwrap(), hop_limit: 255 }
}

/// A message with router lifetime 1800 s, one Prefix Information option and one MTU option.
fn message() -> Vec<u8> {
    let mut octets = vec![134, 0, 0xab, 0xcd, 64, 0, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0];
    octets.extend([3, 4, 64, 0xc0, 0, 0, 14, 16, 0, 0, 7, 8, 0, 0, 0, 0]);
    octets.extend("2001:db8:1::".parse::<Ipv6Addr>().unwrap().octets());
    octets.extend([5, 1, 0, 0, 0, 0, 5, 220]);
    octets
}

#[test]
fn an_advertisement_says_router_lifetime_and_prefixes() {
    let read = read_advertisement(envelope(), &message()).unwrap();
    assert_eq!(read.ifindex, 3);
    let address = "fe80::1".parse().unwrap();
    assert_eq!(read.origin, Origin::Router { address, lifetime: Duration::from_secs(1800) });
    let expected = PrefixInformation {
        prefix: Prefix::new("2001:db8:1::".parse().unwrap(), 64),
        on_link: true,
        autonomous: true,
        lifetimes: Lifetimes { valid: 3600, preferred: 1800 },
    };
    assert_eq!(read.prefixes, [expected]);
}

#[test]
fn flags_are_read_apart() {
    let mut octets = message();
    for (flags, on_link, autonomous) in
        [(0x80, true, false), (0x40, false, true), (0, false, false)]
    {
        octets[19] = flags;
        let [only] = read_advertisement(envelope(), &octets).unwrap().prefixes[..] else {
            panic!()
        };
        assert_eq!((only.on_link, only.autonomous), (on_link, autonomous));
    }
}

#[test]
fn what_a_router_on_the_link_cannot_have_sent_is_dropped() {
    let envelopes = [
        Envelope { hop_limit: 254, ..envelope() },
        Envelope { source: "2001:db8::1".parse().unwrap(), ..envelope() },
        Envelope { source: Ipv6Addr::UNSPECIFIED, ..envelope() },
    ];
    for envelope in envelopes {
        assert_eq!(read_advertisement(envelope, &message()), None, "{envelope:?}");
    }
    for (at, value) in [(0, 133), (1, 1)] {
        let mut octets = message();
        octets[at] = value;
        assert_eq!(read_advertisement(envelope(), &octets), None, "octet {at}");
    }
}

#[test]
fn a_message_cut_anywhere_but_between_options_is_dropped() {
    let octets = message();
    for length in 0..octets.len() {
        let read = read_advertisement(envelope(), &octets[..length]);
        let is_whole = [16, 48].contains(&length);
        assert_eq!(read.is_some(), is_whole, "{length} octets");
    }
}

#[test]
fn an_option_without_a_length_does_not_loop() {
    let mut octets = message();
    octets[49] = 0;
    assert_eq!(read_advertisement(envelope(), &octets), None);
}

#[test]
fn a_prefix_option_that_is_too_short_is_passed_over() {
    let mut octets = message();
    octets.extend([3, 2, 64, 0xc0, 0, 0, 14, 16, 0, 0, 7, 8, 0, 0, 0, 0]);
    assert_eq!(read_advertisement(envelope(), &octets).unwrap().prefixes.len(), 1);
}
