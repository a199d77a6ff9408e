//! An uplink without a link layer: packets consist of IPv6 with nothing in front.

use moorline_datapath::Plane as _;
use moorline_datapath::shim6::ContextPlane as _;
use std::ffi::CStr;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::net::{Ipv6Addr, SocketAddrV6, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;

use moorline_bpf::AttachMode;
use moorline_datapath::shim6::ContextEntry;
use moorline_types::{DropReason, Ilv, Locator};
use rustix::event::{PollFd, PollFlags, poll};

use super::ilnp::Node;
use super::net::{Namespace, Net, address};
use super::{Host, ID, SHIM6, can_run, settings, tag_of};

/// Opens a TUN interface in the namespace; it ends with the file.
fn open(namespace: &Namespace, name: &str) -> File {
    namespace.run(|| {
        let file = OpenOptions::new().read(true).write(true).open("/dev/net/tun").unwrap();
        // SAFETY: all zeros is a valid ifreq.
        let mut request: libc::ifreq = unsafe { core::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from.cast_signed();
        }
        let flags = libc::IFF_TUN | libc::IFF_NO_PI;
        request.ifr_ifru.ifru_flags = i16::try_from(flags).unwrap();
        // SAFETY: the request is a live ifreq with a terminated name and flags, as this ioctl wants.
        let status = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
        assert_eq!(status, 0, "{}", std::io::Error::last_os_error());
        file
    })
}

/// `up3` of `a`, with the routes of its address and of sockets that are bound to it.
fn uplink(a: &Namespace) -> File {
    let tun = open(a, "up3");
    let here = address("a", 3);
    a.sh(&format!("ip link set up3 up; ip addr add {here}/64 dev up3 nodad"));
    a.sh("ip -6 route add default dev up3 table 103");
    a.sh(&format!("ip -6 rule add from {here} lookup 103 pref 203"));
    a.sh("ip -6 rule add oif up3 lookup 103 pref 98");
    tun
}

fn attach(net: &Net, a: &mut Host) {
    let ifindex = net.a.ifindex("up3");
    net.a.run(|| a.plane.attach_uplink(ifindex).unwrap());
    a.plane.set_local(address("a", 3), ifindex).unwrap();
}

/// A socket between the addresses of ISP 1 that sends by `up3`.
fn bound_socket(a: &Namespace) -> UdpSocket {
    let at = |end, port| SocketAddrV6::new(address(end, 1), port, 0, 0);
    let socket = a.run(|| UdpSocket::bind(at("a", 0)).unwrap());
    bind_to_device(&socket, c"up3");
    socket.connect(at("b", 9)).unwrap();
    socket
}

fn bind_to_device(socket: &UdpSocket, name: &CStr) {
    let octets = name.to_bytes_with_nul();
    // SAFETY: the name is live, terminated, and of the length that is passed; the kernel only reads it.
    let status = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_BINDTODEVICE,
            octets.as_ptr().cast(),
            libc::socklen_t::try_from(octets.len()).unwrap(),
        )
    };
    assert_eq!(status, 0, "{}", std::io::Error::last_os_error());
}

/// The next packet other than Neighbour Discovery and the like.
fn receive(tun: &mut File) -> Vec<u8> {
    let limit = rustix::time::Timespec { tv_sec: 20, tv_nsec: 0 };
    loop {
        let ready = poll(&mut [PollFd::new(tun, PollFlags::IN)], Some(&limit)).unwrap();
        assert_ne!(ready, 0, "no packet within 20 s");
        let mut packet = vec![0; 2000];
        let length = tun.read(&mut packet).unwrap();
        packet.truncate(length);
        if packet[6] != 58 && packet[6] != 0 {
            return packet;
        }
    }
}

/// The answer to the packet of a socket, with the same payload: the UDP checksum stays as it is.
fn echo(packet: &[u8], peer: Ipv6Addr, local: Ipv6Addr, tag_header: [u8; 8]) -> Vec<u8> {
    let mut answer = packet.to_vec();
    answer[8..24].copy_from_slice(&peer.octets());
    answer[24..40].copy_from_slice(&local.octets());
    answer[40..48].copy_from_slice(&tag_header);
    answer[48..50].copy_from_slice(&packet[50..52]);
    answer[50..52].copy_from_slice(&packet[48..50]);
    answer
}

fn payload_header(end: &str) -> [u8; 8] {
    let mut header = [17, 0, 0, 0, 0, 0, 0, 0];
    header[2..].copy_from_slice(&tag_of(end).octets());
    header[2] |= 0x80;
    header
}

#[test]
fn moved_traffic_takes_an_uplink_without_a_link_layer() {
    if !can_run("moved_traffic_takes_an_uplink_without_a_link_layer") {
        return;
    }
    let net = Net::new("u");
    let mut tun = uplink(&net.a);
    let (here, there) = (address("a", 3), address("b", 3));
    let mut a = Host::new(&net, "a", &settings(AttachMode::Auto));
    attach(&net, &mut a);
    let (local, peer) = (address("a", 1), address("b", 1));
    Net::route_over_moor(&net.a, local, peer);
    let entry = ContextEntry {
        current: a.path(Locator(here), Locator(there)),
        peer_locators: vec![Locator(there)].into(),
        ..a.entry(1)
    };
    a.upsert(entry);

    let socket = net.a.run(|| UdpSocket::bind(SocketAddrV6::new(local, 0, 0, 0)).unwrap());
    socket.connect(SocketAddrV6::new(peer, 9, 0, 0)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    socket.send(b"over the modem").unwrap();
    let sent = receive(&mut tun);
    assert_eq!(sent[6], SHIM6);
    assert_eq!(sent[8..24], here.octets());
    assert_eq!(sent[24..40], there.octets());
    assert_eq!(sent[40..48], payload_header("b"));
    assert_eq!(&sent[56..], b"over the modem");

    // The answer comes in by this uplink, and the kernel verifies the checksum.
    tun.write_all(&echo(&sent, there, here, payload_header("a"))).unwrap();
    let mut octets = [0; 64];
    let length = socket.recv(&mut octets).unwrap();
    assert_eq!(&octets[..length], b"over the modem");
    let counters = a.plane.counters(ID).unwrap();
    assert_eq!((counters.tx_packets, counters.rx_packets), (1, 1));

    // The source address is not the peer's: the packet is dropped and counted.
    tun.write_all(&echo(&sent, peer, here, payload_header("a"))).unwrap();
    tun.write_all(&echo(&sent, there, here, payload_header("a"))).unwrap();
    socket.recv(&mut octets).unwrap();
    let drops = a.plane.drops().unwrap();
    assert_eq!(drops, [(DropReason::WrongLocators, 1)]);
    assert_eq!(a.plane.counters(ID).unwrap().rx_packets, 2);
}

/// A packet on an uplink without a link layer cannot go from there to an Ethernet uplink: it is dropped and counted.
#[test]
fn what_is_moved_to_the_uplink_that_it_has_come_to_leaves_there_without_a_link_layer() {
    let test = "what_is_moved_to_the_uplink_that_it_has_come_to_leaves_there_without_a_link_layer";
    if !can_run(test) {
        return;
    }
    let net = Net::new("v");
    let mut tun = uplink(&net.a);
    let (here, there) = (address("a", 3), address("b", 3));
    let mut a = Host::new(&net, "a", &settings(AttachMode::Auto));
    attach(&net, &mut a);
    let entry = |a: &Host, from| ContextEntry {
        current: a.path(Locator(from), Locator(there)),
        peer_locators: vec![Locator(there)].into(),
        ..a.entry(1)
    };
    a.upsert(entry(&a, address("a", 2)));
    let socket = bound_socket(&net.a);
    socket.send(b"to another uplink").unwrap();
    assert_eq!(a.plane.drops().unwrap(), [(DropReason::NoUplink, 1)]);
    a.upsert(entry(&a, here));
    socket.send(b"over the modem").unwrap();
    let sent = receive(&mut tun);
    assert_eq!((&sent[8..24], &sent[24..40]), (&here.octets()[..], &there.octets()[..]));
    assert_eq!(sent[40..48], payload_header("b"));
    assert_eq!(&sent[56..], b"over the modem");
    assert_eq!(a.plane.drops().unwrap(), [(DropReason::NoUplink, 1)]);
}

/// The same for a packet of a session.
#[test]
fn a_moved_session_leaves_by_the_uplink_without_a_link_layer_that_its_socket_is_bound_to() {
    let test =
        "a_moved_session_leaves_by_the_uplink_without_a_link_layer_that_its_socket_is_bound_to";
    if !can_run(test) {
        return;
    }
    let net = Net::new("w");
    let mut tun = uplink(&net.a);
    let (here, there) = (address("a", 3), address("b", 3));
    let mut a = Node::new(&net, "a", AttachMode::Auto);
    let ifindex = net.a.ifindex("up3");
    net.a.run(|| a.plane.attach_uplink(ifindex).unwrap());
    a.plane.set_locator(Ilv::of(here).l64, ifindex).unwrap();
    a.upsert(a.entry(2, 3));
    let socket = bound_socket(&net.a);
    socket.send(b"to another uplink").unwrap();
    assert_eq!(a.plane.drops().unwrap(), [(DropReason::NoUplink, 1)]);
    a.upsert(a.entry(3, 3));
    socket.send(b"over the modem").unwrap();
    let sent = receive(&mut tun);
    assert_eq!((&sent[8..24], &sent[24..40]), (&here.octets()[..], &there.octets()[..]));
    assert_eq!((sent[6], &sent[40..48]), (60, &[&[17, 0, 0x8b, 4][..], b"aaaa"].concat()[..]));
    assert_eq!(&sent[56..], b"over the modem");
    assert_eq!(a.plane.drops().unwrap(), [(DropReason::NoUplink, 1)]);
}
