//! Packets from the network.

use alloc::vec::Vec;

use moorline_datapath::ilnp::{ChecksumMode, LOST_INTERVAL, Report, SessionEntry, Sockets};
use moorline_types::{DropReason, IlvPair, Instant, Nonce, SessionId};
use moorline_wire::ilnp::{ChecksumDelta, Control, NONCE_AT, NONCE_OPTION, OptionsHeader};
use moorline_wire::ip6::{TCP, UDP, Upper};

use super::silence::Came;
use super::{At, Origin, Plane, is_echo, is_neighbour_discovery};
use crate::Inbound;
use crate::ilnp::packet::{Ip6, fix, write_addresses};
use crate::ilnp::quote::Quote;
use crate::ilnp::whence::Whence;
use crate::shim6::tcp::Payload;

impl Plane {
    pub(super) fn on_inbound(
        &mut self,
        packet: &mut Vec<u8>,
        at: At<'_>,
    ) -> Result<Inbound, DropReason> {
        let Some(ip6) = Ip6::read(packet) else {
            let is_error = Ip6::read_from_link(packet)
                .is_some_and(|ip6| self.translate_error(packet, &ip6, at.sockets));
            return Ok(if is_error { Inbound::Deliver } else { Inbound::Pass });
        };
        let is_for_us = || self.nids.contains(&ip6.destination.nid);
        if ip6.has_extensions() && !is_for_us() {
            return Ok(Inbound::Pass);
        }
        // An error about a nonce is not for the sockets, which did not send the nonce and would give up.
        let is_about_nonce = || {
            let quoted = Control::quoted_by_parameter_problem(packet);
            quoted.is_some_and(|quoted| quoted.get(NONCE_AT as usize) == Some(&NONCE_OPTION))
        };
        // Without a nonce, the stack decides about options that it does not know (RFC 8200 s4.2).
        let is_for_stack = || {
            let chain = ip6.chain(packet).ok().flatten();
            let options = chain.and_then(|chain| chain.options);
            options.is_some_and(|options| options.nonce.is_none() && options.is_refused)
        };
        let pair = IlvPair::new(ip6.destination, ip6.source);
        if ip6.may_be_control()
            && !is_for_stack()
            && (Control::is_for_sessions(packet, self.settings.types) || is_about_nonce())
        {
            let is_from_session = || self.sessions.find_pair(pair).is_some();
            return match Control::is_bare(packet) {
                _ if !is_for_us() => Ok(Inbound::Pass),
                true if Control::is_bare_reply(packet) && is_from_session() => Ok(Inbound::Up),
                true => Err(DropReason::MissingOption),
                false => {
                    if let Some(nonce) = ip6.nonce(packet) {
                        self.note_nonce_came(pair, nonce);
                    }
                    Ok(Inbound::Up)
                }
            };
        }
        let shown = ip6.chain(packet)?.and_then(|chain| {
            let options = chain.options?;
            Some((options, chain.options_at, options.nonce?))
        });
        match shown {
            Some(shown) => self.on_nonce(packet, (ip6, pair), shown, at),
            None if self.translate_error(packet, &ip6, at.sockets) => Ok(Inbound::Deliver),
            None => self.on_plain(packet, (ip6, pair), at),
        }
    }

    fn note_nonce_came(&mut self, pair: IlvPair, nonce: Nonce) {
        let (local, remote) = pair.nids();
        let found = self.sessions.find_nonce(local, remote, nonce);
        if let Some(flow) = found.and_then(|slot| self.sessions.get_mut(slot)) {
            flow.has_come = true;
        }
    }

    /// Translates an error of a router about a packet of a session, if the session has moved or the packet showed a
    /// nonce. True if the error now is about the packet of the socket.
    fn translate_error(&self, packet: &mut Vec<u8>, ip6: &Ip6, sockets: &dyn Sockets) -> bool {
        let Some(quote) = Quote::read(packet, ip6) else { return false };
        let (local, remote) = quote.pair.nids();
        let all = self.sessions.between(local, remote).filter_map(|slot| self.sessions.get(slot));
        // Sessions may share a nonce (decision 149): a session at the locators in the quote comes before others.
        let entries = all.map(|flow| &flow.entry).filter(|entry| quote.is_of(entry, sockets));
        let nearest = entries.min_by_key(|entry| (entry.wire_pair() != quote.pair, entry.id));
        let Some(SessionEntry { pair, .. }) = nearest else { return false };
        quote.translate(packet, *pair);
        true
    }

    /// RFC 6741 s5.4: "lookups in the ILCC MUST use the <remote Identifier, Nonce> tuple".
    //= rfc6744#3-1
    //= rfc6741#5.4-1 rfc6741#11.1-12
    fn on_nonce(
        &mut self,
        packet: &mut Vec<u8>,
        (ip6, pair): (Ip6, IlvPair),
        (options, options_at, nonce): (OptionsHeader, usize, Nonce),
        at: At<'_>,
    ) -> Result<Inbound, DropReason> {
        let (local, remote) = pair.nids();
        // The machine answers a question at this locator, whatever a firewall does to Echo Requests (decision 192).
        if ip6.may_be_control()
            && self.sessions.find_nonce(local, remote, nonce).is_some()
            && Control::is_echo_request(packet)
        {
            self.note_nonce_came(pair, nonce);
            return Ok(Inbound::Up);
        }
        let mut upper = Ip6::upper_behind(packet, &options, options_at);
        let (local, remote) = pair.nids();
        let found = self.sessions.find_nonce(local, remote, nonce);
        let found = found.map(|slot| self.sibling_of(slot, pair, &upper, at.sockets));
        // For a stranger, this look says that there is nothing more to look for. A flood consists of strangers.
        let is_between = found.is_some() || self.sessions.between(local, remote).next().is_some();
        let found = found.or_else(|| is_between.then(|| self.learn(pair, nonce))?);
        if let Some(slot) = found {
            self.note_used(slot, at.now);
            self.note_fragment(packet, (ip6, pair), slot);
            ip6.strip(packet, &options, options_at, &mut upper);
            self.deliver(packet, (ip6, &upper), slot, true, at.now);
            return Ok(Inbound::Deliver);
        }
        // If there is a session, the packet is a forgery; from a stranger it is a first packet.
        let is_forged = is_between
            && (self.sessions.find_pair(pair).is_some() || self.claims(packet, pair, &upper, at));
        if is_forged {
            if self.on_wrong_nonce(pair, at.now) {
                self.consider(pair, &upper.reversed(), (Origin::Lost, Some(nonce)), at);
            }
            return Err(DropReason::BadNonce);
        }
        self.consider(pair, &upper.reversed(), (Origin::Stranger, Some(nonce)), at);
        ip6.strip(packet, &options, options_at, &mut upper);
        if self.settings.checksum == ChecksumMode::NidOnly {
            let delta = ChecksumDelta::to_nid_only(pair.l64s()).inverse();
            fix(&upper, packet, delta, ChecksumDelta::default());
        }
        Ok(Inbound::Deliver)
    }

    /// Whether a packet that shows a wrong nonce, and has the addresses of no session, claims to be of one. Such a
    /// packet comes if the session has moved and its correspondent has begun anew. So the use is noted, and the machine
    /// asks the correspondent.
    fn claims(&mut self, packet: &[u8], pair: IlvPair, upper: &Upper, at: At<'_>) -> bool {
        match self.whence(packet, pair, upper, at.sockets) {
            Whence::Session(slot) => {
                self.note_used(slot, at.now);
                true
            }
            Whence::Claimed | Whence::Nowhere => true,
            // A correspondent that has begun anew has other connections.
            Whence::Named => !matches!(upper.protocol, TCP | UDP),
            Whence::Elsewhere => false,
        }
    }

    /// Notes a wrong nonce on a session. True if only wrong nonces have come for [`LOST_INTERVAL`]: the interval begins
    /// anew then.
    fn on_wrong_nonce(&mut self, pair: IlvPair, now: Instant) -> bool {
        let slot = self.sessions.find_pair(pair);
        let Some(flow) = slot.and_then(|slot| self.sessions.get_mut(slot)) else { return false };
        let is_lost = now.since(*flow.silence.heard.get_or_insert(now)) >= LOST_INTERVAL;
        if is_lost {
            flow.silence.heard = Some(now);
        }
        is_lost
    }

    /// Learns the first nonce of a correspondent to which we have offered our nonce. The packet must come from the
    /// address of the offer.
    fn learn(&mut self, pair: IlvPair, nonce: Nonce) -> Option<SessionId> {
        let slot = self.sessions.find_pair(pair)?;
        let (_, None) = self.sessions.key(slot)? else { return None };
        let id = self.sessions.get(slot)?.entry.id;
        if !self.reports.push(Report::Learned { session: id, nonce }) {
            return None;
        }
        self.sessions.set_nonce(slot, nonce);
        Some(slot)
    }

    //= rfc6744#7-3
    //= rfc6741#5.4-2 rfc6741#11.1-11
    fn on_plain(
        &mut self,
        packet: &mut [u8],
        (ip6, pair): (Ip6, IlvPair),
        at: At<'_>,
    ) -> Result<Inbound, DropReason> {
        let upper = ip6.upper(packet);
        let kind = upper.icmp(packet);
        if kind.is_some_and(is_neighbour_discovery) {
            return Ok(Inbound::Pass);
        }
        let exact = self.sessions.find_pair(pair);
        // A correspondent that has not shown its nonce still sends classic IPv6.
        let shown = exact.filter(|slot| {
            self.sessions.key(*slot).is_some_and(|(_, nonce)| nonce.is_some())
                && self.sessions.get(*slot).is_some_and(|flow| flow.has_come)
        });
        if kind.is_some_and(|kind| !is_echo(kind))
            && let Some(slot) = shown
        {
            // The sender may be a correspondent that has lost the session. So the use is noted, and the machine asks
            // the correspondent.
            self.note_used(slot, at.now);
            // RFC 6744 s7: "MUST be discarded as forgeries".
            return Err(DropReason::MissingOption);
        }
        let slot = match shown {
            Some(slot) => Some(self.sibling_of(slot, pair, &upper, at.sockets)),
            None => match self.whence(packet, pair, &upper, at.sockets) {
                Whence::Session(slot) => Some(slot),
                Whence::Nowhere => return Err(DropReason::WrongLocators),
                Whence::Named | Whence::Claimed | Whence::Elsewhere => None,
            },
        };
        let slot = self.session_of_fragment(packet, (ip6, pair)).or(slot);
        let Some(slot) = slot else {
            if exact.is_none() {
                self.consider(pair, &upper.reversed(), (Origin::Stranger, None), at);
            }
            return Ok(Inbound::Pass);
        };
        self.note_used(slot, at.now);
        self.note_fragment(packet, (ip6, pair), slot);
        self.deliver(packet, (ip6, &upper), slot, false, at.now);
        Ok(Inbound::Deliver)
    }

    /// Puts the addresses of the sockets back.
    fn deliver(
        &mut self,
        packet: &mut [u8],
        (ip6, upper): (Ip6, &Upper),
        slot: SessionId,
        authenticated: bool,
        now: Instant,
    ) {
        let Some(flow) = self.sessions.get_mut(slot) else { return };
        let octets = upper.at.and_then(|at| packet.get(at..)).unwrap_or_default();
        let payload = Payload::read(upper.protocol, octets, ip6.header.flow_label);
        let came = Came { payload, is_authenticated: authenticated };
        flow.silence.on_received(&flow.entry, came, &mut self.flows, now);
        flow.has_come |= authenticated;
        let entry = &mut flow.entry;
        // If a correspondent learns our nonce only from a Confirm, a packet with its nonce answers that Confirm.
        let has_sent = flow.has_sent || entry.confirming;
        let to = entry.pair.reversed();
        let full = ChecksumDelta::new([ip6.source.l64, ip6.destination.l64], to.l64s());
        let delta = match entry.checksum {
            ChecksumMode::Full => full,
            ChecksumMode::NidOnly => ChecksumDelta::to_nid_only(to.l64s()).inverse(),
        };
        if authenticated && entry.watch && has_sent {
            entry.watch = !self.reports.push(Report::Authenticated { session: entry.id });
        }
        fix(upper, packet, delta, full);
        write_addresses(packet, to);
    }
}
