//! Goes on with the sessions of a run that was killed or has handed over.
//!
//! Its programs are on the interfaces, and go by the tables that it left, until ours take their place: by then ours
//! know the sessions. Its addresses for sessions stay, and so do routes of what has moved.

use anyhow::Context as _;
use moorline_datapath::ilnp::IlnpDatapath;
use moorline_ilnp::SessionSnapshot;
use moorline_ilnp::datapath::Update;
use moorline_netlink::HostView;
use moorline_types::UlidPair;

use super::presence::Presence;
use super::{Ilnp, Known, ulids};
use crate::args::Args;
use crate::clock;
use crate::shell::Daemon;

impl Ilnp {
    /// Takes sessions over, tables included. How many there are.
    fn take_over(&mut self, sessions: Vec<SessionSnapshot>) -> anyhow::Result<usize> {
        for snapshot in sessions {
            if let Err(reason) = self.machine.restore(snapshot, clock::now()) {
                tracing::warn!(%reason, "session not taken over");
            }
        }
        // Where they go by is known before it is decided what addresses they need.
        while let Some(update) = self.machine.poll_update() {
            self.datapath.apply(&update).context("data plane of ILNP")?;
            if let Update::Upsert(entry) = &update {
                let known = Known { pair: entry.pair, wire: entry.wire_pair() };
                self.sessions.insert(entry.id, known);
            }
        }
        Ok(self.sessions.len())
    }

    /// Pairs whose packets go by `moor0`.
    pub(crate) fn moved_pairs(&self) -> impl Iterator<Item = UlidPair> + '_ {
        let moved = self.sessions.values().filter(|known| known.wire != known.pair);
        moved.map(|known| ulids(known.pair))
    }
}

impl Daemon {
    /// Before anything else is made of the host: what the run before has left for its sessions is theirs, or goes.
    pub(crate) async fn restore_sessions(
        &mut self,
        args: &Args,
        view: &HostView,
    ) -> anyhow::Result<()> {
        let mut left = Presence::take_over(&self.netlink);
        let Some(ilnp) = &mut self.ilnp else {
            left.clear(&self.netlink).await;
            self.store.remove_sessions()?;
            return IlnpDatapath::remove_left(&args.pin_dir).context("programs of ILNP");
        };
        ilnp.presence = left;
        let restored = ilnp.take_over(self.store.load_sessions()?)?;
        if restored > 0 {
            tracing::info!(sessions = restored, "took over from the run before");
        }
        // Addresses of sessions are no reason to be attached, and none not to be.
        ilnp.attach(view)
    }

    /// Writes the sessions, if they have changed.
    pub(crate) fn save_sessions(&mut self) -> anyhow::Result<()> {
        let Some(ilnp) = self.ilnp.as_mut().filter(|ilnp| ilnp.is_unsaved) else { return Ok(()) };
        ilnp.is_unsaved = false;
        self.store.save_sessions(ilnp.machine.snapshot())
    }
}
