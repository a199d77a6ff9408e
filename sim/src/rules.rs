//! Rules that are checked after every step, by what is visible outside a host.

mod control;
mod messages;
mod protection;

use std::collections::{BTreeMap, BTreeSet};

use moorline_cga::LocalProof;
use moorline_contexts::ContextView;
use moorline_datapath::shim6::{ContextEntry, Update};
use moorline_types::{
    ContextId, ContextTag, DropReason, IlvPair, Instant, Locator, LocatorPair, UlidPair,
};

use crate::log::since_start;
use crate::outcome::{Rule, Violation};
use crate::packet;
use crate::plan::host_name as name;
use control::Allowances;
use protection::Answers;

pub(crate) use control::Pace as ControlPace;

/// Violations, and the state that is needed to find them.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    pub(crate) violations: Vec<Violation>,
    /// Host that has or had each address.
    owners: BTreeMap<Locator, usize>,
    /// Locators that each ULID can prove, or could prove at some time.
    proofs: BTreeMap<Locator, BTreeSet<Locator>>,
    /// ULID pairs of the workloads, as each host has them.
    wanted: BTreeSet<(usize, UlidPair)>,
    /// Responder nonce and validator of every R1 and R1bis that a host sent.
    validators: BTreeSet<(usize, u32, Vec<u8>)>,
    /// Pairs of received Shim6 packets, as the receiver has them: stateless answers go back to these.
    asked: BTreeSet<(usize, LocatorPair)>,
    /// Probes, I1s and I2s that a host sent: pair, nonce and time.
    probes: BTreeMap<(usize, LocatorPair, u32), Instant>,
    /// Evidence that the peers of a host answer, and have its contexts.
    answers: Answers,
    /// Pairs by which the peer has reported a probe or echoed a validator.
    probed: BTreeSet<(usize, LocatorPair)>,
    /// The established contexts of each host.
    established: BTreeMap<(usize, ContextId), Established>,
    allowances: Allowances,
}

/// Properties that tell an established context from others.
#[derive(Clone, Copy, Debug)]
struct Established {
    ulids: UlidPair,
    local_tag: ContextTag,
    peer_tag: ContextTag,
}

impl Rules {
    pub(crate) fn new(pace: ControlPace) -> Self {
        Self { allowances: Allowances::new(pace), ..Self::default() }
    }

    /// Adds an address of a host.
    pub(crate) fn on_address(&mut self, host: usize, address: Locator) {
        self.owners.insert(address, host);
    }

    /// Notes the proof that a host gives to its peers. An address that is gone can still be a ULID, and prove the
    /// others.
    pub(crate) fn on_proof(&mut self, host: usize, proof: &LocalProof) {
        for (&address, _) in self.owners.iter().filter(|&(_, &owner)| owner == host) {
            self.proofs.entry(address).or_default().extend(&proof.locators_for(address.as_ulid()));
        }
    }

    /// Notes that a host has traffic between these addresses.
    pub(crate) fn on_traffic(&mut self, host: usize, ulids: UlidPair) {
        self.wanted.insert((host, ulids));
        self.allowances.on_traffic(host);
    }

    /// Notes that the addresses of a host have changed, or that it restarts: it tells its peers, and probes.
    pub(crate) fn on_local_change(&mut self, host: usize) {
        self.allowances.on_local_change(host);
    }

    /// The tags that an established context of a host receives and sends.
    pub(crate) fn tags_of(&self, host: usize, ulids: UlidPair) -> Option<(ContextTag, ContextTag)> {
        let of_host = self.established.iter().filter(|((of, _), _)| *of == host);
        let context = of_host.map(|(_, context)| context).find(|context| context.ulids == ulids)?;
        Some((context.local_tag, context.peer_tag))
    }

    /// Whether a host asks for a context because of traffic of an ILNP session that the host has lost, and the peer
    /// has not. Segments of a moved session have no nonce if they have no room for one (decision 131), so they look
    /// like traffic between the addresses on the wire. The peer has its address there for sessions alone, and answers
    /// no I1 (decision 127). So such a context has the identifiers of other traffic of the host with other locators,
    /// and is never established.
    pub(crate) fn is_of_lost_session(&self, host: usize, context: &ContextView) -> bool {
        let nids = |ulids: UlidPair| IlvPair::of(ulids).nids();
        let mut wanted = self.wanted.iter().filter(|(of, _)| *of == host);
        context.established.is_none()
            && !self.wanted.contains(&(host, context.ulids))
            && wanted.any(|(_, ulids)| nids(*ulids) == nids(context.ulids))
    }

    /// Notes that a host has lost its contexts.
    pub(crate) fn on_reboot(&mut self, host: usize) {
        self.established.retain(|&(of, _), _| of != host);
    }

    pub(crate) fn check(
        &mut self,
        holds: bool,
        rule: Rule,
        now: Instant,
        detail: impl FnOnce() -> String,
    ) {
        if !holds {
            self.violations.push(Violation { at: since_start(now), rule, detail: detail() });
        }
    }

    /// Checks a packet that leaves a host. `chosen` has the addresses of the socket, if a socket has sent the packet.
    /// `is_there` says whether the host has the source now, or had it when its core was killed. A socket may go on
    /// with a source that is gone, as without Moorline.
    pub(crate) fn on_wire(
        &mut self,
        host: usize,
        locators: LocatorPair,
        chosen: Option<LocatorPair>,
        is_there: bool,
        now: Instant,
    ) {
        let is_left_alone = chosen.is_some_and(|chosen| chosen.local == locators.local);
        let is_own = self.is_of(host, locators.local) && (is_there || is_left_alone);
        self.check(is_own, Rule::OwnSource, now, || format!("{} sends {locators}", name(host)));
        let is_verified = chosen.is_some_and(|chosen| chosen.peer == locators.peer)
            || self.is_verified(host, locators.peer)
            || self.asked.contains(&(host, locators));
        self.check(is_verified, Rule::VerifiedLocator, now, || {
            format!("{} sends {locators}", name(host))
        });
    }

    /// Checks an update of a core for its data plane.
    pub(crate) fn on_update(&mut self, host: usize, update: &Update, now: Instant) {
        let entry = match update {
            Update::Upsert(entry) => entry,
            Update::Remove { context } => {
                self.established.remove(&(host, *context));
                return;
            }
            Update::Heard { .. } | Update::Rearm { .. } => return,
        };
        let ContextEntry { ulids, current, peer_locators, .. } = entry;
        let locators = current.pair;
        let is_wanted = self.wanted.contains(&(host, *ulids));
        self.check(is_wanted, Rule::WantedContext, now, || format!("{}: {ulids}", name(host)));
        let proved = self.proofs.get(&ulids.peer.as_locator());
        let is_verified = peer_locators.iter().all(|locator| {
            *locator == ulids.peer.as_locator()
                || proved.is_some_and(|proved| proved.contains(locator))
        });
        self.check(is_verified, Rule::VerifiedLocator, now, || {
            format!("{}: entry with {peer_locators:?}", name(host))
        });
        // A pair stays current until another is found, even if the peer has withdrawn its locator.
        let is_probed = !entry.is_moved() || self.probed.contains(&(host, locators));
        self.check(is_probed, Rule::ProbedPair, now, || {
            format!("{}: entry with {locators}", name(host))
        });
        let is_own = self.is_of(host, locators.local);
        self.check(is_own, Rule::OwnSource, now, || format!("{}: entry {locators}", name(host)));
        self.check_tags(host, entry, now);
    }

    fn check_tags(&mut self, host: usize, entry: &ContextEntry, now: Instant) {
        let ContextEntry { id, ulids, local_tag, peer_tag, .. } = *entry;
        let peer = self.owners.get(&ulids.peer.as_locator());
        let shares = |(&(of, other), context): (&(usize, ContextId), &Established)| {
            of == host
                && other != id
                && self.owners.get(&context.ulids.peer.as_locator()) == peer
                && (context.local_tag == local_tag || context.peer_tag == peer_tag)
        };
        let is_shared = self.established.iter().any(shares);
        self.established.insert((host, id), Established { ulids, local_tag, peer_tag });
        self.check(!is_shared, Rule::UniqueTags, now, || {
            format!("{}: {ulids} has a tag of another context with the same peer", name(host))
        });
    }

    /// Checks a packet to which a data plane has added a payload header.
    pub(crate) fn on_moved(&mut self, host: usize, octets: &[u8], original: &[u8], now: Instant) {
        let [way, ulids] = [octets, original].map(|one| packet::header(one).map(|(pair, _)| pair));
        self.check(way != ulids, Rule::Untouched, now, || {
            format!("{}: payload header on the ULID pair", name(host))
        });
        let is_probed = way.is_some_and(|way| self.probed.contains(&(host, way)));
        self.check(is_probed, Rule::ProbedPair, now, || format!("{}: {way:?}", name(host)));
    }

    /// Checks the drop counters at the end of a run. If `is_misled`, routers may have sent to addresses that are not
    /// an uplink's.
    pub(crate) fn on_drops(
        &mut self,
        host: usize,
        drops: impl Iterator<Item = (DropReason, u64)>,
        is_misled: bool,
        now: Instant,
    ) {
        for (reason, times) in drops {
            let is_explained = is_explained(reason) || is_misled && reason == DropReason::NotOurs;
            self.check(is_explained, Rule::HonestDrops, now, || {
                format!("{} dropped {times} for {reason}", name(host))
            });
        }
    }

    fn is_of(&self, host: usize, locator: Locator) -> bool {
        self.owners.get(&locator) == Some(&host)
    }

    /// Whether another host has proved this locator.
    fn is_verified(&self, host: usize, locator: Locator) -> bool {
        self.owners.get(&locator).is_some_and(|&owner| owner != host)
    }
}

/// Whether lost, late, repeated or reordered packets, or addresses that are gone, explain a drop.
const fn is_explained(reason: DropReason) -> bool {
    matches!(
        reason,
        DropReason::UnknownTag
            | DropReason::WrongLocators
            | DropReason::BadNonce
            | DropReason::StaleNonce
            | DropReason::Unasked
            | DropReason::NotEstablished
            | DropReason::Disbelieved
            | DropReason::Crossed
            | DropReason::Gone
            | DropReason::Unwanted
            | DropReason::Replayed
            | DropReason::RateLimited
            | DropReason::NoUplink
            // A host with the profile `rfc` does not know checks.
            | DropReason::UnknownCriticalOption
    )
}

#[cfg(test)]
mod tests;
