//! Frames of attacks: the first of each stream, and the function that makes the next one.

use super::packets;
use crate::hop::ETHERNET_LEN;
use crate::workload::{STRANGER, Vary, make_up_source};

/// Packets of one kind.
pub(super) struct Frames {
    pub(super) next_header: u8,
    /// The first packet behind its IPv6 header.
    pub(super) first: Vec<u8>,
    next: Next,
    /// The rate of the attack divided by the rate of these packets.
    pub(super) divisor: u64,
}

impl Frames {
    pub(super) fn new(next_header: u8, first: impl Into<Vec<u8>>, next: Next) -> Self {
        Self { next_header, first: first.into(), next, divisor: 1 }
    }

    /// Makes the next frame with each call. Frames have numbers from 1 on.
    pub(super) fn vary(&self) -> Vary {
        let (mut number, next) = (0_u32, self.next);
        Box::new(move |frame| {
            number = number.wrapping_add(1);
            next(frame, number);
        })
    }
}

pub(super) fn triggers() -> Vec<Frames> {
    vec![Frames::new(packets::NO_NEXT_HEADER, [0; TRIGGER_OCTETS as usize], next_trigger)]
}

pub(super) fn datagrams() -> Vec<Frames> {
    vec![Frames::new(packets::UDP, datagram(), next_datagram)]
}

/// Datagrams that make the host want contexts, and I1s from the same few sources.
pub(super) fn wanted() -> Vec<Frames> {
    let datagrams = Frames::new(packets::UDP, datagram(), next_datagram_of_few);
    let i1s = Frames::new(packets::SHIM6, packets::i1(0), next_i1_of_few);
    vec![Frames { divisor: I1S_FOR_DATAGRAM, ..datagrams }, i1s]
}

fn datagram() -> Vec<u8> {
    packets::datagram_to_echo(TRIGGER_OCTETS)
}

pub(super) fn i1s() -> Vec<Frames> {
    vec![Frames::new(packets::SHIM6, packets::i1(0), next_i1)]
}

pub(super) fn i1s_of_64_prefixes() -> Vec<Frames> {
    vec![Frames::new(packets::SHIM6, packets::i1(0), next_i1_of_64_prefixes)]
}

pub(super) fn forked_i1s() -> Vec<Frames> {
    vec![Frames::new(packets::SHIM6, packets::forked_i1(0), next_forked_i1)]
}

pub(super) fn types() -> Vec<Frames> {
    vec![Frames::new(packets::SHIM6, of_contexts(), next_type)]
}

pub(super) fn types_behind_options() -> Vec<Frames> {
    let first = [&packets::PADDING_TO_SHIM6[..], &of_contexts()].concat();
    vec![Frames::new(packets::DESTINATION_OPTIONS, first, next_type_behind_options)]
}

fn of_contexts() -> Vec<u8> {
    packets::control(packets::FIRST_OF_CONTEXTS, &[0; 10])
}

pub(super) fn keepalives() -> Vec<Frames> {
    vec![Frames::new(packets::SHIM6, packets::keepalive(0), next_keepalive)]
}

pub(super) fn errors() -> Vec<Frames> {
    vec![Frames::new(packets::SHIM6, packets::error(0, [[0; 16]; 2]), next_error)]
}

pub(super) fn r1bis() -> Vec<Frames> {
    vec![Frames::new(packets::SHIM6, packets::r1bis(0), next_r1bis)]
}

pub(super) fn payload() -> Vec<Frames> {
    vec![Frames::new(packets::SHIM6, packets::payload_header(0), next_payload)]
}

pub(super) fn nonces() -> Vec<Frames> {
    vec![Frames::new(packets::DESTINATION_OPTIONS, packets::nonce_header(0), next_nonce)]
}

/// Packets of 8 octets, all equal.
pub(super) fn octets() -> Vec<Frames> {
    vec![Frames::new(packets::NO_NEXT_HEADER, [0; 8], |_, _| ())]
}

/// I1s, and as many packets of payload, with made-up tags. The payload is long enough for an R1bis.
pub(super) fn messages() -> Vec<Frames> {
    let payload = [&packets::payload_header(0)[..], &[0; 32]].concat();
    let both = [
        Frames::new(packets::SHIM6, packets::i1(0), next_i1_of_a_peer),
        Frames::new(packets::SHIM6, payload, next_payload_of_a_peer),
    ];
    both.map(|frames| Frames { divisor: 2, ..frames }).into()
}

/// Acknowledgements of TCP between these ports, with other numbers in each.
pub(super) fn segments(ports: [u16; 2]) -> Vec<Frames> {
    vec![Frames::new(packets::TCP, packets::segment(ports, 0), next_segment)]
}

/// Locator Updates with this nonce that name these locators. Each has a higher number than the one before.
pub(super) fn locator_updates(nonce: &[u8], locators: &[[u8; 8]]) -> Frames {
    let header = packets::numbered_nonce_header(nonce, 0);
    let first = [header, packets::locator_update(locators)].concat();
    Frames::new(packets::DESTINATION_OPTIONS, first, next_locator_update)
}

/// Advertisements of a default router with this prefix.
pub(super) fn advertisements_of(prefix: [u8; 8]) -> Frames {
    let first = packets::router_advertisement(prefix, true);
    Frames::new(packets::ICMPV6, first, next_honest_advertisement)
}

/// Advertisements of made-up routers with made-up prefixes.
pub(super) fn router_advertisements(are_default: bool) -> Frames {
    let first = packets::router_advertisement([0; 8], are_default);
    Frames::new(packets::ICMPV6, first, next_advertisement)
}

/// Makes the next frame from a frame, by its number.
type Next = fn(&mut [u8], u32);

fn next_trigger(frame: &mut [u8], number: u32) {
    make_up_source(frame, u64::from(number / 2));
}

fn next_datagram(frame: &mut [u8], number: u32) {
    next_trigger(frame, number);
    packets::seal_upper(&mut frame[ETHERNET_LEN..], packets::UDP, IP6_LEN, packets::OF_UDP);
}

fn next_datagram_of_few(frame: &mut [u8], number: u32) {
    next_datagram(frame, number % (FEW * 2));
}

fn next_i1_of_few(frame: &mut [u8], number: u32) {
    next_i1(frame, number);
    make_up_source(frame, u64::from(number % FEW));
}

fn next_i1(frame: &mut [u8], number: u32) {
    make_up_source(frame, number.into());
    frame[PAYLOAD_AT..].copy_from_slice(&packets::i1(number));
}

fn next_i1_of_64_prefixes(frame: &mut [u8], number: u32) {
    next_i1(frame, number);
    let prefix = [0xf0, 0, 0, (number % 64) as u8];
    frame[PREFIX_AT..PREFIX_AT + 4].copy_from_slice(&prefix);
}

/// All from the same source.
fn next_forked_i1(frame: &mut [u8], number: u32) {
    frame[PAYLOAD_AT..].copy_from_slice(&packets::forked_i1(number));
}

fn next_keepalive(frame: &mut [u8], number: u32) {
    make_up_source(frame, number.into());
    frame[PAYLOAD_AT..].copy_from_slice(&packets::keepalive(number));
}

fn next_i1_of_a_peer(frame: &mut [u8], number: u32) {
    frame[PAYLOAD_AT..].copy_from_slice(&packets::i1(number));
}

fn next_payload_of_a_peer(frame: &mut [u8], number: u32) {
    frame[PAYLOAD_AT..PAYLOAD_AT + 8].copy_from_slice(&packets::payload_header(number));
}

fn next_error(frame: &mut [u8], number: u32) {
    make_up_source(frame, number.into());
    let [from, to] = [SOURCE_AT, DESTINATION_AT].map(|at| address(frame, at));
    frame[PAYLOAD_AT..].copy_from_slice(&packets::error(number, [to, from]));
}

fn address(frame: &[u8], at: usize) -> [u8; 16] {
    std::array::from_fn(|octet| frame[at + octet])
}

fn next_type(frame: &mut [u8], number: u32) {
    make_up_source(frame, number.into());
    make_up_type(&mut frame[PAYLOAD_AT..], number);
}

fn next_type_behind_options(frame: &mut [u8], number: u32) {
    make_up_source(frame, number.into());
    make_up_type(&mut frame[PAYLOAD_AT + packets::PADDING_TO_SHIM6.len()..], number);
}

fn next_r1bis(frame: &mut [u8], number: u32) {
    make_up_source(frame, number.into());
    frame[PAYLOAD_AT..].copy_from_slice(&packets::r1bis(number));
}

/// Writes another type of 64 to 127, and another tag, into a message.
fn make_up_type(message: &mut [u8], number: u32) {
    message[packets::TYPE_AT] = packets::FIRST_OF_CONTEXTS + (number % 64) as u8;
    let tag = packets::tag_of(number);
    message[packets::TAG_AT..packets::TAG_AT + tag.len()].copy_from_slice(&tag);
    packets::seal(message);
}

fn next_payload(frame: &mut [u8], number: u32) {
    make_up_source(frame, number.into());
    frame[PAYLOAD_AT..].copy_from_slice(&packets::payload_header(number));
}

fn next_nonce(frame: &mut [u8], number: u32) {
    make_up_source(frame, number.into());
    frame[PAYLOAD_AT..].copy_from_slice(&packets::nonce_header(number));
}

fn next_segment(frame: &mut [u8], number: u32) {
    let ports =
        [0, 2].map(|at| u16::from_be_bytes([frame[PAYLOAD_AT + at], frame[PAYLOAD_AT + at + 1]]));
    frame[PAYLOAD_AT..].copy_from_slice(&packets::segment(ports, number));
    packets::seal_upper(&mut frame[ETHERNET_LEN..], packets::TCP, IP6_LEN, packets::OF_TCP);
}

/// The sequence number is at the end of the options header. The checksum does not cover it.
fn next_locator_update(frame: &mut [u8], number: u32) {
    let options = 8 * (usize::from(frame[PAYLOAD_AT + 1]) + 1);
    let number = (FIRST_NUMBER + number).to_be_bytes();
    frame[PAYLOAD_AT + options - 4..PAYLOAD_AT + options].copy_from_slice(&number);
    let packet = &mut frame[ETHERNET_LEN..];
    packets::seal_upper(packet, packets::ICMPV6, IP6_LEN + options, packets::OF_ICMPV6);
}

/// Routers have link-local addresses. Advertisements have a hop limit of 255 (RFC 4861 s4.2).
fn next_advertisement(frame: &mut [u8], number: u32) {
    frame[SOURCE_AT..DESTINATION_AT].copy_from_slice(&STRANGER.octets());
    make_up_source(frame, number.into());
    frame.copy_within(SOURCE_AT..SOURCE_AT + 8, ADVERTISED_AT);
    frame[SOURCE_AT..SOURCE_AT + 8].copy_from_slice(&LINK_LOCAL);
    next_honest_advertisement(frame, number);
}

fn next_honest_advertisement(frame: &mut [u8], _: u32) {
    frame[HOP_LIMIT_AT] = 255;
    packets::seal_upper(&mut frame[ETHERNET_LEN..], packets::ICMPV6, IP6_LEN, packets::OF_ICMPV6);
}

/// Offset of the third and fourth 16 bits of the source address.
const PREFIX_AT: usize = SOURCE_AT + 4;
const HOP_LIMIT_AT: usize = ETHERNET_LEN + 7;
const SOURCE_AT: usize = ETHERNET_LEN + 8;
const DESTINATION_AT: usize = ETHERNET_LEN + 24;
const IP6_LEN: usize = 40;
const PAYLOAD_AT: usize = ETHERNET_LEN + IP6_LEN;
/// Offset of the prefix in a Router Advertisement.
const ADVERTISED_AT: usize = PAYLOAD_AT + 32;
/// fe80::/64.
const LINK_LOCAL: [u8; 8] = [0xfe, 0x80, 0, 0, 0, 0, 0, 0];
/// Sources whose contexts the host wants.
const FEW: u32 = 64;
const I1S_FOR_DATAGRAM: u64 = 20;
/// Beyond the numbers of the Locator Updates of the honest daemon.
const FIRST_NUMBER: u32 = 1 << 16;
/// Octets behind the IPv6 header of a trigger: 1,064 with it.
const TRIGGER_OCTETS: u16 = 1024;

#[cfg(test)]
mod tests;
