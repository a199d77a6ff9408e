use std::collections::BTreeMap;
use std::fs;
use std::net::Ipv6Addr;
use std::process::Command;
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use moorline_addresses::Uplink;
use moorline_api::{Client, Error as ApiError, ExclusionQuery};
use moorline_netlink::is_deaf;

use crate::facts::{Answers, Daemon, Facts, Firewall, Kernel};

/// Collects the facts from the host and the daemon.
///
/// # Errors
/// The kernel's tables cannot be read.
pub async fn collect(version: &str, client: &Client) -> anyhow::Result<Facts> {
    let look = moorline_netlink::look().await.context("the kernel's tables")?;
    let view = look.view;
    let daemon = ask(client).await;
    // Uplinks that the daemon is configured to use.
    let is_used = |link: &Uplink| match &daemon {
        Daemon::Running(all) => all.status.uplinks.iter().any(|one| one.ifindex == link.ifindex),
        Daemon::NotRunning(_) | Daemon::NoPermission(_) | Daemon::Broken(_) => true,
    };
    let (used, unused): (Vec<_>, Vec<_>) = view.uplinks.into_iter().partition(is_used);
    Ok(Facts {
        version: version.to_owned(),
        kernel: kernel(),
        daemon,
        deaf_uplinks: used.iter().map(|link| link.ifindex).filter(|one| is_deaf(*one)).collect(),
        uplinks: used,
        unused: unused.into_iter().map(|link| link.name).collect(),
        candidates: view.candidates.into_iter().map(|candidate| candidate.name).collect(),
        deaf: look.deaf,
        rules: look.rules,
        firewall: firewall(),
        legacy_tables: lines("/proc/thread-self/net/ip6_tables_names"),
        is_just_opened: false,
        asked: BTreeMap::new(),
    })
}

impl Facts {
    /// Adds the addresses of the peer that the user names. A daemon of an earlier version knows no exclusions.
    #[must_use]
    pub async fn asking(mut self, client: &Client, peer: &[Ipv6Addr]) -> Self {
        for peer in peer.iter().copied() {
            let excluded = client.exclusion(ExclusionQuery { peer }).await.unwrap_or_default();
            self.asked.insert(peer, excluded);
        }
        self
    }
}

fn kernel() -> Kernel {
    let control = |path: &str| fs::read_to_string(path).ok();
    Kernel {
        release: control("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
        has_btf: fs::exists("/sys/kernel/btf/vmlinux").unwrap_or(false),
        // A kernel that always compiles programs may lack this control, and only root may read it.
        has_jit: control("/proc/sys/net/core/bpf_jit_enable")
            .is_none_or(|value| value.trim() != "0"),
    }
}

async fn ask(client: &Client) -> Daemon {
    let answers = async {
        let (status, contexts) = (client.status().await?, client.contexts().await?);
        let started = SystemTime::UNIX_EPOCH + Duration::from_millis(status.started_unix_ms);
        let age = started.elapsed().unwrap_or_default();
        Ok(Answers { age, status, contexts, ilcc: client.ilcc().await? })
    };
    match answers.await {
        Ok(answers) => Daemon::Running(Box::new(answers)),
        Err(error @ ApiError::NotRunning { .. }) => Daemon::NotRunning(error.to_string()),
        Err(error @ ApiError::Permission { .. }) => Daemon::NoPermission(error.to_string()),
        Err(error) => Daemon::Broken(error.to_string()),
    }
}

/// Reads the rules of the host's firewall.
#[must_use]
pub fn firewall() -> Firewall {
    let places = ["nft", "/usr/sbin/nft", "/sbin/nft"];
    let tried = places.iter().map(|nft| Command::new(nft).args(["-j", "list", "ruleset"]).output());
    let Some(output) = tried.flatten().next() else { return Firewall::NoProgram };
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Firewall::Unread(said.lines().next().unwrap_or("nft failed").to_owned());
    }
    match serde_json::from_slice(&output.stdout) {
        Ok(ruleset) => Firewall::Ruleset(ruleset),
        Err(error) => Firewall::Unread(format!("nft -j list ruleset: {error}")),
    }
}

fn lines(path: &str) -> Vec<String> {
    fs::read_to_string(path).unwrap_or_default().lines().map(ToOwned::to_owned).collect()
}
