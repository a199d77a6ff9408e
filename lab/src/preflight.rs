//! Requirements of a lab on the machine.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use rustix::thread::{CapabilitySet, capabilities};

use crate::netns::output;

/// Gives the reasons, in words for people, why a lab cannot run here. Empty if a lab can run.
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
    reasons.extend(missing_capabilities());
    if reasons.is_empty()
        && let Err(error) = try_namespace()
    {
        reasons.push(format!("no network namespaces here: {error:#}"));
    }
    reasons
}

/// Path of a program in PATH, /usr/sbin or /sbin.
#[must_use]
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|directory| directory.join(name))
        .find(|file| file.is_file())
}

/// Path of the daemon: `MOORLINED` if set, else the program next to this one (or, for a test, in the directory above),
/// else the program in PATH.
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

/// Gives the reasons why eBPF programs cannot be loaded here, as far as files in /proc and /sys show.
#[must_use]
pub fn check_bpf() -> Vec<String> {
    let mut reasons = Vec::new();
    let kernel = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if !kernel.lines().any(|line| line.trim_start_matches("nodev").trim() == "bpf") {
        reasons.push("this kernel has no BPF file system".into());
    }
    if !Path::new(KERNEL_TYPES).exists() {
        reasons.push(format!("this kernel has no BPF type information ({KERNEL_TYPES})"));
    }
    // The root of a user namespace has all capabilities and still cannot load eBPF programs.
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    if !map.split_whitespace().eq(["0", "0", "4294967295"]) {
        reasons.push("this root is one of a user namespace only: no eBPF for it".into());
    }
    reasons
}

/// Names the capabilities that this root lacks. Root in a container often lacks some.
fn missing_capabilities() -> Vec<String> {
    let Ok(own) = capabilities(None) else { return Vec::new() };
    let missing = CAPABILITIES.iter().filter(|(_, one)| !own.effective.contains(*one));
    missing.map(|(name, _)| format!("this root has no {name}")).collect()
}

const CAPABILITIES: [(&str, CapabilitySet); 3] = [
    ("CAP_NET_ADMIN", CapabilitySet::NET_ADMIN),
    ("CAP_NET_RAW", CapabilitySet::NET_RAW),
    ("CAP_SYS_ADMIN", CapabilitySet::SYS_ADMIN),
];
/// BTF of the kernel. Programs that read kernel structures need it.
const KERNEL_TYPES: &str = "/sys/kernel/btf/vmlinux";

/// Makes a network namespace and leaves it. A container may refuse namespaces to root, and only a trial shows the
/// refusal.
fn try_namespace() -> anyhow::Result<()> {
    output(Command::new("unshare").args(["--net", "true"])).map(drop)
}
