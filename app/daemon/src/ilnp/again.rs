//! Goes on with the sessions of a run that was killed or has handed over.
//!
//! Its programs are on the interfaces, and go by the tables that it left, until ours take their place: by then ours
//! know the sessions. Its addresses for sessions stay, and so do routes of what has moved.

use anyhow::Context as _;
use moorline_addresses::{HostView, Mover};
use moorline_bpf::ilnp::IlnpDatapath;
use moorline_datapath::ilnp::Update;
use moorline_host::{Host, Sessions};
use moorline_ilnp::SessionSnapshot;
use moorline_types::UlidPair;

use super::presence::Presence;
use super::{Ilnp, Known, locators};
use crate::args::Args;
use crate::clock;
use crate::shell::Daemon;

impl Ilnp {
    /// Takes sessions over, tables included, but for those that the data plane does not take. How many there are.
    fn take_over(&mut self, stored: Vec<SessionSnapshot>, host: &mut Host) -> usize {
        for snapshot in stored {
            let restored = host.ilnp_mut().map(|machine| machine.restore(snapshot, clock::now()));
            if let Some(Err(reason)) = restored {
                tracing::warn!(%reason, "session not taken over");
            }
        }
        // Where they go by is known before it is decided what addresses they need.
        while let Some(update) = host.ilnp_mut().and_then(Sessions::poll_update) {
            if self.apply_one(&update, host)
                && let Update::Upsert(entry) = &update
            {
                self.sessions.insert(entry.id, Known::of(entry));
            }
        }
        self.sessions.len()
    }

    /// The sessions that are to have a route, with the pairs it is for.
    pub(crate) fn routed(&self) -> impl Iterator<Item = (Mover, UlidPair)> + '_ {
        let routed = self.sessions.iter().filter(|(_, known)| known.is_routed);
        routed.map(|(id, known)| (Mover::Session(*id), known.pair.ulids()))
    }
}

impl Daemon {
    /// Before anything else is made of the host: what the run before has left for its sessions is theirs, or goes.
    pub(crate) async fn restore_sessions(
        &mut self,
        args: &Args,
        view: &HostView,
    ) -> anyhow::Result<()> {
        let rules = self.rules();
        let mut left = Presence::take_over(&self.netlink);
        let Some(ilnp) = &mut self.ilnp else {
            left.clear(&self.netlink).await;
            self.store.remove_sessions()?;
            return IlnpDatapath::remove_left(&args.pin_dir).context("programs of ILNP");
        };
        ilnp.presence = left;
        let restored = ilnp.take_over(self.store.load_sessions(), &mut self.host);
        if restored > 0 {
            tracing::info!(sessions = restored, "took over from the run before");
        }
        // Before its programs have packets: they go by no uplink that they do not know.
        let nids = ilnp.session_nids();
        let node = locators::node(view, &|_| true, &nids, &rules);
        ilnp.tell_locators(&node.uplinks);
        // Addresses of sessions are no reason to be attached, and none not to be.
        ilnp.attach(view)
    }

    /// Writes the sessions, if they have changed.
    pub(crate) fn save_sessions(&mut self) -> anyhow::Result<()> {
        let Some(ilnp) = self.ilnp.as_mut().filter(|ilnp| ilnp.is_unsaved) else { return Ok(()) };
        ilnp.is_unsaved = false;
        self.store.save_sessions(self.host.ilnp().into_iter().flat_map(Sessions::snapshot))
    }
}

#[cfg(test)]
mod tests {
    use moorline_contexts::Contexts;
    use moorline_datapath::ilnp::ChecksumMode;
    use moorline_host::Effect;
    use moorline_ilnp::{Cause, Config, Event, RemoteLocator, Why};
    use moorline_types::{Ilv, IlvPair, L64, Nid, Nonce};
    use moorline_wire::ilnp::AdmissionFlags;

    use super::*;
    use crate::config;

    fn session(number: u64) -> SessionSnapshot {
        let (local, remote) = (L64(0x2001_0db8_00a0_0000), L64(0x2001_0db8_00b0_0000));
        let peer = Ilv::new(remote, Nid(0x0200_00ff_fe00_0010 + number));
        SessionSnapshot {
            pair: IlvPair::new(Ilv::new(local, Nid(0x0200_00ff_fe00_0001)), peer),
            wire: (local, remote),
            nonces: (Nonce::Short(*b"ours"), Nonce::Short(*b"them")),
            why: Why::WeProposed,
            checksum: ChecksumMode::NidOnly,
            peer: AdmissionFlags::default(),
            agreed: true,
            settled: true,
            remote: vec![RemoteLocator { l64: remote, preference: 10, expires: None }],
            taken: None,
            sent: 0,
            is_guest: false,
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
        assert_eq!(ilnp.take_over((0..3).map(session).collect(), &mut host), 2);
        let count = host.ilnp().map(Sessions::session_count);
        assert_eq!((count, ilnp.datapath.session_count()), (Some(2), 2));
        let is_told = |effect| {
            matches!(effect, Effect::TellSession(Event::Forgotten { cause: Cause::NotTaken, .. }))
        };
        assert!(host.poll_effect(now).is_some_and(is_told));
    }
}
