//! Versioned control types of the daemon, and a client of the daemon.
//!
//! The daemon serves HTTP/1.1 with JSON on a Unix socket ([`DEFAULT_SOCKET`]), so that
//! `curl --unix-socket /run/moorline/moorlined.sock http://moorlined/v1/status` works too:
//!
//! | request | answer |
//! |---|---|
//! | `GET /v1/status` | [`Status`] |
//! | `GET /v1/contexts?limit=N&after=PLACE` ([`ContextsQuery`]) | list of [`Context`], at most [`MAX_PAGE`] of them |
//! | `GET /v1/exclusion?peer=ADDRESS` ([`ExclusionQuery`]) | [`Excluded`], or `null` |
//! | `GET /v1/ilcc?limit=N&after=NUMBER` ([`NumbersQuery`]) | [`Ilcc`], with at most [`MAX_PAGE`] correspondents |
//! | `GET /v1/addresses` | list of [`InterfaceAddresses`] |
//! | `GET /v1/paths?limit=N&after=NUMBER` ([`NumbersQuery`]) | [`Paths`], with at most [`MAX_PAGE`] contexts |
//! | `POST /v1/paths/switch?limit=N&after=NUMBER`, `/v1/paths/pin` ([`NumbersQuery`], [`SwitchRequest`]) | [`PathAnswer`], with at most [`MAX_PAGE`] outcomes |
//! | `POST /v1/paths/unpin?limit=N&after=NUMBER` ([`NumbersQuery`], [`UnpinRequest`]) | [`PathAnswer`], likewise |
//! | `POST /v1/paths/spread?limit=N&after=NUMBER` ([`NumbersQuery`], [`SpreadRequest`]) | [`PathAnswer`], likewise |
//! | `POST /v1/paths/rules` ([`PathRule`]) | [`PathAnswer`] |
//! | `GET /v1/events?since=SEQ&follow=BOOL` ([`EventsQuery`]) | server-sent events, each one [`Event`] |
//! | anything that goes wrong | [`ErrorBody`] with a 4xx or 5xx status |
//!
//! Field names are `snake_case`, values of enumerations are `kebab-case`, and addresses are text. The name of a
//! duration or time has its unit. From its first release on, changes of version 1 are additions: a reader ignores unknown fields and keeps unknown
//! values as text (`Other`), and a new field is an `Option` or has `#[serde(default)]`. Any other change needs `/v2`.
#![forbid(unsafe_code)]

mod addresses;
mod client;
mod error;
mod event;
mod ilcc;
mod open_enum;
mod page;
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
pub use page::{ContextsQuery, MAX_PAGE, NumbersQuery, Place};
pub use path::{
    ContextPaths, Net, PathAnswer, PathCounters, PathInfo, PathOutcome, PathResult, PathRule,
    PathState, Paths, Preference, Scope, SpreadRequest, SwitchRequest, UnpinRequest,
};
pub use readiness::{Readiness, ReadinessState, SAME_UPLINK, Survival, UPLINK_FAILS};
pub use sse::Decoder;
pub use types::{
    Context, ContextCounts, ContextState, DataPlane, Down, ErrorBody, Excluded, ExclusionQuery,
    LocatorInfo, Pair, Proof, ReapState, Role, Status, Uplink,
};

/// Default path of the daemon's socket.
pub const DEFAULT_SOCKET: &str = "/run/moorline/moorlined.sock";

/// Name of the environment variable with the path of another socket.
pub const SOCKET_ENV: &str = "MOORLINE_SOCKET";

/// Group whose members may use the socket, beside root.
pub const SOCKET_GROUP: &str = "moorline";

/// Words in the warning of [`Status::warnings`] about a host with fewer than two uplinks.
pub const ONE_UPLINK: &str = "have nothing to move to";

/// Words in the warning about an interface whose routers the kernel ignores; the interface's name and "is" come before
/// them.
pub const DEAF: &str = "no uplink: this host forwards";

/// Words in the warning about an address of ours that somebody has removed; the interface's name comes before them.
pub const REMOVED: &str = "an address of ours, was removed";

/// First words of the warning about a full context table.
pub const TABLE_FULL: &str = "the context table is full";

/// Words in the warning about prefixes for which no routing table is left.
pub const NO_RULE: &str = "have no routing rule of their own";

/// Request paths of version 1.
pub mod paths {
    /// `GET`: [`Status`](crate::Status).
    pub const STATUS: &str = "/v1/status";
    /// `GET`: list of [`Context`](crate::Context), with [`ContextsQuery`](crate::ContextsQuery).
    pub const CONTEXTS: &str = "/v1/contexts";
    /// `GET`: [`Excluded`](crate::Excluded) or `null`, with [`ExclusionQuery`](crate::ExclusionQuery).
    pub const EXCLUSION: &str = "/v1/exclusion";
    /// `GET`: [`Ilcc`](crate::Ilcc), with [`NumbersQuery`](crate::NumbersQuery).
    pub const ILCC: &str = "/v1/ilcc";
    /// `GET`: list of [`InterfaceAddresses`](crate::InterfaceAddresses).
    pub const ADDRESSES: &str = "/v1/addresses";
    /// `GET`: [`Paths`](crate::Paths), with [`NumbersQuery`](crate::NumbersQuery).
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
    /// `POST`: restore the host and end; the answer is [`Down`](crate::Down).
    pub const DOWN: &str = "/v1/down";
    /// `GET`: server-sent events, with [`EventsQuery`](crate::EventsQuery).
    pub const EVENTS: &str = "/v1/events";
}
