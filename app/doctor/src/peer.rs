use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;

use moorline_api::Pair;

use crate::finding::{Finding, Severity};
use crate::probe::{Kind, PairReport, PeerReport, Verdict};

/// Makes findings from the verdicts.
#[must_use]
pub fn examine_peer(report: &PeerReport) -> Vec<Finding> {
    let pairs = &report.pairs;
    if let Some(finding) = without_any_path(pairs) {
        return vec![finding];
    }
    // A translator passes packets that look like answers while it remembers the flow, and drops others. So verdicts of pairs
    // behind a translator do not show the state of the path.
    let behind_nat = translated_locals(pairs);
    let mut findings = Vec::new();
    findings.extend(unknown(pairs));
    findings.extend(shim6(pairs, &behind_nat));
    findings.extend(ilnp(pairs));
    let is_usable = |pair: &&PairReport| {
        (pair.is_answered(Kind::Shim6) || pair.is_answered(Kind::Ilnp))
            && !behind_nat.contains(&pair.pair.local)
    };
    let usable: Vec<_> = pairs.iter().filter(is_usable).map(|pair| pair.pair).collect();
    findings.extend(translated(pairs, &behind_nat, usable.is_empty()));
    findings.extend(without_second_path(pairs, &usable));
    let kinds = [
        (Kind::Options8, "peer-options", "destination options of 8 octets", OPTIONS),
        (Kind::Options16, "peer-options", "destination options of 16 octets", OPTIONS),
        (Kind::Fragments, "peer-fragments", "fragments", "Large datagrams will not arrive there."),
    ];
    for (kind, code, what, remedy) in kinds {
        findings.extend(lost(pairs, kind, code, what, Severity::Note, remedy));
    }
    findings.extend(pairs.iter().filter(|pair| pair.is_black_hole).map(black_hole));
    findings
}

/// Extends findings about half-open contexts: if protocol 140 passes on all pairs, no firewall is the cause.
pub fn explain_half_open(report: &PeerReport, findings: &mut [Finding]) {
    let passes = |pair: &PairReport| pair.is_answered(Kind::Shim6);
    if report.pairs.is_empty() || !report.pairs.iter().all(passes) {
        return;
    }
    let tried: BTreeSet<_> = report.pairs.iter().map(|pair| pair.pair.to_string()).collect();
    for finding in findings {
        let is_so = matches!(finding.code.as_str(), "failover-half-open" | "failover-unrenewed");
        if is_so && finding.evidence.iter().all(|pair| tried.contains(pair)) {
            finding.remedy = "Protocol 140 passes on all pairs, so no firewall is the reason: the peer does not answer I2. Its context \
                              table may be full, or its daemon busy: `moorline status` there."
                .to_owned();
        }
    }
}

/// Returns a finding if there is no pair, or no pair answers; then no other finding is possible.
fn without_any_path(pairs: &[PairReport]) -> Option<Finding> {
    if pairs.is_empty() {
        let finding = Finding::stops("peer-no-pair", "there is no pair of addresses to try");
        return Some(
            finding.remedy("This host needs an uplink with IPv6, and the peer an IPv6 address."),
        );
    }
    if pairs.iter().any(|pair| pair.passes(Kind::Plain) || pair.passes(Kind::Shim6)) {
        return None;
    }
    unknown(pairs).or_else(|| {
        Some(Finding::stops("peer-unreachable", "the peer answers on no pair").remedy(
            "Is it up, and is this its address? It may answer neither echo requests nor Shim6, or its firewall drops what opens no \
             connection: `moorline doctor` there says so.",
        ))
    })
}

/// Returns a finding about test packets with unknown results.
fn unknown(pairs: &[PairReport]) -> Option<Finding> {
    let mut by_reason: BTreeMap<&str, BTreeSet<Kind>> = BTreeMap::new();
    for (kind, verdict) in pairs.iter().flat_map(|pair| &pair.verdicts) {
        if let Verdict::Unknown { why } = verdict {
            by_reason.entry(why).or_default().insert(*kind);
        }
    }
    let needs = [Kind::Plain, Kind::Shim6];
    let is_needed = by_reason.values().flatten().any(|kind| needs.contains(kind));
    let severity = if is_needed { Severity::NotSeen } else { Severity::Note };
    let finding =
        Finding::new("peer-untested", severity, "some test packets say nothing of the way");
    let finding = finding.shown_by_each(by_reason.iter().map(|(why, kinds)| {
        let columns: Vec<_> = kinds.iter().map(|kind| kind.column()).collect();
        format!("{}: {why}", columns.join(", "))
    }));
    let remedy = if is_needed {
        "Accept the answers in the firewall of this host: `moorline doctor` names the rule that drops protocol 140."
    } else {
        "Messages of ILNP are not concerned: the programs take them before the firewall."
    };
    (!by_reason.is_empty()).then(|| finding.remedy(remedy))
}

fn black_hole(pair: &PairReport) -> Finding {
    let what = "large packets vanish, and no router says so";
    let path_mtu = pair.path_mtu.unwrap_or(1280);
    Finding::warning("peer-black-hole", what)
        .shown_by(format!("{}: up to {path_mtu} octets arrive", pair.pair))
        .remedy(
            "Somebody drops Packet Too Big. Set the MTU of the uplink to what arrives, or \
             net.ipv4.tcp_mtu_probing=1 for TCP.",
        )
}

fn shim6(pairs: &[PairReport], behind_nat: &BTreeSet<Ipv6Addr>) -> Option<Finding> {
    let is_answered = pairs.iter().any(|pair| pair.is_answered(Kind::Shim6));
    if !is_answered && has(pairs, Kind::Shim6, &Verdict::NoShim6) {
        return Some(
            Finding::stops("peer-without", "the peer has no Moorline")
                .shown_by("it answers protocol 140 with \"unrecognized next header\"")
                .remedy("Both ends run it: install it there, or start it."),
        );
    }
    let severity = if is_answered { Severity::Warning } else { Severity::StopsProtection };
    let remedy = "A firewall of an ISP, of the peer or of this host drops it: the row without a mark says on which \
                  way. Ask for protocol 140 (Shim6, RFC 5533) to pass. NAT66 may drop it too (masquerade for IPv6), while it remembers \
                  packets of the peer.";
    let direct: Vec<_> =
        pairs.iter().filter(|pair| !behind_nat.contains(&pair.pair.local)).cloned().collect();
    lost(&direct, Kind::Shim6, "peer-shim6-lost", "protocol 140", severity, remedy)
}

/// Whether this kind has this verdict on some pair.
fn has(pairs: &[PairReport], kind: Kind, verdict: &Verdict) -> bool {
    pairs.iter().any(|pair| pair.verdicts.get(&kind) == Some(verdict))
}

/// Returns our addresses that a translator replaces on at least one pair.
fn translated_locals(pairs: &[PairReport]) -> BTreeSet<Ipv6Addr> {
    let is_translated = |pair: &&PairReport| {
        matches!(pair.verdicts.get(&Kind::Shim6), Some(Verdict::Translated { .. }))
    };
    pairs.iter().filter(is_translated).map(|pair| pair.pair.local).collect()
}

/// Returns a finding about pairs whose packets get another source address on the path. The peer drops probes from an unknown
/// address, so no connection moves to such a pair. If no pair of another local address answers, the finding is more severe.
fn translated(
    pairs: &[PairReport],
    behind_nat: &BTreeSet<Ipv6Addr>,
    is_all: bool,
) -> Option<Finding> {
    let of_translator = pairs.iter().filter(|pair| behind_nat.contains(&pair.pair.local));
    let translated: Vec<_> = of_translator
        .filter_map(|pair| match pair.verdicts.get(&Kind::Shim6) {
            Some(Verdict::Translated { seen }) => {
                Some(format!("{}: the peer saw {seen}", pair.pair))
            }
            Some(Verdict::Lost) => Some(format!(
                "{}: lost, as the translator cannot tell it from what the peer sends",
                pair.pair
            )),
            _ => None,
        })
        .collect();
    if translated.is_empty() {
        return None;
    }
    let what = format!(
        "NAT66 on the way of {} of {} pairs: the peer sees another source address than ours",
        translated.len(),
        pairs.len()
    );
    let severity = if is_all { Severity::StopsProtection } else { Severity::Warning };
    let finding = Finding::new("peer-nat66", severity, what).remedy(
        "Connections cannot move there. Have the router forward that prefix without translation (no masquerade for IPv6).",
    );
    Some(finding.shown_by_each(translated))
}

/// Function that returns one end of a pair.
type End = fn(&Pair) -> Ipv6Addr;

/// Returns a finding if the answering pairs have only one address at an end that has several. Failover needs answers by
/// more than one address at each such end.
fn without_second_path(pairs: &[PairReport], usable: &[Pair]) -> Option<Finding> {
    let remedy = "Connections with it have nothing to move to: see to the other rows.";
    match usable {
        // If no pair answers, other findings report it.
        [] => return None,
        [_] => {
            let what = "only one pair of addresses works with this peer";
            return Some(Finding::stops("peer-one-pair", what).remedy(remedy));
        }
        _ => {}
    }
    let ends = |all: &[Pair], end: End| all.iter().map(end).collect();
    let prefixes = |all: &BTreeSet<Ipv6Addr>| {
        let prefixes = all.iter().map(|one| one.segments().first_chunk::<4>().copied());
        prefixes.collect::<BTreeSet<_>>().len()
    };
    let tried: Vec<_> = pairs.iter().map(|pair| pair.pair).collect();
    let sides: [(End, _); 2] =
        [(|pair| pair.local, "of ours"), (|pair| pair.peer, "of the peer's")];
    let stuck = sides.into_iter().find_map(|(end, whose)| {
        let (all, works) = (ends(&tried, end), ends(usable, end));
        (prefixes(&all) > 1 && prefixes(&works) == 1).then_some((works, whose))
    });
    let (works, whose) = stuck?;
    let what = format!("only one address {whose} works with this peer: its loss ends connections");
    Some(Finding::stops("peer-one-end", what).remedy(remedy).shown_by_each(works))
}

/// Returns findings about ILNP. The nonce option takes 8 or 16 octets of header; the tests of options show whether the path
/// drops such packets.
fn ilnp(pairs: &[PairReport]) -> Vec<Finding> {
    let is_answered = pairs.iter().any(|pair| pair.is_answered(Kind::Ilnp));
    if !is_answered && has(pairs, Kind::Ilnp, &Verdict::NoIlnp) {
        let finding = Finding::note("peer-without-ilnp", "the peer does no ILNP")
            .shown_by("it does not answer a proposal, though other ICMPv6 of that type arrives")
            .remedy(
                "Set ilnp = \"on\" there, with the same ilnp-icmp-types, or leave it to Shim6.",
            );
        return vec![finding];
    }
    let severity = if is_answered { Severity::Warning } else { Severity::Note };
    let kinds = [
        (Kind::LocatorUpdate, "ICMPv6 of type 156 (Locator Update)"),
        (Kind::Initiator, "ICMPv6 of the type that proposes sessions"),
        (Kind::Responder, "ICMPv6 of the type that answers proposals"),
        (Kind::Ilnp, "a proposal of ILNP, or the answer to it,"),
    ];
    let remedy = "A firewall on the way drops it: ask for ICMPv6 types 156, 200 and 201 (ilnp-icmp-types) to pass, in both \
                  directions. Sessions that moved there could not tell where they are.";
    let found = kinds
        .into_iter()
        .filter_map(|(kind, what)| lost(pairs, kind, "peer-ilnp-lost", what, severity, remedy));
    found.collect()
}

/// Returns the pairs on which plain packets arrive and packets of this kind do not.
fn lost(
    pairs: &[PairReport],
    kind: Kind,
    code: &str,
    what: &str,
    severity: Severity,
    remedy: &str,
) -> Option<Finding> {
    let stuck: Vec<_> = pairs
        .iter()
        .filter(|pair| pair.passes(Kind::Plain) && !pair.arrives(kind))
        .filter_map(|pair| Some((pair.pair, pair.verdicts.get(&kind)?)))
        .filter(|(_, verdict)| !matches!(verdict, Verdict::Unknown { .. }))
        .map(|(pair, verdict)| format!("{pair}: {}", words(verdict)))
        .collect();
    let (count, all) = (stuck.len(), pairs.len());
    let what = format!("{what} does not arrive on {count} of {all} pairs, where plain packets do");
    (count > 0).then(|| Finding::new(code, severity, what).remedy(remedy).shown_by_each(stuck))
}

fn words(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Passes { .. } => "passes".to_owned(),
        Verdict::NoShim6 => "arrives, and the peer knows no Shim6".to_owned(),
        Verdict::NoIlnp => "arrives, and the peer knows no ILNP".to_owned(),
        Verdict::Translated { seen } => format!("arrives from {seen}"),
        Verdict::Lost => "lost without a word".to_owned(),
        Verdict::Unknown { why } => format!("unknown: {why}"),
        Verdict::Error { from, what, .. } => format!("{what}, says {from}"),
        Verdict::NotSent { why } => format!("not sent: {why}"),
    }
}

const OPTIONS: &str = "Shim6 does without them; ILNP does not.";

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(local: &str, peer: &str, verdict: Verdict) -> PairReport {
        let address = |text: &str| text.parse().unwrap();
        let passes = Verdict::Passes { rtt_us: 1 };
        PairReport {
            pair: Pair::new(address(local), address(peer)),
            verdicts: [(Kind::Plain, passes), (Kind::Shim6, verdict)].into(),
            path_mtu: None,
            is_black_hole: false,
        }
    }

    fn codes(pairs: Vec<PairReport>) -> Vec<(String, Severity)> {
        let findings = examine_peer(&PeerReport { pairs, ..PeerReport::default() });
        findings.into_iter().map(|finding| (finding.code, finding.severity)).collect()
    }

    const OURS: [&str; 2] = ["2001:db8:1::1", "2001:db8:2::1"];
    const THEIRS: [&str; 2] = ["2001:db8:3::1", "2001:db8:4::1"];

    /// A translator that remembers a packet of the peer passes the answer unchanged.
    #[test]
    fn what_nothing_tells_of_is_no_fault_of_the_way() {
        let unknown = || Verdict::Unknown { why: "this host drops the answers".to_owned() };
        let mut of_ilnp = THEIRS.map(|theirs| pair(OURS[0], theirs, Verdict::NoShim6));
        for one in &mut of_ilnp {
            one.verdicts.remove(&Kind::Shim6);
            one.verdicts.insert(Kind::Ilnp, Verdict::Passes { rtt_us: 1 });
            let refused = Kind::OF_ILNP.into_iter().filter(|kind| kind.is_to_be_refused());
            one.verdicts.extend(refused.map(|kind| (kind, unknown())));
        }
        let untested = |severity| ("peer-untested".to_owned(), severity);
        assert_eq!(codes(of_ilnp.into()), [untested(Severity::Note)]);
        let shim6 = pair(OURS[0], THEIRS[0], unknown());
        assert_eq!(codes(vec![shim6.clone()]), [untested(Severity::NotSeen)]);
        let mut all = shim6;
        all.verdicts.insert(Kind::Plain, unknown());
        assert_eq!(codes(vec![all]), [untested(Severity::NotSeen)], "not: it answers on no pair");
    }

    #[test]
    fn a_half_open_context_is_the_peers_fault_if_protocol_140_passes_everywhere() {
        let remedy = |verdict: Verdict| {
            let passes = Verdict::Passes { rtt_us: 1 };
            let pairs = vec![pair(OURS[0], THEIRS[0], passes), pair(OURS[1], THEIRS[0], verdict)];
            let mut found =
                [Finding::new("failover-half-open", Severity::StopsProtection, "it is")
                    .shown_by(pairs[0].pair.to_string())
                    .remedy("A firewall.")];
            explain_half_open(&PeerReport { pairs, ..PeerReport::default() }, &mut found);
            found[0].remedy.clone()
        };
        assert!(remedy(Verdict::Passes { rtt_us: 1 }).contains("table may be full"));
        assert_eq!(remedy(Verdict::Lost), "A firewall.");
    }

    #[test]
    fn an_address_that_is_translated_on_one_pair_carries_no_connection_on_another() {
        let passes = || Verdict::Passes { rtt_us: 1 };
        let nat = || Verdict::Translated { seen: "2001:db8:2::99".parse().unwrap() };
        let first = || THEIRS.map(|theirs| pair(OURS[0], theirs, passes()));
        let second = [pair(OURS[1], THEIRS[0], passes()), pair(OURS[1], THEIRS[1], nat())];
        let all: Vec<_> = first().into_iter().chain(second.clone()).collect();
        let nat66 = |severity| ("peer-nat66".to_owned(), severity);
        let one_end = ("peer-one-end".to_owned(), Severity::StopsProtection);
        assert_eq!(codes(all), [nat66(Severity::Warning), one_end]);
        assert_eq!(codes(second.into()), [nat66(Severity::StopsProtection)]);
        assert_eq!(codes(first().into()), []);
    }

    /// A translator that remembers a packet of the peer to its own address drops our packets.
    #[test]
    fn what_a_translator_drops_is_no_fault_of_a_firewall() {
        let seen = "2001:db8:2::99".parse().unwrap();
        let pairs = vec![
            pair(OURS[0], THEIRS[0], Verdict::Lost),
            pair(OURS[0], THEIRS[1], Verdict::Translated { seen }),
        ];
        let found = examine_peer(&PeerReport { pairs, ..PeerReport::default() });
        let [nat66] = &found[..] else { panic!("{found:?}") };
        assert_eq!(
            (nat66.code.as_str(), nat66.severity),
            ("peer-nat66", Severity::StopsProtection)
        );
        assert_eq!(nat66.evidence.len(), 2, "{nat66:?}");
        let lost = THEIRS.map(|theirs| pair(OURS[0], theirs, Verdict::Lost));
        let stops = ("peer-shim6-lost".to_owned(), Severity::StopsProtection);
        assert_eq!(codes(lost.into())[0], stops);
    }
}
