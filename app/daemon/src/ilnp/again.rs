//! Takes over the sessions of the last run, after a crash or a hand-over.
//!
//! The programs of the last run stay on the interfaces and use its tables, until our programs replace them. By then our
//! tables have the sessions. Addresses of sessions and routes of moved pairs stay.

use anyhow::Context as _;
use moorline_addresses::HostView;
use moorline_bpf::ilnp::IlnpDatapath;
use moorline_host::{SessionAddress, Sessions};

use crate::args::Args;
use crate::clock;
use crate::shell::Daemon;
use crate::store::{SESSIONS, SavedState};
use crate::takeover::by_reason;

impl Daemon {
    /// Restores the sessions, before the daemon changes the host. Addresses and routes of the last run stay if a
    /// session needs them, and are removed otherwise.
    pub(crate) async fn restore_sessions(
        &mut self,
        args: &Args,
        goes_on: bool,
    ) -> anyhow::Result<()> {
        let left = self.netlink.made_hosts().context("addresses for sessions")?.into_iter();
        let left = left.map(|(ifindex, address)| SessionAddress { ifindex, address });
        if self.ilnp.is_none() {
            for SessionAddress { ifindex, address } in left {
                let length = SessionAddress::PREFIX_LEN;
                if let Err(error) = self.netlink.remove_address(ifindex, address, length).await {
                    tracing::warn!(%error, "an address for sessions");
                }
            }
            self.store.remove(SESSIONS)?;
            return IlnpDatapath::remove_left(&args.pin_dir).context("programs of ILNP");
        }
        let SavedState { sessions, damage, .. } = self.store.load_state(SESSIONS);
        self.damages.extend(damage.filter(|_| goes_on));
        let refused = self.host.restore_sessions(sessions, left.collect(), clock::now());
        for (reason, sessions) in by_reason(refused) {
            tracing::warn!(sessions, %reason, "sessions not taken over");
        }
        self.pump().await;
        let restored = self.host.ilnp().map_or(0, Sessions::session_count);
        if restored > 0 {
            tracing::info!(sessions = restored, "took over from the run before");
        }
        Ok(())
    }

    /// Starts ILNP before the first view. Our programs replace the programs of the last run as soon as the tables have
    /// sessions and locators. After that the host tells correspondents its locators, with the preferences of its rules.
    pub(crate) fn begin_ilnp(&mut self, view: &HostView) {
        if let Some(ilnp) = &mut self.ilnp {
            ilnp.detach_left(view);
            self.apply_rules();
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeSet;

    use moorline_contexts::Contexts;
    use moorline_datapath::Plane as _;
    use moorline_datapath::ilnp::ChecksumMode;
    use moorline_host::{Effect, Host};
    use moorline_ilnp::{Cause, Config, Event, RemoteLocator, SessionSnapshot, Why};
    use moorline_types::{Ilv, IlvPair, L64, Nid, Nonce};
    use moorline_wire::ilnp::AdmissionFlags;

    use super::*;
    use crate::config;
    use crate::ilnp::Ilnp;

    /// Returns a session with a correspondent of its own.
    pub(crate) fn session(number: u64) -> SessionSnapshot {
        let (local, remote) = (L64(0x2001_0db8_00a0_0000), L64(0x2001_0db8_00b0_0000));
        let peer = Ilv::new(remote, Nid(0x0200_00ff_fe00_0010 + number));
        SessionSnapshot {
            pair: IlvPair::new(Ilv::new(local, Nid(0x0200_00ff_fe00_0001)), peer),
            wire: (local, remote),
            nonces: (Nonce::Short(*b"ours"), Nonce::Short(*b"them")),
            why: Some(Why::WeProposed),
            checksum: Some(ChecksumMode::NidOnly),
            peer: AdmissionFlags::default(),
            agreed: true,
            settled: true,
            remote: vec![RemoteLocator {
                l64: remote,
                preference: 10,
                expires: None,
                proven: true,
            }],
            taken: None,
            sent: 0,
            is_guest: false,
            moved: None,
            rtt: None,
        }
    }

    #[tokio::test]
    async fn a_session_that_the_data_plane_does_not_take_ends_no_other() {
        if !nix::unistd::geteuid().is_root() {
            eprintln!(
                "SKIPPED a_session_that_the_data_plane_does_not_take_ends_no_other: needs root for eBPF"
            );
            return;
        }
        let config = config::Config::parse("ilnp = \"on\"\nilnp-max-sessions = 2").unwrap();
        let shared = moorline_bpf::Settings::default();
        let (mut ilnp, _reports) =
            Ilnp::open(config.ilnp.as_ref().unwrap(), &shared, [0, 0]).unwrap();
        let now = clock::now();
        let shim6 = Contexts::new(moorline_contexts::Config::default(), [1; 32], now);
        let mut host = Host::new(shim6, Some(Sessions::new(Config::default(), [1; 32], now)));
        let stored = (0..3).map(session).collect();
        assert_eq!(host.restore_sessions(stored, BTreeSet::new(), now), []);
        let mut told = Vec::new();
        while let Some(effect) = host.poll_effect(now) {
            if let Effect::UpdateSession(update) = &effect
                && ilnp.datapath.apply(update, clock::now()).is_err()
            {
                host.handle_failed(&effect, now);
            } else if let Effect::TellSession(event) = effect {
                told.push(event);
            }
        }
        let count = host.ilnp().map(Sessions::session_count);
        assert_eq!((count, ilnp.datapath.session_count()), (Some(2), 2));
        assert!(matches!(told[..], [Event::Forgotten { cause: Cause::NotTaken, .. }]), "{told:?}");
    }
}
