//! The attacks: protocol, rate and sender of each.
//!
//! The attacker stands behind a router of an ISP: it sends with any source address, and reads the answers to its own
//! made-up ones only. It reads nothing that the two hosts send to each other. Some attackers know more: the ports of the
//! connection, or a nonce, because the attacker is the correspondent; or they are on the link, or a user of the host.

use super::frames::{self, Frames};
use crate::experiment::recovery::Scene;
use crate::named::named;
use crate::topology::Impairment;

named! {
    /// An attack on host A.
    pub enum Attack {
        /// No attack, between hosts with Shim6.
        Nothing = "none",
        /// Two payload packets of 1,064 octets from each of many made-up sources, so that each source looks like a peer.
        Triggers = "triggers",
        /// I1s from made-up sources.
        I1 = "i1",
        /// Handshakes up to the I2 from made-up sources under 64 prefixes of the attacker.
        I2 = "i2",
        /// The same from one address, each of another forked instance.
        Forks = "forks",
        /// Two datagrams of 1,064 octets from each of many made-up sources, to a service that answers each of them.
        Echoed = "echoed",
        /// I1s from made-up sources whose contexts the host wants, because the service has answered their datagrams.
        Wanted = "wanted",
        /// Control messages of types 64 to 127 with made-up tags, from made-up sources.
        Types = "types-64-127",
        /// The same messages behind Destination Options.
        BehindOptions = "types-behind-options",
        /// Keepalives with made-up tags, from made-up sources.
        Keepalives = "keepalives",
        /// Errors about messages with made-up tags, from made-up sources.
        Errors = "errors",
        /// R1bis with made-up tags, from made-up sources.
        R1bis = "r1bis",
        /// Payload headers with made-up tags, from made-up sources.
        Payload = "payload",
        /// Packets of 8 octets with the ULIDs of the connection as addresses, to both hosts.
        Ulids = "ulids",
        /// I1s and payload with made-up tags and the ULIDs of the connection as addresses, to both hosts.
        Messages = "messages",
        /// TCP segments with the ULIDs and ports of the connection, and random numbers, to both hosts.
        Ports = "ports",
        /// Advertisements of made-up prefixes, on the link to ISP 2.
        Prefixes = "prefixes",
        /// Advertisements of made-up default routers and prefixes, on the link to ISP 2.
        Routers = "routers",
        /// Connections to the control socket that send nothing, of a user who may use it.
        Connections = "connections",
        /// No attack, between hosts with ILNP.
        NothingIlnp = "none-ilnp",
        /// Nonces of made-up ILNP correspondents.
        Nonces = "nonces",
        /// Packets of 8 octets with the addresses of the session, to both hosts.
        UlidsIlnp = "ulids-ilnp",
        /// TCP segments with the addresses and ports of the session, and random numbers, to both hosts.
        PortsIlnp = "ports-ilnp",
        /// Locator Updates of the correspondent that name the locator of a third party.
        ThirdParty = "third-party",
    }
}

/// The sender of an attack.
#[derive(Clone, Copy)]
pub(super) enum By {
    Nobody,
    /// Made-up sources.
    Strangers(fn() -> Vec<Frames>),
    /// Made-up sources that answer each R1 with its I2.
    Handshakes {
        i1s: fn() -> Vec<Frames>,
        is_forked: bool,
    },
    /// Made-up sources, to a host with a service that answers datagrams.
    Clients(fn() -> Vec<Frames>),
    /// Somebody in the name of both hosts, who knows their addresses.
    Pretender(fn() -> Vec<Frames>),
    /// Somebody in the name of both hosts, who also knows the ports.
    Segments,
    /// The correspondent itself.
    Correspondent,
    /// Made-up routers on the link.
    Routers {
        are_default: bool,
    },
    /// A user of the host.
    Users,
}

/// The row of an attack in the catalogue.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    is_on_ilnp: bool,
    /// Packets a second, unless an option says another number: rates at which a fault was seen, or that a host must bear.
    pub(super) rate: u64,
    pub(super) by: By,
}

impl Attack {
    /// The row of the attack.
    pub(super) const fn entry(self) -> Entry {
        match self {
            Self::Nothing => shim6(0, By::Nobody),
            Self::Triggers => shim6(1_100, By::Strangers(frames::triggers)),
            Self::I1 => shim6(50_000, By::Strangers(frames::i1s)),
            Self::I2 => {
                shim6(3_000, By::Handshakes { i1s: frames::i1s_of_64_prefixes, is_forked: false })
            }
            Self::Forks => {
                shim6(3_000, By::Handshakes { i1s: frames::forked_i1s, is_forked: true })
            }
            Self::Echoed => shim6(1_100, By::Clients(frames::datagrams)),
            Self::Wanted => shim6(2_000, By::Clients(frames::wanted)),
            Self::Types => shim6(50_000, By::Strangers(frames::types)),
            Self::BehindOptions => shim6(50_000, By::Strangers(frames::types_behind_options)),
            Self::Keepalives => shim6(50_000, By::Strangers(frames::keepalives)),
            Self::Errors => shim6(50_000, By::Strangers(frames::errors)),
            Self::R1bis => shim6(50_000, By::Strangers(frames::r1bis)),
            Self::Payload => shim6(50_000, By::Strangers(frames::payload)),
            Self::Ulids => shim6(50, By::Pretender(frames::octets)),
            Self::Messages => shim6(2_000, By::Pretender(frames::messages)),
            Self::Ports => shim6(50, By::Segments),
            Self::Prefixes => shim6(200, By::Routers { are_default: false }),
            Self::Routers => shim6(200, By::Routers { are_default: true }),
            Self::Connections => shim6(200, By::Users),
            Self::NothingIlnp => ilnp(0, By::Nobody),
            Self::Nonces => ilnp(50_000, By::Strangers(frames::nonces)),
            Self::UlidsIlnp => ilnp(50, By::Pretender(frames::octets)),
            Self::PortsIlnp => ilnp(50, By::Segments),
            Self::ThirdParty => ilnp(10, By::Correspondent),
        }
    }

    /// Whether the hosts of this attack have ILNP instead of Shim6.
    pub(super) const fn is_on_ilnp(self) -> bool {
        self.entry().is_on_ilnp
    }

    /// Whether the attacker knows something of the connection, so that the connection begins first.
    pub(super) const fn knows_the_connection(self) -> bool {
        self.is_of_the_correspondent() || matches!(self.entry().by, By::Segments)
    }

    /// Whether the attacker is the other end of the connection.
    pub(super) const fn is_of_the_correspondent(self) -> bool {
        matches!(self.entry().by, By::Correspondent)
    }

    /// Whether the packets have the address of a host as source, so that answers go there.
    pub(super) const fn is_in_the_name_of_hosts(self) -> bool {
        matches!(self.entry().by, By::Pretender(_) | By::Segments)
    }

    /// Two hosts with daemons as installed.
    pub(super) fn scene(self) -> anyhow::Result<Scene> {
        let cables = Impairment::default();
        if self.is_on_ilnp() {
            let settings = "addresses = \"off\"\nilnp = \"on\"\n";
            return Scene::as_it_is(cables, super::SEND_TIMEOUT, settings);
        }
        Scene::protected(cables, super::SEND_TIMEOUT, "")
    }
}

const fn shim6(rate: u64, by: By) -> Entry {
    Entry { is_on_ilnp: false, rate, by }
}

const fn ilnp(rate: u64, by: By) -> Entry {
    Entry { is_on_ilnp: true, rate, by }
}
