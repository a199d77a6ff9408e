//! Kernel, daemon, and what the daemon knows of peers.

use moorline_api::{Context, ContextState};

use crate::facts::{Daemon, Facts, Kernel};
use crate::finding::{Finding, Severity};

pub(super) fn kernel(kernel: &Kernel) -> Vec<Finding> {
    let mut findings = Vec::new();
    if is_older(&kernel.release, OLDEST) {
        findings.push(
            Finding::new("kernel-old", Severity::StopsProtection, "the kernel is too old")
                .shown_by(format!("Linux {}", kernel.release))
                .remedy(format!("Linux {}.{} or later is needed.", OLDEST.0, OLDEST.1)),
        );
    }
    if !kernel.has_btf {
        findings.push(
            Finding::new(
                "kernel-no-btf",
                Severity::StopsProtection,
                "the kernel does not describe its types (BTF), so the programs cannot be loaded",
            )
            .shown_by("no /sys/kernel/btf/vmlinux")
            .remedy("Boot a kernel with CONFIG_DEBUG_INFO_BTF=y, as distributions have."),
        );
    }
    if !kernel.has_jit {
        findings.push(
            Finding::new(
                "kernel-no-jit",
                Severity::Warning,
                "BPF programs are interpreted, which is slow",
            )
            .shown_by("net.core.bpf_jit_enable = 0")
            .remedy("sysctl net.core.bpf_jit_enable=1"),
        );
    }
    findings
}

pub(super) fn daemon(facts: &Facts) -> Vec<Finding> {
    let silent = |code, severity, what, why: &String| {
        vec![Finding::new(code, severity, what).shown_by(why.clone())]
    };
    match &facts.daemon {
        Daemon::NotRunning(why) => {
            let what = "moorlined is not running";
            let mut found = silent("daemon-not-running", Severity::StopsProtection, what, why);
            for finding in &mut found {
                finding.remedy = "systemctl enable --now moorlined".to_owned();
            }
            found
        }
        Daemon::NoPermission(why) => {
            let what = "moorlined may not be asked by this user";
            silent("daemon-no-permission", Severity::NotSeen, what, why)
        }
        Daemon::Broken(why) => {
            silent("daemon-broken", Severity::StopsProtection, "moorlined does not answer", why)
        }
        Daemon::Running(answers) if answers.status.version != facts.version => vec![
            Finding::new(
                "daemon-version",
                Severity::Warning,
                "moorlined is of another version than this program",
            )
            .shown_by(format!("moorlined {}, moorline {}", answers.status.version, facts.version))
            .remedy("Restart it after an update: systemctl restart moorlined"),
        ],
        Daemon::Running(_) => Vec::new(),
    }
}

/// Peers that the daemon has given up for a while.
pub(super) fn peers(facts: &Facts) -> Vec<Finding> {
    let Some(answers) = facts.answers() else { return Vec::new() };
    let of = |state: ContextState| {
        let is_so = move |context: &&Context| context.state == state;
        let peers = answers.contexts.iter().filter(is_so).map(|context| context.ulid_peer);
        peers.collect::<std::collections::BTreeSet<_>>()
    };
    let (without, silent) = (of(ContextState::NoSupport), of(ContextState::EFailed));
    let mut findings = Vec::new();
    let shown = |finding: Finding, peers: &std::collections::BTreeSet<std::net::Ipv6Addr>| {
        let named = peers.iter().take(MAX_PEERS).map(ToString::to_string);
        let more = peers.len().saturating_sub(MAX_PEERS);
        let rest = (more > 0).then(|| format!("and {more} more"));
        named.chain(rest).fold(finding, Finding::shown_by)
    };
    if !without.is_empty() {
        let what = match without.len() {
            1 => "1 peer has no Moorline: connections to it cannot move".to_owned(),
            count => format!("{count} peers have no Moorline: connections to them cannot move"),
        };
        let finding = Finding::new("peer-without", Severity::Note, what)
            .remedy(
                "Both ends run it; install it there if they are yours. The router of a peer behind NAT66 refuses in the same words: \
                 such a peer cannot be reached.",
            );
        findings.push(shown(finding, &without));
    }
    // A moment ago, the firewall of this host may have dropped the answers.
    if !silent.is_empty() {
        let severity = if facts.is_just_opened { Severity::Note } else { Severity::Warning };
        let what = match silent.len() {
            1 => "1 peer did not answer, though it does not refuse".to_owned(),
            count => format!("{count} peers did not answer, though they do not refuse"),
        };
        let finding = Finding::new("peer-silent", severity, what).remedy(
            "A firewall or NAT66 may stop protocol 140 on the way: `moorline doctor PEER` as root tries.",
        );
        findings.push(shown(finding, &silent));
    }
    findings
}

/// Whether a release such as `6.1.0-18-amd64` is older; not if it cannot be read.
fn is_older(release: &str, than: (u32, u32)) -> bool {
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    match (numbers.next(), numbers.next()) {
        (Some(major), Some(minor)) => (major, minor) < than,
        _ => false,
    }
}

/// docs/kernels.md
const OLDEST: (u32, u32) = (6, 1);
/// Peers that are named.
const MAX_PEERS: usize = 10;
