//! Texts and failures of the demo, by protocol.

use moorline_api::SessionState;

use crate::daemon::{Daemon, is_protected};
use crate::failure::Failure;
use crate::named::named;
use crate::topology::{HOSTS, ISPS};

named! {
    /// The protocol that keeps connections alive.
    pub enum Protocol {
        /// Shim6 and REAP. In the demo, ISP 1 dies silently.
        Shim6 = "shim6",
        /// ILNPv6. In the demo, host A loses its cable to ISP 1.
        Ilnp = "ilnp",
    }
}

/// Texts about a protocol.
#[derive(Debug)]
pub(super) struct Words {
    /// Announces the failure.
    pub(super) plot: &'static str,
    /// Describes the failure at the cut.
    pub(super) cut: &'static str,
    /// Says that the connections can move, and why.
    pub(super) protected: &'static str,
    /// The word for the state that moves a connection.
    pub(super) state: &'static str,
    /// Lines for the daemons' configuration files.
    pub(super) settings: &'static str,
}

impl Protocol {
    pub(super) const fn words(self) -> &'static Words {
        match self {
            Self::Shim6 => &Words {
                plot: "iperf3 sends to B. Then ISP 1 dies: it drops every packet and says nothing.",
                cut: "ISP 1 drops every packet and says nothing",
                protected: "another pair of A and B has answered: the connections can move",
                state: "context",
                settings: "",
            },
            Self::Ilnp => &Words {
                plot: "iperf3 sends to B. Then A loses its cable to ISP 1, and so its locator.",
                cut: "A loses its cable to ISP 1",
                protected: "A and B have a session: each can tell the other where it is",
                state: "session",
                settings: "ilnp = \"on\"",
            },
        }
    }

    pub(super) fn failure(self) -> Failure {
        match self {
            Self::Shim6 => Failure::Silent { router: ISPS[0].into() },
            Self::Ilnp => Failure::CarrierDown { node: HOSTS[0].into(), interface: ISPS[0].into() },
        }
    }

    /// Whether connections of this host could move now. A context can move once another pair has answered. An ILNP
    /// session can move once both hosts have it, because ILNP does not test locators in advance.
    pub(super) fn is_protected(self, daemon: &Daemon) -> anyhow::Result<bool> {
        Ok(match self {
            Self::Shim6 => daemon.contexts()?.iter().any(is_protected),
            Self::Ilnp => {
                let sessions = daemon.ilcc()?.correspondents;
                sessions.iter().any(|session| session.state == SessionState::Established)
            }
        })
    }
}
