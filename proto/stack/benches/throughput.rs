//! Octets of one TCP connection between two hosts in memory, on one core: our host and smoltcp without our host, both with checksums
//! and both with the same buffers. Each round carries 32 MB.
//!
//! The time is that of the processor in this thread, as the kernel counts it, and the rounds of all rows take turns: so a busy machine
//! changes the ratios little. The best of the rounds counts, and beside it stands the speed as a part of smoltcp's in the row above: the median
//! of all rounds. Time of the hosts stands still unless both wait.
//!
//! `cargo bench -p moorline-stack --bench throughput -- [ROUNDS] [ROW]`. A row is a part of a name: only rows with it are played.
#![allow(clippy::print_stdout, reason = "a bench prints its figures")]

mod common;

use core::net::Ipv6Addr;

use common::{Host, WIRE};
use moorline_ip::Mac;
use moorline_ip::ethernet;
use moorline_stack::stack::Config;
use moorline_stack::tcp::TcpId;
use moorline_types::Instant;

fn main() {
    let rounds = std::env::args().find_map(|argument| argument.parse().ok()).unwrap_or(20);
    let chosen = std::env::args()
        .skip(1)
        .find(|argument| argument.parse::<u32>().is_err() && !argument.starts_with("--"));
    let mut rows: Vec<Row> = vec![
        ("smoltcp, MTU 1500", bare::carrier(1500, true)),
        ("our hosts, MTU 1500", carrier(1500, false)),
        ("our hosts, MTU 1500, by a router", carrier(1500, true)),
        ("smoltcp, MTU 65535", bare::carrier(65_535, true)),
        ("our hosts, super-segments", carrier(65_535, false)),
        ("smoltcp, MTU 1500, no checksums", bare::carrier(1500, false)),
    ];
    rows.retain(|(name, _)| chosen.as_ref().is_none_or(|chosen| name.contains(chosen)));
    let mut times = vec![vec![]; rows.len()];
    for _ in 0..rounds {
        for (times, (_, carry)) in times.iter_mut().zip(&mut rows) {
            let before = processor_time();
            carry();
            times.push(processor_time() - before);
        }
    }
    let mut reference = &vec![];
    for (times, (name, _)) in times.iter().zip(&rows) {
        if name.starts_with("smoltcp") {
            reference = times;
        }
        let gigabits = ratio((OCTETS * 8) as u64, *times.iter().min().expect("a round"));
        let mut ratios: Vec<f64> =
            reference.iter().zip(times).map(|(other, own)| ratio(*other, *own)).collect();
        ratios.sort_by(f64::total_cmp);
        let median = ratios.get(ratios.len() / 2).copied().unwrap_or(f64::NAN);
        println!("{name:34} {gigabits:6.2} Gbit/s {median:5.2}");
    }
}

#[expect(clippy::cast_precision_loss, reason = "three digits are enough")]
fn ratio(one: u64, other: u64) -> f64 {
    one as f64 / other as f64
}

/// A name, and a function that carries the octets.
type Row = (&'static str, Box<dyn FnMut()>);

/// Nanoseconds that this thread has had a processor.
fn processor_time() -> u64 {
    let read = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    read.split(' ').next().and_then(|first| first.parse().ok()).expect("a number")
}

const OCTETS: usize = 32 << 20;
const PREFIX: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 0);
const OTHER_PREFIX: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, 0);
const CHUNK: usize = 65_536;
const LARGE: usize = 9_216;

/// Two hosts with a connection from the first to the second.
struct Pair {
    hosts: [Host; 2],
    ids: [TcpId; 2],
    /// Whether the hosts are on two links. Then the wire is a router.
    is_routed: bool,
    data: Vec<u8>,
}

impl Pair {
    fn new(mtu: u32, is_routed: bool) -> Self {
        let other = if is_routed { OTHER_PREFIX } else { PREFIX };
        let mut a = Host::new(1, mtu, PREFIX, Config::default());
        let mut b = Host::new(2, mtu, other, Config::default());
        if !is_routed {
            a.know(b.address, b.mac);
            b.know(a.address, a.mac);
        }
        let listener = b.stack.tcp_listen(None, 80, 16).expect("listener");
        let now = a.now;
        let client = a.stack.tcp_connect((b.address, 80), now).expect("connection");
        let mut pair = Self { hosts: [a, b], ids: [client; 2], is_routed, data: vec![7; CHUNK] };
        for _ in 0..4 {
            pair.exchange();
        }
        let accepted = pair.hosts[1].stack.tcp_accept(listener).expect("listener");
        pair.ids[1] = accepted.expect("a connection");
        pair
    }

    fn now(&self) -> Instant {
        self.hosts[0].now
    }

    /// Carries the frames that wait. Returns whether there were any.
    fn exchange(&mut self) -> bool {
        let mut any = false;
        for from in 0..2 {
            let [a, b] = &mut self.hosts;
            let (sender, receiver) = if from == 0 { (a, b) } else { (b, a) };
            while let Some((_, mut frame)) = sender.stack.poll_frame() {
                if self.is_routed {
                    set_destination(&mut frame, receiver.mac);
                }
                // The sender gets memory for a large frame, as from the ring of an adapter.
                if frame.len() > LARGE
                    && let Some(spare) = receiver.stack.spare()
                {
                    sender.stack.recycle(spare);
                }
                receiver.stack.handle_frame(WIRE, frame, receiver.now);
                any = true;
            }
            while sender.stack.poll_event().is_some() {}
        }
        any
    }

    fn carry(&mut self, octets: usize) {
        let [mut sent, mut received] = [0; 2];
        let mut buffer = vec![0; CHUNK];
        while received < octets {
            let now = self.now();
            let len = CHUNK.min(octets - sent);
            sent += self.hosts[0].stack.tcp_send(self.ids[0], &self.data[..len], now).unwrap_or(0);
            let any = self.exchange();
            while let Ok(taken @ 1..) = self.hosts[1].stack.tcp_recv(self.ids[1], &mut buffer, now)
            {
                received += taken;
            }
            if !self.exchange() && !any {
                self.pass();
            }
        }
    }

    /// Both hosts wait: time passes until one has something to do.
    fn pass(&mut self) {
        let due = self.hosts.iter().filter_map(|host| host.stack.poll_timeout()).min();
        let due = due.expect("a timer").max(self.now());
        for host in &mut self.hosts {
            host.now = due;
            host.stack.handle_timeout(due);
        }
    }
}

fn set_destination(frame: &mut [u8], mac: Mac) {
    frame[..6].copy_from_slice(&mac.0);
    assert!(frame.len() > ethernet::LEN);
}

fn carrier(mtu: u32, is_routed: bool) -> Box<dyn FnMut()> {
    let mut pair = Pair::new(mtu, is_routed);
    Box::new(move || pair.carry(OCTETS))
}

mod bare {
    //! smoltcp alone: two interfaces and two queues.

    use super::{CHUNK, OCTETS};
    use std::collections::VecDeque;

    use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
    use smoltcp::phy::{Checksum, Device, DeviceCapabilities, Medium, RxToken, TxToken};
    use smoltcp::socket::tcp;
    use smoltcp::time::Instant;
    use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr, Ipv6Address};

    struct Port {
        rx: VecDeque<Vec<u8>>,
        tx: VecDeque<Vec<u8>>,
        mtu: usize,
        has_checksums: bool,
    }

    struct In(Vec<u8>);
    struct Out<'a>(&'a mut VecDeque<Vec<u8>>);

    impl RxToken for In {
        fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
            f(&self.0)
        }
    }

    impl TxToken for Out<'_> {
        fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
            let mut packet = vec![0; len];
            let result = f(&mut packet);
            self.0.push_back(packet);
            result
        }
    }

    impl Device for Port {
        type RxToken<'a> = In;
        type TxToken<'a> = Out<'a>;

        fn receive(&mut self, _: Instant) -> Option<(In, Out<'_>)> {
            Some((In(self.rx.pop_front()?), Out(&mut self.tx)))
        }

        fn transmit(&mut self, _: Instant) -> Option<Out<'_>> {
            Some(Out(&mut self.tx))
        }

        fn capabilities(&self) -> DeviceCapabilities {
            let mut capabilities = DeviceCapabilities::default();
            capabilities.medium = Medium::Ip;
            capabilities.max_transmission_unit = self.mtu;
            if !self.has_checksums {
                capabilities.checksum.tcp = Checksum::None;
            }
            capabilities
        }
    }

    struct End {
        port: Port,
        interface: Interface,
        sockets: SocketSet<'static>,
        handle: SocketHandle,
    }

    impl End {
        fn new(number: u16, mtu: usize, has_checksums: bool) -> Self {
            let mut port = Port { rx: VecDeque::new(), tx: VecDeque::new(), mtu, has_checksums };
            let mut config = Config::new(HardwareAddress::Ip);
            config.random_seed = number.into();
            let mut interface = Interface::new(config, &mut port, Instant::ZERO);
            let address = Ipv6Address::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, number);
            interface.update_ip_addrs(|addresses| {
                addresses.push(IpCidr::new(IpAddress::Ipv6(address), 64)).expect("room");
            });
            let [rx, tx] = [(); 2].map(|()| tcp::SocketBuffer::new(vec![0; 256 * 1024 - 1]));
            let mut socket = tcp::Socket::new(rx, tx);
            socket.set_congestion_control(tcp::CongestionControl::Cubic);
            let mut sockets = SocketSet::new(vec![]);
            let handle = sockets.add(socket);
            Self { port, interface, sockets, handle }
        }

        fn socket(&mut self) -> &mut tcp::Socket<'static> {
            self.sockets.get_mut(self.handle)
        }

        fn poll(&mut self, now: Instant) {
            self.interface.poll(now, &mut self.port, &mut self.sockets);
        }
    }

    struct Pair {
        ends: [End; 2],
        now: Instant,
        data: Vec<u8>,
    }

    impl Pair {
        fn new(mtu: usize, has_checksums: bool) -> Self {
            let [mut a, mut b] = [1, 2].map(|number| End::new(number, mtu, has_checksums));
            b.socket().listen(80).expect("listener");
            let peer = (IpAddress::v6(0x2001, 0xdb8, 1, 0, 0, 0, 0, 2), 80);
            let End { interface, sockets, handle, .. } = &mut a;
            let socket = sockets.get_mut::<tcp::Socket<'_>>(*handle);
            socket.connect(interface.context(), peer, 50_000).expect("connection");
            let mut pair = Self { ends: [a, b], now: Instant::ZERO, data: vec![7; CHUNK] };
            for _ in 0..4 {
                pair.exchange();
            }
            assert!(pair.ends[1].socket().may_recv());
            pair
        }

        fn exchange(&mut self) -> bool {
            let mut any = false;
            for from in 0..2 {
                let now = self.now;
                let [a, b] = &mut self.ends;
                let (sender, receiver) = if from == 0 { (a, b) } else { (b, a) };
                sender.poll(now);
                any |= !sender.port.tx.is_empty();
                receiver.port.rx.append(&mut sender.port.tx);
                receiver.poll(now);
            }
            any
        }

        fn carry(&mut self, octets: usize) {
            let [mut sent, mut received] = [0; 2];
            let mut buffer = vec![0; CHUNK];
            while received < octets {
                let len = CHUNK.min(octets - sent);
                let Self { ends, data, .. } = self;
                sent += ends[0].socket().send_slice(&data[..len]).unwrap_or(0);
                let any = self.exchange();
                while let Ok(taken @ 1..) = self.ends[1].socket().recv_slice(&mut buffer) {
                    received += taken;
                }
                if !any {
                    self.now += smoltcp::time::Duration::from_millis(10);
                }
            }
        }
    }

    pub(super) fn carrier(mtu: usize, has_checksums: bool) -> Box<dyn FnMut()> {
        let mut pair = Pair::new(mtu, has_checksums);
        Box::new(move || pair.carry(OCTETS))
    }
}
