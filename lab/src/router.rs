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
    /// How long addresses in it are for new traffic.
    pub preferred: u32,
    /// How long they are valid.
    pub valid: u32,
}

impl Advertised {
    /// Taken back.
    #[must_use]
    pub fn withdrawn(prefix: Prefix) -> Self {
        Self { prefix, preferred: 0, valid: 0 }
    }
}

/// What is unusual about advertisements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Manner {
    /// Whether hosts are to prefer the router (RFC 4191).
    pub is_preferred: bool,
    /// Whether DHCPv6 gives the addresses (flag M), and hosts make none of the prefixes (RFC 4862).
    pub is_managed: bool,
}

/// Starts `radvd` on an interface of a router. Stopped, it is no default router any more; killed, it ends without a word, as for a
/// change of its configuration.
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
    // A part of the one before may still have its lock.
    let own = directory.join(format!("radvd{number}"));
    let config = own.with_extension("conf");
    let preference = if is_preferred { "high" } else { "medium" };
    let [managed, autonomous] = if is_managed { ["on", "off"] } else { ["off", "on"] };
    // As often as it may, so that nobody waits.
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
