//! Findings about ILNP: sessions, and whether they have locators to move to.

use moorline_api::IlnpStatus;
use moorline_types::Ilv;

use crate::facts::Facts;
use crate::finding::Finding;

pub(super) fn sessions(facts: &Facts) -> Vec<Finding> {
    let Some(ilnp) = facts.ilnp() else { return Vec::new() };
    let found = [
        identifiers(facts, ilnp),
        locators(facts, ilnp),
        room(ilnp),
        forgeries(ilnp),
        unanswered(ilnp),
    ];
    found.into_iter().flatten().collect()
}

/// Returns a finding about identifiers that name no node (RFC 6741 s2.4): correspondents refuse sessions with them.
fn identifiers(facts: &Facts, ilnp: &IlnpStatus) -> Option<Finding> {
    let own = facts.uplinks.iter().flat_map(|uplink| &uplink.addresses);
    let groups = own.map(|own| own.address).filter(|own| Ilv::of(*own).nid.is_group());
    let evidence: Vec<_> = groups
        .map(|own| format!("{own}: the group bit of its interface identifier is set"))
        .collect();
    let finding = if ilnp.identifiers == 0 {
        Finding::stops("ilnp-identifier", "no address of this host has an identifier for ILNP")
    } else if evidence.is_empty() {
        return None;
    } else {
        let what =
            "some addresses have no identifier for ILNP: connections by them are no sessions";
        Finding::warning("ilnp-identifier", what)
    };
    let finding = finding.shown_by_each(evidence);
    Some(finding.remedy(
        "Random interface identifiers have that bit half of the time. Addresses of moorlined (addresses = \"hba\") never \
         have it, nor have those from a MAC address (sysctl net.ipv6.conf.INTERFACE.addr_gen_mode=0).",
    ))
}

fn locators(facts: &Facts, ilnp: &IlnpStatus) -> Option<Finding> {
    let what = match ilnp.locators.len() {
        // Another finding reports that there is no address.
        0 if ilnp.identifiers == 0 => return None,
        0 => "ILNP has no locator: no prefix of an uplink with a carrier is for it",
        1 => "ILNP has a single locator: its sessions have nothing to move to",
        _ => return None,
    };
    // If there are fewer than two uplinks, another finding reports this.
    let is_said = ilnp.locators.len() == 1 && facts.uplinks.len() < 2;
    (!is_said).then(|| {
        Finding::stops("ilnp-locators", what).shown_by_each(&ilnp.locators).remedy(
            "Each /64 prefix of a global address on an uplink is a locator. Two uplinks with addresses of the same \
             prefix are one place: give them prefixes of their own.",
        )
    })
}

fn room(ilnp: &IlnpStatus) -> Option<Finding> {
    let held = ilnp.sessions.established + ilnp.sessions.opening;
    (held >= u64::from(ilnp.max_sessions)).then(|| {
        Finding::warning("ilnp-full", "there is no room for another ILNP session")
            .shown_by(format!("{held} of {}", ilnp.max_sessions))
            .remedy("Set ilnp-max-sessions to more, if they are yours: `moorline ilcc` lists them.")
    })
}

/// Returns a finding about forged packets. A few drops of each kind are only late packets.
fn forgeries(ilnp: &IlnpStatus) -> Option<Finding> {
    let known = [
        ("bad_nonce", "with a wrong nonce"),
        ("wrong_locators", "from a locator that the correspondent never named"),
        ("missing_option", "Locator Updates and other ICMPv6 without the nonce"),
    ];
    let seen = known.iter().filter_map(|(reason, what)| {
        let count = ilnp.drops.get(*reason).copied().filter(|count| *count >= MANY)?;
        Some(format!("{count} {what}"))
    });
    let seen: Vec<_> = seen.collect();
    (!seen.is_empty()).then(|| {
        let what = "packets that pretend to be of an ILNP session, or of one that has ended";
        Finding::note("ilnp-drops", what)
            .shown_by_each(seen)
            .remedy("They were dropped. A peer that lost its sessions agrees anew within seconds.")
    })
}

fn unanswered(ilnp: &IlnpStatus) -> Option<Finding> {
    let awaiting = ilnp.sessions.awaiting;
    (awaiting > 0).then(|| {
        let who = match awaiting {
            1 => "1 correspondent has".to_owned(),
            count => format!("{count} correspondents have"),
        };
        let what = format!("{who} not acknowledged our locators");
        Finding::warning("ilnp-unacknowledged", what).remedy(
            "Just after a move that is so for a moment. If it stays, ICMPv6 type 156 may be dropped on the way: \
             `moorline doctor PEER` as root tries.",
        )
    })
}

/// Number of packets since the start from which a finding reports them.
const MANY: u64 = 10;
