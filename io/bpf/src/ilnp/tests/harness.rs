//! A data plane of ILNP on a virtual clock, in a network namespace with sockets.

use std::collections::BTreeMap;
use std::net::{Ipv6Addr, SocketAddrV6, TcpListener, TcpStream, UdpSocket};
use std::process::Command;

use libbpf_rs::ProgramInput;
use moorline_datapath::ilnp::Socket;
use moorline_datapath::ilnp::{Report, Sockets};
use moorline_types::{DropReason, Ilv, IlvPair, L64, Nid};

use crate::ilnp::{IlnpDatapath, IlnpSettings};
use crate::skel::ilnp::types;
use crate::tables::{self, Table};
use crate::tests::harness::{ETHERNET, IFINDEX, Namespace, Outcome};

pub(crate) const HOME: L64 = L64(0x2001_0db8_000a_0000);
pub(crate) const AWAY: L64 = L64(0x2001_0db8_000b_0000);
pub(crate) const THERE: L64 = L64(0x2001_0db8_000c_0000);
pub(crate) const ELSEWHERE: L64 = L64(0x2001_0db8_000d_0000);
pub(crate) const NEVER_NAMED: L64 = L64(0x2001_0db8_000e_0000);
pub(crate) const OURS: Nid = Nid(0x0200_00ff_fe00_0001);
const THEIRS: [Nid; 2] = [Nid(0x0200_00ff_fe00_0011), Nid(0x0200_00ff_fe00_0012)];

/// Addresses that sockets have. The fourth is alone with its node. The last is another node with the identifier of the
/// first.
pub(crate) const PAIRS: [IlvPair; 5] = [
    IlvPair::new(Ilv::new(HOME, OURS), Ilv::new(THERE, THEIRS[0])),
    IlvPair::new(Ilv::new(AWAY, OURS), Ilv::new(THERE, THEIRS[0])),
    IlvPair::new(Ilv::new(HOME, OURS), Ilv::new(ELSEWHERE, THEIRS[0])),
    IlvPair::new(Ilv::new(HOME, OURS), Ilv::new(THERE, THEIRS[1])),
    IlvPair::new(Ilv::new(AWAY, OURS), Ilv::new(NEVER_NAMED, THEIRS[0])),
];

/// Of sockets that take packets of anybody.
pub(crate) const UNCONNECTED: u16 = 4000;

/// Port of our connected sockets of a pair; their correspondents have [`THEIR_PORT`] more. The last pair has those of the
/// first.
pub(crate) fn our_port(pair: usize) -> u16 {
    40_000 + u16::try_from(pair % (PAIRS.len() - 1)).unwrap()
}

/// On top of [`our_port`].
pub(crate) const THEIR_PORT: u16 = 10_000;

pub(crate) struct Harness {
    pub(crate) plane: IlnpDatapath,
    _sockets: Vec<Box<dyn std::any::Any>>,
    _namespace: Namespace,
}

impl Harness {
    /// With a connected TCP and UDP socket for each of [`PAIRS`], and unconnected ones.
    pub(crate) fn new(settings: &IlnpSettings) -> Self {
        let namespace = Namespace::new();
        let mut script = "ip link set lo up\n".to_owned();
        for address in PAIRS.iter().flat_map(|pair| [pair.local.address(), pair.remote.address()]) {
            script += &format!("ip addr replace {address}/128 dev lo nodad\n");
            // The kernel makes its route a moment later.
            script += &format!("until ip -6 route get {address} >/dev/null 2>&1; do :; done\n");
        }
        assert!(Command::new("sh").args(["-ec", &script]).status().unwrap().success());
        let mut sockets: Vec<Box<dyn std::any::Any>> = Vec::new();
        for (index, pair) in PAIRS.iter().enumerate() {
            let ours = at(pair.local.address(), our_port(index));
            let theirs = at(pair.remote.address(), our_port(index) + THEIR_PORT);
            let udp = UdpSocket::bind(ours).unwrap();
            udp.connect(theirs).unwrap();
            sockets.push(Box::new(udp));
            let listener = TcpListener::bind(ours).unwrap();
            sockets.push(Box::new(connected(theirs, ours)));
            sockets.push(Box::new(listener.accept().unwrap()));
        }
        let anybody = at(Ipv6Addr::UNSPECIFIED, UNCONNECTED);
        sockets.push(Box::new(UdpSocket::bind(anybody).unwrap()));
        sockets.push(Box::new(TcpListener::bind(anybody).unwrap()));
        let mut plane = IlnpDatapath::open_with(settings, true).unwrap();
        for l64 in [HOME, AWAY] {
            plane.set_locator(l64, IFINDEX).unwrap();
        }
        plane.set_nids(&[OURS].into()).unwrap();
        Self { plane, _sockets: sockets, _namespace: namespace }
    }

    pub(crate) fn set_now(&self, now: u64) {
        self.plane.set_now(now);
    }

    /// Forgets pairs that were reported, looks for sockets, and what was dropped.
    pub(crate) fn clear(&self) {
        let looked = Table::<u32, u64>::of(&self.plane.object, "looked").unwrap();
        looked.insert(&0, &0).unwrap();
        let table = Table::<types::pair, u64>::of(&self.plane.object, "candidates").unwrap();
        table.keys().iter().for_each(|pair| table.remove(pair).unwrap());
        tables::clear_drops(&tables::handle(&self.plane.object, "drops").unwrap()).unwrap();
        self.reports();
        self.controls();
    }

    pub(crate) fn reports(&self) -> Vec<Report> {
        let mut reports = Vec::new();
        self.plane.drain_reports(&mut |report| reports.push(report)).unwrap();
        reports
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
        let frame = [&ETHERNET, packet].concat();
        let mut out = vec![0; frame.len() + 64];
        let input = ProgramInput {
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
    /// The time that the programs see, in nanoseconds.
    pub(crate) fn set_now(&self, now: u64) {
        let table = Table::<u32, u64>::of(&self.object, "virtual_now").unwrap();
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

/// A stream from an address and port of our choice.
pub(crate) fn connected(from: SocketAddrV6, to: SocketAddrV6) -> TcpStream {
    use rustix::net::{AddressFamily, SocketType};
    let socket = rustix::net::socket(AddressFamily::INET6, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&socket, &from).unwrap();
    rustix::net::connect(&socket, &to).unwrap();
    TcpStream::from(socket)
}
