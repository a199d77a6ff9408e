//! Sessions and their packets.

use moorline_datapath::ilnp::{ChecksumMode, SessionEntry, Update, Wanted};
use moorline_plane::ilnp::{Plane, Settings};
use moorline_types::{Ilv, IlvPair, L64, Nid, Nonce, SessionId};
use moorline_wire::ilnp::{NonceHeader, transport_checksum};
use moorline_wire::ip6;

use super::{World, address};
use crate::input::Input;

pub(super) fn plane(wants_all: bool, checksum: ChecksumMode) -> Plane {
    let wanted = if wants_all { Wanted::All } else { Wanted::Connected };
    let settings = Settings { wanted, checksum, max_sessions: 6, mtu: MTU, ..Settings::default() };
    let mut plane = Plane::new(settings, [1; 16]);
    plane.set_nids([OURS].into());
    plane
}

impl World {
    /// Adds or changes a session. As with the machine, no pair of addresses belongs to two sessions, and the
    /// correspondent gives no nonce to two sessions.
    pub(super) fn upsert_session(&mut self, input: &mut Input<'_>) {
        let (id, picks, flags) = (input.octet() % 4, input.octet(), input.octet());
        let l64 = |bits: u8| L64S[usize::from(bits & 3)];
        let pair = IlvPair::new(Ilv::new(l64(picks), OURS), Ilv::new(l64(picks >> 2), THEIRS));
        let session = SessionId(id.into());
        if self.sessions.values().any(|entry| entry.id != session && entry.pair == pair) {
            return;
        }
        let remote = [l64(picks >> 2), l64(picks >> 6)];
        let entry = SessionEntry {
            id: session,
            pair,
            wire: (l64(picks >> 4), l64(picks >> 6)),
            send_nonce: nonce(id),
            attach: flags & 1 == 1,
            always: flags & 0x41 == 0x41,
            maps_tcp: flags >> 1 & 1 == 1,
            settled: flags >> 2 & 1 == 1,
            receive_nonce: (flags >> 3 & 1 == 1).then_some(nonce(id | flags >> 4 & 4)),
            remote: remote[usize::from(flags >> 5 & 1)..].into(),
            checksum: if flags >> 7 == 1 { ChecksumMode::Full } else { ChecksumMode::NidOnly },
            confirming: flags & 0x17 == 0x13,
            watch: flags >> 4 & 1 == 1,
        };
        self.update_sessions(&Update::Upsert(entry.clone()));
        if self.sessions.get(&session).is_none_or(|old| old.pair != pair) {
            self.told.remove(&session);
            self.told.extend(entry.has_told().then_some(session));
        }
        self.sessions.insert(session, entry);
    }

    pub(super) fn remove_session(&mut self, input: &mut Input<'_>) {
        let session = SessionId(u32::from(input.octet() % 4));
        self.sessions.remove(&session);
        self.update_sessions(&Update::Remove { session });
    }

    fn update_sessions(&mut self, update: &Update) {
        self.planes.ilnp.iter_mut().for_each(|plane| plane.handle_update(update));
    }

    pub(super) fn check_sent_by_session(&mut self, packet: &[u8], after: &[u8]) {
        let pair = IlvPair::new(ilv(packet, 8), ilv(packet, 24));
        let entry = self.sessions.values().find(|entry| entry.pair == pair);
        let entry = entry.expect("a session of these addresses");
        let wire = IlvPair::new(ilv(after, 8), ilv(after, 24));
        assert_eq!(wire, entry.wire_pair());
        assert!(after.len() == packet.len() || after.len() <= MTU);
        assert_eq!(has_right_length(after), has_right_length(packet));
        let is_plain = wire == pair && after.len() == packet.len();
        let is_classic = is_plain && (entry.confirming || !self.told.contains(&entry.id));
        let mode = if is_classic { ChecksumMode::Full } else { entry.checksum };
        if is_summed(packet, ChecksumMode::Full) {
            assert!(is_summed(after, mode), "{packet:02x?} {after:02x?}");
        }
        self.told.extend((!is_plain && !entry.confirming).then_some(entry.id));
    }

    pub(super) fn check_delivered_by_session(&self, packet: &[u8], after: &[u8]) {
        let pair = IlvPair::new(ilv(after, 24), ilv(after, 8));
        let is_untouched = pair == IlvPair::new(ilv(packet, 24), ilv(packet, 8));
        let entry = self.sessions.values().find(|entry| entry.pair == pair);
        assert!(is_untouched || entry.is_some(), "for nobody: {packet:02x?}");
        assert_eq!(has_right_length(after), has_right_length(packet));
        let mode = entry.map_or(self.checksum, |entry| entry.checksum);
        if is_summed(packet, mode) {
            assert!(is_summed(after, ChecksumMode::Full), "{packet:02x?} {after:02x?}");
        }
    }
}

/// A packet between two nodes. The packet may have a checksum without locators, a nonce, or an extension header.
pub(super) fn packet(input: &mut Input<'_>, comes_in: bool) -> Vec<u8> {
    let (picks, kind, flags) = (input.octet(), input.octet(), input.octet());
    let l64 = |bits: u8| L64S[usize::from(bits & 3)];
    let [from, to] = if comes_in { [THEIRS, OURS] } else { [OURS, THEIRS] };
    let (from, to) = (Ilv::new(l64(picks), from), Ilv::new(l64(picks >> 2), to));
    let protocol = [6, 17, 58, 59][usize::from(kind & 3)];
    let len = usize::from(input.octet());
    let mut upper = input.take(len).to_vec();
    let at = match protocol {
        6 => 16,
        17 => 6,
        _ => 2,
    };
    if upper.len() >= at + 2 && flags & 1 == 0 {
        upper[at..at + 2].fill(0);
        let is_over_all = !comes_in || flags >> 1 & 1 == 1 || protocol == 58;
        let over = |ilv: Ilv| if is_over_all { ilv } else { ilv.at(L64(0)) };
        let sum = transport_checksum(over(from), over(to), protocol, &upper);
        upper[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    }
    let (mut next_header, mut payload) = (protocol, upper);
    if kind >> 2 & 3 == 1 {
        let extension = [44, 60, 0, 43][usize::from(kind >> 4 & 3)];
        let mut octets = input.take(8).to_vec();
        octets.resize(8, 0);
        octets[0] = std::mem::replace(&mut next_header, extension);
        payload.splice(0..0, octets);
    }
    if comes_in && flags >> 2 & 1 == 1 {
        let nonce = nonce(flags >> 3 & 7);
        let header = NonceHeader { next_header, nonce, sequence: None };
        next_header = 60;
        payload.splice(0..0, header.emit());
    }
    let mut packet = ip6::packet(next_header, from.address(), to.address(), &payload);
    let error = u16::from(flags >> 6 == 3);
    let len = u16::try_from(payload.len()).expect("short").wrapping_sub(error);
    packet[4..6].copy_from_slice(&len.to_be_bytes());
    packet
}

fn has_right_length(packet: &[u8]) -> bool {
    packet.len() == 40 + usize::from(u16::from_be_bytes([packet[4], packet[5]]))
}

/// Whether a transport header right behind the IPv6 header or options has the right checksum. False for other packets.
fn is_summed(packet: &[u8], mode: ChecksumMode) -> bool {
    let (mut protocol, mut at) = (packet[6], 40);
    while let (60, Some(&[next, units])) =
        (protocol, packet.get(at..).and_then(<[u8]>::first_chunk::<2>))
    {
        (protocol, at) = (next, at + 8 * (usize::from(units) + 1));
    }
    let least = match protocol {
        6 => 20,
        17 => 8,
        58 => 4,
        _ => return false,
    };
    let Some(upper) = packet.get(at..).filter(|upper| upper.len() >= least) else { return false };
    // RFC 8200 s8.1: a UDP checksum of zero means no checksum.
    if protocol == 17 && upper[6..8] == [0, 0] || !has_right_length(packet) {
        return false;
    }
    let over = |ilv: Ilv| match mode {
        ChecksumMode::NidOnly if protocol != 58 => ilv.at(L64(0)),
        ChecksumMode::NidOnly | ChecksumMode::Full => ilv,
    };
    transport_checksum(over(ilv(packet, 8)), over(ilv(packet, 24)), protocol, upper) == 0
}

fn ilv(packet: &[u8], at: usize) -> Ilv {
    Ilv::of(address(packet, at))
}

fn nonce(id: u8) -> Nonce {
    if id & 4 == 0 { Nonce::Short([id; 4]) } else { Nonce::Long([id; 12]) }
}

const OURS: Nid = Nid(10);
const THEIRS: Nid = Nid(11);
/// Locators. The last one is a multicast prefix, so it is no valid locator.
const L64S: [L64; 4] = [
    L64(0x2001_0db8_0000_0001),
    L64(0x2001_0db8_0000_0002),
    L64(0xfd00_0000_0000_ffff),
    L64(0xff02_0000_0000_0000),
];
/// MTU of the links in octets, smaller than IPv6 allows.
const MTU: usize = 200;
