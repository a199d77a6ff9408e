//! Findings about uplinks, addresses, routing rules and router advertisements.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;

use moorline_addresses::{AddressFlags, GIVEN_UP, NO_PREFIX, Uplink, UplinkAddress};
use moorline_api::{
    Context, DEAF, LocatorInfo, NO_RULE, ONE_UPLINK, Proof, REMOVED, ReadinessState, TABLE_FULL,
    Uplink as ApiUplink,
};
use moorline_netlink::{HostRule, MAIN_PRIORITY, MAX_PREFIXES, MOVED_PRIORITY, Takes};
use moorline_types::{Encapsulation, Prefix};

use crate::facts::Facts;
use crate::finding::{Finding, Severity};

pub(super) fn uplinks(facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    if facts.uplinks.len() < 2 {
        // One link may have two routers.
        let is_split = facts.uplinks.iter().any(Uplink::has_ways);
        let (severity, what) = match facts.uplinks.first() {
            Some(Uplink { name, .. }) if is_split => (
                Severity::Warning,
                format!(
                    "{name} is the only uplink: connections can move between its routers, and {ONE_UPLINK} when {name} itself fails"
                ),
            ),
            Some(Uplink { name, .. }) => (
                Severity::StopsProtection,
                format!("{name} is the only uplink: connections {ONE_UPLINK}"),
            ),
            None => {
                (Severity::StopsProtection, "no uplink: there is no IPv6 to the outside".to_owned())
            }
        };
        let candidate =
            |name: &_| format!("{name} has a default route and no global address in use");
        let unused =
            |name: &_| format!("{name} could be one, and `uplinks` in moorlined.toml lacks it");
        let finding = Finding::new("one-uplink", severity, what)
            .shown_by_each(facts.candidates.iter().map(candidate))
            .shown_by_each(facts.unused.iter().map(unused));
        findings.push(finding.remedy(
            "An uplink is an interface with a global IPv6 address and a default route: see \
             `ip -6 addr show scope global` and `ip -6 route show default`.",
        ));
    }
    for uplink in &facts.uplinks {
        if !uplink.carrier {
            let finding = Finding::warning("no-carrier", format!("{} has no carrier", uplink.name));
            findings.push(finding.remedy("Nothing can move there: see to its cable or radio."));
        }
        findings.extend(narrow(uplink));
    }
    findings
}

/// Returns a finding about an uplink with a small MTU. Moved packets have an additional header. The routes of moved pairs
/// leave room for the header, even if less than 1280 octets are left (decision 118): the host fragments longer packets.
fn narrow(uplink: &Uplink) -> Option<Finding> {
    let Uplink { name, mtu, .. } = uplink;
    let (room, wanted) = (mtu.saturating_sub(HEADER), LEAST_MTU + HEADER);
    let remedy = format!("ip link set {name} mtu {wanted}, if the link allows it");
    let finding = if *mtu < LEAST_MTU {
        Finding::stops("small-mtu", format!("{name} is too narrow for IPv6"))
            .remedy(format!("{remedy}."))
    } else if room < LEAST_MTU {
        let what = format!(
            "packets of more than {room} octets that must not be fragmented are lost after a move to {name}"
        );
        Finding::warning("small-mtu", what).remedy(format!(
            "{remedy}. Otherwise this concerns what this host forwards, and programs that forbid fragments: all else moves."
        ))
    } else {
        return None;
    };
    Some(finding.shown_by(format!(
        "MTU {mtu}; {wanted} leave room for {LEAST_MTU} octets and {HEADER} of the payload header"
    )))
}

pub(super) fn addresses(facts: &Facts) -> Vec<Finding> {
    let Some(answers) = facts.answers() else { return Vec::new() };
    // If the daemon announces an address without a proof, the key of another uplink signs for it. A warning of the daemon
    // covers that case.
    let is_unprovable = |uplink: &&ApiUplink| {
        uplink.locators.iter().all(|own| own.proof == Proof::None && !own.announced)
    };
    let unprovable: Vec<_> = answers.status.uplinks.iter().filter(is_unprovable).collect();
    let warnings = &answers.status.warnings;
    let is_said = |warning: &str| unprovable.iter().any(|one| is_about(warning, &one.name));
    let without_proof = unprovable.iter().map(|uplink| {
        let what = format!(
            "no address of {} can be proved to be ours, so nothing of ours can move there",
            uplink.name
        );
        let evidence = uplink.locators.iter().map(|own| format!("{}: proof none", own.address));
        // The daemon knows the cause.
        let said = warnings.iter().filter(|warning| is_about(warning, &uplink.name));
        let said = said.map(String::as_str).collect::<Vec<_>>().join(" ");
        let remedy = if said.is_empty() { UNPROVABLE.to_owned() } else { said };
        Finding::stops("unprovable", what).shown_by_each(evidence).remedy(remedy)
    });
    // Separate findings cover these warnings.
    let is_told =
        |warning: &&String| [ONE_UPLINK, DEAF, NO_RULE].iter().any(|words| warning.contains(words));
    let other = warnings.iter().filter(|warning| !is_told(warning) && !is_said(warning));
    let failing: Vec<_> = answers.status.uplinks.iter().filter(|one| one.failing).collect();
    let is_of_failing = |warning: &str| {
        let mut names = failing.iter().map(|uplink| uplink.name.as_str());
        names.any(|name| warning.strip_prefix(name).is_some_and(|rest| rest.starts_with(' ')))
    };
    let other = other.map(|warning| {
        if warning.starts_with(TABLE_FULL) {
            Finding::stops("contexts-full", warning)
                .remedy("Raise max-contexts in moorlined.toml, and restart moorlined.")
        } else if is_of_failing(warning) {
            Finding::warning("uplink-failing", warning).remedy(FAILING)
        } else {
            // The warning has its own advice.
            Finding::warning("daemon-warning", warning)
        }
    });
    without_proof.chain(other).chain(temporary(facts)).collect()
}

/// Whether a warning of the daemon says why no address of this uplink has a proof.
fn is_about(warning: &str, uplink: &str) -> bool {
    let rest = warning.strip_prefix(uplink).filter(|rest| rest.starts_with(": "));
    rest.is_some_and(|rest| WITHOUT_PROOF.iter().any(|words| rest.contains(words)))
}

/// Returns a note about temporary addresses, so that nobody publishes an address that soon ends. Deprecated addresses are
/// for older connections only.
fn temporary(facts: &Facts) -> Option<Finding> {
    let told = facts.answers().into_iter().flat_map(|answers| &answers.status.uplinks);
    let is_ours = |own: &&LocatorInfo| own.temporary && own.proof != Proof::None;
    let new = |uplink: &ApiUplink| {
        let link = facts.uplinks.iter().find(|link| link.ifindex == uplink.ifindex)?;
        let is_preferred = |own: &&LocatorInfo| {
            link.addresses.iter().any(|known| known.address == own.address && known.preferred)
        };
        let own = uplink.locators.iter().filter(is_ours).find(is_preferred)?;
        Some(format!("{}: {}", uplink.name, own.address))
    };
    let all: Vec<_> = told.filter_map(new).collect();
    let what = "new connections take temporary addresses of Moorline (RFC 8981): others take their place after \
                temporary-preferred-lifetime";
    let finding = Finding::note("temporary", what).remedy(
        "Publish none of them. For addresses that stay: temporary = false in moorlined.toml.",
    );
    (!all.is_empty()).then(|| finding.shown_by_each(all))
}

/// Returns findings about foreign rules before ours, and about missing rules of ours.
pub(super) fn rules(facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !facts.rules.iter().any(|rule| rule.is_ours) {
        if facts.answers().is_some() && !facts.uplinks.is_empty() {
            let what = "the rules of moorlined are gone: packets leave through the wrong ISP";
            findings.push(missing(what));
        }
        return findings;
    }
    // Foreign rules before the rule of the main table decide before our rules of prefixes (decision 139).
    let foreign = |rule: &&HostRule| {
        let before = (1..MAIN_PRIORITY).contains(&rule.priority);
        !rule.is_ours && before && !rule.suppresses_default
    };
    for rule in facts.rules.iter().filter(foreign) {
        let is_after_moved = rule.priority > MOVED_PRIORITY;
        findings.extend(foreign_rule(facts, rule, is_after_moved));
    }
    if facts.answers().is_some() {
        findings.extend(without_rule(facts));
    }
    findings
}

/// Returns a finding about a foreign rule that decides before ours, if it takes packets from a prefix of an uplink.
/// `is_after_moved`: our rules for moved pairs decide before this rule.
fn foreign_rule(facts: &Facts, rule: &HostRule, is_after_moved: bool) -> Option<Finding> {
    // The source of an `AllBut` rule is the source that the rule does not take.
    let from = rule.from.filter(|_| rule.takes != Takes::AllBut);
    let touches =
        |prefix: &Prefix| from.is_none_or(|from| from.covers(*prefix) || prefix.covers(from));
    let takes = |own: &Ipv6Addr| from.is_none_or(|from| from.contains(*own));
    let mut prefixes = facts.uplinks.iter().flat_map(|uplink| &uplink.addresses);
    let takes_ours = own_addresses(facts).iter().any(takes);
    if !takes_ours && !prefixes.any(|own| touches(&own.prefix())) {
        return None;
    }
    let (severity, what) = match (rule.takes, from) {
        (Takes::Forwarded, _) => {
            (Severity::Note, "takes packets that this host forwards before ours are looked at")
        }
        _ if !takes_ours => {
            (Severity::Note, "takes packets of other addresses than those that peers are told of")
        }
        (Takes::Some, _) => (Severity::Note, "takes some packets before ours are looked at"),
        (Takes::All, Some(_)) if is_after_moved => {
            (Severity::Note, "leads packets of an address that peers are told of, until they move")
        }
        (Takes::All, None) if is_after_moved => (
            Severity::Warning,
            "takes all packets that have not moved: these leave where the rule says, through one ISP or a VPN",
        ),
        (Takes::AllBut, _) => (
            Severity::Warning,
            "takes all packets but some before ours are looked at: they may leave through the wrong ISP",
        ),
        (Takes::All, None) => (
            Severity::StopsProtection,
            "takes all packets of ours, so they leave through the wrong ISP",
        ),
        (Takes::All, Some(_)) => (
            Severity::StopsProtection,
            "takes all packets of an address that peers are told of, so they cannot move",
        ),
    };
    let what = format!("a routing rule of others {what}");
    let remedy = if is_after_moved {
        "Nothing has to be done if it is meant so. Packets that it does not take use both ISPs."
            .to_owned()
    } else {
        format!(
            "Give it a priority above {MOVED_PRIORITY} if connections with those packets are to move."
        )
    };
    let finding = Finding::new("foreign-rule", severity, what).shown_by(rule.text.clone());
    Some(finding.remedy(remedy))
}

/// Returns addresses whose packets can move: announced addresses, and addresses of connections that can move. If there are
/// none, returns all addresses of uplinks.
fn own_addresses(facts: &Facts) -> BTreeSet<Ipv6Addr> {
    let Some(answers) = facts.answers() else { return all_addresses(facts) };
    let locators = answers.status.uplinks.iter().flat_map(|uplink| &uplink.locators);
    let announced = locators.filter(|own| own.announced).map(|own| own.address);
    let is_protected = |context: &&Context| {
        let readiness = context.readiness.as_ref();
        let state = readiness.map(|readiness| &readiness.state);
        context.moved || state == Some(&ReadinessState::Protected)
    };
    let contexts = answers.contexts.iter().filter(is_protected).map(|context| context.ulid_local);
    let sessions = answers.ilcc.correspondents.iter();
    let sessions = sessions.flat_map(|session| [session.addresses.local, session.via.local]);
    let found: BTreeSet<_> = announced.chain(contexts).chain(sessions).collect();
    if found.is_empty() { all_addresses(facts) } else { found }
}

fn all_addresses(facts: &Facts) -> BTreeSet<Ipv6Addr> {
    let all = facts.uplinks.iter().flat_map(|uplink| &uplink.addresses);
    all.map(|own| own.address).collect()
}

/// Returns a finding about prefixes of uplinks without a rule of ours.
fn without_rule(facts: &Facts) -> Vec<Finding> {
    let ours = || facts.rules.iter().filter(|rule| rule.is_ours).filter_map(|rule| rule.from);
    let mut lacking = BTreeMap::new();
    for uplink in &facts.uplinks {
        let prefixes = uplink.addresses.iter().filter(|own| own.prefix_len < 128);
        let prefixes = prefixes.map(UplinkAddress::prefix);
        let lacks = prefixes.filter(|prefix| !ours().any(|from| from.covers(*prefix)));
        lacking.extend(lacks.map(|prefix| (prefix, uplink.name.as_str())));
    }
    let texts = lacking
        .into_iter()
        .map(|(prefix, name)| format!("no rule sends packets from {prefix} out of {name}"));
    if ours().count() < MAX_RULES {
        return texts.map(|what| missing(&what)).collect();
    }
    let what = format!("prefixes {NO_RULE}: moorlined keeps {MAX_RULES} of them");
    let finding = Finding::warning("too-many-prefixes", what).shown_by_each(texts).remedy(
        "Packets from there leave as without Moorline. Remove addresses that are no longer in use (`ip -6 addr`), or \
         set uplinks = [...] in moorlined.toml.",
    );
    Some(finding).filter(|finding| !finding.evidence.is_empty()).into_iter().collect()
}

fn missing(what: &str) -> Finding {
    Finding::stops("rule-missing", what).shown_by("ip -6 rule").remedy(
        "Either moorlined could not set it, and `moorline status` says why, or something has removed it: a network manager \
         with ManageForeignRoutingPolicyRules=yes, a script. Keep the latter from it, and restart moorlined.",
    )
}

/// Returns a finding about router advertisements: a kernel that forwards ignores routers, unless `accept_ra` says otherwise.
pub(super) fn advertisements(facts: &Facts) -> Vec<Finding> {
    let mut findings: Vec<_> =
        facts.deaf.iter().filter(|link| is_likely(facts, link)).map(no_uplink).collect();
    let is_dynamic = |uplink: &&Uplink| {
        let addresses = &uplink.addresses;
        addresses.iter().any(|own| !own.flags.contains(AddressFlags::PERMANENT))
    };
    let deaf = facts.uplinks.iter().filter(|uplink| facts.deaf_uplinks.contains(&uplink.ifindex));
    findings.extend(deaf.filter(is_dynamic).map(|uplink| {
        let name = &uplink.name;
        let what = format!(
            "{name} forwards, so the kernel ignores the routers there: the addresses that they gave will end"
        );
        Finding::warning("router-advertisements", what)
        .shown_by(format!("net.ipv6.conf.{name}.forwarding = 1, accept_ra = 1"))
        .remedy(format!("sysctl -w net.ipv6.conf.{name}.accept_ra=2"))
    }));
    findings
}

/// Whether an interface is probably an uplink: it has followed a router, or the daemon says that it was an uplink or has a
/// router.
fn is_likely(facts: &Facts, link: &Uplink) -> bool {
    let told = format!("{} is {DEAF}", link.name);
    let warnings = facts.answers().map_or(&[][..], |answers| &answers.status.warnings);
    link.has_dynamic() || warnings.iter().any(|warning| warning.starts_with(&told))
}

fn no_uplink(link: &Uplink) -> Finding {
    let what = format!("{} is {DEAF}, so the kernel ignores the routers there", link.name);
    Finding::warning("router-advertisements", what).shown_by(link.evidence()).remedy(format!(
        "If it leads to the Internet: {}, and the same in /etc/sysctl.d.",
        link.remedy()
    ))
}

const MAX_RULES: usize = MAX_PREFIXES as usize;
/// Minimum MTU of an IPv6 link, in octets (RFC 8200 s5).
const LEAST_MTU: u32 = 1280;
/// Octets of the payload header (RFC 5533 s5.1).
const HEADER: u32 = Encapsulation::PayloadHeader.overhead() as u32;
/// Words of the daemon's warnings about addresses that are missing.
const WITHOUT_PROOF: [&str; 3] = [NO_PREFIX, GIVEN_UP, REMOVED];
/// Advice if the daemon says nothing about the uplink.
const UNPROVABLE: &str = "Set addresses = \"hba-compatible\" in moorlined.toml. If it is set already: addresses are made in prefixes of \
                          64 bits that a router announces, or that an address of the host has (2001:db8::1/64, and not /128), each on one \
                          uplink. On tunnels and other links without neighbors an address gives a prefix only if [interfaces.NAME] sets \
                          `addresses`, as the other end may drop what it has not assigned. `moorline addr list` shows what became of it.";
/// Advice about an uplink that carries nothing.
const FAILING: &str = "The fault is at the router or the ISP of the uplink, or beyond. `moorline events` says since when.";
