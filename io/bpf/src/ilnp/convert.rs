//! Conversion between the types of the contract and those of the programs.

use std::net::Ipv6Addr;

use moorline_datapath::ilnp::Socket;
use moorline_datapath::ilnp::{ChecksumMode, Report, SessionEntry};
use moorline_types::{Ilv, IlvPair, Instant, L64, Nid, Nonce, SessionId};
use moorline_wire::ilnp::ChecksumDelta;

use crate::plain::Plain as _;
use crate::skel::ilnp::types;

pub(crate) fn address(address: Ipv6Addr) -> types::address {
    types::address::from_octets(&address.octets()).unwrap_or_default()
}

fn address_back(address: types::address) -> Ilv {
    let [l64, nid] = address.word.map(u64::from_be);
    Ilv::new(L64(l64), Nid(nid))
}

pub(crate) fn pair(pair: IlvPair) -> types::pair {
    types::pair { local: address(pair.local.address()), peer: address(pair.remote.address()) }
}

fn pair_back(pair: types::pair) -> IlvPair {
    IlvPair::new(address_back(pair.local), address_back(pair.peer))
}

pub(crate) fn nids((local, remote): (Nid, Nid)) -> types::nids {
    types::nids { local: local.0.to_be(), remote: remote.0.to_be() }
}

pub(crate) fn nid(nid: Nid) -> u64 {
    nid.0.to_be()
}

pub(crate) fn l64(l64: L64) -> u64 {
    l64.0.to_be()
}

pub(crate) fn nonce(nonce: Option<Nonce>) -> types::nonce {
    let octets = nonce.as_ref().map_or(&[][..], Nonce::octets);
    let mut octet = [0; 12];
    octet[..octets.len()].copy_from_slice(octets);
    types::nonce { len: u32::try_from(octets.len()).unwrap_or(0), octet }
}

pub(crate) fn nonce_back(nonce: types::nonce) -> Option<Nonce> {
    let octets = nonce.octet.get(..nonce.len as usize)?;
    Nonce::from_octets(octets)
}

pub(crate) fn nonce_key(pair: IlvPair, of: Nonce) -> types::nonce_key {
    types::nonce_key { nids: nids(pair.nids()), nonce: nonce(Some(of)) }
}

/// Converts a session. This library assigns `generation` and `serial`; `receive` is the known nonce of the
/// correspondent.
pub(crate) fn session(
    entry: &SessionEntry,
    generation: u32,
    serial: u32,
    receive: Option<Nonce>,
) -> types::ilnp_session {
    let wire = entry.wire_pair();
    let full = ChecksumDelta::new(entry.pair.l64s(), wire.l64s());
    let to_nids = ChecksumDelta::to_nid_only(entry.pair.l64s());
    let is_full = entry.checksum == ChecksumMode::Full;
    let bits = |delta: ChecksumDelta| delta.bits().to_be();
    let flags = [
        (true, types::ilnp_flags::ILNP_LIVE),
        (entry.attach, types::ilnp_flags::ILNP_ATTACH),
        (entry.always, types::ilnp_flags::ILNP_ALWAYS),
        (entry.maps_tcp, types::ilnp_flags::ILNP_MAPS_TCP),
        (entry.settled, types::ilnp_flags::ILNP_SETTLED),
        (entry.confirming, types::ilnp_flags::ILNP_CONFIRMING),
        (is_full, types::ilnp_flags::ILNP_FULL),
        (entry.watch, types::ilnp_flags::ILNP_WATCH),
        (receive.is_some(), types::ilnp_flags::ILNP_SHOWN),
    ];
    let flags = flags.into_iter().filter(|(set, _)| *set).fold(0, |all, (_, flag)| all | flag.0);
    types::ilnp_session {
        generation,
        pair: pair(entry.pair),
        wire: pair(wire),
        send: nonce(Some(entry.send_nonce)),
        receive: nonce(receive),
        out_transport: bits(if is_full { full } else { to_nids }),
        out_icmp: bits(full),
        in_transport: bits(to_nids.inverse()),
        flags: u16::try_from(flags).unwrap_or(0),
        serial,
        ..types::ilnp_session::default()
    }
}

/// Converts the locators of the correspondent, for the session that a slot has in this generation.
pub(crate) fn remotes(remote: &[L64], generation: u32) -> types::named {
    let mut named = types::named { generation, ..types::named::default() };
    for (place, locator) in named.l64.iter_mut().zip(remote) {
        *place = l64(*locator);
        named.count += 1;
    }
    named
}

/// Converts a report; `None` for an unknown kind, which another version may have made.
pub(crate) fn report(raw: &types::ilnp_report) -> Option<Report> {
    let session = SessionId(raw.slot);
    match types::ilnp_report_kind(raw.kind) {
        types::ilnp_report_kind::ILNP_CANDIDATE => Some(Report::Candidate {
            pair: pair_back(raw.pair),
            protocol: raw.protocol,
            ports: (raw.local_port, raw.remote_port),
            socket: socket(raw.socket.into()),
            inbound: raw.inbound != 0,
            nonce: nonce_back(raw.nonce),
        }),
        types::ilnp_report_kind::ILNP_LEARNED => {
            nonce_back(raw.nonce).map(|nonce| Report::Learned { session, nonce })
        }
        types::ilnp_report_kind::ILNP_AUTHENTICATED => Some(Report::Authenticated { session }),
        types::ilnp_report_kind::ILNP_USED => {
            Some(Report::Used { session, at: Instant::from_nanos(raw.at) })
        }
        types::ilnp_report_kind::ILNP_SILENT => Some(Report::Silent { session }),
        types::ilnp_report_kind::ILNP_NO_ROOM => Some(Report::NoRoom { session }),
        _ => None,
    }
}

pub(crate) fn socket(kind: u32) -> Socket {
    match types::ilnp_socket(kind) {
        types::ilnp_socket::SOCKET_CONNECTED => Socket::Connected,
        types::ilnp_socket::SOCKET_UNCONNECTED | types::ilnp_socket::SOCKET_HALF => {
            Socket::Unconnected
        }
        _ => Socket::None,
    }
}
