//! Locator Updates that wait for their acknowledgement, and the pairs of locators that questions go by.

use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use moorline_datapath::ilnp::USED_INTERVAL;
use moorline_types::{IlvPair, Instant, Rtt, SessionId};
use moorline_wire::ilnp::{L64Entry, LocatorUpdate, Operation};

use crate::consts::{
    GO_BACK_TRIES, MAX_QUESTION_PAUSE, MAX_RETRANSMISSION, MAX_TRIED_PAIRS, MIN_RETRANSMISSION,
    SILENT_TRIES, TURN_PAUSE, UPDATE_LIFETIME,
};
use crate::event::{Cause, Classic, Event};
use crate::lossy::Heard;
use crate::machine::Machine;
use crate::paths::Locators;
use crate::retry::Retry;
use crate::session::Session;

/// A Locator Update that waits for its acknowledgement.
#[derive(Clone, Debug)]
pub(crate) struct Advertisement {
    pub(crate) locators: Vec<L64Entry>,
    /// The pairs of locators that the Locator Update goes by.
    pub(crate) question: Question,
    pub(crate) retry: Retry,
    /// Time of the correspondent's last repeated Confirm. The correspondent repeats the Confirm until it reads this
    /// Locator Update.
    pub(crate) confirmed_at: Option<Instant>,
}

/// The pairs of locators that a question goes by.
#[derive(Clone, Debug, Default)]
pub(crate) struct Question {
    /// The pairs, one after another. If the Locator Update has news: the last pairs that it has gone by.
    pub(crate) pairs: Vec<Locators>,
    /// Index of the first pair that gets another turn, after all pairs have had theirs.
    pub(crate) turns_from: usize,
    /// Number of Locator Updates after which the question is over if the session is not in use.
    pub(crate) round: usize,
    /// Time until which the question goes on: the session was in use shortly before.
    pub(crate) in_use_until: Option<Instant>,
    /// The pair by which the correspondent has just reached us. If the pair in use is silent, a Locator Update goes by
    /// this pair at this time, out of turn.
    pub(crate) shown: Option<(Locators, Instant)>,
    /// When a Locator Update last went out of turn.
    pub(crate) out_of_turn_at: Option<Instant>,
    /// `None` if the correspondent has not reached us lately.
    pub(crate) heard: Option<Heard>,
    /// Number of turns that keep the pace although the correspondent has not reached us. Payload that leaves in vain pays for
    /// them.
    pub(crate) unheard_turns: u8,
}

impl Advertisement {
    /// The middle of the shortest lifetime of these locators; `None` if there are none.
    pub(crate) fn half_of_lifetimes(&self) -> Option<Instant> {
        let shortest = self.locators.iter().map(|one| one.lifetime).min()?;
        Some(self.retry.begun + Duration::from_secs(shortest.into()) / 2)
    }

    /// Whether these locators have brought no answer to the question.
    pub(crate) fn finds_silent(&self, locators: Locators) -> bool {
        let asked = self.question.asked(self.retry.tries);
        asked.filter(|pair| *pair == locators).count() >= SILENT_TRIES
    }

    /// When the next Locator Update goes. `is_silent`: the pair in use is silent.
    pub(crate) fn next(&self, is_silent: bool) -> Instant {
        let shown = self.question.shown.filter(|_| is_silent);
        shown.map_or(self.retry.next, |(_, at)| at.min(self.retry.next))
    }

    /// The correspondent has reached us by this pair.
    pub(crate) fn on_reached_by(&mut self, by: Locators, now: Instant) {
        let last = self.question.out_of_turn_at.max(Some(self.retry.sent_at()));
        let soonest = last.map_or(now, |last| now.max(last + MIN_RETRANSMISSION));
        let at = self.question.shown.map_or(soonest, |(_, at)| at.min(soonest));
        self.question.shown = Some((by, at));
        self.question.heard = Some(Heard::by(by));
    }

    /// Takes the pair for a Locator Update out of turn, if its time has come.
    pub(crate) fn take_out_of_turn(&mut self, now: Instant) -> Option<Locators> {
        let (by, _) = self.question.shown.take_if(|(_, at)| *at <= now)?;
        self.question.out_of_turn_at = Some(now);
        Some(by)
    }
}

impl Question {
    /// The pair of the `nth` Locator Update.
    pub(crate) fn pair(&self, nth: usize) -> Option<Locators> {
        let turns = self.pairs.get(self.turns_from..).filter(|turns| !turns.is_empty())?;
        let again = nth.checked_sub(self.pairs.len());
        match again {
            None => self.pairs.get(nth).copied(),
            Some(again) => turns.get(again % turns.len()).copied(),
        }
    }

    /// Whether the `nth` Locator Update goes by a pair other than the one in use, and the next one by yet another.
    fn goes_on_to_another(&self, nth: usize) -> bool {
        (self.turns_from + 1..self.round.saturating_sub(1)).contains(&nth)
    }

    /// The pairs that the first so many Locator Updates have gone by.
    pub(crate) fn asked(&self, tries: u32) -> impl Iterator<Item = Locators> + Clone {
        self.pairs.iter().take(tries as usize).copied()
    }

    /// Notes that a Locator Update with news goes by this pair.
    pub(crate) fn note(&mut self, pair: Locators) {
        self.pairs.drain(..(self.pairs.len() + 1).saturating_sub(MAX_NOTED));
        self.pairs.push(pair);
    }

    /// Notes that payload has passed.
    pub(crate) fn on_used(&mut self, at: Instant) {
        // A data plane reports steady use once in this interval, and the report is on its way for a while.
        self.in_use_until = Some(at + USED_INTERVAL + MAX_QUESTION_PAUSE);
    }
}

impl Machine {
    //= rfc6743#1.2-1 rfc6743#2-1 rfc6743#2-2 rfc6743#2-8 rfc6743#2-11 rfc6743#6-1
    //= rfc6743#6-2 rfc6744#7-2
    //= rfc6741#11.1-1 rfc6741#11.1-2 rfc6741#11.1-4 rfc6741#11.1-5 rfc6741#11.1-15
    //= rfc6741#11.1-16
    pub(crate) fn send_advertisement(&mut self, id: SessionId, now: Instant) {
        let Some((pair, _)) = self.ilcc.key(id) else { return };
        let Some(session) = self.ilcc.get(id) else { return };
        let Some(advertisement) = session.advertisement.as_deref() else { return };
        let nth = advertisement.retry.tries.saturating_sub(1) as usize;
        let by = match session.owes_update {
            true => self.pair_of_update((session, pair), nth, now),
            false => advertisement.question.pair(nth).unwrap_or(session.wire),
        };
        self.send_advertisement_by(id, by, now);
    }

    /// Sends the Locator Update by these locators.
    pub(crate) fn send_advertisement_by(
        &mut self,
        id: SessionId,
        (local, remote): Locators,
        now: Instant,
    ) {
        let Some((pair, _)) = self.ilcc.key(id) else { return };
        let Some(session) = self.ilcc.get_mut(id) else { return };
        let Some(advertisement) = session.advertisement.as_deref_mut() else { return };
        let likely = advertisement.likely((local, remote));
        if session.owes_update {
            advertisement.question.note((local, remote));
        }
        let wire = IlvPair::new(pair.local.at(local), pair.remote.at(remote));
        let update = LocatorUpdate {
            operation: Operation::ADVERTISEMENT,
            locators: advertisement.locators.clone(),
        };
        let sequence = session.numbers().then_some(session.sent);
        let message = update.emit(wire.local.address(), wire.remote.address());
        if !self.send_of(id, wire, &message, sequence, now) {
            // An Echo Request has fewer octets, and its answer shows as much (decision 192).
            self.ask_at(id, likely, now);
        }
    }

    /// The locators that the `nth` Locator Update with news goes by. The correspondent may have moved as well, so
    /// each repetition tries another of its locators. If the locators in use and the best ones bring no answer, all
    /// pairs take turns.
    fn pair_of_update(
        &self,
        (session, pair): (&Session, IlvPair),
        nth: usize,
        now: Instant,
    ) -> Locators {
        if let Some(later) = nth.checked_sub(first_updates(session)).filter(|_| session.settled) {
            let turns = [vec![session.wire], self.other_pairs(session, pair, now)].concat();
            return turns.get(later % turns.len()).copied().unwrap_or(session.wire);
        }
        let mut remotes: Vec<_> = session.remote.iter().map(|remote| remote.l64).collect();
        remotes.sort_by_key(|l64| (*l64 != session.wire.1, !session.is_proven(*l64)));
        remotes.truncate(MAX_TRIED_PAIRS);
        let remote = remotes.get(nth % remotes.len().max(1)).copied().unwrap_or(session.wire.1);
        let to = pair.remote.at(remote);
        (self.source_of_update((session.wire.0, to), nth, remotes.len()), remote)
    }

    pub(crate) fn repeat_advertisement(&mut self, id: SessionId, pair: IlvPair, now: Instant) {
        self.ask_out_of_turn(id, now);
        let Some(session) = self.ilcc.get(id) else { return };
        let Some(advertisement) = &session.advertisement else { return };
        if advertisement.retry.next > now {
            return;
        }
        let tries = advertisement.retry.tries as usize;
        let (is_question, question) = (!session.owes_update, &advertisement.question);
        let is_asked = is_question && tries >= question.round;
        let in_use_until = question.in_use_until.filter(|until| now < *until);
        let goes_on = in_use_until.is_some() && self.has_other_pairs(session);
        let takes_turns = is_asked || !is_question && tries >= first_updates(session);
        // A node that did no handshake and has restarted regards packets with our nonce as forged, except first
        // packets. A Locator Update with news may have the session go back first.
        let silent = SILENT_TRIES.max(if is_question { 0 } else { GO_BACK_TRIES as usize + 1 });
        let (agreed, wire) = (session.agreed, session.wire_pair(pair));
        let is_over = is_asked && !session.all_silent();
        let is_in_doubt = is_over || Self::is_doubtful(tries, silent);
        if let Some(session) = self.ilcc.get_mut(id).filter(|_| is_asked) {
            session.on_all_silent(goes_on, now);
        }
        match is_in_doubt {
            true if agreed => self.ask_at_first(id, wire, now),
            true => self.doubt_session(id, now),
            false => {}
        }
        let Some(session) = self.ilcc.get_mut(id) else { return };
        let Some(advertisement) = &session.advertisement else { return };
        if session.is_in_vain(advertisement, now) {
            // A path that lets no options pass would let no packet of the session pass.
            self.forget(id, Cause::Unanswered);
            self.remember_classic(pair, Classic::Unread, now);
            return;
        }
        if !is_question && advertisement.retry.is_over(UPDATE_LIFETIME, now) {
            return self.give_up_update(id, in_use_until.filter(|_| goes_on), now);
        }
        let awaits_first_answer = session.awaits_first_answer();
        let is_silent = advertisement.retry.tries >= GO_BACK_TRIES;
        let fresh = session.retry_of_update(now);
        let goes_on_unheard = goes_on && session.is_unheard();
        if let Some(advertisement) = &mut session.advertisement {
            let longest = match (is_question, takes_turns && goes_on) {
                (_, true) => TURN_PAUSE,
                (true, false) => MAX_QUESTION_PAUSE,
                (false, false) => MAX_RETRANSMISSION,
            };
            let again = advertisement.retry.again_within(longest, now);
            // A question by another pair is no retransmission.
            let is_other = is_question && advertisement.question.goes_on_to_another(tries);
            advertisement.retry = if is_other { again.hastened(fresh) } else { again };
        }
        self.go_on_after_turn(id, goes_on_unheard, now);
        let goes_back = is_silent && self.go_back(id, now);
        if goes_back {
            self.tell_locators_anew(id);
        }
        self.send_advertisement(id, now);
        if awaits_first_answer || goes_back {
            // The data plane watches for the next packet with the right nonce.
            self.tell(id, now);
        }
    }

    /// The correspondent has acknowledged no Locator Update with news for its lifetime. `goes_on`: time until which the
    /// session counts as in use, if it can use other pairs. Until then the machine begins anew.
    fn give_up_update(&mut self, id: SessionId, goes_on: Option<Instant>, now: Instant) {
        let Some(session) = self.ilcc.get_mut(id) else { return };
        session.on_unanswered(now);
        session.rtt = Rtt::default();
        let begins_anew = goes_on.is_some() && !session.is_mute;
        self.events.push_back(Event::UpdateUnanswered { session: id });
        if !begins_anew {
            return self.tell(id, now);
        }
        self.advertise(id, now);
        let session = self.ilcc.get_mut(id);
        if let Some(sent) = session.and_then(|session| session.advertisement.as_mut()) {
            sent.question.in_use_until = goes_on;
        }
    }

    /// The session uses another locator, so the Locator Update that waits has other preferences.
    fn tell_locators_anew(&mut self, id: SessionId) {
        let locators = self.ilcc.get(id).map(|session| self.told_locators(session));
        let sent = self.ilcc.get_mut(id).and_then(|session| session.advertisement.as_mut());
        if let Some((sent, locators)) = sent.zip(locators) {
            sent.locators = locators;
        }
    }
}

/// Number of Locator Updates with news that go by the locators in use and by the best ones, before all pairs take
/// turns.
fn first_updates(session: &Session) -> usize {
    2 * session.remote.len().min(MAX_TRIED_PAIRS)
}

/// Largest number of noted pairs: as many as a question goes by in its first round.
const MAX_NOTED: usize = SILENT_TRIES + MAX_TRIED_PAIRS;

#[cfg(test)]
mod tests {
    use moorline_types::L64;

    use super::*;

    /// Whoever repeats a Locator Update keeps no pair from its turn, and draws 20 Locator Updates a second at most.
    #[test]
    fn a_locator_update_out_of_turn_takes_no_turn_away() {
        let mut now = Instant::from_nanos(1_000_000_000);
        let retry = Retry::new(now);
        let (locators, question, confirmed_at) = (Vec::new(), Question::default(), None);
        let mut sent = Advertisement { locators, question, retry, confirmed_at };
        let mut out_of_turn = 0;
        for _ in 0..1000 {
            now = now + Duration::from_millis(1);
            sent.on_reached_by((L64(1), L64(2)), now);
            assert_eq!(sent.next(false), retry.next, "the pair in use is not silent");
            if sent.next(true) <= now && sent.take_out_of_turn(now).is_some() {
                out_of_turn += 1;
            }
            assert_eq!(sent.retry, retry);
        }
        assert_eq!(out_of_turn, 20);
    }
}
