use anyhow::{Context as _, bail};
use caps::{CapSet, Capability, CapsHashSet};
use rustix::process::DumpableBehavior;

/// Keeps private keys out of core dumps, and out of reach of debuggers without root.
pub(crate) fn hide_memory() -> anyhow::Result<()> {
    let behavior = DumpableBehavior::NotDumpable;
    rustix::process::set_dumpable_behavior(behavior).context("core dumps")
}

/// Checks that the daemon may change the network, so that this error comes before errors of files.
pub(crate) fn check() -> anyhow::Result<()> {
    let held = caps::read(None, CapSet::Effective).context("capabilities")?;
    let needed = [Capability::CAP_NET_ADMIN, Capability::CAP_NET_RAW];
    let missing = needed.iter().find(|needed| !held.contains(needed));
    missing.map_or(Ok(()), |missing| {
        bail!(
            "{missing} is missing: run it as root, `sudo moorlined` or `sudo systemctl start moorlined`; \
             a container has to be given that capability"
        )
    })
}

/// Gives up all capabilities but [`KEEP`], for good. The daemon calls this after set-up, before it parses anything from
/// the network (docs/decisions/006).
pub(crate) fn reduce() -> anyhow::Result<()> {
    let keep = CapsHashSet::from(KEEP);
    let held = caps::read(None, CapSet::Permitted).context("capabilities")?;
    let kept: CapsHashSet = held.intersection(&keep).copied().collect();
    for capability in caps::read(None, CapSet::Bounding).context("capabilities")? {
        if !keep.contains(&capability) && held.contains(&Capability::CAP_SETPCAP) {
            caps::drop(None, CapSet::Bounding, capability).context("bounding set")?;
        }
    }
    caps::clear(None, CapSet::Inheritable).context("inheritable capabilities")?;
    caps::set(None, CapSet::Effective, &kept).context("effective capabilities")?;
    caps::set(None, CapSet::Permitted, &kept).context("permitted capabilities")?;
    rustix::thread::set_no_new_privs(true).context("no_new_privs")
}

/// Capabilities for addresses, routes and programs on interfaces; for raw sockets; for tables and programs.
const KEEP: [Capability; 4] = [
    Capability::CAP_NET_ADMIN,
    Capability::CAP_NET_RAW,
    Capability::CAP_BPF,
    Capability::CAP_PERFMON,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_not_change_the_network_is_told_to_be_root() {
        // Capabilities belong to a thread, so use another thread.
        let told = std::thread::spawn(|| {
            caps::clear(None, CapSet::Effective).expect("anybody may");
            check().expect_err("none is left").to_string()
        });
        let told = told.join().expect("told");
        assert!(told.contains("CAP_NET_ADMIN") && told.contains("as root"), "{told}");
    }
}
