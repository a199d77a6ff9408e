//! The sockets at the ends of a workload with a host stack.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::net::Ipv6Addr;
use std::rc::Rc;
use std::time::Duration;

use moorline_ip::ethernet::{self, Ethernet};
use moorline_ip::{Mac, PacketBuf};
use moorline_protected::Host;
use moorline_protected::world::Router;
use moorline_stack::address::{self, Given};
use moorline_stack::stack::{Carried, Config, Stack, WireConfig, WireId};
use moorline_types::{Instant, Locator, Prefix, UlidPair};

use super::Side;
use crate::packet::{self, ICMPV6};

/// The sockets at an end of a connection.
pub(crate) enum End {
    /// Those of a host stack, and whether it sleeps.
    Stack(Rc<RefCell<Host>>, Rc<Cell<bool>>),
    /// Those of a kernel: its packets go through the data planes of the simulated host.
    Kernel(Box<Kernel>),
}

/// A kernel with one address.
pub(crate) struct Kernel {
    stack: Stack,
    router: Router,
    /// Time of the next advertisement: the route of the one before would end.
    advertises_at: Instant,
    address: Ipv6Addr,
    /// How the packets of its socket leave, as [`End::follow_path`] has told it.
    carried: Option<Carried>,
    packets: VecDeque<Vec<u8>>,
}

impl End {
    pub(crate) fn kernel(address: Locator, seed: [u8; 32], now: Instant) -> Self {
        Self::Kernel(Box::new(Kernel::new(address.0, seed, now)))
    }

    /// Calls the sockets.
    pub(super) fn with<T>(&mut self, now: Instant, call: impl FnOnce(&mut Stack) -> T) -> T {
        match self {
            Self::Stack(host, _) => host.borrow_mut().with_stack(now, call),
            Self::Kernel(kernel) => call(&mut kernel.stack),
        }
    }

    /// Whether nothing runs on the host. What a kernel sends meanwhile is lost.
    pub(super) fn is_asleep(&self) -> bool {
        matches!(self, Self::Stack(_, is_asleep) if is_asleep.get())
    }

    /// Takes a packet that the data planes give to a kernel. A host stack takes its packets from its links.
    pub(super) fn handle_packet(&mut self, packet: &[u8], now: Instant) {
        if let Self::Kernel(kernel) = self {
            kernel.handle_packet(packet, now);
        }
    }

    /// Takes how the packets of a kernel leave. A host stack knows.
    pub(super) fn follow_path(&mut self, ulids: UlidPair, carried: Option<Carried>) {
        if let Self::Kernel(kernel) = self
            && kernel.carried != carried
        {
            kernel.carried = carried;
            kernel.stack.set_carried((ulids.local.0, ulids.peer.0), carried);
        }
    }

    /// Takes the word of the daemon that its path works. A host stack tells its TCP itself.
    pub(super) fn handle_move(&mut self, ulids: UlidPair, now: Instant) {
        if let Self::Kernel(kernel) = self {
            kernel.stack.handle_move(ulids.local.0, ulids.peer.0, now);
        }
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        if let Self::Kernel(kernel) = self {
            kernel.handle_timeout(now);
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        match self {
            Self::Kernel(kernel) => {
                kernel.stack.poll_timeout().into_iter().chain([kernel.advertises_at]).min()
            }
            Self::Stack(..) => None,
        }
    }

    /// The next packet of a kernel at either end.
    pub(super) fn poll_packet(ends: &mut [Self; 2]) -> Option<(Side, Vec<u8>)> {
        Side::BOTH.into_iter().zip(ends).find_map(|(side, end)| match end {
            Self::Kernel(kernel) => Some((side, kernel.poll_packet()?)),
            Self::Stack(..) => None,
        })
    }
}

impl Kernel {
    /// A kernel that has an address at once, and a route.
    fn new(address: Ipv6Addr, seed: [u8; 32], now: Instant) -> Self {
        let mut stack = Stack::new(Config { intercepts: true, ..Config::default() }, seed, now);
        let addressing = address::Config {
            makes_global: false,
            dad_transmits: 0,
            ..address::Config::new(STATION)
        };
        let wire = stack.add_wire(WireConfig { mtu: MTU, addressing, ip4: None }, now);
        let forever = address::Lifetimes { preferred: None, valid: None };
        let given = Given {
            address,
            prefix_len: 64,
            is_generated: true,
            is_optimistic: true,
            lifetimes: forever,
        };
        // A new stack takes an address.
        let _ = stack.add_address(wire, &given, now);
        let router = Router::of_prefix(0, Prefix::new(address, 64));
        let (carried, packets) = (None, VecDeque::new());
        let mut kernel = Self { stack, router, advertises_at: now, address, carried, packets };
        kernel.handle_timeout(now);
        kernel
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.advertises_at <= now {
            self.advertises_at = now + BETWEEN_ADVERTISEMENTS;
            self.router.advertise();
            while let Some(frame) = self.router.poll_frame() {
                self.stack.handle_frame(WireId(0), frame, now);
            }
        }
        if self.stack.poll_timeout().is_some_and(|at| at <= now) {
            self.stack.handle_timeout(now);
        }
    }

    fn handle_packet(&mut self, packet: &[u8], now: Instant) {
        let mut frame = PacketBuf::copy_of(packet);
        let link = Ethernet { destination: STATION, source: ROUTER, ether_type: ethernet::IPV6 };
        frame.prepend(&link.octets());
        self.stack.handle_frame(WireId(0), frame, now);
        while let Some((arrival, packet)) = self.stack.poll_inbound() {
            self.stack.handle_inbound(arrival, packet, now);
        }
    }

    /// The next packet of a socket. What the kernel says on its link goes nowhere, and neither do its errors: it has one socket, and
    /// gets the fragments for others, too.
    fn poll_packet(&mut self) -> Option<Vec<u8>> {
        while self.stack.poll_frame().is_some() || self.stack.poll_event().is_some() {}
        let own = Locator(self.address);
        let is_of_socket = |packet: &Vec<u8>| {
            packet::header(packet).is_some_and(|(pair, next)| pair.local == own && next != ICMPV6)
        };
        while let Some(packet) = self.stack.poll_outbound() {
            self.packets.extend(Some(packet.to_vec()).filter(is_of_socket));
        }
        self.packets.pop_front()
    }
}

impl fmt::Debug for End {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Stack(..) => "Stack",
            Self::Kernel(_) => "Kernel",
        })
    }
}

/// Time between two advertisements of a kernel's router, whose route lasts for 30 minutes.
const BETWEEN_ADVERTISEMENTS: Duration = Duration::from_secs(600);
/// MTU of a kernel's link: a packet has room for the payload header.
const MTU: u32 = 1400;
const STATION: Mac = Mac([2, 0, 0, 2, 0, 1]);
const ROUTER: Mac = Mac([2, 0, 0, 2, 0, 2]);
