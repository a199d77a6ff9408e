//! Each frame of an attack is another one, as a daemon reads it.

use super::*;
use std::collections::BTreeSet;
use std::net::Ipv6Addr;

use crate::hop::Hop;

/// Gives the IPv6 packets of the first frames of a stream.
fn packets_of(frames: &Frames) -> Vec<Vec<u8>> {
    let hop = Hop { interface: "cable".into(), own: [1; 6], next: [2; 6] };
    let ends = [STRANGER, Ipv6Addr::LOCALHOST];
    let mut frame = hop.frame(ends, frames.next_header, &frames.first);
    let mut vary = frames.vary();
    let next = |_| {
        vary(&mut frame);
        frame[ETHERNET_LEN..].to_vec()
    };
    (0..256).map(next).collect()
}

/// The packets of an attack with one stream.
fn of_one(streams: Vec<Frames>) -> Vec<Vec<u8>> {
    let [frames] = streams.try_into().ok().unwrap();
    packets_of(&frames)
}

fn count<T: Ord>(all: impl IntoIterator<Item = T>) -> usize {
    all.into_iter().collect::<BTreeSet<_>>().len()
}

#[test]
fn control_messages_of_all_upper_types_have_right_checksums_and_other_tags_and_sources() {
    let made = of_one(types());
    for packet in &made {
        let mut sealed = packet[40..].to_vec();
        packets::seal(&mut sealed);
        assert_eq!(packet[40..], sealed);
    }
    let types: BTreeSet<_> = made.iter().map(|packet| packet[42]).collect();
    assert!(types.into_iter().eq(64..128));
    assert_eq!(count(made.iter().map(|packet| &packet[46..52])), made.len(), "tags");
    assert_eq!(count(made.iter().map(|packet| &packet[8..24])), made.len(), "sources");
}

#[test]
fn behind_options_and_as_r1bis_each_message_has_its_own_tag_and_source() {
    let (bare, behind) = (of_one(types()), of_one(types_behind_options()));
    for (bare, behind) in bare.iter().zip(&behind) {
        assert_eq!(behind[40..48], packets::PADDING_TO_SHIM6);
        assert_eq!((&behind[48..], &behind[8..24]), (&bare[40..], &bare[8..24]));
    }
    let answers = of_one(r1bis());
    assert_eq!(count(answers.iter().map(|packet| &packet[46..52])), answers.len(), "tags");
    assert_eq!(count(answers.iter().map(|packet| &packet[8..24])), answers.len(), "sources");
}

#[test]
fn handshakes_come_from_64_prefixes_and_i1s_from_a_prefix_each() {
    let few = of_one(i1s_of_64_prefixes());
    assert_eq!(count(few.iter().map(|packet| &packet[8..16])), 64);
    assert_eq!(count(few.iter().map(|packet| &packet[8..24])), few.len());
    let many = of_one(i1s());
    assert_eq!(count(many.iter().map(|packet| &packet[8..16])), many.len());
    assert_eq!(count(many.iter().map(|packet| &packet[40..])), many.len(), "nonces");
}

#[test]
fn a_trigger_is_two_packets_of_a_source_and_a_nonce_one() {
    let triggers = of_one(triggers());
    assert_eq!(triggers[0].len(), 1064);
    assert_eq!(count(triggers.iter().map(|packet| &packet[8..24])), triggers.len() / 2 + 1);
    assert_eq!(triggers[1][8..24], triggers[2][8..24]);
    let payload = of_one(payload());
    assert_eq!(count(payload.iter().map(|packet| &packet[8..24])), payload.len(), "sources");
    assert_eq!(count(payload.iter().map(|packet| &packet[42..48])), payload.len(), "tags");
    assert!(payload.iter().all(|packet| packet[42] & 0x80 != 0));
    let nonces = of_one(nonces());
    assert_eq!(count(nonces.iter().map(|packet| &packet[8..24])), nonces.len());
    assert_eq!(count(nonces.iter().map(|packet| &packet[44..48])), nonces.len());
}

/// Whether the checksum of an upper layer at `at` is right.
fn is_sealed(packet: &[u8], protocol: u8, at: usize, checksum_at: usize) -> bool {
    let mut sealed = packet.to_vec();
    packets::seal_upper(&mut sealed, protocol, at, checksum_at);
    sealed == packet
}

#[test]
fn datagrams_to_a_service_are_two_of_a_source_with_right_checksums() {
    let made = of_one(datagrams());
    assert!(made.iter().all(|packet| packet.len() == 1064 && is_sealed(packet, 17, 40, 6)));
    assert_eq!(count(made.iter().map(|packet| &packet[8..24])), made.len() / 2 + 1);
    let [datagrams, i1s] = wanted().try_into().ok().unwrap();
    let (datagrams, i1s) = (packets_of(&datagrams), packets_of(&i1s));
    let sources = |made: &[Vec<u8>]| -> BTreeSet<_> {
        made.iter().map(|packet| packet[8..24].to_vec()).collect()
    };
    assert_eq!(sources(&datagrams), sources(&i1s), "the host wants contexts of the I1s");
    assert_eq!(sources(&i1s).len(), 64);
}

#[test]
fn forked_i1s_come_from_one_source_and_each_has_its_instance() {
    let made = of_one(forked_i1s());
    assert_eq!(count(made.iter().map(|packet| &packet[8..24])), 1);
    assert!(made.iter().all(|packet| packet[56..60] == [0, 14, 0, 4]));
    assert_eq!(count(made.iter().map(|packet| &packet[60..64])), made.len());
}

#[test]
fn keepalives_and_errors_have_made_up_tags_and_sources() {
    for (frames, kind, tag_at) in [(keepalives(), 66, 46), (errors(), 68, 94)] {
        let made = of_one(frames);
        assert!(made.iter().all(|packet| packet[42] == kind));
        assert_eq!(count(made.iter().map(|packet| &packet[8..24])), made.len());
        assert_eq!(count(made.iter().map(|packet| &packet[tag_at..tag_at + 6])), made.len());
    }
}

#[test]
fn segments_have_the_ports_and_other_numbers_each() {
    let made = packets_of(&segments([4000, 5000])[0]);
    assert!(made.iter().all(|packet| packet[40..44] == [15, 160, 19, 136]));
    assert!(made.iter().all(|packet| is_sealed(packet, 6, 40, 16)));
    assert_eq!(count(made.iter().map(|packet| &packet[44..48])), made.len(), "sequence");
    assert_eq!(count(made.iter().map(|packet| &packet[48..52])), made.len(), "acknowledgment");
}

#[test]
fn locator_updates_have_numbers_that_grow_and_the_third_party_first() {
    let made = packets_of(&locator_updates(&[1, 2, 3, 4], &[[7; 8], [8; 8]]));
    let first = [58, 1, 0x8b, 4, 1, 2, 3, 4, 0x1e, 6, b'M', b'L', 0, 1, 0, 1];
    assert_eq!(made[0][40..56], first);
    assert_eq!(made[0][64..76], [7, 7, 7, 7, 7, 7, 7, 7, 0, 0, 7, 8]);
    assert!(made.is_sorted_by(|one, next| one[52..56] < next[52..56]));
    assert!(made.iter().all(|packet| is_sealed(packet, 58, 56, 2)));
}

#[test]
fn each_advertisement_is_of_another_router_on_the_link_and_of_another_prefix() {
    let made = packets_of(&router_advertisements(true));
    assert!(made.iter().all(|packet| packet[46..48] == [7, 8]), "default routers");
    assert!(made.iter().all(|packet| packet[7] == 255 && packet[8..16] == LINK_LOCAL));
    assert!(made.iter().all(|packet| is_sealed(packet, 58, 40, 2)));
    assert_eq!(count(made.iter().map(|packet| &packet[8..24])), made.len(), "routers");
    assert_eq!(count(made.iter().map(|packet| &packet[72..80])), made.len(), "prefixes");
    assert!(made.iter().all(|packet| packet[72..76] == [0x20, 1, 0xd, 0xb8]));
}

#[test]
fn messages_of_a_pretender_have_other_tags_and_the_address_of_the_peer() {
    let [i1s, payload] = &messages()[..] else { panic!("two kinds") };
    for (frames, octets) in [(i1s, 16), (payload, 40)] {
        let made = packets_of(frames);
        assert_eq!(made.iter().collect::<BTreeSet<_>>().len(), made.len());
        for packet in &made {
            assert_eq!((packet.len(), &packet[8..24]), (40 + octets, &STRANGER.octets()[..]));
        }
    }
}
