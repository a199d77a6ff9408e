//! End of a run.

use std::time::Duration;

use anyhow::Context as _;
use moorline_bpf::Datapath;
use moorline_host::Sessions;
use moorline_netlink::Netlink;
use tokio::time::Instant;

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
    pub(crate) fn save(&mut self) {
        self.save_at = None;
        let began = Instant::now();
        let contexts = match self.contexts_changed {
            true => self.save_contexts(),
            false => Ok(()),
        };
        self.contexts_changed = contexts.is_err();
        let sessions = self.save_sessions();
        let unsaved = not_written(contexts, sessions);
        if let Some(warning) = unsaved.as_ref().filter(|_| self.unsaved.is_none()) {
            tracing::warn!("{warning}");
        }
        let least = if unsaved.is_some() { AGAIN } else { Duration::ZERO };
        self.unsaved = unsaved;
        self.save_delay = save_delay(began.elapsed()).max(least);
    }

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
        // Handle all reports of the programs before the contexts are saved, if the contexts are known.
        let told = match self.takeover.is_reading() {
            true => Ok(()),
            false => self.take_reports().and_then(|()| self.take_last_ilnp_reports()),
        };
        self.pump().await;
        self.leave_routing().await;
        let contexts = self.save_contexts();
        let sessions = self.save_sessions();
        let count = self.host.ilnp().map_or(0, Sessions::session_count);
        tracing::info!(
            contexts = self.host.shim6().contexts().count(),
            sessions = count,
            "stopping; all stays in place for the next run, `moorline down` removes it"
        );
        let _ = std::fs::remove_file(&args.socket);
        told?;
        contexts.context("contexts for the next run")?;
        sessions.context("sessions for the next run")
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

/// Returns the delay between a change and its saving, from the time of the last save. A host with very many contexts saves
/// less often.
pub(crate) fn save_delay(took: Duration) -> Duration {
    LEAST_SAVE_DELAY.max(took * REST)
}

/// Makes the warning about state that would not survive a crash.
fn not_written(contexts: anyhow::Result<()>, sessions: anyhow::Result<()>) -> Option<String> {
    let lost = [("contexts", contexts), ("sessions", sessions)];
    let lost = lost.into_iter().filter_map(|(what, result)| Some((what, result.err()?)));
    let texts: Vec<_> = lost
        .map(|(what, error)| format!("{what} would not survive a crash of moorlined: {error:#}"))
        .collect();
    (!texts.is_empty()).then(|| texts.join("; "))
}

/// Delay of the next save after a failure.
const AGAIN: Duration = Duration::from_secs(5);
/// Smallest delay of a save, because many contexts may change at once.
const LEAST_SAVE_DELAY: Duration = Duration::from_millis(200);
/// Length of the pause after a save, in lengths of the save.
const REST: u32 = 10;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_not_be_written_is_warned_of_until_it_is() {
        let full = || Err(anyhow::anyhow!("no space left"));
        let warning = not_written(full(), Ok(())).expect("a warning");
        assert_eq!(warning, "contexts would not survive a crash of moorlined: no space left");
        let both = not_written(full(), full()).expect("a warning");
        assert!(both.contains("; sessions would not survive"), "{both}");
        assert_eq!(not_written(Ok(()), Ok(())), None);
    }

    #[test]
    fn what_takes_long_to_write_is_written_more_rarely() {
        let delay = |took| save_delay(Duration::from_millis(took)).as_millis();
        assert_eq!([0, 20, 21, 3000].map(delay), [200, 200, 210, 30_000]);
    }
}
