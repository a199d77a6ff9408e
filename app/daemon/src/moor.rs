//! The links `moor0` and `moor1` of the segmentation path. If the links are removed, the daemon makes them again, because moved
//! traffic needs them.

use std::time::Duration;

use anyhow::Context as _;
use moorline_netlink::{LINK_NAMES, MoorLinks};
use tokio::time::Instant;

use crate::shell::Daemon;

/// State of the pair of links.
#[derive(Debug)]
pub(crate) struct Moor {
    links: MoorLinks,
    made: Instant,
    /// Time when the daemon makes the pair again.
    due: Option<Instant>,
    /// Time between two attempts.
    pause: Duration,
}

impl Moor {
    pub(crate) fn new(links: MoorLinks) -> Self {
        Self { links, made: Instant::now(), due: None, pause: PAUSE }
    }

    /// Returns the time when [`Daemon::make_moor_anew`] is due.
    pub(crate) const fn poll_timeout(&self) -> Option<Instant> {
        self.due
    }

    /// Schedules a new pair, because the pair is gone or down. The rate is bounded, even if the pair is removed again and
    /// again.
    fn miss(&mut self) {
        self.due.get_or_insert_with(|| (self.made + self.pause).max(Instant::now()));
    }

    const fn indexes(links: MoorLinks) -> [u32; 2] {
        [links.moor0_ifindex, links.moor1_ifindex]
    }
}

impl Daemon {
    /// Schedules a new pair if the pair is missing, and cancels the schedule if the pair is there.
    pub(crate) fn follow_moor(&mut self, has_moor: bool) {
        match has_moor {
            true => self.moor.due = None,
            false => self.moor.miss(),
        }
    }

    /// Makes the pair again, attaches the programs, and restores the state that the kernel has removed with the pair: routes
    /// of moved pairs, and ULIDs that have left their uplink.
    pub(crate) async fn make_moor_anew(&mut self) {
        self.moor.made = Instant::now();
        self.moor.due = None;
        match self.try_to_make_moor().await {
            Ok(()) => self.moor.pause = PAUSE,
            Err(error) => {
                tracing::warn!("moved traffic stands still without its links: {error:#}");
                self.moor.pause = (self.moor.pause * 2).min(LONGEST_PAUSE);
                self.moor.miss();
            }
        }
    }

    async fn try_to_make_moor(&mut self) -> anyhow::Result<()> {
        let links = self.netlink.ensure_moor().await.context("segmentation path")?;
        let new = Moor::indexes(links);
        for gone in Moor::indexes(self.moor.links) {
            if !new.contains(&gone) {
                self.datapath.detach_uplink(gone);
            }
        }
        let [moor0, moor1] = new;
        self.datapath.attach_moor(moor0, moor1, links.gathers).context("segmentation path")?;
        if let Some(ilnp) = &mut self.ilnp {
            ilnp.attach_moor(new)?;
        }
        self.follow_offloads();
        let [name, peer] = LINK_NAMES;
        if self.moor.links != links {
            tracing::warn!("{name} and {peer} were removed, and are there again");
        }
        self.moor.links = links;
        let kept = self.netlink.kept_ulids().await?.into_iter().collect();
        self.host.handle_moor_made(kept);
        self.pump().await;
        Ok(())
    }
}

/// Shortest time between two attempts.
const PAUSE: Duration = Duration::from_secs(1);
/// Longest time between two attempts, while attempts fail.
const LONGEST_PAUSE: Duration = Duration::from_secs(64);
