use moorline_types::{ContextId, ContextTag, DropReason, LocatorPair, Ulid};
use moorline_wire::{Message, Opt, OptionType, Options, R1, R2};

use crate::announce::Wording;
use crate::context::{Context, Established, Named, Role, Stand, Takes};
use crate::event::{Event, Incoming, Via};
use crate::key::{Key, as_ulids};
use crate::machine::Machine;
use crate::peer::PeerSet;
use crate::table::Ways;
use crate::update::is_newer;
use crate::validator::Bound;

/// The content of an I2 or I2bis with a valid validator.
pub(crate) struct Offer<'a> {
    pub key: Key,
    pub initiator_tag: ContextTag,
    pub initiator_nonce: u32,
    pub responder_nonce: u32,
    pub options: &'a Options,
}

/// The responder's side: it answers I1 without state, and keeps state only after a valid I2 or I2bis.
impl Machine {
    /// I1: answers with R1 without state, or with R2 if this host has the context or wants it, too (RFC 5533 s7.9).
    pub(crate) fn on_i1(&mut self, came: &Incoming<'_>) -> Result<(), DropReason> {
        //= rfc5533#7.9
        let &Incoming { packet, locators, now } = came;
        let key = Key::read(came)?;
        let initiator_tag = packet.sender_tag().ok_or(DropReason::Truncated)?;
        let initiator_nonce = packet.initiator_nonce().ok_or(DropReason::Truncated)?;
        self.check_ulids(key, locators)?;
        let has_answer = |context: &&Context| match context.established() {
            // Crossing I1s (s7.4): each side answers with its tag, once in a handshake. Nothing has proved the source
            // of a further I1, or a source that is not the ULID, so they get an R1 (decisions 120 and 188).
            None => {
                let is_first = context.handshake().is_some_and(|asked| asked.named().is_none());
                is_first && locators.peer == key.ulids.peer.as_locator()
            }
            // The R2 was lost. If the tag is another one, the peer has lost the context and makes it again. In
            // I2BIS-SENT one I1 with another tag draws R2.
            Some(known) => {
                let is_first = context.handshake().is_some_and(|asked| !asked.has_answered_i1);
                known.peer.locators.contains(&locators.peer)
                    && (is_first || known.peer_tag == initiator_tag)
            }
        };
        let answer_with = self.table.by_key(key).filter(has_answer).map(|context| context.id);
        // The R2 is several times as long as the I1, and anybody can forge an I1. If others have used up such answers,
        // the peer gets the context by four messages.
        match answer_with.filter(|_| self.take_answer(locators.peer, now).is_ok()) {
            Some(id) => {
                self.send_r2(id, initiator_nonce, locators);
                let named = Named { tag: initiator_tag, at: self.validators.latest() };
                let asked = self.table.get(id).and_then(Context::handshake).cloned();
                if let Some(mut asked) = asked {
                    // In I2BIS-SENT the tag changes nothing: a forged I1 could do more harm than a late R2 does.
                    match asked.established {
                        None => asked.cross(named),
                        Some(_) => asked.has_answered_i1 = true,
                    }
                    self.table.ask(id, asked);
                }
            }
            None => {
                self.welcomes.take(locators.peer.prefix(), now)?;
                let says_source =
                    packet.raw_option(OptionType::SOURCE).is_some_and(|told| told.len() == 16);
                //= rfc5533#7.10
                //= rfc5533#5.5-3
                let bound = Bound::R1 { key, locators, initiator_tag };
                let (responder_nonce, validator) = self.make_validator(&bound, now);
                // The answer is no longer than the question, which has the option as well.
                let source = says_source.then_some(Opt::Source(locators.peer));
                let options: Options = [validator].into_iter().chain(source).collect();
                let r1 = R1 { initiator_nonce, responder_nonce, options };
                self.push_transmit(Via::Pair(locators), Message::R1(r1));
            }
        }
        Ok(())
    }

    /// I2 or I2bis: checks nonce and validator before anything else, then the locators (RFC 5533 s7.13, s7.20).
    pub(crate) fn on_offer(&mut self, came: &Incoming<'_>) -> Result<(), DropReason> {
        //= rfc5533#7.13 rfc5533#7.20
        let packet = came.packet;
        let key = Key::read(came)?;
        let responder_nonce = self.check_validator(&Bound::of(key, came)?, came)?;
        let message = packet.message()?;
        let offer = Offer {
            key,
            initiator_tag: packet.sender_tag().ok_or(DropReason::Truncated)?,
            initiator_nonce: packet.initiator_nonce().ok_or(DropReason::Truncated)?,
            responder_nonce,
            options: message.options().ok_or(DropReason::UnknownType)?,
        };
        self.admit(&offer, came)
    }

    /// The established context whose CT(peer) an I2 or I2bis with a valid validator would change. The sender is the
    /// peer after it has lost its tags, or another host that has the peer's ULID now.
    ///
    /// # Errors
    /// The validator is missing or not valid, or the message is damaged.
    pub fn contested(&mut self, came: &Incoming<'_>) -> Result<Option<ContextId>, DropReason> {
        let key = Key::read(came)?;
        let initiator_tag = came.packet.sender_tag().ok_or(DropReason::Truncated)?;
        let context = self.table.by_key(key);
        let known = context.and_then(|context| Some((context.id, context.established()?.peer_tag)));
        let Some((id, _)) = known.filter(|(_, peer_tag)| *peer_tag != initiator_tag) else {
            return Ok(None);
        };
        self.check_validator(&Bound::of(key, came)?, came)?;
        Ok(Some(id))
    }

    /// Checks the nonce and validator of an R1 or R1bis of ours. Returns the nonce.
    //= rfc5533#7.13-2 rfc5533#7.20-2
    pub(crate) fn check_validator(
        &mut self,
        bound: &Bound,
        came: &Incoming<'_>,
    ) -> Result<u32, DropReason> {
        let nonce = came.packet.responder_nonce().ok_or(DropReason::Truncated)?;
        let validator = came.packet.raw_option(OptionType::RESPONDER_VALIDATOR);
        let validator = validator.ok_or(DropReason::MissingOption)?;
        let hash = |nonce, hasher: &mut _| bound.hash(nonce, hasher);
        self.validators.check((nonce, validator), &mut self.rng, came.now, hash)?;
        Ok(nonce)
    }

    /// The ULIDs must be possible ULIDs of a context, and the local one must be ours. For the addresses in the IPv6
    /// header this is known, because the packet came here.
    fn check_ulids(&self, key: Key, locators: LocatorPair) -> Result<(), DropReason> {
        if key.ulids == as_ulids(locators) {
            return Ok(());
        }
        if !key.ulids.is_global_unicast() {
            return Err(DropReason::BadAddress);
        }
        if self.is_ours(key.ulids.local) { Ok(()) } else { Err(DropReason::NotOurs) }
    }

    /// A tag other than the known one must be a later one. An I2 from a past life of the peer, late or replayed, would
    /// make this host send to a tag that the peer does not know any more. The same rule holds for a tag that an I1 has
    /// named while this host waits for an answer. If the I1 was forged, the answer to our message shows that.
    fn check_life(&self, offer: &Offer<'_>, ways: Ways) -> Result<(), DropReason> {
        let known = self.table.by_ways(offer.key, ways);
        let known = known.and_then(|context| match context.established() {
            Some(known) => Some(Named { tag: known.peer_tag, at: known.told_at }),
            None => context.handshake()?.named(),
        });
        let is_over = known.is_some_and(|known| {
            known.tag != offer.initiator_tag
                && !self.validators.is_newer(offer.responder_nonce, known.at)
        });
        if is_over { Err(DropReason::StaleNonce) } else { Ok(()) }
    }

    /// Verifies the content of an I2 or I2bis, makes or renews the context, and answers with R2.
    pub(crate) fn admit(
        &mut self,
        offer: &Offer<'_>,
        came: &Incoming<'_>,
    ) -> Result<(), DropReason> {
        let (key, locators) = (offer.key, came.locators);
        self.check_ulids(key, locators)?;
        let ways = self.table.ways(key, Some(offer.initiator_tag), &mut self.rng);
        if let Err(stale) = self.check_life(offer, ways) {
            // The peer would send the I2 again after seconds, and may refuse an I2 of this host for the same reason. The
            // validator proves the source alone, which is not the peer unless it is the ULID.
            let id = self.table.by_ways(key, ways).map(|context| context.id);
            if let Some(id) = id.filter(|_| locators.peer == key.ulids.peer.as_locator()) {
                self.ask_who_named(id, came.now);
            }
            return Err(stale);
        }
        let is_new = self.table.by_ways(key, ways).is_none();
        if self.table.is_crowded(offer.initiator_tag)
            || is_new && self.table.is_share_taken(key.ulids.peer)
        {
            return Err(DropReason::TableFull);
        }
        self.check_confusion(offer, locators.peer)?;
        let peer = self.offered(key.ulids.peer, offer.options, came)?;
        //= rfc5533#7.13
        // The source must be the ULID, in the list, or known from before.
        let known = self.table.by_ways(key, ways);
        let is_known = known
            .and_then(Context::established)
            .is_some_and(|established| established.peer.locators.contains(&locators.peer));
        if !is_known && !peer.locators.contains(&locators.peer) {
            return Err(DropReason::WrongLocators);
        }
        let id = match known.map(|context| context.id) {
            None => self.accept(offer, ways, peer, came)?,
            Some(id) => {
                self.renew(id, offer, peer, locators);
                id
            }
        };
        self.negatives.forgive(key.ulids);
        //= rfc5533#7.14
        //= rfc5533#7.13-5 rfc5533#7.13-7 rfc5533#7.14-1 rfc5533#7.20-6 rfc5533#7.20-8
        self.resolve_confusion(id, locators.peer);
        self.send_r2(id, offer.initiator_nonce, locators);
        self.update_if_outdated(id, came.now);
        Ok(())
    }

    /// Verifies the data about the peer in I2, I2bis or R2. Preferences for another list are ignored.
    pub(crate) fn offered(
        &mut self,
        ulid: Ulid,
        options: &Options,
        came: &Incoming<'_>,
    ) -> Result<PeerSet, DropReason> {
        let mut peer = self.verify_peer(ulid, options, came)?;
        if let Some(preferences) = options.locator_preferences() {
            peer.prefer(preferences).ok();
        }
        Ok(peer)
    }

    fn accept(
        &mut self,
        offer: &Offer<'_>,
        ways: Ways,
        peer: PeerSet,
        came: &Incoming<'_>,
    ) -> Result<ContextId, DropReason> {
        let &Incoming { locators, now, .. } = came;
        //= rfc5533#7.20-4
        let told = self.telling(offer.key.ulids.local);
        let tag = (offer.initiator_tag, offer.responder_nonce);
        let established = Established::with(tag, told, peer, Role::Responder);
        self.make_room(false, now);
        let stand = Stand::Established(established);
        let context = self.table.insert((offer.key, ways), stand, false)?;
        self.events.push_back(Event::Established { context, role: Role::Responder, locators });
        Ok(context)
    }

    /// Takes an I2 for an existing context: the I2 crossed ours, was sent again, or the peer begins again.
    fn renew(&mut self, id: ContextId, offer: &Offer<'_>, peer: PeerSet, locators: LocatorPair) {
        let Some(context) = self.table.get(id) else { return };
        let old = context.established().cloned();
        let role = old.as_ref().map_or(Role::Responder, |old| old.role);
        let is_recovering = context.handshake().is_some();
        // The pair that has just answered our own message works in both directions. The pair of this I2 may work in one
        // direction only.
        let answered = context.handshake().filter(|own| own.echo.is_some() && own.retries == 0);
        let first = answered.map_or(locators, |own| own.via);
        let told = self.told_to(context, locators);
        let tag = (offer.initiator_tag, offer.responder_nonce);
        let mut new = Established::with(tag, told, peer, role);
        if let Some(old) = &old {
            let is_fresh = self.validators.is_newer(new.told_at, old.told_at);
            if !is_fresh {
                new.told_at = old.told_at;
            }
            // A repeated I2 takes nothing back. An update from before I2BIS-SENT is long overdue.
            new.update = old.update.clone().filter(|_| !is_recovering);
            // With the same tag the context is the same, and only another list is news. An attacker may replay an I2
            // with a shortened list, which takes nothing away. Of two lists the one with the later nonce is news,
            // whatever their generations are: another host may have sent us the other list.
            let is_news = match (new.peer.generation, old.peer.generation) {
                (Some(new), Some(old)) => is_fresh || is_newer(new, old),
                (new, None) => new.is_some(),
                (None, Some(_)) => false,
            };
            if old.peer_tag == new.peer_tag && !is_news {
                return;
            }
            if old.peer_tag == new.peer_tag {
                new.takes = old.takes;
            }
        }
        self.table.establish(id, new);
        self.events.push_back(if old.is_some() {
            Event::Renewed { context: id }
        } else {
            Event::Established { context: id, role, locators: first }
        });
    }

    /// Sends an R2 by the pair of the question. If the peer asks again and again, it may not accept the R2. So from the
    /// third one on the R2 has the plain list (decision 008), until the peer shows that it has the context.
    fn send_r2(&mut self, id: ContextId, initiator_nonce: u32, locators: LocatorPair) {
        let Some(Context { key, local_tag, .. }) = self.table.get(id) else { return };
        let (ulid, responder_tag) = (key.ulids.local, *local_tag);
        let wording = self.next_r2(id, ulid);
        let known = self.table.get(id).and_then(Context::established);
        let takes = known.map_or(Takes::Unknown, |known| known.takes);
        let options = Options::from(self.options_for(ulid, wording, takes));
        let r2 = R2 { responder_tag, initiator_nonce, options };
        self.push_transmit(Via::Pair(locators), Message::R2(r2));
    }

    /// Wording of the next R2. After a plain R2, Ls(local) is the plain list.
    fn next_r2(&mut self, id: ContextId, ulid: Ulid) -> Wording {
        let known = self.table.get(id).and_then(Context::established);
        let Some(takes) = known.map(|known| known.takes) else { return Wording::Whole };
        self.table.change_established(id, |known| known.takes = takes.after_r2());
        if takes != Takes::AnsweredTwice {
            return Wording::Whole;
        }
        if self.has_plain(ulid) {
            let told = self.plain(self.telling(ulid), ulid);
            self.table.change_established(id, |known| {
                (known.local_locators, known.edition) = (told.locators, told.edition);
            });
            self.events.push_back(Event::Announced { context: id });
        }
        Wording::Plain
    }
}
