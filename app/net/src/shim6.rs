use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use moorline_addresses::TemporaryLifetimes;
use moorline_protected::{self as protected, Config, Saved};
use moorline_stack::stack;
use moorline_state::{Folder, Moment, SavedAddresses};
use moorline_types::Instant;

use crate::Event;
use crate::node::Node;
use crate::shared::Shared;

/// Settings of Shim6 (RFC 5533) beneath a host: connections with a host that knows Shim6 survive when one of several uplinks fails.
///
/// The host has hash-based addresses (RFC 5535) over the prefixes that routers have advertised in the first two seconds.
#[derive(Clone, Debug, Default)]
pub struct Shim6 {
    config: Config,
    state: Option<PathBuf>,
}

impl Shim6 {
    /// The settings of the daemon. Each run has other addresses.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Keeps the addresses in this directory, so that each run in the same networks has the same ones. The directory is for its user
    /// alone, and for one host at a time.
    #[must_use]
    pub fn state(mut self, directory: &Path) -> Self {
        self.state = Some(directory.to_owned());
        self
    }

    /// Replaces the settings of contexts, path exploration and triggers.
    #[must_use]
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Has the host speak ILNP, too. A connection with a host that knows ILNP then has a session in place of a context. If the
    /// settings of [`Self::config`] say how to speak it, those stay.
    #[must_use]
    pub fn ilnp(mut self) -> Self {
        self.config.ilnp.get_or_insert_default();
        self
    }

    pub(crate) fn open(self, stack: stack::Config, seed: [u8; 32]) -> io::Result<Opened> {
        let config = Config { stack, ..self.config };
        let node = |host| Node::Protected(Box::new(host));
        let Some(directory) = self.state else {
            let host = protected::Host::new(config, seed, Instant::ZERO);
            return Ok(Opened { node: node(host), keeper: None, damage: None });
        };
        let (keeper, saved, damage) = open(&directory).map_err(to_io)?;
        let host = protected::Host::with_saved(config, saved, seed, Instant::ZERO);
        Ok(Opened { node: node(host), keeper: Some(keeper), damage })
    }
}

/// A host with Shim6, before it has wires.
pub(crate) struct Opened {
    pub(crate) node: Node,
    pub(crate) keeper: Option<Keeper>,
    /// Sentence for people on a damaged file.
    pub(crate) damage: Option<String>,
}

/// Saves the addresses of a host.
pub(crate) struct Keeper {
    folder: Folder,
    /// Other processes do not use the folder meanwhile.
    _claim: File,
}

fn open(directory: &Path) -> anyhow::Result<(Keeper, Saved, Option<String>)> {
    let folder = Folder::open(directory)?;
    let Some(claim) = folder.claim()? else {
        anyhow::bail!(
            "another host uses the state directory {}: stop that one first, or name another directory",
            directory.display()
        );
    };
    let kept =
        folder.load_groups(|_| None, &TemporaryLifetimes::default(), moment(Instant::ZERO))?;
    let saved = Saved { generation: kept.generation.unwrap_or_default(), groups: kept.groups };
    Ok((Keeper { folder, _claim: claim }, saved, kept.damage))
}

impl Keeper {
    /// Saves addresses each time that the host has new ones, until the end of the host.
    pub(crate) async fn run(self, shared: Arc<Shared>) {
        let mut end = shared.end.subscribe();
        loop {
            tokio::select! {
                () = shared.unsaved.notified() => {}
                _ = end.wait_for(|is_over| *is_over) => return,
            }
            let due = shared.with(|state, now| Some((state.node.poll_save()?, now)));
            let Some((saved, now)) = due else { continue };
            match self.save(saved, now).await {
                Ok(()) => shared.with(|state, now| state.node.handle_saved(now)),
                // There may be nobody to hear it.
                Err(error) => drop(shared.events.send(Event::Unsaved(Arc::new(to_io(error))))),
            }
        }
    }

    async fn save(&self, saved: Saved, now: Instant) -> anyhow::Result<()> {
        let folder = self.folder.clone();
        let write = move || {
            let groups = saved.groups.iter();
            folder.save_addresses(&SavedAddresses::new(saved.generation, groups, moment(now)))
        };
        tokio::task::spawn_blocking(write).await?
    }
}

/// This moment of the host's clock by the clock of the system, too.
fn moment(now: Instant) -> Moment {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Moment { now, unix_s: since.as_secs() }
}

fn to_io(error: anyhow::Error) -> io::Error {
    io::Error::other(format!("{error:#}"))
}
