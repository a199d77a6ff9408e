//! Texts of the demo, by protocol.

use std::time::Duration;

use moorline_api::SessionState;

use crate::daemon::{Daemon, is_protected};
use crate::named::named;

named! {
    /// The protocol that keeps connections alive.
    pub enum Protocol {
        /// Shim6 and REAP.
        Shim6 = "shim6",
        /// ILNPv6.
        Ilnp = "ilnp",
    }
}

/// Texts about a protocol.
#[derive(Debug)]
pub(super) struct Words {
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
                protected: "another pair of A and B has answered: the connections can move",
                state: "context",
                settings: "",
            },
            Self::Ilnp => &Words {
                protected: "A and B have a session: each knows the locators of the other",
                state: "session",
                settings: "ilnp = \"on\"",
            },
        }
    }

    /// Longest time for which payload stays on an ISP that dies silently.
    pub(super) const fn patience(self, send_timeout: Duration) -> Duration {
        match self {
            Self::Shim6 => send_timeout,
            Self::Ilnp => SESSION_PATIENCE,
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

/// A session asks by the pair of locators of the second ISP last, 5.5 s after the cut (decision 207).
const SESSION_PATIENCE: Duration = Duration::from_secs(6);
