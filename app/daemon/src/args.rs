use std::path::{self, PathBuf};

use clap::Parser;
use moorline_api::Down;

/// Keeps this host's connections alive while the addresses under them change.
#[derive(Debug, Parser)]
#[command(name = "moorlined", version)]
pub struct Args {
    /// Configuration file; without it /etc/moorline/moorlined.toml, if there.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Control socket.
    #[arg(long, value_name = "PATH", default_value = moorline_api::DEFAULT_SOCKET,
          env = moorline_api::SOCKET_ENV)]
    pub socket: PathBuf,
    /// Where keys, addresses, contexts and sessions are kept.
    #[arg(long, value_name = "DIR", default_value = "/var/lib/moorline")]
    pub state_dir: PathBuf,
    /// Folder on a BPF file system where programs and tables outlive a crash of the daemon.
    #[arg(long, value_name = "DIR", default_value = "/sys/fs/bpf/moorline")]
    pub pin_dir: PathBuf,
    /// Check the configuration and exit.
    #[arg(long)]
    pub check: bool,
    /// Undo every change to the host that an earlier run left behind, and exit. `moorline down` does this.
    #[arg(long, conflicts_with = "check")]
    pub reset: bool,
}

impl Args {
    /// Returns the folders of the daemon, for `moorline down`.
    pub(crate) fn folders(&self) -> Down {
        // Without a working directory a relative path cannot work; keep the path then.
        let absolute = |path: &PathBuf| path::absolute(path).unwrap_or_else(|_| path.clone());
        Down { state_dir: absolute(&self.state_dir), pin_dir: absolute(&self.pin_dir) }
    }
}
