//! Reserved bits are zero when sent and ignored when received, in each message and option that has any.

mod common;

use common::{DST, SRC, decode};
use moorline_types::{ContextTag, Locator, Ulid};
use moorline_wire::{
    I1, I2, I2bis, Keepalive, Message, MessageType, Opt, Options, Packet, Probe, ProbeReport,
    ProbeState, R1, R1bis, R2, UpdateAck, UpdateRequest, fill_checksum,
};

const TAG: ContextTag = ContextTag::from_bits(0x2aaa_aaaa_aaaa);

/// The seven reserved bits behind the type.
const RESERVED_1: (usize, &[u8]) = (3, &[0xfe]);
/// The R bit in front of the tag.
const R: (usize, &[u8]) = (6, &[0x80]);

/// Reserved bits in the fixed part of each message: octet and masks.
fn reserved(kind: MessageType) -> Vec<(usize, &'static [u8])> {
    let behind: (usize, &[u8]) = match kind {
        MessageType::R1 => return vec![RESERVED_1, (6, &[0xff; 2])],
        MessageType::I2 => (20, &[0xff; 4]),
        // 49 bits: the last one is at the place of the R bit of a tag.
        MessageType::I2BIS => (20, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x80]),
        MessageType::KEEPALIVE => (12, &[0xff; 4]),
        // 22 bits behind the state.
        MessageType::PROBE => (13, &[0x3f, 0xff, 0xff]),
        _ => return vec![RESERVED_1, R],
    };
    vec![RESERVED_1, R, behind]
}

fn all() -> Vec<Message> {
    let options = Options::default;
    let (nonce, other) = (0x0102_0304, 0x0506_0708);
    let report = ProbeReport { src: Locator(SRC), dst: Locator(DST), nonce, data: other };
    vec![
        Message::I1(I1 { initiator_tag: TAG, initiator_nonce: nonce, options: options() }),
        Message::R1(R1 { initiator_nonce: nonce, responder_nonce: other, options: options() }),
        Message::I2(I2 {
            initiator_tag: TAG,
            initiator_nonce: nonce,
            responder_nonce: other,
            options: options(),
        }),
        Message::R2(R2 { responder_tag: TAG, initiator_nonce: nonce, options: options() }),
        Message::R1bis(R1bis { packet_tag: TAG, responder_nonce: nonce, options: options() }),
        Message::I2bis(I2bis {
            initiator_tag: TAG,
            initiator_nonce: nonce,
            responder_nonce: other,
            packet_tag: TAG,
            options: options(),
        }),
        Message::UpdateRequest(UpdateRequest {
            receiver_tag: TAG,
            request_nonce: nonce,
            options: options(),
        }),
        Message::UpdateAck(UpdateAck {
            receiver_tag: TAG,
            request_nonce: nonce,
            options: options(),
        }),
        Message::Keepalive(Keepalive { receiver_tag: TAG, options: options() }),
        Message::Probe(Probe {
            receiver_tag: TAG,
            state: ProbeState::Exploring,
            sent: vec![report],
            received: vec![report],
            options: options(),
        }),
    ]
}

//= rfc5533#5.4-1 rfc5533#5.4-2 rfc5533#5.5-1 rfc5533#5.5-2 rfc5533#5.6-1 rfc5533#5.6-2 (test)
//= rfc5533#5.6-3 rfc5533#5.7-1 rfc5533#5.7-2 rfc5533#5.8-1 rfc5533#5.8-2 rfc5533#5.9-1 (test)
//= rfc5533#5.9-2 rfc5533#5.9-3 rfc5533#5.10-1 rfc5533#5.10-2 rfc5533#5.11-1 rfc5533#5.11-2 (test)
//= rfc5534#5.1-2 rfc5534#5.1-3 rfc5534#5.1-4 (test)
//= rfc5534#5.2-2 rfc5534#5.2-3 rfc5534#5.2-7 rfc5534#5.2-8 (test)
#[test]
fn reserved_bits_of_messages_are_zero_when_sent_and_ignored_when_received() {
    let all = all();
    // All messages except Error, which has no reserved bits.
    assert_eq!(all.len(), MessageType::KNOWN.len() - 1);
    for message in all {
        let mut octets = message.octets();
        for (at, masks) in reserved(message.kind()) {
            for (octet, mask) in octets[at..].iter_mut().zip(masks) {
                assert_eq!(*octet & mask, 0, "{} octet {at}", message.kind());
                *octet |= mask;
            }
        }
        assert_eq!(decode(&octets).as_ref(), Ok(&message));
    }
}

/// Shows that the test above cannot call an octet with a meaning reserved.
#[test]
fn every_other_bit_of_the_fixed_part_means_something() {
    for message in all() {
        let octets = message.octets();
        let fixed = match message.kind() {
            MessageType::I2 => 24,
            MessageType::I2BIS => 32,
            _ => 16,
        };
        let mut free = vec![0; fixed];
        for (at, masks) in reserved(message.kind()) {
            free[at..at + masks.len()].copy_from_slice(masks);
        }
        // The bits behind the checksum: each change of the octets before is an error.
        for bit in (6 * 8..fixed * 8).filter(|bit| free[bit / 8] & 0x80 >> (bit % 8) == 0) {
            let mut changed = octets.clone();
            changed[bit / 8] ^= 0x80 >> (bit % 8);
            assert_ne!(decode(&changed).as_ref(), Ok(&message), "{} bit {bit}", message.kind());
        }
    }
}

//= rfc5533#5.15.6-3 rfc5534#5.3-7 (test)
#[test]
fn reserved_octets_of_options_are_zero_when_sent_and_ignored_when_received() {
    let pair = Opt::UlidPair { sender: Ulid(SRC), receiver: Ulid(DST) };
    for (option, reserved) in [(pair, 4), (Opt::KeepaliveTimeout(15), 2)] {
        let options = Options::from(vec![option]);
        let message = Message::I2bis(I2bis {
            initiator_tag: TAG,
            initiator_nonce: 1,
            responder_nonce: 2,
            packet_tag: TAG,
            options,
        });
        let mut octets = message.octets();
        let contents = 32 + 4;
        assert_eq!(octets[contents..contents + reserved], vec![0; reserved]);
        octets[contents..contents + reserved].fill(0xff);
        fill_checksum(&mut octets);
        let packet = Packet::parse(&octets, SRC, DST).expect("parses");
        assert_eq!(packet.message().as_ref(), Ok(&message));
    }
}
