use super::block_on;
use crate::args::{Args, DoctorArgs};
use crate::render;
use anyhow::Context;
use moorline_api::Client;
use moorline_doctor::probe::{self, PeerReport};
use moorline_doctor::{
    Facts, Firewall, Fix, Report, collect, examine, examine_peer, explain_half_open,
    explain_silence, firewall, fixes, undoing, ways,
};
use std::io::{self, ErrorKind, Write};
use std::net::{IpAddr, Ipv6Addr, ToSocketAddrs};
use std::process::{Command, ExitCode};

/// Runs `moorline doctor`. Exit codes: 0: nothing prevents protection; 1: something does; 2: some checks were not possible.
pub(crate) fn doctor(
    args: &Args,
    doctor: &DoctorArgs,
    out: &mut dyn Write,
) -> anyhow::Result<ExitCode> {
    let has_changed = (doctor.fix || doctor.unfix) && mend(args, doctor, out)?;
    match look(args, doctor, has_changed && doctor.fix) {
        Ok(report) => {
            super::show(out, doctor.json, &report, render::doctor)?;
            Ok(ExitCode::from(report.exit_status()))
        }
        Err(error) => {
            out.flush()?;
            eprintln!("moorline: {error:#}");
            Ok(ExitCode::from(COULD_NOT_LOOK))
        }
    }
}

/// Adds rules to the host's firewall, or removes them. Returns whether the rules have changed.
fn mend(args: &Args, doctor: &DoctorArgs, out: &mut dyn Write) -> anyhow::Result<bool> {
    let facts = block_on(collect(env!("CARGO_PKG_VERSION"), &Client::new(&args.socket)))?;
    let fix = match &facts.firewall {
        Firewall::Ruleset(ruleset) if doctor.unfix => {
            Fix { commands: undoing(ruleset), ..Fix::default() }
        }
        Firewall::Ruleset(_) => fixes(&facts),
        Firewall::NoProgram => anyhow::bail!("there is no `nft` to read firewall rules with"),
        Firewall::Unread(why) => anyhow::bail!("the firewall could not be read: {why}"),
    };
    for text in &fix.by_hand {
        writeln!(out, "Not done here, as its own tool keeps these rules. {text}")?;
    }
    if fix.commands.is_empty() {
        if fix.by_hand.is_empty() {
            writeln!(out, "There is nothing to change in the firewall.\n")?;
        }
        return Ok(false);
    }
    writeln!(out, "Commands:")?;
    for command in &fix.commands {
        writeln!(out, "  {}", shown(command))?;
    }
    if !doctor.yes && !agrees(out)? {
        writeln!(out, "Nothing was changed; `--yes` agrees without a question.\n")?;
        return Ok(false);
    }
    for command in &fix.commands {
        run(command)?;
    }
    if doctor.fix {
        writeln!(
            out,
            "Done. These rules last until the firewall is loaded again: put them into its own file \
             (/etc/nftables.conf) to keep them. `moorline doctor --unfix` takes them out.\n"
        )?;
    }
    Ok(true)
}

/// Result of [`close_firewall`].
pub(crate) enum Closing {
    /// The rules have been removed.
    Closed,
    /// The firewall had no such rules.
    NothingToClose,
    /// The rules could not be read; holds the reason.
    Unread(String),
}

/// Removes the rules of `doctor --fix` from the host's firewall, without a question.
///
/// # Errors
/// A rule could not be removed.
pub(crate) fn close_firewall() -> anyhow::Result<Closing> {
    let ruleset = match firewall() {
        Firewall::Ruleset(ruleset) => ruleset,
        // Without `nft` no rules can have been added.
        Firewall::NoProgram => return Ok(Closing::NothingToClose),
        Firewall::Unread(why) => return Ok(Closing::Unread(why)),
    };
    let commands = undoing(&ruleset);
    commands.iter().try_for_each(|command| run(command))?;
    Ok(if commands.is_empty() { Closing::NothingToClose } else { Closing::Closed })
}

/// Formats a command as a user would type it.
fn shown(command: &[String]) -> String {
    let quoted = command.iter().map(|word| match word.contains(' ') {
        true => format!("'{word}'"),
        false => word.clone(),
    });
    quoted.collect::<Vec<_>>().join(" ")
}

fn agrees(out: &mut dyn Write) -> anyhow::Result<bool> {
    write!(out, "Run them? [y/N] ")?;
    out.flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn run(command: &[String]) -> anyhow::Result<()> {
    let [program, arguments @ ..] = command else { return Ok(()) };
    let output = Command::new(program).args(arguments).output();
    let output = output.with_context(|| format!("cannot run {program}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "{}: {}", shown(command), said.trim());
    Ok(())
}

fn look(args: &Args, doctor: &DoctorArgs, is_just_opened: bool) -> anyhow::Result<Report> {
    // Report an unknown name before any test.
    let resolved = |peer| resolve(peer).map(|addresses| (peer, addresses));
    let peer = doctor.peer.as_deref().map(resolved).transpose()?;
    block_on(async {
        let client = Client::new(&args.socket);
        let facts = collect(env!("CARGO_PKG_VERSION"), &client).await?;
        let asked = peer.as_ref().map_or(&[][..], |(_, addresses)| addresses);
        let facts = Facts { is_just_opened, ..facts }.asking(&client, asked).await;
        let mut findings = examine(&facts);
        let peer = match peer {
            Some((name, addresses)) => Some(try_peer(&facts, name, &addresses).await?),
            None => None,
        };
        peer.iter().for_each(|peer| explain_half_open(peer, &mut findings));
        findings.extend(peer.iter().flat_map(examine_peer));
        Ok(Report::new(findings, peer))
    })
}

async fn try_peer(facts: &Facts, name: &str, given: &[Ipv6Addr]) -> anyhow::Result<PeerReport> {
    let ways = ways(facts, given);
    let mut pairs = probe::run(&ways).await.map_err(|error| {
        if error.kind() == ErrorKind::PermissionDenied {
            anyhow::anyhow!("test packets need raw sockets: run `moorline doctor {name}` as root")
        } else {
            anyhow::Error::new(error).context("test packets")
        }
    })?;
    explain_silence(facts, &ways, &mut pairs);
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

/// Exit code if some checks were not possible.
const COULD_NOT_LOOK: u8 = 2;
