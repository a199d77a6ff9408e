//! Sessions that share the nonces of one correspondent (decision 149).
//!
//! RFC 6744 s4 ties a nonce to the two identifiers. A correspondent that did no handshake has one nonce for all its
//! locators, and expects one nonce of ours. Sockets have whole addresses, so each pair of addresses has its own
//! session, with the same nonces.

use alloc::vec::Vec;

use moorline_types::{DropReason, IlvPair, Instant, Nonce, SessionId};

use crate::consts::TRIAL_TRIES;
use crate::event::Classic;
use crate::machine::{Machine, Traffic};
use crate::policy::{Decision, Stage};
use crate::session::{Opening, Session};
use crate::trial::{Aim, Trial};

impl Session {
    /// Whether the correspondent did no handshake and has read our nonce.
    const fn is_plain(&self) -> bool {
        !self.agreed && matches!(self.opening, Opening::Done)
    }
}

impl Machine {
    /// Asks the node of this traffic, if the node is the correspondent of a session by another pair of addresses.
    /// Returns whether the machine asks.
    pub(crate) fn try_sibling(&mut self, traffic: &Traffic, now: Instant) -> bool {
        let pair = traffic.pair;
        let Some(session) = self.known_to(pair) else { return false };
        let nonce = session.send_nonce;
        // Anybody can send packets in the name of a node at a locator where the correspondent has not been.
        let is_paid = !traffic.inbound || session.is_proven(pair.remote.l64);
        let paid = if is_paid { TRIAL_TRIES } else { 0 };
        let candidate = self.candidate(pair, Stage::Unanswered, traffic.socket);
        let Decision::Admit(why) = self.config.policy.clone().decide(&candidate) else {
            return false;
        };
        // The node speaks ILNP, so its silence is the network's, and the machine asks the locator again soon.
        self.has_spoken(pair, now);
        let aim = Aim::Begin { silence: Classic::Silent, paid };
        self.begin_trial((pair, pair), why, nonce, aim, now);
        true
    }

    /// Asks whether the correspondent of a session is at the locator of this traffic, which it has not named: by an Echo
    /// Request without a nonce. The correspondent answers with its nonce (RFC 6744 s6), and no other node off the path
    /// knows that. The machine meanwhile asks as it asks a stranger. Only traffic of this host leads to the question.
    pub(crate) fn ask_whether_same(&mut self, traffic: &Traffic, now: Instant) {
        let pair = traffic.pair;
        let known = self.without_handshake(pair).max_by_key(|session| session.shown_at);
        let nonce = known.map(|session| session.send_nonce);
        let Some(nonce) = nonce.filter(|_| !traffic.inbound && !self.trials.contains_key(&pair))
        else {
            return;
        };
        let candidate = self.candidate(pair, Stage::Unanswered, traffic.socket);
        if let Decision::Admit(why) = self.config.policy.clone().decide(&candidate) {
            self.begin_trial((pair, pair), why, nonce, Aim::Same, now);
        }
    }

    /// Handles the answer to an Echo Request without a nonce. The correspondent of a session with the nonce of the
    /// answer is at the locator, and has a session by it.
    pub(crate) fn on_same(
        &mut self,
        pair: IlvPair,
        nonce: Nonce,
        now: Instant,
    ) -> Result<(), DropReason> {
        let (local, remote) = pair.nids();
        let id = self.ilcc.find_nonce(local, remote, nonce).ok_or(DropReason::BadNonce)?;
        let sessions = self.siblings(id).into_iter().filter_map(|one| self.ilcc.get(one));
        let known = sessions.filter(|one| one.is_plain()).max_by_key(|one| one.shown_at);
        let ours = known.ok_or(DropReason::BadNonce)?.send_nonce;
        let trial = self.drop_trial(pair).ok_or(DropReason::Unasked)?;
        if self.has_no_room_with_node(pair) {
            return Err(DropReason::TableFull);
        }
        self.drop_proposal(pair);
        self.open_proven((pair, pair), &Trial { nonce: ours, ..trial }, nonce, now);
        Ok(())
    }

    /// A session with these identifiers whose correspondent did no handshake and has named this locator. Anybody can
    /// use the identifier at another locator, and have the DNS say so. With our nonce that node could redirect
    /// packets that the correspondent sends to us.
    fn known_to(&self, pair: IlvPair) -> Option<&Session> {
        let is_named =
            |session: &&Session| session.remote.iter().any(|remote| remote.l64 == pair.remote.l64);
        self.without_handshake(pair).filter(is_named).max_by_key(|session| session.shown_at)
    }

    /// Our nonce that the node at the remote locator of this pair has read, if a correspondent without the handshake has
    /// shown to be there. The node takes no other nonce between these identifiers (RFC 6744 s4). If it has begun anew
    /// since an earlier session, it has the nonce of the session in which it has shown itself last.
    pub(crate) fn read_at(&self, pair: IlvPair, now: Instant) -> Option<Nonce> {
        let is_there = |session: &&Session| {
            let mut named = session.remote.iter().filter(|remote| !remote.is_aged(now));
            named.any(|remote| remote.l64 == pair.remote.l64 && session.is_proven(remote.l64))
        };
        let sessions = self.without_handshake(pair).filter(is_there);
        sessions.max_by_key(|session| session.shown_at).map(|session| session.send_nonce)
    }

    /// The sessions between the identifiers of a pair whose correspondents did no handshake.
    fn without_handshake(&self, pair: IlvPair) -> impl Iterator<Item = &Session> {
        let (local, remote) = pair.nids();
        let sessions = self.ilcc.between(local, remote).filter_map(|id| self.ilcc.get(id));
        sessions.filter(|session| session.is_plain())
    }

    /// A session and the sessions that share its nonces.
    pub(crate) fn siblings(&self, id: SessionId) -> Vec<SessionId> {
        let mut all = Vec::from([id]);
        let has_handshake = self.ilcc.get(id).is_none_or(|session| session.agreed);
        if let Some((pair, Some(nonce))) = self.ilcc.key(id).filter(|_| !has_handshake) {
            let (local, remote) = pair.nids();
            let is_one = |other: &SessionId| {
                *other != id && self.ilcc.key(*other).is_some_and(|(_, of)| of == Some(nonce))
            };
            all.extend(self.ilcc.between(local, remote).filter(is_one));
        }
        all
    }
}
