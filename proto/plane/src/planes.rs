use alloc::vec::Vec;

use moorline_datapath as datapath;
use moorline_datapath::ilnp::Sockets;
use moorline_types::Instant;

use crate::{Inbound, Outbound, ilnp, shim6};

/// User-space data planes of a host, one behind the other. The plane of ILNP sees each packet first, because ILNP
/// asks a peer first. The plane of Shim6 sees the packets that the plane of ILNP leaves untouched.
#[derive(Debug)]
pub struct Planes {
    /// The plane of Shim6.
    pub shim6: shim6::Plane,
    /// The plane of ILNP, if the host speaks ILNP.
    pub ilnp: Option<ilnp::Plane>,
}

/// The plane that has decided the fate of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The plane of Shim6. A packet that both planes leave untouched counts as its packet.
    Shim6,
    /// The plane of ILNP.
    Ilnp,
}

/// A report of one of the planes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// Report of the plane of Shim6.
    Shim6(datapath::shim6::Report),
    /// Report of the plane of ILNP.
    Ilnp(datapath::ilnp::Report),
}

impl Planes {
    /// Handles a packet that a socket sends, from its IPv6 header on.
    pub fn handle_outbound(
        &mut self,
        packet: &mut Vec<u8>,
        sockets: &dyn Sockets,
        now: Instant,
    ) -> (By, Outbound) {
        let ilnp = self.ilnp.as_mut();
        let fate = ilnp.map(|plane| plane.handle_outbound(packet, sockets, now));
        match fate.filter(|fate| *fate != Outbound::Pass) {
            Some(fate) => (By::Ilnp, fate),
            None => (By::Shim6, self.shim6.handle_outbound(packet, now)),
        }
    }

    /// Handles a packet from the network, from its IPv6 header on.
    pub fn handle_inbound(
        &mut self,
        packet: &mut Vec<u8>,
        sockets: &dyn Sockets,
        now: Instant,
    ) -> (By, Inbound) {
        let ilnp = self.ilnp.as_mut();
        let fate = ilnp.map(|plane| plane.handle_inbound(packet, sockets, now));
        match fate.filter(|fate| *fate != Inbound::Pass) {
            Some(fate) => (By::Ilnp, fate),
            None => (By::Shim6, self.shim6.handle_inbound(packet, now)),
        }
    }

    /// Returns the next report, those of ILNP first; `None` until the next `handle_*`.
    #[must_use]
    pub fn poll_report(&mut self) -> Option<Report> {
        let ilnp = self.ilnp.as_mut().and_then(ilnp::Plane::poll_report).map(Report::Ilnp);
        ilnp.or_else(|| self.shim6.poll_report().map(Report::Shim6))
    }
}
