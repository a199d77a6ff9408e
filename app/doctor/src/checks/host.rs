//! Findings about the kernel, the daemon, and the peers that the daemon knows.

use std::collections::BTreeSet;
use std::time::Duration;

use moorline_api::{ContextState, Excluded};

use crate::facts::{Daemon, Facts, Kernel};
use crate::finding::{Finding, Severity};

pub(super) fn kernel(kernel: &Kernel) -> Vec<Finding> {
    let mut findings = Vec::new();
    if is_older(&kernel.release, OLDEST) {
        findings.push(
            Finding::stops("kernel-old", "the kernel is too old")
                .shown_by(format!("Linux {}", kernel.release))
                .remedy(format!("Linux {}.{} or later is needed.", OLDEST.0, OLDEST.1)),
        );
    }
    if !kernel.has_btf {
        let what = "the kernel does not describe its types (BTF), so the programs cannot be loaded";
        findings.push(
            Finding::stops("kernel-no-btf", what)
                .shown_by("no /sys/kernel/btf/vmlinux")
                .remedy("Boot a kernel with CONFIG_DEBUG_INFO_BTF=y, as distributions have."),
        );
    }
    if !kernel.has_jit {
        findings.push(
            Finding::warning("kernel-no-jit", "BPF programs are interpreted, which is slow")
                .shown_by("net.core.bpf_jit_enable = 0")
                .remedy("sysctl net.core.bpf_jit_enable=1"),
        );
    }
    findings
}

pub(super) fn daemon(facts: &Facts) -> Option<Finding> {
    Some(match &facts.daemon {
        Daemon::NotRunning(why) => Finding::stops("daemon-not-running", "moorlined is not running")
            .shown_by(why)
            .remedy("systemctl enable --now moorlined"),
        Daemon::NoPermission(why) => {
            let what = "moorlined may not be asked by this user";
            Finding::new("daemon-no-permission", Severity::NotSeen, what).shown_by(why)
        }
        Daemon::Broken(why) => {
            Finding::stops("daemon-broken", "moorlined does not answer").shown_by(why)
        }
        Daemon::Running(answers) if answers.status.version != facts.version => {
            let versions =
                format!("moorlined {}, moorline {}", answers.status.version, facts.version);
            Finding::warning("daemon-version", "moorlined is of another version than this program")
                .shown_by(versions)
                .remedy("Restart it after an update: systemctl restart moorlined")
        }
        Daemon::Running(_) => return None,
    })
}

/// Returns a finding if the daemon may still be starting.
pub(super) fn start(facts: &Facts) -> Option<Finding> {
    let age = facts.answers()?.age;
    let what = format!("moorlined started {} s ago, and may not be done", age.as_secs());
    let finding = Finding::note("daemon-just-started", what);
    (age < STARTED).then(|| {
        finding.remedy(
            "A first start makes a key, which takes a while on a busy machine: run this again.",
        )
    })
}

/// Returns findings about peers that the daemon does not ask for a while.
pub(super) fn peers(facts: &Facts) -> Vec<Finding> {
    let of = |state: ContextState| {
        let contexts = facts.answers().into_iter().flat_map(|answers| &answers.contexts);
        let peers = contexts.filter(|context| context.state == state);
        peers.map(|context| context.ulid_peer).collect::<BTreeSet<_>>()
    };
    let (without, silent) = (of(ContextState::NoSupport), of(ContextState::EFailed));
    let mut findings = excluded(facts);
    if !without.is_empty() {
        let what = match without.len() {
            1 => "1 peer has no Moorline: connections to it cannot move".to_owned(),
            count => format!("{count} peers have no Moorline: connections to them cannot move"),
        };
        findings.push(Finding::note("peer-without", what).shown_by_some(without.iter()).remedy(
            "Both ends run it; install it there if they are yours. The router of a peer behind NAT66 refuses in the same words: \
             such a peer cannot be reached.",
        ));
    }
    // Before the firewall was opened, it may have dropped the answers.
    if !silent.is_empty() {
        let severity = if facts.is_just_opened { Severity::Note } else { Severity::Warning };
        let what = match silent.len() {
            1 => "1 peer did not answer, though it does not refuse".to_owned(),
            count => format!("{count} peers did not answer, though they do not refuse"),
        };
        let finding = Finding::new("peer-silent", severity, what).shown_by_some(silent.iter());
        findings.push(finding.remedy(
            "A firewall or NAT66 may stop protocol 140 on the way: `moorline doctor PEER` as root tries.",
        ));
    }
    findings
}

/// Returns findings about peers that the configuration excludes. The peer that the user names has findings of its own:
/// the way to this peer may have no fault, and yet connections to it cannot move. A connection without a context shows
/// that the peer has begun none. Without a connection the peer may still begin one.
fn excluded(facts: &Facts) -> Vec<Finding> {
    let connected = facts.answers().into_iter().flat_map(|answers| &answers.status.excluded);
    let (named, others): (Vec<_>, Vec<_>) =
        connected.partition(|one| facts.asked.contains_key(&one.peer));
    let is_connected = |peer| named.iter().any(|one| one.peer == peer);
    let by_setting = facts.asked.values().flatten().filter(|one| !is_connected(one.peer));
    let by_setting: Vec<_> = by_setting.collect();
    let or_ilnp = if facts.ilnp().is_some() { ", or as ILNP sessions" } else { "" };
    let whose = match others.len() {
        1 => "1 peer earns no context: connections to it cannot move".to_owned(),
        count => format!("{count} peers earn no context: connections to them cannot move"),
    };
    let stops = "connections with the peer earn no context here, and the peer has begun none: they cannot move";
    let warns = format!(
        "connections with the peer earn no context here: they can move only if the peer begins one{or_ilnp}"
    );
    let all = [
        (Finding::stops("peer-excluded", stops), named),
        (Finding::warning("peer-excluded", warns), by_setting),
        (Finding::note("peer-excluded", whose), others),
    ];
    let some = all.into_iter().filter(|(_, excluded)| !excluded.is_empty());
    some.map(|(finding, excluded)| {
        let shown = excluded.iter().map(|Excluded { peer, why }| format!("{peer}: {why}"));
        let remedy = "If they should have one, change that setting in moorlined.toml.";
        finding.shown_by_some(shown).remedy(remedy)
    })
    .collect()
}

/// Whether a release such as `6.1.0-18-amd64` is older than `than`; false if the text cannot be parsed.
fn is_older(release: &str, than: (u32, u32)) -> bool {
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    match (numbers.next(), numbers.next()) {
        (Some(major), Some(minor)) => (major, minor) < than,
        _ => false,
    }
}

/// Time after which a start is complete, including generation of a key.
const STARTED: Duration = Duration::from_secs(10);
/// Oldest supported kernel (docs/kernels.md).
const OLDEST: (u32, u32) = (6, 1);
