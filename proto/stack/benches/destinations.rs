//! Time of a datagram of 64 or 1,251 octets from a socket to a frame, with the path MTUs of one destination or of a million; octets of a destination.
//!
//! The datagrams go to all destinations in turn, in an order that no cache of the processor foresees, or to a thousand of them.

mod common;

use core::net::Ipv6Addr;

use common::{Host, ROUTER};
use divan::{AllocProfiler, Bencher};
use moorline_ip::Header;
use moorline_ip::icmp::{Cause, Error};
use moorline_ip::ip6::{ICMPV6, UDP};
use moorline_ip::udp::Datagram;
use moorline_stack::route::{Destinations, Limits};
use moorline_stack::stack::{Config, Event};
use moorline_stack::udp::Options;
use moorline_types::Instant;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng as _;

#[global_allocator]
static ALLOCATOR: AllocProfiler = AllocProfiler::system();

fn main() {
    divan::main();
}

const PREFIX: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 0);
const SMALL: [u8; 64] = [7; 64];
/// The packet has 1,299 octets, and fits each path that is known.
const LARGE: [u8; 1_251] = [7; 1_251];
const SIZES: [u64; 4] = [0, 1, 1_000, 1_000_000];

/// The destination with this number: each has a site of its own.
fn destination(n: u64) -> Ipv6Addr {
    let mixed = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    Ipv6Addr::from_bits(0x2a00 << 112 | u128::from(mixed) << 32 | 1)
}

/// A Packet Too Big message about a datagram of the host from port 2000.
fn too_big(host: &mut Host, to: Ipv6Addr) {
    let mut quote = Vec::with_capacity(128);
    let mut upper = vec![];
    let datagram = Datagram { source_port: 2000, destination_port: 9, payload: &[7; 8] };
    datagram.emit(host.address, to, &mut upper).expect("datagram");
    let len = u16::try_from(upper.len()).expect("short");
    quote.extend(Header::new(host.address, to, UDP, 64, len).octets());
    quote.extend(upper);
    let mut error = vec![];
    Error { cause: Cause::PacketTooBig(1400), quote: &quote }.emit(
        ROUTER,
        host.address,
        &mut error,
    );
    host.give(ROUTER, host.address, ICMPV6, &error);
}

/// A host that knows the path MTUs of `size` destinations sends to `active` of them in turn.
fn bench(bencher: Bencher<'_, '_>, size: u64, active: u64, payload: &[u8]) {
    let mut config = Config::default();
    config.destinations.paths = 1_000_000;
    let mut host = Host::new(1, 1500, PREFIX, config);
    let socket = host.stack.udp_bind(None, Some(2000)).expect("socket");
    let mut known = 0;
    for n in 0..size {
        too_big(&mut host, destination(n));
        while host.stack.poll_frame().is_some() {}
        let events = core::iter::from_fn(|| host.stack.poll_event());
        known += events.filter(|event| matches!(event, Event::PathMtu(..))).count();
    }
    assert_eq!(u64::try_from(known).expect("small"), size, "each has become a path MTU");
    let mut n = 0_u64;
    bencher.bench_local(|| {
        n = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let to = Some((destination(n % active), 9));
        host.stack.udp_send_to(socket, payload, to, Options::default(), host.now).expect("sent");
        while host.stack.poll_frame().is_some() {}
    });
}

#[divan::bench(args = SIZES, sample_size = 1000, sample_count = 500)]
fn datagram_to_all_of(bencher: Bencher<'_, '_>, size: u64) {
    bench(bencher, size, size.max(1), &SMALL);
}

/// The packets are larger than the least MTU of a link, so each waits for the path MTU of its destination.
#[divan::bench(args = SIZES, sample_size = 1000, sample_count = 500)]
fn large_datagram_to_all_of(bencher: Bencher<'_, '_>, size: u64) {
    bench(bencher, size, size.max(1), &LARGE);
}

#[divan::bench(args = SIZES, sample_size = 1000, sample_count = 500)]
fn datagram_to_a_thousand_of(bencher: Bencher<'_, '_>, size: u64) {
    bench(bencher, size, 1_000, &SMALL);
}

/// The column of allocated octets has those of a million destinations. What grows is allocated twice.
#[divan::bench(sample_size = 1, sample_count = 3)]
fn a_million_destinations() -> Destinations {
    let limits = Limits { paths: 1_000_000, ..Limits::default() };
    let mut destinations = Destinations::new(limits, ChaCha20Rng::from_seed([1; 32]));
    for n in 0..1_000_000 {
        let now = Instant::from_nanos(1 + n);
        destinations.handle_packet_too_big(0, destination(n), 1400, 1500, now).expect("taken");
    }
    destinations
}
