//! Findings from facts.

mod failover;
mod host;
mod ilnp;
mod network;

#[cfg(test)]
mod tests;

use crate::facts::{Facts, Firewall};
use crate::finding::{Finding, Severity};
use crate::firewall;

/// Returns all findings about this host.
#[must_use]
pub fn examine(facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(host::kernel(&facts.kernel));
    findings.extend(host::daemon(facts));
    findings.extend(host::peers(facts));
    findings.extend(failover::contexts(facts));
    findings.extend(network::uplinks(facts));
    findings.extend(network::addresses(facts));
    findings.extend(network::rules(facts));
    findings.extend(network::advertisements(facts));
    findings.extend(ilnp::sessions(facts));
    findings.extend(firewall_rules(facts));
    if findings.iter().any(|finding| finding.severity == Severity::StopsProtection) {
        findings.extend(host::start(facts));
    }
    findings
}

fn firewall_rules(facts: &Facts) -> Vec<Finding> {
    let names: Vec<_> = facts.uplinks.iter().map(|uplink| uplink.name.as_str()).collect();
    let mut findings = match &facts.firewall {
        Firewall::Ruleset(ruleset) => {
            let ilnp = facts.ilnp().map(|ilnp| ilnp.icmp_types);
            firewall::examine(ruleset, &names, ilnp)
        }
        Firewall::NoProgram => vec![
            Finding::note("firewall-unread", "there is no `nft` to read firewall rules with")
                .remedy("Install nftables, or see yourself that protocol 140 passes."),
        ],
        Firewall::Unread(why) => vec![
            Finding::new(
                "firewall-unread",
                Severity::NotSeen,
                "the firewall's rules could not be read",
            )
            .shown_by(why)
            .remedy("Run this as root."),
        ],
    };
    if !facts.legacy_tables.is_empty() {
        let what = "rules of the older ip6tables are in force, which this does not read";
        findings.push(
            Finding::new("firewall-legacy", Severity::NotSeen, what)
                .shown_by(format!("tables: {}", facts.legacy_tables.join(", ")))
                .remedy("See that they accept protocol 140: ip6tables-legacy-save"),
        );
    }
    findings
}
