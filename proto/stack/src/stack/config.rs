use crate::select::Privacy;
use crate::tcp::smol;
use crate::{address, error, ip4, route};

/// Settings of a host.
//= rfc6724#5-7
#[derive(Clone, Debug)]
pub struct Config {
    /// Hop limit of packets, until a router says another one. RFC 8200 names no value; RFC 1700 and most hosts have 64.
    pub hop_limit: u8,
    /// Rates of the errors and echo replies that the host sends.
    pub limits: error::Limits,
    /// Bounds of the destination cache.
    pub destinations: route::Limits,
    /// Sizes of the TCP connections.
    pub tcp: smol::Config,
    /// Which source addresses come first: temporary or public ones (RFC 6724 s5 rule 7).
    pub privacy: Privacy,
    /// Whether packets stop between the upper layers and the wires, for a layer that is there
    /// ([`Stack::poll_outbound`](super::Stack::poll_outbound), [`Stack::poll_inbound`](super::Stack::poll_inbound)).
    pub intercepts: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            hop_limit: 64,
            limits: error::Limits::default(),
            destinations: route::Limits::default(),
            tcp: smol::Config::default(),
            privacy: Privacy::default(),
            intercepts: false,
        }
    }
}

/// Settings of a wire: a link with the framing of Ethernet.
#[derive(Clone, Debug)]
pub struct WireConfig {
    /// Octets of the largest packet of the link; at least 1280 (RFC 8200 s5).
    pub mtu: u32,
    /// The link-layer address of the interface, and how the interface gets its addresses.
    pub addressing: address::Config,
    /// The IPv4 address of the interface, if it has one.
    pub ip4: Option<ip4::Config>,
}
