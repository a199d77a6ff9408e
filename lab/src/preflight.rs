//! What a lab needs from the machine.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::netns::output;

/// Why a lab cannot run here, in words for a person; empty when it can.
#[must_use]
pub fn check(programs: &[&str]) -> Vec<String> {
    if !rustix::process::geteuid().is_root() {
        return vec!["not root: network namespaces need it".into()];
    }
    let mut reasons: Vec<String> = ["ip", "nft"]
        .iter()
        .chain(programs)
        .filter(|program| find_program(program).is_none())
        .map(|program| format!("{program} is not installed"))
        .collect();
    if reasons.is_empty()
        && let Err(error) = try_namespace()
    {
        reasons.push(format!("no network namespaces here: {error:#}"));
    }
    reasons
}

/// Where a program is in PATH.
#[must_use]
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|directory| directory.join(name))
        .find(|file| file.is_file())
}

/// The daemon to use: `MOORLINED` if set, else the one next to this program (or, for a test, in the
/// directory above), else the one in PATH.
#[must_use]
pub fn find_daemon() -> Option<PathBuf> {
    if let Some(path) = env::var_os("MOORLINED") {
        return Some(path.into());
    }
    let own = env::current_exe().ok()?;
    own.ancestors()
        .skip(1)
        .take(2)
        .map(|directory: &Path| directory.join("moorlined"))
        .find(|file| file.is_file())
        .or_else(|| find_program("moorlined"))
}

/// Containers let root through but not into new namespaces: only trying tells.
fn try_namespace() -> anyhow::Result<()> {
    output(Command::new("unshare").args(["--net", "true"])).map(drop)
}
