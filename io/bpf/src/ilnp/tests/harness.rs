//! A data plane of ILNP on a virtual clock, in a network namespace with sockets.

use moorline_datapath::Plane as _;
use std::collections::BTreeMap;
use std::net::{Ipv6Addr, SocketAddrV6, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::process::Command;
use std::time::{Duration, Instant};

use libbpf_rs::{MapCore as _, MapFlags, ProgramInput};
use moorline_datapath::ilnp::Socket;
use moorline_datapath::ilnp::{Report, Sockets};
use moorline_types::{DropReason, Ilv, IlvPair, L64, Nid};
use rustix::net::{AddressFamily, SocketType};

use crate::ilnp::{IlnpDatapath, IlnpSettings};
use crate::skel::ilnp::types;
use crate::skel::types::__sk_buff;
use crate::tables::{self, Table};
use crate::tests::harness::{ETHERNET, IFINDEX, Namespace, Outcome, clear_drops, clear_flows};

pub(crate) const HOME: L64 = L64(0x2001_0db8_000a_0000);
pub(crate) const AWAY: L64 = L64(0x2001_0db8_000b_0000);
pub(crate) const THERE: L64 = L64(0x2001_0db8_000c_0000);
pub(crate) const ELSEWHERE: L64 = L64(0x2001_0db8_000d_0000);
pub(crate) const NEVER_NAMED: L64 = L64(0x2001_0db8_000e_0000);
pub(crate) const OURS: Nid = Nid(0x0200_00ff_fe00_0001);
const THEIRS: [Nid; 2] = [Nid(0x0200_00ff_fe00_0011), Nid(0x0200_00ff_fe00_0012)];

/// Addresses of sockets. The fourth pair is the only one with its node. The last pair is another node with the
/// identifier of the first.
pub(crate) const PAIRS: [IlvPair; 5] = [
    IlvPair::new(Ilv::new(HOME, OURS), Ilv::new(THERE, THEIRS[0])),
    IlvPair::new(Ilv::new(AWAY, OURS), Ilv::new(THERE, THEIRS[0])),
    IlvPair::new(Ilv::new(HOME, OURS), Ilv::new(ELSEWHERE, THEIRS[0])),
    IlvPair::new(Ilv::new(HOME, OURS), Ilv::new(THERE, THEIRS[1])),
    IlvPair::new(Ilv::new(AWAY, OURS), Ilv::new(NEVER_NAMED, THEIRS[0])),
];

/// Port of sockets that take packets from any sender.
pub(crate) const UNCONNECTED: u16 = 4000;

/// Port of our connected sockets of a pair; the port of their correspondents is higher by [`THEIR_PORT`]. The last
/// pair has the ports of the first.
pub(crate) fn our_port(pair: usize) -> u16 {
    40_000 + u16::try_from(pair % (PAIRS.len() - 1)).unwrap()
}

const TCP: u8 = 6;
const UDP: u8 = 17;

/// Difference of the ports of correspondents to [`our_port`].
pub(crate) const THEIR_PORT: u16 = 10_000;

pub(crate) struct Harness {
    pub(crate) plane: IlnpDatapath,
    sockets: Vec<OwnedFd>,
    _namespace: Namespace,
}

impl Harness {
    /// A harness with a connected TCP and UDP socket for each of [`PAIRS`], and with unconnected sockets.
    pub(crate) fn new(settings: &IlnpSettings) -> Self {
        let mut harness = Self::bare(settings);
        harness.add_addresses(
            PAIRS.iter().flat_map(|pair| [pair.local.address(), pair.remote.address()]),
        );
        for (index, pair) in PAIRS.iter().enumerate() {
            let ours = at(pair.local.address(), our_port(index));
            let theirs = at(pair.remote.address(), our_port(index) + THEIR_PORT);
            harness.connect(UDP, ours, theirs);
            harness.connect(TCP, ours, theirs);
        }
        let anybody = at(Ipv6Addr::UNSPECIFIED, UNCONNECTED);
        harness.listen(UDP, anybody);
        harness.listen(TCP, anybody);
        for l64 in [HOME, AWAY] {
            harness.plane.set_locator(l64, IFINDEX).unwrap();
        }
        harness.plane.set_nids(&[OURS].into()).unwrap();
        harness
    }

    /// A harness without sockets, and without addresses and locators of the host.
    pub(crate) fn bare(settings: &IlnpSettings) -> Self {
        let namespace = Namespace::new();
        assert!(Command::new("ip").args(["link", "set", "lo", "up"]).status().unwrap().success());
        let plane = IlnpDatapath::open_with(settings, std::path::PathBuf::new(), true).unwrap();
        Self { plane, sockets: Vec::new(), _namespace: namespace }
    }

    /// Adds addresses that sockets may have.
    pub(crate) fn add_addresses(&self, addresses: impl IntoIterator<Item = Ipv6Addr>) {
        let mut script = String::new();
        for address in addresses {
            script += &format!("ip addr replace {address}/128 dev lo nodad\n");
            // The kernel makes the local route of an address a moment later than the route of its prefix.
            script += &format!("until ip -6 route get {address} | grep -q '^local'; do :; done\n");
        }
        assert!(Command::new("sh").args(["-ec", &script]).status().unwrap().success());
    }

    /// Opens a connected socket. For TCP, also opens the other end of the connection.
    pub(crate) fn connect(&mut self, protocol: u8, ours: SocketAddrV6, theirs: SocketAddrV6) {
        if protocol == UDP {
            let socket = bound(SocketType::DGRAM, ours);
            rustix::net::connect(&socket, &theirs).unwrap();
            self.sockets.push(socket);
        } else {
            let listener = TcpListener::bind(ours).unwrap();
            self.sockets.push(connected(theirs, ours).into());
            self.sockets.push(listener.accept().unwrap().0.into());
        }
    }

    /// Opens a socket that takes packets from any sender.
    pub(crate) fn listen(&mut self, protocol: u8, ours: SocketAddrV6) {
        self.sockets.push(if protocol == UDP {
            UdpSocket::bind(ours).unwrap().into()
        } else {
            TcpListener::bind(ours).unwrap().into()
        });
    }

    /// Closes all sockets, and waits until the namespace has none. A program that another test starts at this moment
    /// holds a copy of each descriptor until it is executed.
    pub(crate) fn close_sockets(&mut self) {
        for socket in self.sockets.drain(..) {
            rustix::net::sockopt::set_socket_linger(&socket, Some(Duration::ZERO)).unwrap();
        }
        let begun = Instant::now();
        for table in ["udp6", "tcp6"] {
            loop {
                let text = std::fs::read_to_string(format!("/proc/thread-self/net/{table}"));
                let text = text.unwrap();
                if text.lines().count() == 1 {
                    break;
                }
                assert!(begun.elapsed() < CLOSE_LIMIT, "sockets stay open, {table}:\n{text}");
                std::thread::yield_now();
            }
        }
    }

    pub(crate) fn set_now(&self, now: u64) {
        self.plane.set_now(now);
    }

    /// Forgets reported pairs, looks for sockets, packets without room, first fragments, flows, and drops.
    pub(crate) fn clear(&self) {
        for section in [".data.room", ".data.candidates", ".data.looks"] {
            let section = tables::handle(&self.plane.object, section).unwrap();
            let zeros = vec![0; usize::try_from(section.value_size()).unwrap()];
            section.update(&0_u32.to_ne_bytes(), &zeros, MapFlags::ANY).unwrap();
        }
        let looked = Table::<u32, u64>::of(&self.plane.object, "looked").unwrap();
        looked.insert(&0, &0).unwrap();
        let table = Table::<types::pair, u64>::of(&self.plane.object, "candidates").unwrap();
        table.keys().iter().for_each(|pair| table.remove(pair).unwrap());
        let fragments =
            Table::<types::fragmented, u32>::of(&self.plane.object, "fragments").unwrap();
        fragments.keys().iter().for_each(|packet| fragments.remove(packet).unwrap());
        clear_flows(&self.plane.object);
        clear_drops(&tables::handle(&self.plane.object, "drops").unwrap());
        self.reports();
        self.controls();
    }

    pub(crate) fn reports(&self) -> Vec<Report> {
        std::iter::from_fn(|| self.plane.next_report().unwrap()).collect()
    }

    pub(crate) fn controls(&self) -> Vec<Vec<u8>> {
        let mut controls = Vec::new();
        self.plane.drain_control(&mut |packet| controls.push(packet.to_vec())).unwrap();
        controls
    }

    pub(crate) fn drops(&self) -> BTreeMap<DropReason, u64> {
        self.plane.drops().unwrap().into_iter().collect()
    }

    /// Runs a program on an IPv6 packet.
    pub(crate) fn run(&self, program: &'static str, packet: &[u8]) -> Outcome {
        self.run_segments(program, packet, 0)
    }

    /// Runs a program on a super-packet whose segments have so many octets; 0: on a plain packet.
    pub(crate) fn run_segments(
        &self,
        program: &'static str,
        packet: &[u8],
        segment: u32,
    ) -> Outcome {
        let frame = [&ETHERNET, packet].concat();
        let mut out = vec![0; frame.len() + 64];
        let mut context = [0; size_of::<__sk_buff>()];
        let at = core::mem::offset_of!(__sk_buff, gso_size);
        context[at..at + 4].copy_from_slice(&segment.to_ne_bytes());
        let input = ProgramInput {
            context_in: Some(&mut context),
            data_in: Some(&frame),
            data_out: Some(&mut out),
            ..ProgramInput::default()
        };
        let output = crate::load::run(&self.plane.object, program, input).unwrap();
        let frame = output.data.unwrap();
        assert_eq!(frame[..14], ETHERNET, "link layer header changed");
        Outcome { action: output.return_value.cast_signed(), packet: frame[14..].to_vec() }
    }
}

impl IlnpDatapath {
    /// Sets the time that the programs see, in nanoseconds.
    pub(crate) fn set_now(&self, now: u64) {
        let table = Table::<u32, u64>::of(&self.object, ".data.clock").unwrap();
        table.insert(&0, &now).unwrap();
    }
}

impl Sockets for IlnpDatapath {
    fn kind(&self, pair: IlvPair, protocol: u8, ports: (u16, u16)) -> Socket {
        self.socket_kind(pair, protocol, ports).unwrap()
    }

    fn has_connection(&self, pair: IlvPair, protocol: u8, ports: (u16, u16)) -> bool {
        let kind = self.socket_of(pair, protocol, ports).unwrap();
        kind >= types::ilnp_socket::SOCKET_HALF.0
    }

    fn any_between(&self, _pair: IlvPair) -> bool {
        unreachable!("a data plane does not ask")
    }
}

pub(crate) fn at(address: Ipv6Addr, port: u16) -> SocketAddrV6 {
    SocketAddrV6::new(address, port, 0, 0)
}

/// A stream from a given address and port.
pub(crate) fn connected(from: SocketAddrV6, to: SocketAddrV6) -> TcpStream {
    let socket = bound(SocketType::STREAM, from);
    rustix::net::connect(&socket, &to).unwrap();
    TcpStream::from(socket)
}

/// A socket at an address and port that other sockets may have too.
fn bound(kind: SocketType, at: SocketAddrV6) -> OwnedFd {
    let socket = rustix::net::socket(AddressFamily::INET6, kind, None).unwrap();
    rustix::net::sockopt::set_socket_reuseaddr(&socket, true).unwrap();
    rustix::net::bind(&socket, &at).unwrap();
    socket
}

/// Time until the sockets of a namespace must be gone from its tables. The limit is generous: the machine may be
/// busy.
const CLOSE_LIMIT: Duration = Duration::from_secs(60);
