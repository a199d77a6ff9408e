use core::time::Duration;

use alloc::collections::BTreeMap;

use moorline_addresses::{AddressMode, AddressPolicy, Rule};
use moorline_cga::Sec;
use moorline_contexts as shim6;
use moorline_ilnp as ilnp;
use moorline_plane::shim6::Settings;
use moorline_stack::stack;

/// Settings of a [`Host`](crate::Host).
#[derive(Clone, Debug)]
pub struct Config {
    /// Settings of the stack. The host sets [`stack::Config::intercepts`] itself.
    pub stack: stack::Config,
    /// Settings of contexts, and of REAP: the Send Timeout and the profile.
    pub shim6: shim6::Config,
    /// Settings of the data plane: when traffic deserves a context.
    pub plane: Settings,
    /// Settings of ILNP; `None` for a host that does not speak it.
    pub ilnp: Option<ilnp::Config>,
    /// Sec of the hash-based addresses (RFC 3972 s2).
    pub sec: Sec,
}

impl Default for Config {
    /// The settings of the daemon: Send Timeout 10 s (decision 003), all extensions of REAP, Sec 1, no ILNP.
    fn default() -> Self {
        let mut shim6 = shim6::Config {
            asks_before_removal: true,
            profile: shim6::Profile::default(),
            ..shim6::Config::default()
        };
        shim6.shim6.send_timeout = SEND_TIMEOUT;
        let (stack, plane) = (stack::Config::default(), Settings::default());
        Self { stack, shim6, plane, ilnp: None, sec: Sec::ONE }
    }
}

impl Config {
    /// Hash-based addresses on all wires, in one set.
    pub(crate) fn policy(&self) -> AddressPolicy {
        AddressPolicy {
            sec: self.sec,
            default: Rule {
                mode: AddressMode::Hba,
                key: "default".into(),
                set: "default".into(),
                temporary: false,
            },
            interfaces: BTreeMap::new(),
            prefixes: BTreeMap::new(),
            is_temporary_said: true,
            lifetimes: moorline_addresses::TemporaryLifetimes::default(),
        }
    }
}

/// Send Timeout (RFC 5534 s7) of the daemon.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);
