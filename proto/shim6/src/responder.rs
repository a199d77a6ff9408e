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

/// What an I2 or I2bis asks for, its validator found right.
pub(crate) struct Offer<'a> {
    pub key: Key,
    pub initiator_tag: ContextTag,
    pub initiator_nonce: u32,
    pub responder_nonce: u32,
    pub options: &'a Options,
}

/// The responder's half: stateless answers to I1, state only by a valid I2 or I2bis.
impl Machine {
    /// I1: R1 without state, or R2 where we have the context or want it too (RFC 5533 s7.9).
    pub(crate) fn on_i1(&mut self, came: &Incoming<'_>) -> Result<(), DropReason> {
        //= rfc5533#7.9
        let &Incoming { packet, locators, now } = came;
        let key = Key::read(came)?;
        let initiator_tag = packet.sender_tag().ok_or(DropReason::Truncated)?;
        let initiator_nonce = packet.initiator_nonce().ok_or(DropReason::Truncated)?;
        self.check_ulids(key, locators)?;
        let has_answer = |context: &&Context| match context.established() {
            // Crossing I1s (s7.4): each side answers with its tag. To a source that is not the ULID and not
            // proved goes R1 (decision 120).
            None => locators.peer == key.ulids.peer.as_locator(),
            // The R2 was lost. With another tag, the peer has lost the context and makes it anew.
            Some(known) => {
                known.peer.locators.contains(&locators.peer)
                    && (context.handshake().is_some() || known.peer_tag == initiator_tag)
            }
        };
        let answer_with = self.table.by_key(key).filter(has_answer).map(|context| context.id);
        match answer_with {
            Some(id) => {
                // Several times as long as the I1, which anybody can have made up.
                self.answers.take(locators.peer.prefix(), now)?;
                self.send_r2(id, initiator_nonce, locators);
                let named = Named { tag: initiator_tag, at: self.validators.latest() };
                // In I2BIS-SENT it says nothing: there is more to lose by an I1 that somebody made up than by an R2 that is late.
                let asked = self.table.get(id).and_then(Context::handshake).cloned();
                if let Some(mut asked) = asked.filter(|asked| asked.established.is_none()) {
                    asked.cross(named);
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
                // No longer than the question: it has the option as well.
                let source = says_source.then_some(Opt::Source(locators.peer));
                let options: Options = [validator].into_iter().chain(source).collect();
                let r1 = R1 { initiator_nonce, responder_nonce, options };
                self.push_transmit(Via::Pair(locators), Message::R1(r1));
            }
        }
        Ok(())
    }

    /// I2 or I2bis: nonce and validator before anything else, then the locators (RFC 5533 s7.13, s7.20).
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

    /// The established context that an I2 or I2bis would give to who does not know its tags: the peer after it has
    /// lost them, or somebody who has its ULID now. Its validator is good.
    ///
    /// # Errors
    /// It is not good, or the message has none.
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

    /// The nonce and validator of an R1 or R1bis of ours. Gives the nonce.
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

    /// The ULIDs must be addresses that a context can be between, ours one of ours. Those in the IPv6
    /// header are known to be: the packet came here.
    fn check_ulids(&self, key: Key, locators: LocatorPair) -> Result<(), DropReason> {
        if key.ulids == as_ulids(locators) {
            return Ok(());
        }
        if !key.ulids.is_global_unicast() {
            return Err(DropReason::BadAddress);
        }
        if self.is_ours(key.ulids.local) { Ok(()) } else { Err(DropReason::NotOurs) }
    }

    /// A tag other than the one we have must be a later one. An I2 of a life of the peer's that is over, late or
    /// played again, would have us send to a tag that the peer does not know, or no longer. The same goes for a
    /// tag that an I1 has named while we wait for an answer: if the I1 was none of the peer's, the answer to
    /// ours says so.
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

    /// Verifies what an I2 or I2bis says, makes or renews the context, and answers with R2.
    pub(crate) fn admit(
        &mut self,
        offer: &Offer<'_>,
        came: &Incoming<'_>,
    ) -> Result<(), DropReason> {
        let (key, locators) = (offer.key, came.locators);
        self.check_ulids(key, locators)?;
        let ways = self.table.ways(key, Some(offer.initiator_tag), &mut self.rng);
        self.check_life(offer, ways)?;
        if self.table.is_crowded(offer.initiator_tag) {
            return Err(DropReason::TableFull);
        }
        self.check_confusion(offer, locators.peer)?;
        let peer = self.offered(key.ulids.peer, offer.options, came)?;
        //= rfc5533#7.13
        // The source is the ULID, in the list, or known from before.
        let known = self.table.by_ways(key, ways);
        let is_known = known
            .and_then(Context::established)
            .is_some_and(|established| established.peer.locators.contains(&locators.peer));
        if !is_known && !peer.locators.contains(&locators.peer) {
            return Err(DropReason::WrongLocators);
        }
        let id = match known.map(|context| context.id) {
            None => self.accept(offer, ways, peer, locators)?,
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

    /// What I2, I2bis or R2 tell of the peer, verified. Preferences for another list say nothing.
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
        locators: LocatorPair,
    ) -> Result<ContextId, DropReason> {
        //= rfc5533#7.20-4
        let told = self.telling(offer.key.ulids.local);
        let tag = (offer.initiator_tag, offer.responder_nonce);
        let established = Established::with(tag, told, peer, Role::Responder);
        let context = self.table.insert(offer.key, ways, Stand::Established(established))?;
        self.events.push_back(Event::Established { context, role: Role::Responder, locators });
        Ok(context)
    }

    /// An I2 for a context that is there: crossed with ours, sent again, or the peer starts anew.
    fn renew(&mut self, id: ContextId, offer: &Offer<'_>, peer: PeerSet, locators: LocatorPair) {
        let Some(context) = self.table.get(id) else { return };
        let old = context.established().cloned();
        let role = old.as_ref().map_or(Role::Responder, |old| old.role);
        let is_recovering = context.handshake().is_some();
        // The pair that has just answered our own I1 works in both directions, and that of the question may work in one.
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
            // With the same tag it is the same context, and only another list is news: an I2 that was
            // overheard and comes again, its list cut off, takes nothing away. Of two lists that of the later
            // nonce is news whatever their generations: somebody else may have told us of the other.
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

    /// By the pair that the question came by. If the peer asks again and again, the R2 says what it may not take: from the third one on
    /// it has the plain list (decision 008), until the peer shows that it has the context.
    fn send_r2(&mut self, id: ContextId, initiator_nonce: u32, locators: LocatorPair) {
        let Some(Context { key, local_tag, .. }) = self.table.get(id) else { return };
        let (ulid, responder_tag) = (key.ulids.local, *local_tag);
        let wording = self.next_r2(id, ulid);
        let options = Options::from(self.options_for(ulid, wording));
        let r2 = R2 { responder_tag, initiator_nonce, options };
        self.push_transmit(Via::Pair(locators), Message::R2(r2));
    }

    /// How much the next R2 tells. Ls(local) is what the peer knows after a plain one.
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
