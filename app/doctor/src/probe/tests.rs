use moorline_api::Pair;

use super::packet::{Quote, Token, answered, sized, test};
use super::{Kind, Way};

const TOKEN: Token = Token([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]);

fn pair() -> Pair {
    Pair::new("2001:db8:1::5".parse().unwrap(), "2001:db8:2::9".parse().unwrap())
}

fn way() -> Way {
    Way {
        pair: pair(),
        ifindex: 2,
        mtu: 1500,
        has_moved: false,
        has_session: false,
        ilnp: Some([210, 211]),
    }
}

/// Returns the ones' complement sum of an ICMPv6 message and its pseudo-header.
fn sum(packet: &[u8], message: &[u8]) -> u16 {
    let pseudo =
        [&packet[8..40], &u32::try_from(message.len()).unwrap().to_be_bytes(), &[0, 0, 0, 58]];
    let octets = [&pseudo.concat()[..], message].concat();
    let total: u32 = octets
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)))
        .sum();
    u16::try_from((total & 0xffff) + (total >> 16)).unwrap()
}

#[test]
fn packets_are_whole_and_their_checksums_right() {
    for (kind, next, skipped) in
        [(Kind::Plain, 58, 0), (Kind::Options8, 60, 8), (Kind::Options16, 60, 16)]
    {
        let packet = &test(kind, &way(), TOKEN, 7).packets[0];
        assert_eq!(usize::from(u16::from_be_bytes([packet[4], packet[5]])), packet.len() - 40);
        assert_eq!((packet[0], packet[6]), (0x60, next));
        assert_eq!(packet[8..24], pair().local.octets());
        let message = &packet[40 + skipped..];
        assert_eq!(message[..2], [128, 0]);
        assert_eq!(sum(packet, message), 0xffff);
        if skipped > 0 {
            let length = u8::try_from(skipped).unwrap();
            assert_eq!(packet[40..44], [58, length / 8 - 1, 0x1e, length - 4]);
        }
    }
    assert_eq!(sized(1500, pair(), TOKEN, 1).packets[0].len(), 1500);
    assert_eq!(test(Kind::Size1280, &way(), TOKEN, 1).packets[0].len(), 1280);
}

#[test]
fn fragments_make_up_an_echo_request() {
    let packets = test(Kind::Fragments, &way(), TOKEN, 7).packets;
    let [first, second] = &packets[..] else { panic!("{} packets", packets.len()) };
    let at = |packet: &[u8]| u16::from_be_bytes([packet[42], packet[43]]);
    assert_eq!((at(first), usize::from(at(second))), (1, first.len() - 48));
    assert_eq!(first[44..48], second[44..48]);
    let message = [&first[48..], &second[48..]].concat();
    assert_eq!(sum(first, &message), 0xffff);
}

#[test]
fn answers_are_known_by_number_and_random_octets() {
    let reply = |packet: &[u8]| {
        let mut message = packet[40..].to_vec();
        message[0] = 129;
        message
    };
    let packet = &test(Kind::Plain, &way(), TOKEN, 0x1234).packets[0];
    assert_eq!(answered(58, &reply(packet), Some(211), TOKEN), Some(0x1234));
    assert_eq!(answered(58, &reply(packet), Some(211), Token([9; 16])), None);
    assert_eq!(answered(58, &packet[40..], Some(211), TOKEN), None, "a request is no reply");
    let i1 = &test(Kind::Shim6, &way(), TOKEN, 0x1234).packets[0][40..];
    let r1 = [&[59, 1, 2, 0, 0, 0, 0, 0][..], &i1[12..16], &[0; 4]].concat();
    assert_eq!(answered(140, &r1, Some(211), TOKEN), Some(0x1234));
    assert_eq!(answered(140, i1, Some(211), TOKEN), None);
    assert_eq!(answered(140, &r1[..11], Some(211), TOKEN), None);
}

#[test]
fn an_error_counts_if_it_quotes_what_was_sent() {
    let sent = &test(Kind::Shim6, &way(), TOKEN, 1).packets[0];
    let other = &test(Kind::Shim6, &way(), TOKEN, 2).packets[0];
    let mut quoted = sent.clone();
    quoted[7] -= 3;
    let error = [&[1, 1, 0, 0, 0, 0, 0, 0][..], &quoted].concat();
    let quote = Quote::read(&error).unwrap();
    assert!(quote.is_of(sent) && !quote.is_of(other));
    assert_eq!(quote.words(), "administratively prohibited");
    // The quote is too short to identify the packet.
    assert!(!Quote::read(&error[..8 + 48]).unwrap().is_of(sent));
    let too_big = [&[2, 0, 0, 0, 0, 0, 5, 0][..], &quoted].concat();
    assert_eq!(Quote::read(&too_big).unwrap().words(), "packet too big, MTU 1280");
    assert!(Quote::read(&[128, 0, 0, 0, 0, 0, 0, 0]).is_none());
}

#[test]
fn a_proposal_is_answered_by_its_transaction() {
    let packet = &test(Kind::Ilnp, &way(), TOKEN, 0x1234).packets[0];
    let message = &packet[40..];
    assert_eq!((packet[6], message[0], sum(packet, message)), (58, 210, 0xffff));
    let mut refusal = message.to_vec();
    refusal[..2].copy_from_slice(&[211, 1]);
    assert_eq!(answered(58, &refusal, Some(211), TOKEN), Some(0x1234));
    assert_eq!(answered(58, &refusal, None, TOKEN), None);
    assert_eq!(answered(58, &refusal, Some(211), Token([9; 16])), None);
    assert_eq!(answered(58, message, Some(211), TOKEN), None, "a proposal is no answer");
    assert_eq!(answered(58, &refusal[..19], Some(211), TOKEN), None);
}

#[test]
fn types_of_ilnp_go_behind_an_option_that_is_to_be_refused() {
    let types = [(Kind::LocatorUpdate, 156), (Kind::Initiator, 210), (Kind::Responder, 211)];
    for (kind, expected) in types {
        let packet = &test(kind, &way(), TOKEN, 7).packets[0];
        // Two headers of destination options, the second with an option whose upper bits are 10.
        assert_eq!((packet[6], packet[40], packet[48], packet[50] >> 6), (60, 60, 58, 0b10));
        assert_eq!(packet[56], expected);
        assert_eq!(sum(packet, &packet[56..]), 0xffff);
    }
}
