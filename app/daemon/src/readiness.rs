//! Answers of the control API about readiness: whether connections survive the loss of their current pair.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;
use std::time::Duration;

use moorline_addresses::{HostView, Uplink};
use moorline_api::{Readiness, ReadinessState, SAME_UPLINK, Survival, UPLINK_FAILS};
use moorline_contexts as host;
use moorline_contexts::{ContextView, Reason};
use moorline_ilnp::{SessionView, State};
use moorline_types::{Instant, LocatorPair};

use crate::clock;
use crate::events::locator_pair;
use crate::shell::Daemon;

impl Daemon {
    /// Returns the readiness of a context; none if the context does not exist.
    pub(crate) fn readiness_of(&self, context: &ContextView) -> Option<Readiness> {
        let now = clock::now();
        let readiness = self.host.shim6().readiness(context.id, now)?;
        let mut told = told(readiness, now);
        // The cause may be that a person has removed one of our addresses.
        if let Some(command) = self.way_back(context, readiness) {
            told.remedy = format!("Somebody has removed an address of ours. {command}");
        }
        if let host::Readiness::Cannot(Reason::AddressGone) = readiness
            && let Some(link) = self.without_router(context)
        {
            told = no_default_route(&link.name);
        }
        if let host::Readiness::Protected { by, at } = readiness {
            told = match self.shared_uplink(context, by) {
                Some(uplink) => self.of_shared(context, uplink, at, now),
                None if self.host.view().uplinks.len() > 1 => {
                    let established = context.established.as_ref();
                    of_peer(told, established.map_or(0, |known| known.peer_locators.len()))
                }
                None => told,
            };
        }
        if lacks_other_uplink(&told)
            && let Some(established) = &context.established
            && let (view, failing) = (self.host.view(), self.host.failing_uplinks())
            && let Some(name) = failing_beside(view, &failing, established.locators.local.0)
        {
            told = uplink_fails(name);
        }
        Some(told)
    }

    /// Returns the command that restores the address that a context lacks, if a person has removed it. If the address in use has
    /// gone, peers know no other, so another one does not help.
    fn way_back(&self, context: &ContextView, readiness: host::Readiness) -> Option<String> {
        let ulid = context.ulids.local;
        let used = context.established.as_ref().map_or(ulid.0, |known| known.locators.local.0);
        let views = self.address_views();
        match readiness {
            host::Readiness::Cannot(Reason::AddressGone) => views.way_back_to(used),
            host::Readiness::Cannot(Reason::OnePair) => views.way_back(ulid),
            host::Readiness::Protected { .. }
            | host::Readiness::NotYet(_)
            | host::Readiness::Cannot(_) => None,
        }
    }

    /// Makes the readiness of a context whose answering pair leaves by the uplink of the current pair. The host checks pairs
    /// by a new address next; if the connection is idle, with its next traffic.
    fn of_shared(
        &self,
        context: &ContextView,
        uplink: &str,
        asked: Instant,
        now: Instant,
    ) -> Readiness {
        let contexts = self.host.shim6();
        if !contexts.is_provable(context.ulids.local) {
            return not_protected(ReadinessState::Cannot, Reason::OwnUnproven);
        }
        let gained = self.host.gained_at();
        let is_untried = is_untried(gained, asked, now) || contexts.awaits_traffic(context.id);
        let is_untried = is_untried && is_another_up(self.host.view(), uplink);
        shared(uplink, is_untried)
    }

    /// Returns the interface of the local address, if that interface lacks only a default route.
    fn without_router(&self, context: &ContextView) -> Option<&Uplink> {
        let current = context.established.as_ref()?.locators.local.0;
        let has = |link: &&Uplink| link.addresses.iter().any(|own| own.address == current);
        self.host.view().bare.iter().find(has)
    }

    /// Returns the uplink of both the current pair and the pair `by`, if they have the same uplink and the host has another
    /// uplink.
    fn shared_uplink(&self, context: &ContextView, by: LocatorPair) -> Option<&str> {
        let current = context.established.as_ref()?.locators.local.0;
        let uplink = self.host.view().uplink_of(current)?;
        let beside = self.host.view().uplink_of(by.local.0)?;
        let is_shared = uplink.ifindex == beside.ifindex && self.host.view().uplinks.len() > 1;
        is_shared.then_some(uplink.name.as_str())
    }

    /// Notes what the loss of the uplink of a context means for the context.
    pub(crate) fn note_survival(
        &self,
        by_uplink: &mut BTreeMap<u32, Survival>,
        context: &ContextView,
        now: Instant,
    ) {
        let Some(established) = &context.established else { return };
        let Some(readiness) = self.host.shim6().readiness(context.id, now) else { return };
        let Some(uplink) = self.host.view().uplink_of(established.locators.local.0) else { return };
        let entry = by_uplink.entry(uplink.ifindex).or_default();
        entry.contexts += 1;
        if let host::Readiness::Protected { by, .. } = readiness
            && let beside = self.host.view().uplink_of(by.local.0)
            && beside.is_none_or(|one| one.ifindex != uplink.ifindex)
        {
            entry.survive += 1;
            return;
        }
        // If the host has one uplink, the readiness may still be protected.
        let told = self.readiness_of(context);
        let told = told.filter(|told| told.state != ReadinessState::Protected);
        let reason =
            told.map_or_else(|| SAME_UPLINK.to_owned(), |told| told.reason.unwrap_or_default());
        *entry.others.entry(reason).or_default() += 1;
    }

    /// Returns the consequences of a loss for each uplink that contexts or sessions use, with the name of the uplink.
    pub(crate) fn named_survival(&self, by_uplink: BTreeMap<u32, Survival>) -> Vec<Survival> {
        let named = by_uplink.into_iter().filter_map(|(ifindex, entry)| {
            let uplink = self.host.view().uplink(ifindex)?.name.clone();
            Some(Survival { uplink, ..entry })
        });
        named.collect()
    }
}

/// Converts a readiness to the type of the control API.
pub(crate) fn told(readiness: host::Readiness, now: Instant) -> Readiness {
    match readiness {
        host::Readiness::Protected { by, at } => Readiness {
            state: ReadinessState::Protected,
            reason: None,
            why: "another pair has answered".to_owned(),
            remedy: String::new(),
            standby: Some(locator_pair(by)),
            answered_ms_ago: Some(clock::millis(now.since(at))),
        },
        host::Readiness::NotYet(reason) => not_protected(ReadinessState::NotYet, reason),
        host::Readiness::Cannot(reason) => not_protected(ReadinessState::Cannot, reason),
    }
}

/// Returns the readiness of an ILNP session, at a node whose locators have these uplinks. While the current locator works,
/// no check tests another, so no session counts as protected.
pub(crate) fn of_session(session: &SessionView, uplinks: &[Option<u32>]) -> Readiness {
    if session.state != State::Established {
        return not_protected(ReadinessState::NotYet, Reason::Establishing);
    }
    if uplinks.is_empty() {
        return not_protected(ReadinessState::Cannot, Reason::AddressGone);
    }
    if session.stands_still {
        let why = "the correspondent has answered by no pair of locators: the session stands still, or a firewall has begun to drop \
                   ICMPv6 type 156"
            .to_owned();
        return Readiness { why, ..not_protected(ReadinessState::NotYet, Reason::Unreachable) };
    }
    if uplinks.len() == 1 {
        let why = "this host has one locator: the session ends with its uplink".to_owned();
        return Readiness { why, ..not_protected(ReadinessState::Cannot, Reason::OnePair) };
    }
    if session.awaits_acknowledgement {
        return not_protected(ReadinessState::NotYet, Reason::Unacknowledged);
    }
    let untested = not_protected(ReadinessState::NotYet, Reason::Untested);
    if uplinks.iter().all(|uplink| *uplink == uplinks[0]) {
        let why = "all locators of this host are on one uplink: the session ends with the uplink, and moves only if the \
                   prefix in use goes"
            .to_owned();
        return Readiness { why, ..untested };
    }
    untested
}

/// Whether an address is so new that the host may not have checked its pairs yet.
fn is_untried(gained: Option<Instant>, asked: Instant, now: Instant) -> bool {
    gained.is_some_and(|gained| asked <= gained && now.since(gained) < ASKED_WITHIN)
}

/// Whether an uplink beside this one has a carrier.
fn is_another_up(view: &HostView, uplink: &str) -> bool {
    view.uplinks.iter().any(|one| one.carrier && one.name != uplink)
}

/// Makes the readiness for an answering pair that leaves by the uplink of the current pair.
fn shared(uplink: &str, is_untried: bool) -> Readiness {
    let (reason, others) = if is_untried {
        (Reason::Untried.as_str(), "pairs by other uplinks are tried next, with traffic")
    } else {
        (SAME_UPLINK, "no pair by another uplink has answered")
    };
    let why =
        format!("the pair that answers leaves by {uplink}, as the current one does: {others}");
    let remedy = "Moorline asks pairs by other uplinks itself, soon after these are back; `moorline doctor PEER` as root tries \
                  each pair now.";
    Readiness {
        reason: Some(reason.to_owned()),
        why,
        remedy: remedy.to_owned(),
        ..not_protected(ReadinessState::NotYet, Reason::Untried)
    }
}

/// Whether no pair by another uplink answers, though this host has tried.
fn lacks_other_uplink(told: &Readiness) -> bool {
    let reason = told.reason.as_deref();
    [Some(SAME_UPLINK), Some(Reason::Unanswered.as_str())].contains(&reason)
}

/// Returns the name of a failing uplink that does not have the address of ours in use.
fn failing_beside<'a>(
    view: &'a HostView,
    failing: &BTreeSet<u32>,
    current: Ipv6Addr,
) -> Option<&'a str> {
    let used = view.uplink_of(current)?.ifindex;
    let mut beside = view.uplinks.iter().filter(|one| one.ifindex != used);
    beside.find(|one| failing.contains(&one.ifindex)).map(|one| one.name.as_str())
}

/// Makes the readiness of a context with [`lacks_other_uplink`] while an uplink fails: the uplink explains the silence.
fn uplink_fails(name: &str) -> Readiness {
    Readiness {
        reason: Some(UPLINK_FAILS.to_owned()),
        why: format!("no pair by another uplink answers, and {name} carries nothing now"),
        remedy: format!(
            "Moorline goes on to ask by {name}. The fault is at its router or ISP, or beyond."
        ),
        ..not_protected(ReadinessState::NotYet, Reason::Trying)
    }
}

/// Adds the loss that ends the connection to the readiness of a protected context, if the peer has told one address. The
/// answering pair leaves by another uplink of this host than the current pair.
fn of_peer(protected: Readiness, peer_locators: usize) -> Readiness {
    if peer_locators != 1 {
        return protected;
    }
    Readiness {
        reason: Some(PEER_ONE_ADDRESS.to_owned()),
        why: "another pair has answered, and the peer has told one address: the connection survives the loss of an uplink \
              of this host, and not of the uplink of the peer"
            .to_owned(),
        remedy: "`moorline doctor` at the peer says whether a second uplink or a proof is missing there.".to_owned(),
        ..protected
    }
}

/// Makes the readiness for a connection whose interface has no default route.
fn no_default_route(name: &str) -> Readiness {
    Readiness {
        reason: Some(NO_ROUTE.to_owned()),
        why: format!("{name} has the address that the connection uses, and no default route"),
        remedy: format!(
            "`ip -6 route show default dev {name}` shows none. If this host forwards, the kernel ignores routers \
             unless net.ipv6.conf.{name}.accept_ra = 2."
        ),
        ..not_protected(ReadinessState::Cannot, Reason::AddressGone)
    }
}

/// Time after which the host has checked the pairs of a new uplink, with up to three attempts.
const ASKED_WITHIN: Duration = Duration::from_secs(20);

/// Name of the reason "no default route" in JSON.
const NO_ROUTE: &str = "no-default-route";
/// Name of the reason that a protected context depends on the peer's only address, in JSON.
const PEER_ONE_ADDRESS: &str = "peer-one-address";

fn not_protected(state: ReadinessState, reason: Reason) -> Readiness {
    Readiness {
        state,
        reason: Some(reason.as_str().to_owned()),
        why: reason.sentence().to_owned(),
        remedy: reason.remedy().to_owned(),
        standby: None,
        answered_ms_ago: None,
    }
}

#[cfg(test)]
mod tests {
    use moorline_addresses::{AddressFlags, Lifetimes, UplinkAddress};
    use moorline_ilnp::Why;
    use moorline_types::{Ilv, IlvPair, L64, Nid, Nonce, SessionId};

    use super::*;

    #[test]
    fn an_uplink_that_has_just_come_is_untried_until_it_has_been_asked_or_time_is_up() {
        let at = |seconds: u64| Instant::from_nanos(seconds * 1_000_000_000);
        assert!(is_untried(Some(at(100)), at(90), at(110)));
        assert!(!is_untried(Some(at(100)), at(101), at(110)), "a check has left since");
        assert!(!is_untried(Some(at(100)), at(90), at(120)), "it was asked in vain");
        assert!(!is_untried(None, at(90), at(110)));
        let [untried, in_vain] = [true, false].map(|is_untried| shared("wan1", is_untried));
        assert_eq!(untried.reason.as_deref(), Some("untried"));
        assert_eq!(in_vain.reason.as_deref(), Some(SAME_UPLINK));
        for told in [untried, in_vain] {
            assert!(told.why.contains("leaves by wan1, as the current one does: "), "{told:?}");
        }
    }

    #[test]
    fn pairs_by_other_uplinks_are_tried_only_if_one_of_these_has_a_carrier() {
        let uplink = |ifindex, name, carrier| Uplink { carrier, ..Uplink::new(ifindex, name) };
        for carrier in [true, false] {
            let uplinks = vec![uplink(1, "wan1", true), uplink(2, "wan2", carrier)];
            let view = HostView { uplinks, ..HostView::default() };
            assert_eq!(is_another_up(&view, "wan1"), carrier);
        }
    }

    #[test]
    fn an_interface_without_default_route_is_named() {
        let told = no_default_route("wan0");
        assert_eq!((told.state, told.reason.as_deref()), (ReadinessState::Cannot, Some(NO_ROUTE)));
        assert!(told.why.starts_with("wan0 has the address"), "{}", told.why);
    }

    #[test]
    fn an_uplink_that_fails_explains_why_no_other_pair_answers() {
        let uplink = |ifindex, name, address: &str| {
            let address = address.parse().expect("an address");
            let lifetimes = Lifetimes::FOREVER;
            let own = UplinkAddress::new(address, 64, AddressFlags::default(), lifetimes);
            Uplink { addresses: vec![own], ..Uplink::new(ifindex, name) }
        };
        let uplinks = vec![uplink(1, "wan1", "2001:db8:1::1"), uplink(2, "wan2", "2001:db8:2::1")];
        let view = HostView { uplinks, ..HostView::default() };
        let current = "2001:db8:1::1".parse().expect("an address");
        let beside =
            |failing: &[u32]| failing_beside(&view, &failing.iter().copied().collect(), current);
        assert_eq!([beside(&[]), beside(&[1]), beside(&[2])], [None, None, Some("wan2")]);
        let unanswered = not_protected(ReadinessState::Cannot, Reason::Unanswered);
        let one_pair = not_protected(ReadinessState::Cannot, Reason::OnePair);
        let all = [unanswered, shared("wan1", false), shared("wan1", true), one_pair];
        assert_eq!(all.map(|told| lacks_other_uplink(&told)), [true, true, false, false]);
        let told = uplink_fails("wan2");
        let why = "no pair by another uplink answers, and wan2 carries nothing now";
        assert_eq!(
            (told.state, told.reason.as_deref()),
            (ReadinessState::NotYet, Some(UPLINK_FAILS))
        );
        assert_eq!(told.why, why);
    }

    #[test]
    fn a_session_is_told_to_move_only_if_a_locator_is_on_another_uplink() {
        let ilv = |network: u64| Ilv::new(L64(network), Nid(9));
        let pair = IlvPair::new(ilv(0x2001_0db8_0001_0000), ilv(0x2001_0db8_0002_0000));
        let session = SessionView {
            id: SessionId(1),
            pair,
            wire: pair,
            moved: None,
            state: State::Established,
            why: Why::Open,
            remote: Vec::new(),
            nonces: (Nonce::Short([1; 4]), None),
            awaits_acknowledgement: false,
            stands_still: false,
            last_used: Instant::ZERO,
        };
        let why = |uplinks: &[Option<u32>]| of_session(&session, uplinks).why;
        assert!(why(&[Some(1)]).starts_with("this host has one locator"));
        assert!(
            why(&[Some(1), Some(1)]).starts_with("all locators of this host are on one uplink")
        );
        for uplinks in [&[Some(1), Some(2)][..], &[Some(1), Some(1), None]] {
            assert_eq!(why(uplinks), Reason::Untested.sentence());
        }
        assert!(!Reason::Untested.sentence().contains("sessions move when"), "not always");
    }

    #[test]
    fn a_context_with_a_peer_of_one_address_says_what_it_survives() {
        let protected =
            Readiness { reason: None, ..not_protected(ReadinessState::Protected, Reason::OnePair) };
        assert_eq!(of_peer(protected.clone(), 2), protected);
        let told = of_peer(protected, 1);
        let reason = told.reason.as_deref();
        assert_eq!((told.state, reason), (ReadinessState::Protected, Some(PEER_ONE_ADDRESS)));
        assert!(told.why.contains("survives the loss of an uplink of this host"), "{}", told.why);
    }
}
