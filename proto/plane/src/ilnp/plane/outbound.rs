//! Packets that sockets and the machine send.

use alloc::vec::Vec;

use moorline_datapath::ilnp::{ChecksumMode, ROOM_IN_TCP};
use moorline_types::{DropReason, IlvPair, Nonce, SessionId};
use moorline_wire::ilnp::{ChecksumDelta, Control, NonceHeader};
use moorline_wire::ip6::{MIN_MTU, TCP, Upper};

use super::{At, Flow, Origin, Plane, Seen, is_echo, is_neighbour_discovery};
use crate::Outbound;
use crate::ilnp::packet::{Ip6, fix, write_addresses};
use crate::shim6::tcp::Payload;

impl Plane {
    //= rfc6744#1-1 rfc6744#6-1 rfc6744#6-3 rfc6744#6-4 rfc6744#7-1 rfc6744#3-1
    //= rfc6741#11.1-9 rfc6741#11.1-10
    pub(super) fn on_outbound(
        &mut self,
        packet: &mut Vec<u8>,
        at: At<'_>,
    ) -> Result<Outbound, DropReason> {
        let Some(ip6) = Ip6::read(packet) else { return Ok(Outbound::Pass) };
        let pair = IlvPair::new(ip6.source, ip6.destination);
        let mut upper = ip6.upper(packet);
        let is_discovery = upper.icmp(packet).is_some_and(is_neighbour_discovery);
        if is_discovery {
            return Ok(Outbound::Pass);
        }
        // A message of the machine has everything that it needs.
        if ip6.may_be_control() && Control::is_of_sessions(packet, self.settings.types) {
            if let Some(nonce) = ip6.nonce(packet) {
                self.note_control_sent(pair, nonce);
            }
            return Ok(Outbound::Pass);
        }
        let Some(slot) = self.sessions.find_pair(pair) else {
            self.consider(pair, &upper, (Origin::Here, None), at);
            return Ok(Outbound::Pass);
        };
        let payload = Payload::of(&ip6.header, packet);
        self.note_sent(slot, Seen { payload, octets: ip6.header.octets(packet) }, at.now);
        let Some(flow) = self.sessions.get(slot) else { return Ok(Outbound::Pass) };
        let (entry, has_sent) = (&flow.entry, flow.has_sent);
        let wire = entry.wire_pair();
        let full = ChecksumDelta::new(pair.l64s(), wire.l64s());
        let delta = match entry.checksum {
            ChecksumMode::Full => full,
            ChecksumMode::NidOnly => ChecksumDelta::to_nid_only(pair.l64s()),
        };
        let mtu = || at.sockets.path_mtu(wire).unwrap_or(self.settings.mtu);
        let has_nonce = insert_nonce(flow, pair, packet, (&ip6, &mut upper), mtu)?;
        if has_nonce || wire != pair || has_sent {
            fix(&upper, packet, delta, full);
        }
        write_addresses(packet, wire);
        if has_nonce {
            self.note_nonce_sent(slot);
        }
        Ok(Outbound::Send { source: wire.local.address() })
    }

    /// Notes that a packet with our nonce has left: the correspondent knows from it that later packets have the
    /// checksum of the session.
    fn note_nonce_sent(&mut self, slot: SessionId) {
        if let Some(flow) = self.sessions.get_mut(slot) {
            flow.has_sent = true;
        }
    }

    /// Notes a message of the machine, from any locator. The correspondent finds its session by the same two
    /// identifiers and the nonce.
    fn note_control_sent(&mut self, pair: IlvPair, nonce: Nonce) {
        let (local, remote) = pair.nids();
        let is_of = |slot: &SessionId| {
            self.sessions.get(*slot).is_some_and(|flow| flow.entry.send_nonce == nonce)
        };
        let told: Vec<_> = self.sessions.between(local, remote).filter(is_of).collect();
        told.into_iter().for_each(|slot| self.note_nonce_sent(slot));
    }
}

/// Inserts the nonce of a session into a packet, if the packet should have it and there is room. Returns whether the
/// packet has it.
///
/// # Errors
/// The packet needs the nonce, and does not take it.
fn insert_nonce(
    flow: &Flow,
    pair: IlvPair,
    packet: &mut Vec<u8>,
    (ip6, upper): (&Ip6, &mut Upper),
    mtu: impl FnOnce() -> usize,
) -> Result<bool, DropReason> {
    let Flow { entry, has_sent, has_come, .. } = flow;
    let wire = entry.wire_pair();
    let is_unclear = wire != pair && !(entry.maps_tcp && upper.is_within_tcp(packet));
    // A packet with the addresses of the session finds it without a nonce, except for ICMPv6 messages of routers
    // and hosts.
    let kind = upper.icmp(packet);
    let needs_nonce = is_unclear || kind.is_some_and(|kind| !is_echo(kind));
    // An echo is like a datagram, but a correspondent may expect a nonce with all of ICMPv6.
    let is_tried = needs_nonce || kind.is_some();
    // A correspondent that may not have the session yet gets classic IPv6. If it may have seen the nonce from
    // another locator, the packet has the nonce: the correspondent takes such a packet either way. A
    // correspondent whose nonce has come has the session, even if the core has stopped before it could say so.
    let is_unsure = entry.confirming && wire == pair && !has_come;
    let may_have = !is_unsure || *has_sent;
    if !may_have || !(entry.attach || is_tried || is_unsure) {
        return Ok(false);
    }
    let header = NonceHeader { next_header: 0, nonce: entry.send_nonce, sequence: None };
    // The sender knows the MTU of the path. It knows of the nonce only if its route leaves room for one, and
    // routes do so only on paths whose MTU is above the least: no MTU is smaller than that. A packet that
    // needs the nonce is tried with it: routers report if the path takes less.
    let is_room_known = is_tried || entry.always && packet.len() > usize::from(MIN_MTU);
    // A segment that was cut for a route without room has no nonce: see `ROOM_IN_TCP`.
    let room = if is_tried || upper.protocol != TCP { 0 } else { ROOM_IN_TCP as usize };
    let mtu = mtu();
    let is_segment_whole = packet.len() + room > mtu;
    let most = if is_room_known && !is_segment_whole { usize::MAX } else { MIN_MTU.into() };
    match ip6.insert(packet, header, most.min(mtu), upper) {
        Err(reason) if needs_nonce => Err(reason),
        inserted => Ok(inserted.is_ok()),
    }
}
