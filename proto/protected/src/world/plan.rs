use alloc::vec::Vec;
use core::time::Duration;

use moorline_stack::stack::WireId;

/// The network of a [`World`](super::World).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The ISPs. Each host is a customer of all of them.
    pub isps: Vec<IspPlan>,
    /// How hosts are connected to the routers of the ISPs.
    pub layout: Layout,
    /// Whether hosts use addresses before it is sure that no other node has them (RFC 4429).
    pub is_optimistic: bool,
    /// Number of global addresses of host 0 that another node on the link of the first ISP has already.
    pub claims: u32,
    /// Reachable Time and Retrans Timer of the advertisements (RFC 4861 s4.2). Zero leaves both to the hosts.
    pub neighbor_times: (Duration, Duration),
}

/// How a host is connected to the routers of its ISPs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// One link with the routers of all ISPs (RFC 8028).
    OneLink,
    /// A link for each ISP.
    LinkPerIsp,
}

/// An ISP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IspPlan {
    /// Time of a packet through the ISP.
    pub delay: Duration,
    /// Octets a second, for each host and direction.
    pub rate: u64,
    /// Octets of the largest packet.
    pub mtu: u32,
}

impl Plan {
    /// The wire of a host that leads to an ISP.
    pub(super) fn wire_of(&self, isp: usize) -> WireId {
        WireId(match self.layout {
            Layout::OneLink => 0,
            Layout::LinkPerIsp => u32::try_from(isp).unwrap_or(u32::MAX),
        })
    }
}

impl Default for IspPlan {
    /// 10 ms, 100 Mbit/s, 1500 octets.
    fn default() -> Self {
        Self { delay: Duration::from_millis(10), rate: 12_500_000, mtu: 1500 }
    }
}

impl Default for Plan {
    /// Two ISPs on one link.
    fn default() -> Self {
        let neighbor_times = (Duration::ZERO, Duration::ZERO);
        let isps = Vec::from([IspPlan::default(); 2]);
        Self { isps, layout: Layout::OneLink, is_optimistic: false, claims: 0, neighbor_times }
    }
}
