//! Time from a frame to the queue of a UDP socket, for 64 octets of payload and the checksum: by the fast path, and by the walk
//! through a chain of extension headers. Each row has 512 frames. The frames are made and the queue is emptied outside of the time.

mod common;

use core::cell::RefCell;
use core::net::Ipv6Addr;

use common::{Host, WIRE};
use divan::Bencher;
use divan::counter::ItemsCount;
use moorline_ip::PacketBuf;
use moorline_ip::extension::FRAGMENT_LEN;
use moorline_ip::ip6::{DESTINATION_OPTIONS, FRAGMENT, UDP};
use moorline_ip::udp::Datagram;
use moorline_stack::stack::Config;

fn main() {
    divan::main();
}

const PREFIX: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 0);
const PEER: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 9, 0, 0, 0, 0, 1);
const FRAMES: usize = 512;

/// Frames with 64 octets of UDP payload behind these octets, whose first header has this number.
fn bench(bencher: Bencher<'_, '_>, protocol: u8, headers: &[u8]) {
    let mut host = Host::new(1, 1500, PREFIX, Config::default());
    let socket = host.stack.udp_bind(None, Some(2000)).expect("socket");
    let datagram = Datagram { source_port: 1000, destination_port: 2000, payload: &[7; 64] };
    let mut payload = headers.to_vec();
    let mut upper = vec![];
    datagram.emit(PEER, host.address, &mut upper).expect("datagram");
    payload.extend(upper);
    let frame = host.frame(PEER, host.address, protocol, &payload);
    let host = RefCell::new(host);
    let inputs = || {
        let mut host = host.borrow_mut();
        host.drain();
        let mut received = 0;
        while host.stack.udp_recv(socket).is_ok() {
            received += 1;
        }
        assert!(received == FRAMES || received == 0);
        vec![frame.clone(); FRAMES]
    };
    bencher.counter(ItemsCount::new(FRAMES)).with_inputs(inputs).bench_local_values(
        |frames: Vec<PacketBuf>| {
            let mut host = host.borrow_mut();
            let now = host.now;
            for frame in frames {
                host.stack.handle_frame(WIRE, frame, now);
            }
        },
    );
}

#[divan::bench(sample_size = 1, sample_count = 2000)]
fn fast_path(bencher: Bencher<'_, '_>) {
    bench(bencher, UDP, &[]);
}

/// One Destination Options header with one option of padding.
#[divan::bench(sample_size = 1, sample_count = 2000)]
fn destination_option(bencher: Bencher<'_, '_>) {
    bench(bencher, DESTINATION_OPTIONS, &[UDP, 0, 1, 4, 0, 0, 0, 0]);
}

/// Three Destination Options headers.
#[divan::bench(sample_size = 1, sample_count = 2000)]
fn three_extension_headers(bencher: Bencher<'_, '_>) {
    let more = [DESTINATION_OPTIONS, 0, 1, 4, 0, 0, 0, 0];
    let last = [UDP, 0, 1, 4, 0, 0, 0, 0];
    bench(bencher, DESTINATION_OPTIONS, &[more, more, last].concat());
}

/// An atomic fragment (RFC 6946).
#[divan::bench(sample_size = 1, sample_count = 2000)]
fn atomic_fragment(bencher: Bencher<'_, '_>) {
    let header: [u8; FRAGMENT_LEN] = [UDP, 0, 0, 0, 0, 0, 0, 1];
    bench(bencher, FRAGMENT, &header);
}
