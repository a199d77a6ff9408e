//! Routers that advertise prefixes.

use std::fmt::Write as _;
use std::fs;
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Context as _;

use crate::lab::Lab;
use crate::process::Process;
use crate::topology::Prefix;

/// A prefix in Router Advertisements (RFC 4861 s4.6.2), with its lifetimes in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advertised {
    /// The prefix.
    pub prefix: Prefix,
    /// Preferred Lifetime.
    pub preferred: u32,
    /// Valid Lifetime.
    pub valid: u32,
}

impl Advertised {
    /// A prefix that the router withdraws: both lifetimes are zero.
    #[must_use]
    pub fn withdrawn(prefix: Prefix) -> Self {
        Self { prefix, preferred: 0, valid: 0 }
    }
}

/// Settings of advertisements that differ from the usual.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Manner {
    /// Whether the router has a high preference (RFC 4191).
    pub is_preferred: bool,
    /// Whether DHCPv6 assigns addresses (flag M), so that hosts form no addresses from the prefixes (RFC 4862).
    pub is_managed: bool,
}

/// Starts `radvd` on an interface of a router. If stopped, `radvd` tells hosts that the router is no default router any
/// more. If killed, `radvd` sends nothing, as when its configuration changes.
///
/// # Errors
/// There is no such router, or no `radvd`.
pub fn advertise(
    lab: &Lab,
    (router, interface): (&str, &str),
    prefixes: &[Advertised],
    Manner { is_preferred, is_managed }: Manner,
) -> anyhow::Result<Process> {
    static STARTED: AtomicU32 = AtomicU32::new(0);
    let number = STARTED.fetch_add(1, Ordering::Relaxed);
    let directory = lab.directory(router)?;
    // A process of an earlier `radvd` may still hold its lock, so each start has its own files.
    let own = directory.join(format!("radvd{number}"));
    let config = own.with_extension("conf");
    let preference = if is_preferred { "high" } else { "medium" };
    let [managed, autonomous] = if is_managed { ["on", "off"] } else { ["off", "on"] };
    // The shortest intervals that `radvd` allows, so that nothing waits long.
    let mut text = format!(
        "interface {interface} {{\n AdvSendAdvert on;\n MinRtrAdvInterval 3;\n MaxRtrAdvInterval 4;\n \
         AdvDefaultLifetime 1800;\n AdvDefaultPreference {preference};\n AdvManagedFlag {managed};\n"
    );
    for Advertised { prefix, preferred, valid } in prefixes {
        writeln!(
            text,
            " prefix {prefix} {{ AdvAutonomous {autonomous}; AdvPreferredLifetime {preferred}; \
             AdvValidLifetime {valid}; DeprecatePrefix off; }};"
        )?;
    }
    text.push_str("};\n");
    fs::write(&config, text).context("configuration of radvd")?;
    let mut command = lab.namespace(router)?.command("radvd");
    command.args(["-n", "-m", "stderr", "-C"]).arg(&config);
    command.arg("-p").arg(own.with_extension("pid")).stdout(Stdio::null());
    Process::start(&mut command, &own.with_extension("log"))
}
