//! Versioned control types of the daemon, and its client.
//!
//! The daemon serves HTTP/1.1 with JSON on a Unix socket ([`DEFAULT_SOCKET`]), so that
//! `curl --unix-socket /run/moorline/moorlined.sock http://moorlined/v1/status` works too:
//!
//! | request | answer |
//! |---|---|
//! | `GET /v1/status` | [`Status`] |
//! | `GET /v1/contexts` | list of [`Context`] |
//! | `GET /v1/ilcc` | [`Ilcc`] |
//! | `GET /v1/addresses` | list of [`InterfaceAddresses`] |
//! | `GET /v1/paths` | [`Paths`] |
//! | `POST /v1/paths/switch`, `/v1/paths/pin` ([`SwitchRequest`]) | [`PathAnswer`] |
//! | `POST /v1/paths/unpin` ([`UnpinRequest`]) | [`PathAnswer`] |
//! | `POST /v1/paths/spread` ([`SpreadRequest`]) | [`PathAnswer`] |
//! | `POST /v1/paths/rules` ([`PathRule`]) | [`PathAnswer`] |
//! | `GET /v1/events?since=SEQ&follow=BOOL` ([`EventsQuery`]) | server-sent events, each one [`Event`] |
//! | anything that goes wrong | [`ErrorBody`] with a 4xx or 5xx status |
//!
//! Field names are `snake_case`, values of enumerations `kebab-case`, addresses are text, durations
//! and times carry their unit in the name. Version 1 grows without breaking: a reader ignores fields
//! it does not know and keeps values it does not know as text (`Other`); a field added later is an `Option` or has a
//! `#[serde(default)]`. Anything else is `/v2`.
#![forbid(unsafe_code)]

mod addresses;
mod client;
mod error;
mod event;
mod ilcc;
mod open_enum;
mod path;
mod readiness;
mod sse;
mod types;

pub use addresses::{AddressInfo, AddressMode, AddressState, InterfaceAddresses};
pub use client::{BlockingClient, BlockingEvents, Client, Events};
pub use error::Error;
pub use event::{Event, EventKind, EventsQuery};
pub use ilcc::{
    Correspondent, Ilcc, IlnpLocator, IlnpNonces, IlnpPolicy, IlnpStatus, LocatorValidity,
    RemoteLocator, SessionCounts, SessionState,
};
pub use path::{
    ContextPaths, Net, PathAnswer, PathCounters, PathInfo, PathOutcome, PathResult, PathRule,
    PathState, Paths, Preference, Scope, SpreadRequest, SwitchRequest, UnpinRequest,
};
pub use readiness::{Readiness, ReadinessState, SAME_UPLINK, Survival};
pub use sse::Decoder;
pub use types::{
    Context, ContextCounts, ContextState, DataPlane, Down, ErrorBody, Excluded, LocatorInfo, Pair,
    Proof, ReapState, Role, Status, Uplink,
};

/// Where the daemon listens unless told otherwise.
pub const DEFAULT_SOCKET: &str = "/run/moorline/moorlined.sock";

/// Environment variable that names another socket.
pub const SOCKET_ENV: &str = "MOORLINE_SOCKET";

/// Group whose members may use the socket besides root.
pub const SOCKET_GROUP: &str = "moorline";

/// What [`Status::warnings`] says of a host with fewer than two uplinks, among other words.
pub const ONE_UPLINK: &str = "have nothing to move to";

/// Words of the warning about an interface whose routers the kernel ignores, behind its name and "is".
pub const DEAF: &str = "no uplink: this host forwards";

/// The first words of the warning about a table without room for another context.
pub const TABLE_FULL: &str = "the context table is full";

/// Words of the warning about more prefixes than there are routing tables for.
pub const NO_RULE: &str = "have no routing rule of their own";

/// Request paths of version 1.
pub mod paths {
    /// `GET`: [`Status`](crate::Status).
    pub const STATUS: &str = "/v1/status";
    /// `GET`: list of [`Context`](crate::Context).
    pub const CONTEXTS: &str = "/v1/contexts";
    /// `GET`: [`Ilcc`](crate::Ilcc).
    pub const ILCC: &str = "/v1/ilcc";
    /// `GET`: list of [`InterfaceAddresses`](crate::InterfaceAddresses).
    pub const ADDRESSES: &str = "/v1/addresses";
    /// `GET`: [`Paths`](crate::Paths).
    pub const PATHS: &str = "/v1/paths";
    /// `POST`: [`SwitchRequest`](crate::SwitchRequest).
    pub const SWITCH: &str = "/v1/paths/switch";
    /// `POST`: [`SwitchRequest`](crate::SwitchRequest).
    pub const PIN: &str = "/v1/paths/pin";
    /// `POST`: [`UnpinRequest`](crate::UnpinRequest).
    pub const UNPIN: &str = "/v1/paths/unpin";
    /// `POST`: [`SpreadRequest`](crate::SpreadRequest).
    pub const SPREAD: &str = "/v1/paths/spread";
    /// `POST`: [`PathRule`](crate::PathRule).
    pub const RULES: &str = "/v1/paths/rules";
    /// `POST`: restore the host and end; answered with [`Down`](crate::Down).
    pub const DOWN: &str = "/v1/down";
    /// `GET`: server-sent events, with [`EventsQuery`](crate::EventsQuery).
    pub const EVENTS: &str = "/v1/events";
}
