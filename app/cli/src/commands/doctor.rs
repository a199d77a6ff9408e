use crate::args::{Args, DoctorArgs};
use crate::render;
use anyhow::Context;
use moorline_api::Client;
use moorline_doctor::probe::{self, PeerReport};
use moorline_doctor::{Facts, Report, collect, examine, examine_peer, ways};
use std::io::{self, ErrorKind, Write};
use std::net::{IpAddr, Ipv6Addr, ToSocketAddrs};
use std::process::ExitCode;

/// Ends with 0: nothing stops protection; 1: something does; 2: not everything could be looked at.
pub(crate) fn doctor(
    args: &Args,
    doctor: &DoctorArgs,
    out: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    match look(args, doctor) {
        Ok(report) => {
            if doctor.json {
                super::write_json(out, &report)?;
            } else {
                out.write_all(render::doctor(&report).as_bytes())?;
            }
            Ok(ExitCode::from(report.exit_status()))
        }
        Err(error) => {
            out.flush()?;
            eprintln!("moorline: {error:#}");
            Ok(ExitCode::from(COULD_NOT_LOOK))
        }
    }
}

fn look(args: &Args, doctor: &DoctorArgs) -> anyhow::Result<Report> {
    // A name that is not known is told before anything is tried.
    let resolved = |peer| resolve(peer).map(|addresses| (peer, addresses));
    let peer = doctor.peer.as_deref().map(resolved).transpose()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = Client::new(&args.socket);
        let facts = collect(env!("CARGO_PKG_VERSION"), &client).await?;
        let mut findings = examine(&facts);
        let peer = match peer {
            Some((name, addresses)) => Some(try_peer(&facts, name, &addresses).await?),
            None => None,
        };
        findings.extend(peer.iter().flat_map(examine_peer));
        Ok(Report::new(findings, peer))
    })
}

async fn try_peer(facts: &Facts, name: &str, given: &[Ipv6Addr]) -> anyhow::Result<PeerReport> {
    let tried = probe::run(&ways(facts, given)).await;
    let pairs = tried.map_err(|error| {
        if error.kind() == ErrorKind::PermissionDenied {
            anyhow::anyhow!("test packets need raw sockets: run `moorline doctor {name}` as root")
        } else {
            anyhow::Error::new(error).context("test packets")
        }
    })?;
    Ok(PeerReport { peer: name.to_owned(), pairs })
}

fn resolve(peer: &str) -> anyhow::Result<Vec<Ipv6Addr>> {
    let found: io::Result<Vec<_>> = (peer, 0).to_socket_addrs().map(Iterator::collect);
    let found = found.with_context(|| format!("cannot look up {peer}"))?;
    let addresses: Vec<_> = found
        .into_iter()
        .filter_map(|address| match address.ip() {
            IpAddr::V6(address) => Some(address),
            IpAddr::V4(_) => None,
        })
        .filter(|address| {
            let is_of_a_link = address.is_unicast_link_local() || address.is_multicast();
            !is_of_a_link && !address.is_loopback() && !address.is_unspecified()
        })
        .collect();
    anyhow::ensure!(
        !addresses.is_empty(),
        "{peer} has no IPv6 address that is good beyond a link, and Moorline is for such"
    );
    Ok(addresses)
}

/// Exit status.
const COULD_NOT_LOOK: u8 = 2;
