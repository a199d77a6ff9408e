//! Packets of ILNPv6 correspondents, as the generator of the ILCC study sends them.

use moorline_types::{Ilv, Nid, Nonce};
use moorline_wire::ilnp::{ChecksumDelta, NonceHeader, transport_checksum};
use moorline_wire::ip6::{DESTINATION_OPTIONS, UDP};

use super::Pattern;
use super::Vary;
use crate::hop::{ETHERNET_LEN, Hop};

/// Packets a second in the study's test of this rank: echo requests of the fixed source, and packets of made-up
/// correspondents. The study gives 1,280 and 1,940 for both kinds together in tests 0 and 10, and 65, 125 and 660 for
/// made-up correspondents in tests 1, 2 and 10. Other ranks lie on a straight line between 2 and 10.
#[must_use]
pub fn rates_of_rank(rank: u8) -> (u64, u64) {
    let rank = u64::from(rank);
    let load = match rank {
        0 => 0,
        1 => 65,
        // Ranks above 10 continue the line.
        _ => 125 + (rank - 2) * 535 / 8,
    };
    (ECHO_REQUESTS_PER_SECOND, load)
}

/// A UDP datagram with a Nonce option and the checksum of ILNP (RFC 6741 s4.2): 76 octets from the IPv6 header on.
/// Without a nonce, the datagram is classic IPv6.
#[derive(Clone, Debug)]
pub struct Datagram {
    /// The first hop.
    pub hop: Hop,
    /// The source.
    pub source: Ilv,
    /// The destination.
    pub destination: Ilv,
    /// Ports of source and destination.
    pub ports: (u16, u16),
    /// The nonce of the source.
    pub nonce: Option<Nonce>,
}

impl Datagram {
    /// The frame of the datagram.
    #[must_use]
    pub fn frame(&self) -> Vec<u8> {
        let mut udp = Vec::with_capacity(UDP_LEN);
        udp.extend(self.ports.0.to_be_bytes());
        udp.extend(self.ports.1.to_be_bytes());
        udp.extend([0, LEN_OCTET, 0, 0]);
        udp.resize(UDP_LEN, b'.');
        let mut ends = [self.source, self.destination];
        let addresses = ends.map(Ilv::address);
        if self.nonce.is_some() {
            // RFC 6741 s4.2: the checksum does not cover locators.
            ends = ends.map(|ilv| ilv.at(NOWHERE));
        }
        let [from, to] = ends;
        let sum = match transport_checksum(from, to, UDP, &udp) {
            0 => 0xffff,
            sum => sum,
        };
        udp[6..8].copy_from_slice(&sum.to_be_bytes());
        let Some(nonce) = self.nonce else { return self.hop.frame(addresses, UDP, &udp) };
        let mut options = NonceHeader { next_header: UDP, nonce, sequence: None }.emit();
        options.extend(udp);
        self.hop.frame(addresses, DESTINATION_OPTIONS, &options)
    }
}

/// Datagrams of made-up correspondents. Each has the locator of the datagram's source, a random identifier and a random
/// nonce of 32 bits. If the datagram has no nonce, the made-up ones have none either. Gives the first frame and the
/// function that makes the next one. Equal seeds give equal datagrams.
#[must_use]
pub fn made_up(datagram: Datagram, seed: u64) -> (Vec<u8>, Vary) {
    let nonce = datagram.nonce.map(|_| Nonce::Short([0; 4]));
    let datagram = Datagram { nonce, ..datagram };
    let mut frame = datagram.frame();
    let checksum = u16::from_be_bytes(*checksum_of(&mut frame));
    let identifiers = Pattern::new(seed);
    let mut number = 0;
    let vary = move |frame: &mut [u8]| {
        number += 1;
        // `word` gives no number twice. Only the group bit, which is cleared (RFC 4291 s2.5.1), can make two
        // identifiers equal.
        let nid = Nid(identifiers.word(number) & !GROUP);
        let delta = ChecksumDelta::of_identifier(datagram.source.nid, nid);
        let sum = delta.apply(UDP, checksum);
        frame[SOURCE_NID_AT..SOURCE_NID_AT + 8].copy_from_slice(&nid.0.to_be_bytes());
        if nonce.is_some() {
            // Any 32 bits will do. The bits of the nonce differ from those of the identifier.
            let nonce = nid.0.wrapping_mul(0xd6e8_feb8_6659_fd93).to_be_bytes();
            frame[NONCE_AT..NONCE_AT + 4].copy_from_slice(&nonce[..4]);
        }
        *checksum_of(frame) = sum.to_be_bytes();
    };
    (frame, Box::new(vary))
}

/// The UDP checksum of the datagram at the end of a frame.
fn checksum_of(frame: &mut [u8]) -> &mut [u8; 2] {
    let udp = frame.last_chunk_mut::<UDP_LEN>().expect("a frame with a datagram");
    udp[6..].first_chunk_mut().expect("a header")
}

const GROUP: u64 = 1 << 56;
const ECHO_REQUESTS_PER_SECOND: u64 = 1280;
const NOWHERE: moorline_types::L64 = moorline_types::L64(0);
/// Octets of the datagram: UDP header and 20 octets of payload.
const UDP_LEN: usize = 28;
const LEN_OCTET: u8 = 28;
const SOURCE_NID_AT: usize = ETHERNET_LEN + 16;
/// Offset of the nonce: the IPv6 header, two octets of the options header, and two of the option.
const NONCE_AT: usize = ETHERNET_LEN + 44;

#[cfg(test)]
mod tests {
    use super::*;
    use moorline_types::L64;
    use moorline_wire::ilnp::OptionsHeader;
    use std::collections::BTreeSet;

    fn datagram() -> Datagram {
        Datagram {
            hop: Hop { interface: "cable".into(), own: [1; 6], next: [2; 6] },
            source: Ilv::new(L64(0x2001_0db8_0001_0000), Nid(0xa)),
            destination: Ilv::new(L64(0x2001_0db8_0001_0000), Nid(0xb)),
            ports: (4000, 7),
            nonce: Some(Nonce::Short([1, 2, 3, 4])),
        }
    }

    /// Whether the checksum is right, by a full computation over the packet without the locators.
    fn is_right(frame: &[u8]) -> bool {
        let ilv = |at: usize| {
            let octets: [u8; 16] = frame[at..at + 16].try_into().unwrap();
            Ilv::of(octets.into()).at(L64(0))
        };
        transport_checksum(ilv(22), ilv(38), UDP, &frame[62..]) == 0
    }

    #[test]
    fn a_datagram_is_what_the_study_sends() {
        let frame = datagram().frame();
        assert_eq!(frame.len(), ETHERNET_LEN + 76);
        assert_eq!(&frame[54..62], [17, 0, 0x8b, 4, 1, 2, 3, 4], "the Nonce option");
        let options = OptionsHeader::parse(&frame[54..]).unwrap();
        assert_eq!((options.nonce, options.next_header), (Some(Nonce::Short([1, 2, 3, 4])), UDP));
        assert!(is_right(&frame));
    }

    #[test]
    fn made_up_correspondents_are_all_different_with_right_checksums() {
        let (mut frame, mut vary) = made_up(datagram(), 7);
        let mut sources = BTreeSet::new();
        let mut nonces = BTreeSet::new();
        for _ in 0..20_000 {
            vary(&mut frame);
            assert!(is_right(&frame), "{frame:02x?}");
            assert!(sources.insert(frame[22..38].to_vec()));
            nonces.insert(frame[58..62].to_vec());
        }
        assert!(sources.iter().all(|source| source[..8] == [0x20, 1, 0xd, 0xb8, 0, 1, 0, 0]));
        assert!(nonces.len() > 19_000);
        let (mut first, mut again) = made_up(datagram(), 7);
        again(&mut first);
        assert!(sources.contains(&first[22..38]));
    }

    #[test]
    fn as_classic_ipv6_they_are_the_same_without_nonces() {
        let (mut with, mut vary) = made_up(datagram(), 7);
        let (mut without, mut classic) = made_up(Datagram { nonce: None, ..datagram() }, 7);
        assert_eq!(without.len(), with.len() - 8);
        for _ in 0..100 {
            vary(&mut with);
            classic(&mut without);
            assert_eq!(with[22..54], without[22..54], "addresses");
            let [source, destination] = [22, 38].map(|at: usize| {
                let octets: [u8; 16] = without[at..at + 16].try_into().unwrap();
                Ilv::of(octets.into())
            });
            assert_eq!(transport_checksum(source, destination, UDP, &without[54..]), 0);
            assert_eq!((&without[18..20], without[20]), (&[0, 28][..], UDP));
        }
    }

    #[test]
    fn ranks_have_the_rates_that_the_study_names() {
        let both = |rank| {
            let (echo, load) = rates_of_rank(rank);
            echo + load
        };
        assert_eq!((both(0), both(10)), (1280, 1940));
        let load: Vec<_> = (0..=10).map(|rank| rates_of_rank(rank).1).collect();
        assert_eq!((load[0], load[1], load[2], load[10]), (0, 65, 125, 660));
        assert!(load.is_sorted() && rates_of_rank(20).1 > 1200);
        // A third of all packets, as in the study.
        assert_eq!(660 * 100 / both(10), 34);
    }
}
