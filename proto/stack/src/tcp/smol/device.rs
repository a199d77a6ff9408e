use core::num::NonZeroUsize;

use moorline_ip::PacketBuf;
use smoltcp::iface::{Config, Interface};
use smoltcp::phy::{Checksum, Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::time::Instant;
use smoltcp::wire::HardwareAddress;

use super::super::Spares;
use super::super::spares::LARGEST;

/// The device of one call of the interface: one packet in at most, and one packet out at most.
#[derive(Default)]
pub(super) struct Port<'a> {
    pub(super) incoming: Option<&'a [u8]>,
    pub(super) outgoing: Option<PacketBuf>,
    /// Memory for a large packet that goes out.
    pub(super) spares: Option<&'a mut Spares>,
}

/// An interface for packets of all addresses. The first random number that a socket draws from it depends on `seed` alone.
pub(super) fn interface(seed: u64) -> Interface {
    let mut config = Config::new(HardwareAddress::Ip);
    config.random_seed = seed;
    let mut interface = Interface::new(config, &mut Port::default(), Instant::ZERO);
    interface.set_any_ip(true);
    interface
}

impl Device for Port<'_> {
    type RxToken<'b>
        = In<'b>
    where
        Self: 'b;
    type TxToken<'b>
        = Out<'b>
    where
        Self: 'b;

    fn receive(&mut self, _: Instant) -> Option<(In<'_>, Out<'_>)> {
        let incoming = In(self.incoming.take()?);
        Some((incoming, Out(&mut self.outgoing, self.spares.as_deref_mut())))
    }

    fn transmit(&mut self, _: Instant) -> Option<Out<'_>> {
        self.outgoing.is_none().then_some(Out(&mut self.outgoing, self.spares.as_deref_mut()))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        // smoltcp 0.14 drops IPv6 packets above the MTU, super-segments too. So the MTU is that of super-segments.
        capabilities.max_transmission_unit = LARGEST;
        capabilities.checksum.tcp = Checksum::None;
        capabilities.segmentation.tcpv6 = NonZeroUsize::new(LARGEST);
        capabilities
    }
}

pub(super) struct In<'a>(&'a [u8]);

impl RxToken for In<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(self.0)
    }
}

pub(super) struct Out<'a>(&'a mut Option<PacketBuf>, Option<&'a mut Spares>);

impl TxToken for Out<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        // smoltcp writes each octet behind the headers.
        let spares = self.1.filter(|_| len > LARGE);
        let mut packet = spares.map_or_else(|| PacketBuf::with_capacity(len), Spares::take_or_new);
        packet.reset(len);
        packet.iter_mut().take(HEADERS).for_each(|octet| *octet = 0);
        let result = f(&mut packet);
        *self.0 = Some(packet);
        result
    }
}

/// Packets with more octets are cut or recycled, as a rule: their memory comes back.
const LARGE: usize = 4_096;
/// Octets of the headers of IPv6 and TCP at most.
const HEADERS: usize = 40 + 60;
