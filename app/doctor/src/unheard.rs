use serde_json::Value;

use crate::facts::{Facts, Firewall};
use crate::firewall::{self, Answer};
use crate::probe::{Kind, PairReport, Verdict, Way};

/// Separates losses on the path from drops by firewalls of the two hosts: if a firewall explains a missing answer, the
/// verdict becomes unknown. `reports` has the order of `ways`.
pub fn explain_silence(facts: &Facts, ways: &[Way], reports: &mut [PairReport]) {
    for (way, report) in ways.iter().zip(reports) {
        let uplink = facts.uplinks.iter().find(|uplink| uplink.ifindex == way.ifindex);
        if let (Firewall::Ruleset(ruleset), Some(uplink)) = (&facts.firewall, uplink) {
            by_own_firewall(ruleset, &uplink.name, report);
        }
        by_firewall_of_peer(report);
    }
}

/// Handles rules of this host that drop the answers. Connection tracking classifies the types of ILNP as invalid, and so the
/// errors about these types, too.
fn by_own_firewall(ruleset: &Value, interface: &str, report: &mut PairReport) {
    let drops = |answer| firewall::dropped(ruleset, interface, answer);
    let certainly = |answer| drops(answer).filter(|(_, is_certain)| *is_certain);
    let (echo, shim6) = (certainly(Answer::Echo), certainly(Answer::Shim6));
    let refusal = drops(Answer::Refusal);
    for (kind, verdict) in &mut report.verdicts {
        let dropped = if *kind == Kind::Shim6 {
            &shim6
        } else if Kind::OF_ILNP.contains(kind) {
            // If rules drop these errors, a missing answer does not show a loss.
            &refusal
        } else {
            &echo
        };
        if let (Verdict::Lost, Some((place, is_certain))) = (&*verdict, dropped) {
            let drops = if *is_certain { "drops" } else { "may drop" };
            let why = format!("the firewall of this host {drops} the answers ({place})");
            *verdict = Verdict::Unknown { why };
        }
    }
}

/// Handles a firewall of the peer. Sign: the peer answers a Propose and passes options, and does not answer a packet of the
/// same type with an option to refuse. The programs of the peer take the Propose before the firewall sees it; the other
/// packet passes the firewall.
fn by_firewall_of_peer(report: &mut PairReport) {
    let is_lost = report.verdicts.get(&Kind::Initiator) == Some(&Verdict::Lost);
    if !report.is_answered(Kind::Ilnp) || !is_lost || !report.passes(Kind::Options8) {
        return;
    }
    for (kind, verdict) in &mut report.verdicts {
        if kind.is_to_be_refused() && *verdict == Verdict::Lost {
            let why = "the peer answers a proposal, so a firewall of the peer drops the test packets, or their answers".to_owned();
            *verdict = Verdict::Unknown { why };
        }
    }
}

#[cfg(test)]
mod tests {
    use moorline_api::Pair;
    use serde_json::json;

    use super::*;

    /// Makes a report in which all kinds have passed except these.
    fn report(lost: &[Kind]) -> PairReport {
        let all = Kind::ALL.into_iter().chain(Kind::OF_ILNP);
        let verdict = |kind| match lost.contains(&kind) {
            true => Verdict::Lost,
            false => Verdict::Passes { rtt_us: 1 },
        };
        PairReport {
            pair: Pair::new("2001:db8:1::5".parse().unwrap(), "2001:db8:2::9".parse().unwrap()),
            verdicts: all.map(|kind| (kind, verdict(kind))).collect(),
            path_mtu: None,
            is_black_hole: false,
        }
    }

    fn unknown(report: &PairReport) -> Vec<Kind> {
        let all = report.verdicts.iter();
        let all = all.filter(|(_, verdict)| matches!(verdict, Verdict::Unknown { .. }));
        all.map(|(kind, _)| *kind).collect()
    }

    const REFUSED: [Kind; 3] = [Kind::LocatorUpdate, Kind::Initiator, Kind::Responder];

    /// Makes a chain of the hook input with this rule, and then a rule that drops invalid packets.
    fn input(first: &Value) -> Value {
        let place = json!({"family": "inet", "table": "fw", "chain": "input", "handle": 7});
        let rule = |expr: &Value| {
            let mut rule = place.clone();
            rule["expr"] = expr.clone();
            json!({ "rule": rule })
        };
        let invalid = json!([
            {"match": {"op": "in", "left": {"ct": {"key": "state"}}, "right": "invalid"}},
            {"drop": null},
        ]);
        let chain = json!({"family": "inet", "table": "fw", "name": "input", "hook": "input", "policy": "accept"});
        json!({"nftables": [{"chain": chain}, rule(first), rule(&invalid)]})
    }

    #[test]
    fn answers_that_this_host_drops_tell_nothing_of_the_way() {
        let accepts = |kind: &str| {
            let left = json!({"payload": {"protocol": "icmpv6", "field": "type"}});
            input(&json!([{"match": {"op": "==", "left": left, "right": kind}}, {"accept": null}]))
        };
        let mut all = report(&REFUSED);
        by_own_firewall(&accepts("echo-request"), "eth0", &mut all);
        assert_eq!(unknown(&all), REFUSED);
        let Some(Verdict::Unknown { why }) = all.verdicts.get(&Kind::Initiator) else { panic!() };
        assert!(why.contains("drops the answers (inet fw input handle 7)"), "{why}");
        let mut all = report(&REFUSED);
        by_own_firewall(&accepts("parameter-problem"), "eth0", &mut all);
        assert_eq!(unknown(&all), [], "they come in");
        let mut plain = report(&[Kind::Plain, Kind::Shim6]);
        by_own_firewall(&accepts("echo-request"), "eth0", &mut plain);
        assert_eq!(unknown(&plain), [], "connection tracking knows these");
        let mut plain = report(&[Kind::Plain, Kind::Shim6]);
        by_own_firewall(&input(&json!([{"drop": null}])), "eth0", &mut plain);
        assert_eq!(unknown(&plain), [Kind::Plain, Kind::Shim6]);
    }

    #[test]
    fn test_packets_that_a_firewall_of_the_peer_alone_sees_tell_nothing_of_the_way() {
        let explained = |lost: &[Kind]| {
            let mut report = report(lost);
            by_firewall_of_peer(&mut report);
            unknown(&report)
        };
        assert_eq!(explained(&REFUSED), REFUSED);
        assert_eq!(explained(&[Kind::LocatorUpdate]), [], "a firewall on the way drops type 156");
        assert_eq!(explained(&[Kind::Ilnp, Kind::LocatorUpdate, Kind::Initiator]), []);
        assert_eq!(explained(&[Kind::Options8, Kind::LocatorUpdate, Kind::Initiator]), []);
    }
}
