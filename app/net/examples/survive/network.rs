//! Two ISPs with the same two customers, in this process.

use std::io;
use std::net::Ipv6Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use moorline_ip::{Header, PacketBuf};
use moorline_net::Wire;
use moorline_protected::world::Router;
use tokio::time::{Interval, interval};

/// An ISP. Clones are the same one.
#[derive(Clone)]
pub(crate) struct Isp(Arc<AtomicBool>);

/// The link of a customer, and the router of the ISP on it.
struct Port {
    wire: Wire,
    router: Router,
}

impl Isp {
    /// Starts an ISP. Returns also the other ends of the links of its customers.
    pub(crate) fn start(number: usize) -> io::Result<(Self, [Wire; 2])> {
        let isp = Self(Arc::new(AtomicBool::new(true)));
        let ([ours, other_of_ours], [theirs, other_of_theirs]) =
            (<[Wire; 2]>::from(Wire::pair()?), <[Wire; 2]>::from(Wire::pair()?));
        let port = |customer, wire| Port { wire, router: Router::of_customer(number, customer) };
        let ports = [port(0, ours), port(1, theirs)];
        tokio::spawn(isp.clone().run(ports));
        Ok((isp, [other_of_ours, other_of_theirs]))
    }

    /// Ends the ISP without a word: it drops all packets from now on. Its routers go on.
    pub(crate) fn die(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    /// Carries packets until a customer is gone.
    async fn run(self, mut ports: [Port; 2]) {
        let mut advertisements = interval(BETWEEN_ADVERTISEMENTS);
        while self.step(&mut ports, &mut advertisements).await.is_ok() {}
    }

    async fn step(&self, ports: &mut [Port; 2], advertisements: &mut Interval) -> io::Result<()> {
        let [one, other] = ports;
        tokio::select! {
            frame = one.wire.recv() => one.router.handle_frame(&frame?),
            frame = other.wire.recv() => other.router.handle_frame(&frame?),
            _ = advertisements.tick() => ports.iter_mut().for_each(|port| port.router.advertise()),
        }
        self.carry(ports);
        for Port { wire, router } in ports {
            while let Some(frame) = router.poll_frame() {
                wire.send(&frame).await?;
            }
        }
        Ok(())
    }

    fn carry(&self, ports: &mut [Port; 2]) {
        let packets: Vec<PacketBuf> = ports
            .iter_mut()
            .flat_map(|port| std::iter::from_fn(|| port.router.poll_packet()).collect::<Vec<_>>())
            .collect();
        if !self.0.load(Ordering::Relaxed) {
            return;
        }
        for packet in packets {
            let destination = destination(&packet);
            let mut routers = ports.iter_mut().map(|port| &mut port.router);
            if let Some(router) = routers.find(|router| router.leads_to(destination)) {
                router.deliver(packet);
            }
        }
    }
}

fn destination(packet: &[u8]) -> Ipv6Addr {
    Header::parse(packet).map_or(Ipv6Addr::UNSPECIFIED, |header| header.destination)
}

const BETWEEN_ADVERTISEMENTS: Duration = Duration::from_secs(3);
