//! Findings about rules of nftables that drop packets of Moorline.
//!
//! For ILNP only messages that the daemon sends matter. The eBPF programs take incoming messages before any rule sees
//! them. The programs also insert and remove nonces where no rule sees the packet.
//!
//! The ruleset is the output of `nft -j list ruleset` (libnftables-json(5)). A model packet walks the chains of each hook.
//! A match of a rule fits the packet, does not fit it, or is unknown.

mod matches;
mod walk;

#[cfg(test)]
mod tests;

use moorline_wire::PROTOCOL as SHIM6;
use moorline_wire::ilnp::consts::LOCATOR_UPDATE;
use moorline_wire::ip6::ICMPV6;
use serde_json::Value;

use crate::finding::{Finding, Severity};
use crate::icmpv6::{DESTINATION_UNREACHABLE, ECHO_REPLY, PACKET_TOO_BIG, PARAMETER_PROBLEM};
use walk::{Ruleset, Verdict};

/// Model packet: the properties that rules match on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet<'a> {
    /// Name of the hook.
    pub(crate) hook: &'static str,
    /// Interface by which the packet enters or leaves.
    pub(crate) interface: &'a str,
    /// Transport protocol.
    pub(crate) protocol: u8,
    /// ICMPv6 type; none for other protocols.
    pub(crate) icmp_type: Option<u8>,
    /// Whether the message is behind destination options.
    pub(crate) has_options: bool,
    /// State in connection tracking.
    pub(crate) ct_state: &'static str,
}

impl<'a> Packet<'a> {
    fn shim6(hook: &'static str, interface: &'a str, ct_state: &'static str) -> Self {
        Self { hook, interface, protocol: SHIM6, icmp_type: None, has_options: false, ct_state }
    }

    fn icmpv6(hook: &'static str, interface: &'a str, kind: u8, ct_state: &'static str) -> Self {
        Self { protocol: ICMPV6, icmp_type: Some(kind), ..Self::shim6(hook, interface, ct_state) }
    }
}

/// Returns findings about a ruleset, for packets on these interfaces. `ilnp`: ICMPv6 types of ILNP's handshake, if ILNP is on.
pub(crate) fn examine(ruleset: &Value, interfaces: &[&str], ilnp: Option<[u8; 2]>) -> Vec<Finding> {
    let ruleset = Ruleset::read(ruleset);
    let mut drops: Vec<Drops<'_>> = Vec::new();
    let all = interfaces.iter().flat_map(|interface| packets(interface));
    let of_ilnp = interfaces.iter().flat_map(|interface| of_ilnp(interface, ilnp));
    // Notice to TCP (RFC 6069): Destination Unreachable about a TCP segment, from this host to itself.
    let notice = Packet::icmpv6("input", "lo", DESTINATION_UNREACHABLE, "related");
    for packet in all.chain([notice]).chain(of_ilnp) {
        for verdict in ruleset.walk(&packet) {
            match drops.iter_mut().find(|one| one.is_same_rule(&packet, &verdict)) {
                Some(found) => found.add(&packet, &verdict),
                None => drops.push(Drops { packet, verdict, on: vec![packet.interface] }),
            }
        }
    }
    let on = |one: &Drops<'_>| one.on.join(", ");
    drops
        .iter()
        .map(|one| finding(&Packet { interface: &on(one), ..one.packet }, &one.verdict))
        .collect()
}

/// Packets that one rule drops.
struct Drops<'a> {
    /// Packet whose drop is the most severe.
    packet: Packet<'a>,
    verdict: Verdict,
    /// Interfaces on which the rule drops the packet.
    on: Vec<&'a str>,
}

impl<'a> Drops<'a> {
    fn is_same_rule(&self, packet: &Packet<'_>, verdict: &Verdict) -> bool {
        let of = |packet: &Packet<'_>| (packet.protocol, packet.icmp_type);
        of(&self.packet) == of(packet) && self.verdict.place == verdict.place
    }

    /// Adds an interface, if the rule drops the same packet there.
    fn add(&mut self, packet: &Packet<'a>, verdict: &Verdict) {
        let is_as_bad = self.packet.ct_state == packet.ct_state
            && self.packet.hook == packet.hook
            && self.verdict.is_certain == verdict.is_certain;
        if is_as_bad && !self.on.contains(&packet.interface) {
            self.on.push(packet.interface);
        }
    }
}

/// Chain that drops our messages on their way in or out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Closed {
    pub(crate) family: String,
    pub(crate) table: String,
    pub(crate) chain: String,
    /// Whether the chain drops messages of ILNP; else it drops messages of Shim6.
    pub(crate) is_ilnp: bool,
}

/// Returns the base chains of input and output that drop messages of Shim6 (new or established) or of ILNP.
pub(crate) fn closed(ruleset: &Value, interfaces: &[&str], ilnp: Option<[u8; 2]>) -> Vec<Closed> {
    let ruleset = Ruleset::read(ruleset);
    let all = interfaces.iter().flat_map(|interface| packets(interface));
    let of_ilnp = interfaces.iter().flat_map(|interface| of_ilnp(interface, ilnp));
    let ours = all.filter(|packet| packet.protocol == SHIM6).chain(of_ilnp);
    let own = ours.filter(|packet| matches!(packet.hook, "input" | "output"));
    let mut found = Vec::new();
    for packet in own {
        for verdict in ruleset.walk(&packet).into_iter().filter(|one| !one.is_reverse_path) {
            let (family, table, chain) = verdict.base;
            found.push(Closed { family, table, chain, is_ilnp: packet.protocol != SHIM6 });
        }
    }
    found
}

/// Answer to a test packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Echo reply.
    Echo,
    /// R1 of Shim6.
    Shim6,
    /// Parameter Problem about a message that connection tracking does not know.
    Refusal,
}

/// Returns the rule of this host that drops such an answer, and whether the drop is certain.
pub(crate) fn dropped(ruleset: &Value, interface: &str, answer: Answer) -> Option<(String, bool)> {
    let ruleset = Ruleset::read(ruleset);
    let at = |hook| match answer {
        Answer::Echo => Packet::icmpv6(hook, interface, ECHO_REPLY, "established"),
        Answer::Shim6 => Packet::shim6(hook, interface, "established"),
        Answer::Refusal => Packet::icmpv6(hook, interface, PARAMETER_PROBLEM, "invalid"),
    };
    let found = INBOUND.into_iter().flat_map(|hook| ruleset.walk(&at(hook)));
    // The answer arrives on the interface by which the test packet left, so rules about the reverse path do not drop it.
    let found = found.filter(|verdict| !verdict.is_reverse_path);
    found.max_by_key(|one| one.is_certain).map(|one| (one.place, one.is_certain))
}

/// Returns the packets that must pass. Established packets come first, because their drop is worse. A rule that drops
/// established packets usually drops new packets, too.
fn packets(interface: &str) -> Vec<Packet<'_>> {
    let hooks = || INBOUND.into_iter().chain(OUTBOUND);
    let shim6 = |ct_state| hooks().map(move |hook| Packet::shim6(hook, interface, ct_state));
    let too_big = INBOUND.map(|hook| Packet::icmpv6(hook, interface, PACKET_TOO_BIG, "related"));
    shim6("established").chain(shim6("new")).chain(too_big).collect()
}

/// Returns the messages that the daemon sends for ILNP. Connection tracking does not know these types.
fn of_ilnp(interface: &str, types: Option<[u8; 2]>) -> impl Iterator<Item = Packet<'_>> {
    let messages = types.into_iter().flat_map(|[initiator, responder]| {
        [(initiator, false), (responder, false), (LOCATOR_UPDATE, true)]
    });
    let at = move |hook, (kind, has_options)| Packet {
        has_options,
        ..Packet::icmpv6(hook, interface, kind, "invalid")
    };
    messages.flat_map(move |message| OUTBOUND.map(|hook| at(hook, message)))
}

fn finding(packet: &Packet<'_>, verdict: &Verdict) -> Finding {
    let on = packet.interface;
    let finding = match packet.icmp_type {
        _ if verdict.is_reverse_path => reverse_path(on),
        Some(DESTINATION_UNREACHABLE) => notice(verdict),
        Some(PACKET_TOO_BIG) => too_big(on, verdict),
        Some(kind) => ilnp(kind, packet, verdict),
        None => shim6(packet, verdict),
    };
    finding.shown_by(format!("{}: {}", verdict.place, verdict.text))
}

fn reverse_path(on: &str) -> Finding {
    let what = format!(
        "the firewall drops what comes in by another interface than the one that it would answer by ({on})"
    );
    Finding::warning("firewall-reverse-path", what).remedy(
        "With two ISPs that drops good packets, moved ones first. Remove the rule (firewalld: \
         IPv6_rpfilter=no or loose), or take `iif` out of it.",
    )
}

fn notice(verdict: &Verdict) -> Finding {
    let drops = drops(verdict.is_certain);
    let what = format!("the firewall {drops} what tells TCP to go on after a move");
    Finding::warning("firewall-notice", what).remedy(
        "moorlined sends it from an address of this host to itself (docs/configuration.md, Notices to TCP). \
         Accept it before that: iifname \"lo\" accept",
    )
}

fn too_big(on: &str, verdict: &Verdict) -> Finding {
    let what = format!("the firewall {} Packet Too Big on {on}", drops(verdict.is_certain));
    Finding::warning("firewall-packet-too-big", what).remedy(
        "Without it, large packets vanish where a path is narrower (RFC 4890 s4.3.1). Accept it before that: \
         icmpv6 type packet-too-big accept",
    )
}

fn shim6(packet: &Packet<'_>, verdict: &Verdict) -> Finding {
    let begins = packet.ct_state == "new";
    let what_of_it = if begins { " that begins something new" } else { "" };
    let direction = match packet.hook {
        "output" | "postrouting" | "egress" => "out of",
        _ => "into",
    };
    let (drops, on) = (drops(verdict.is_certain), packet.interface);
    let what = format!("the firewall {drops} protocol 140{what_of_it} {direction} {on}");
    Finding::new("firewall-shim6", severity(verdict), what).remedy(
        "Peers begin contexts and probe other pairs by protocol 140, which connection tracking forgets after 10 idle \
         minutes. Accept it before that: meta l4proto 140 accept (`moorline doctor --fix` shows the command, asks, \
         and runs it)",
    )
}

fn ilnp(kind: u8, packet: &Packet<'_>, verdict: &Verdict) -> Finding {
    let which = match kind {
        LOCATOR_UPDATE => {
            "tells correspondents of ILNP where this host is (with the nonce in front of it)"
        }
        _ => "ILNP sessions begin with",
    };
    let (drops, on) = (drops(verdict.is_certain), packet.interface);
    let what = format!("the firewall {drops} ICMPv6 of type {kind} out of {on}, which {which}");
    let options = if packet.has_options { ", destination options and all" } else { "" };
    Finding::new("firewall-ilnp", severity(verdict), what).remedy(format!(
        "Accept it before that{options}: icmpv6 type {kind} accept. Connection tracking takes it for invalid."
    ))
}

fn severity(verdict: &Verdict) -> Severity {
    if verdict.is_certain { Severity::StopsProtection } else { Severity::Warning }
}

fn drops(is_certain: bool) -> &'static str {
    if is_certain { "drops" } else { "may drop" }
}

const INBOUND: [&str; 3] = ["ingress", "prerouting", "input"];
const OUTBOUND: [&str; 3] = ["output", "postrouting", "egress"];
