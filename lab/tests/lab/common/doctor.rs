//! The doctor on a host of the lab.

use std::net::Ipv6Addr;

use moorline_api::Client;
use moorline_doctor::probe::{self, PeerReport};
use moorline_doctor::{Facts, Report, Severity, collect, examine, examine_peer, ways};

use super::Protected;

/// Runs the doctor on host A, for the host and for these addresses of B.
pub(crate) fn ask_doctor(hosts: &Protected, peers: &[Ipv6Addr]) -> Report {
    ask_doctor_on(hosts, "a", peers)
}

pub(crate) fn ask_doctor_on(hosts: &Protected, host: &str, peers: &[Ipv6Addr]) -> Report {
    let client = Client::new(hosts.lab.directory(host).unwrap().join("moorlined.sock"));
    let namespace = hosts.lab.namespace(host).unwrap();
    namespace
        .enter(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let facts = collect(env!("CARGO_PKG_VERSION"), &client).await?;
                let mut findings = examine(&facts);
                if peers.is_empty() {
                    return Ok(Report::new(findings, None));
                }
                let pairs = probe::run(&ways(&facts, peers)).await?;
                let peer = PeerReport { peer: "b".to_owned(), pairs };
                findings.extend(examine_peer(&peer));
                Ok(Report::new(findings, Some(peer)))
            })
        })
        .unwrap()
}

/// Collects the facts of a host.
pub(crate) fn facts(hosts: &Protected, host: &str) -> Facts {
    let client = Client::new(hosts.lab.directory(host).unwrap().join("moorlined.sock"));
    let namespace = hosts.lab.namespace(host).unwrap();
    namespace
        .enter(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(collect(env!("CARGO_PKG_VERSION"), &client))
        })
        .unwrap()
}

/// Codes of all warnings and failures.
pub(crate) fn trouble(report: &Report) -> Vec<&str> {
    let bad = report.findings.iter().filter(|finding| finding.severity != Severity::Note);
    bad.map(|finding| finding.code.as_str()).collect()
}
