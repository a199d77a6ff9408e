//! End of a run.

use anyhow::Context as _;
use moorline_bpf::Datapath;
use moorline_host::Sessions;
use moorline_netlink::Netlink;

use crate::args::Args;
use crate::claims::Claims;
use crate::clock;
use crate::shell::Daemon;
use crate::store::{CONTEXTS, SESSIONS, Store};

/// Kind of end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The daemon has undone all changes to the host.
    Restored,
    /// Programs, addresses, routes and contexts stay in place for the next run.
    Kept,
}

/// Undoes the changes that an earlier run left: addresses, rules, routes, links, programs.
///
/// # Errors
/// Some changes could not be undone; the error lists them with their causes.
pub async fn reset(args: &Args) -> anyhow::Result<()> {
    anyhow::ensure!(
        std::os::unix::net::UnixStream::connect(&args.socket).is_err(),
        "moorlined is running and would be reset under its feet; stop it first"
    );
    let had_state = args.state_dir.exists();
    let store = Store::open(&args.state_dir)?;
    let _claims = Claims::take(&store, &args.pin_dir)?;
    undo_all(args).await?;
    if !had_state {
        store.discard()?;
    }
    Ok(())
}

pub(crate) async fn undo_all(args: &Args) -> anyhow::Result<()> {
    let store = Store::open(&args.state_dir)?;
    let netlink = Netlink::connect()?;
    let undone = undo(&netlink).await;
    Datapath::remove_pins(&args.pin_dir).context("BPF objects")?;
    store.remove(CONTEXTS)?;
    store.remove(SESSIONS)?;
    undone
}

impl Daemon {
    /// Writes the contexts, with those that wait. As long as a thread reads the contexts of the last run, there are no
    /// others, and the file stays.
    fn save_contexts(&self) -> anyhow::Result<()> {
        match self.takeover.is_reading() {
            true => Ok(()),
            false => self.store.save_contexts(self.host.shim6().snapshot()),
        }
    }

    /// Ends the run and leaves everything in place for the next run. Traffic continues meanwhile, and the store has the
    /// state for the next run.
    pub(crate) async fn keep(mut self, args: &Args) -> anyhow::Result<()> {
        self.saving.end().await;
        // Handle all reports of the programs before the contexts are saved, if the contexts are known.
        let told = match self.takeover.is_reading() {
            true => Ok(()),
            false => self.take_reports().and_then(|()| self.take_last_ilnp_reports()),
        };
        self.pump().await;
        self.leave_routing().await;
        let contexts = self.save_contexts();
        let ilnp = self.host.ilnp();
        let sessions = ilnp.map(|ilnp| self.store.save_sessions(ilnp.snapshot()));
        let count = self.host.ilnp().map_or(0, Sessions::session_count);
        tracing::info!(
            contexts = self.host.shim6().len(),
            sessions = count,
            "stopping; all stays in place for the next run, `moorline down` removes it"
        );
        let _ = std::fs::remove_file(&args.socket);
        told?;
        contexts.context("contexts for the next run")?;
        sessions.unwrap_or(Ok(())).context("sessions for the next run")
    }

    /// Sets routes and rules that stay valid while no daemon follows the default routes of the host.
    pub(crate) async fn leave_routing(&mut self) {
        if let Err(error) = self.netlink.remove_unbound(|_| true).await {
            tracing::warn!(%error, "unbound routes");
        }
        if let Err(error) = self.netlink.leave_rules(self.host.view()).await {
            tracing::warn!(%error, "source-address rules");
        }
    }

    /// Ends the run and undoes all changes to the host.
    pub(crate) async fn stop(mut self, args: &Args) -> anyhow::Result<()> {
        tracing::info!("stopping and restoring the host");
        self.saving.end().await;
        self.end_sessions().await;
        self.host.shim6_mut().take_over(usize::MAX, clock::now());
        self.refuse_payload();
        // Remove the routes before the programs: while a route leads moved traffic to an uplink, the program there must
        // insert the header.
        let undone = undo(&self.netlink).await;
        self.datapath.detach_all();
        let ilnp = self.ilnp.map(|ilnp| ilnp.datapath.close()).transpose();
        let closed = self.datapath.close();
        self.store.remove(CONTEXTS)?;
        self.store.remove(SESSIONS)?;
        // Ignore an error: the socket may have been removed.
        let _ = std::fs::remove_file(&args.socket);
        undone?;
        ilnp.context("BPF objects of ILNP")?;
        closed.context("BPF objects; `moorline down` tries again")
    }
}

async fn undo(netlink: &Netlink) -> anyhow::Result<()> {
    let mut failed = 0u32;
    for undone in netlink.undo_all().await {
        if undone.is_failure() {
            failed += 1;
            tracing::warn!("{undone}");
        } else {
            tracing::debug!("{undone}");
        }
    }
    anyhow::ensure!(
        failed == 0,
        "{failed} changes are left on the host; `moorline down` tries again"
    );
    Ok(())
}
