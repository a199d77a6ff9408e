use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use moorline_api::{
    Context, ContextCounts, ContextState, ContextsQuery, DataPlane, InterfaceAddresses, Place,
    ReapState, Role, Status, TABLE_FULL,
};
use moorline_contexts::{ContextView, EstablishedView, Failure, NegativeView, Readiness};
use moorline_datapath::Plane as _;
use moorline_datapath::shim6::{ContextCounters, ContextPlane as _};
use moorline_types::{ContextId, Instant, Locator, Ulid};

use crate::addresses::AddressViews;
use crate::clock;
use crate::readiness;
use crate::shell::Daemon;

impl Daemon {
    pub(crate) fn status(&mut self) -> Status {
        self.begin_survey();
        let now = clock::now();
        let excluded = self.excluded(now);
        let found = self.surveys.found();
        let ilnp = self.ilnp_status(&found);
        let uncounted = self.surveys.left(self.surveyed());
        let seen = self.datapath.drops().unwrap_or_default().into_iter();
        let of_shim6 = seen.chain(self.host.shim6().drops().iter());
        let of_ilnp = ilnp.iter().flat_map(|ilnp| ilnp.drops.clone());
        let drops =
            sums(of_shim6.map(|(reason, count)| (reason.to_string(), count)).chain(of_ilnp));
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            started_unix_ms: self.started_unix_ms,
            send_timeout_ms: clock::millis(self.config.send_timeout),
            data_plane: DataPlane::from(self.datapath.mode().to_owned()),
            uplinks: self.address_views().uplinks(now),
            ilnp,
            drops,
            warnings: self.warnings(),
            contexts: self.counts(),
            survival: self.named_survival(found.survival),
            uncounted: u64::try_from(uncounted).unwrap_or(u64::MAX),
            counted_ms_ago: clock::millis(self.surveys.age(now)),
            excluded,
            longest_turn_us: self.turns.longest_us(),
        }
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = self.address_views().warnings(&self.ulids_in_use());
        warnings.extend(self.troubles.texts());
        warnings.extend(self.takeover.progress(self.host.shim6().waiting()));
        let view = self.host.view();
        let is_none = |name: &&String| view.uplinks.iter().all(|uplink| uplink.name != **name);
        warnings.extend(self.config.uplinks.iter().filter(is_none).map(|name| {
            format!("{name}, which `uplinks` names, is no uplink now: see `ip -6 addr show dev {name}` and `ip -6 route show default`")
        }));
        if !self.datapath.is_pinned() {
            warnings.push(PINS_REMOVED.to_owned());
        }
        let count = u64::from(self.host.shim6().len()) + self.waiting();
        warnings.extend(table_full(count, self.config.max_contexts));
        warnings.extend(self.unsaved.clone());
        warnings.extend(self.unapplied_config.clone());
        warnings.extend(self.damages.iter().cloned());
        warnings
    }

    /// Returns the number of established contexts by our ULID.
    fn ulids_in_use(&self) -> BTreeMap<Ulid, u64> {
        let mut ulids = BTreeMap::new();
        for (class, count) in self.host.shim6().counts() {
            *ulids.entry(class.ulid).or_default() += count;
        }
        ulids
    }

    fn counts(&self) -> ContextCounts {
        let contexts = self.host.shim6();
        let no_support = peers_without(contexts.negatives());
        let mut counts =
            ContextCounts { waiting: self.waiting(), no_support, ..ContextCounts::default() };
        for (class, count) in contexts.counts() {
            counts.established += count;
            counts.exploring += if class.is_exploring { count } else { 0 };
            counts.moved += if class.is_moved { count } else { 0 };
        }
        counts.establishing = u64::from(contexts.len()).saturating_sub(counts.established);
        counts
    }

    /// Returns the number of contexts of the run before that are not taken over yet.
    fn waiting(&self) -> u64 {
        u64::try_from(self.host.shim6().waiting().len()).unwrap_or(u64::MAX)
    }

    /// Returns a page of the contexts and of the pairs without one.
    pub(crate) fn contexts(&self, query: ContextsQuery) -> Vec<Context> {
        let slot = query.after.map(|after| ContextId(after.id));
        let live = self.host.shim6().contexts_after(slot).map(|context| {
            let counters = self.datapath.counters(context.id).unwrap_or_default();
            let mut view = live(&context, &counters);
            view.readiness = self.readiness_of(&context);
            if let Some(cause) = context.established.and_then(|established| established.cause) {
                view.why = self.steer.reason(context.id, cause);
            }
            view
        });
        let mut page: Vec<_> = live.take(query.limit()).collect();
        let left = query.limit() - page.len();
        if left > 0 {
            let negatives = self.host.shim6().negatives().collect();
            page.extend(without_context(negatives, query.after).iter().take(left).map(dormant));
        }
        page
    }

    pub(crate) fn interface_addresses(&self) -> Vec<InterfaceAddresses> {
        self.address_views().interfaces(clock::now())
    }

    pub(crate) const fn address_views(&self) -> AddressViews<'_> {
        AddressViews { addresses: &self.addresses, host: &self.host }
    }
}

/// Returns the pairs without a context behind this place, in order.
fn without_context(mut negatives: Vec<NegativeView>, after: Option<Place>) -> Vec<NegativeView> {
    let after = after.filter(|after| after.id == NO_ID);
    let after = after.map(|after| (after.ulid_local, after.ulid_peer));
    let place = |one: &NegativeView| (one.ulids.local.0, one.ulids.peer.0);
    negatives.retain(|one| Some(place(one)) > after);
    negatives.sort_by_key(place);
    negatives
}

/// Number of addresses of peers that have not answered, or do not speak Shim6. The host may have asked one peer from
/// several addresses of its own.
fn peers_without(negatives: impl Iterator<Item = NegativeView>) -> u64 {
    // The host has hardly asked a peer whose handshake made room for others.
    let without =
        negatives.filter(|one| !matches!(one.failure, Failure::NotTaken | Failure::NoRoom));
    let peers: BTreeSet<_> = without.map(|one| one.ulids.peer).collect();
    u64::try_from(peers.len()).unwrap_or(u64::MAX)
}

/// Sums counts by name.
pub(crate) fn sums(counts: impl Iterator<Item = (String, u64)>) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for (name, count) in counts {
        *sums.entry(name).or_default() += count;
    }
    sums
}

fn live(context: &ContextView, counters: &ContextCounters) -> Context {
    let ulids = context.ulids.as_locators();
    let established = context.established.as_ref();
    let locators = established.map_or(ulids, |established| established.locators);
    Context {
        id: context.id.0,
        ulid_local: context.ulids.local.0,
        ulid_peer: context.ulids.peer.0,
        role: established
            .map_or(Role::Initiator, |established| established.role.to_string().into()),
        state: ContextState::from(context.state.to_owned()),
        reap: established.map_or(ReapState::Operational, |established| reap(established.reap)),
        locator_local: locators.local.0,
        locator_peer: locators.peer.0,
        moved: locators != ulids,
        why: why(context),
        readiness: None,
        since_unix_ms: established.map_or(0, |established| clock::unix_ms_of(established.since)),
        local_locators: addresses(established.map(|established| &*established.local_locators)),
        peer_locators: addresses(established.map(|established| &*established.peer_locators)),
        tx_packets: counters.tx_packets,
        tx_bytes: counters.tx_bytes,
        rx_packets: counters.rx_packets,
        rx_bytes: counters.rx_bytes,
        last_tx_ms_ago: ago(counters.last_tx),
        last_rx_ms_ago: ago(counters.last_rx),
    }
}

/// Returns a warning if the context table is full.
fn table_full(count: u64, max: u32) -> Option<String> {
    (count >= u64::from(max)).then(|| {
        format!("{TABLE_FULL}: {count} of {max}; connections with new peers cannot move until some contexts end")
    })
}

/// Number of a pair without a context.
const NO_ID: u32 = u32::MAX;
/// Warning of `moorline status`.
const PINS_REMOVED: &str = "somebody has removed the pins of the BPF tables (--pin-dir): moved connections would stop at a \
                            crash or restart of moorlined; restart it when none has moved";
/// Reason why a triggered context does not exist.
pub(crate) const NOT_TAKEN: &str = "the data plane did not take it";
/// Reason why a handshake ended before its time.
pub(crate) const NO_ROOM: &str = "made room for another handshake";

/// Shows a pair in E-FAILED or NO-SUPPORT, which has no context.
fn dormant(negative: &NegativeView) -> Context {
    let left = humantime::format_duration(Duration::from_secs(
        negative.until.since(clock::now()).as_secs(),
    ));
    let (state, why) = match negative.failure {
        Failure::NoAnswer => (ContextState::EFailed, "no answer to I1"),
        Failure::NoSupport => (ContextState::NoSupport, "peer has no Shim6"),
        Failure::NotTaken => (ContextState::EFailed, NOT_TAKEN),
        Failure::NoRoom => (ContextState::EFailed, NO_ROOM),
    };
    let context = ContextView {
        id: ContextId(NO_ID),
        ulids: negative.ulids,
        forked_instance: 0,
        state: "",
        established: None,
    };
    Context {
        state,
        why: format!("{why}; plain IPv6, tried again in {left}"),
        readiness: Some(readiness::told(Readiness::of_failure(negative.failure), clock::now())),
        ..live(&context, &ContextCounters::default())
    }
}

fn why(context: &ContextView) -> String {
    match &context.established {
        None => "waiting for the peer's answer".to_owned(),
        Some(EstablishedView { cause: Some(cause), .. }) => cause.to_string(),
        Some(view) if view.locators != context.ulids.as_locators() => {
            "moved before moorlined was started anew".to_owned()
        }
        Some(_) => "the pair it began with".to_owned(),
    }
}

pub(crate) fn reap(state: moorline_contexts::ReapState) -> ReapState {
    match state {
        moorline_contexts::ReapState::Operational => ReapState::Operational,
        moorline_contexts::ReapState::Exploring => ReapState::Exploring,
        moorline_contexts::ReapState::InboundOk => ReapState::InboundOk,
    }
}

fn addresses(locators: Option<&[Locator]>) -> Vec<std::net::Ipv6Addr> {
    locators.unwrap_or_default().iter().map(|locator| locator.0).collect()
}

/// Milliseconds since a time of the data plane; none if the time is zero.
pub(crate) fn ago(at: Instant) -> Option<u64> {
    (at != Instant::ZERO).then(|| clock::millis(clock::now().since(at)))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use moorline_types::UlidPair;

    use super::*;

    #[test]
    fn pages_of_pairs_without_a_context_have_each_pair_once() {
        let address = |node| Ulid(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, node));
        let of = |local, peer| NegativeView {
            ulids: UlidPair::new(address(local), address(peer)),
            failure: Failure::NoRoom,
            until: Instant::ZERO,
        };
        let all = [of(2, 1), of(1, 9), of(1, 3)];
        let mut seen = Vec::new();
        let mut after = Some(Place { id: 7, ulid_local: address(9).0, ulid_peer: address(9).0 });
        while let Some(next) = without_context(all.to_vec(), after).first() {
            let (ulid_local, ulid_peer) = (next.ulids.local.0, next.ulids.peer.0);
            after = Some(Place { id: NO_ID, ulid_local, ulid_peer });
            seen.push(next.ulids);
        }
        assert_eq!(seen, [of(1, 3), of(1, 9), of(2, 1)].map(|one| one.ulids));
    }

    #[test]
    fn the_cause_of_a_pair_is_told_and_after_a_restart_that_it_moved_before() {
        let address = |isp| Ulid(Ipv6Addr::new(0x2001, 0xdb8, isp, 0, 0, 0, 0, 1));
        let ulids = UlidPair::new(address(1), address(2));
        let moved = UlidPair::new(address(3), address(2)).as_locators();
        let of = |locators, cause| {
            let established = EstablishedView {
                role: moorline_contexts::Role::Initiator,
                reap: moorline_contexts::ReapState::Operational,
                locators,
                since: Instant::ZERO,
                cause,
                local_locators: Vec::new(),
                peer_locators: Vec::new(),
            };
            why(&ContextView {
                id: ContextId(1),
                ulids,
                forked_instance: 0,
                state: "established",
                established: Some(established),
            })
        };
        let cause = moorline_contexts::Cause::FailBack;
        assert_eq!(of(moved, Some(cause)), cause.to_string());
        assert_eq!(of(moved, None), "moved before moorlined was started anew");
        assert_eq!(of(ulids.as_locators(), None), "the pair it began with");
    }

    #[test]
    fn a_peer_that_was_asked_from_two_addresses_is_one_peer() {
        let of = |local, peer, failure| {
            let address = |node| Ulid(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, node));
            let ulids = UlidPair::new(address(local), address(peer));
            NegativeView { ulids, failure, until: Instant::ZERO }
        };
        let all = [
            of(1, 9, Failure::NoSupport),
            of(2, 9, Failure::NoSupport),
            of(1, 8, Failure::NoAnswer),
            of(1, 7, Failure::NotTaken),
            of(1, 6, Failure::NoRoom),
        ];
        assert_eq!(peers_without(all.into_iter()), 2);
    }

    #[test]
    fn a_full_table_is_warned_of_and_one_with_room_is_not() {
        assert_eq!([0, 4].map(|count| table_full(count, 5)), [None, None]);
        let warning = table_full(5, 5).expect("a warning");
        assert!(warning.starts_with(TABLE_FULL) && warning.contains("5 of 5"), "{warning}");
    }
}
