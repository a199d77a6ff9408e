//! An attack that goes on, and its counts.

use std::net::Ipv6Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use moorline_types::Ilv;

use super::catalogue::{Attack, By};
use super::frames::{self, Frames};
use super::handshake;
use super::host;
use crate::experiment::recovery::{Flow, Scene};
use crate::hop::{ETHERNET_LEN, Hop};
use crate::interrupt;
use crate::netns::{Namespace, Worker};
use crate::topology::{HOSTS, ISPS, host_address};
use crate::workload::{Answers, Generator, LONGEST_FLOOD, STRANGER, Stream};

/// An attack that goes on.
pub(super) struct Running {
    /// Streams, and the octets of each of their packets.
    streams: Vec<(Generator, u64)>,
    parts: Vec<Part>,
    answers: Vec<Answers>,
}

impl Running {
    /// Begins the attack, and the count of answers. `flow` is the honest connection, if it has begun.
    pub(super) fn start(
        attack: Attack,
        scene: &Scene,
        rate: Option<u64>,
        flow: Option<&Flow>,
    ) -> anyhow::Result<Self> {
        let entry = attack.entry();
        let rate = rate.unwrap_or(entry.rate);
        let mut running = Self::count(scene)?;
        match entry.by {
            By::Nobody => {}
            By::Strangers(frames) => running.strangers(attack, scene, frames(), rate)?,
            By::Handshakes { i1s, is_forked } => {
                let (router, hop, victim) = victim(attack, scene)?;
                running.strangers(attack, scene, i1s(), rate)?;
                running.parts.push(handshake::start(router, hop, victim, is_forked)?);
            }
            By::Clients(frames) => {
                running.parts.push(host::echo(scene, victim(attack, scene)?.2)?);
                running.strangers(attack, scene, frames(), rate)?;
            }
            By::Pretender(frames) => {
                running.pretend_to_be_the_peers(scene, [frames(), frames()], rate)?;
            }
            By::Segments => {
                let [client, server] = ports(flow)?;
                let both = [[client, server], [server, client]].map(frames::segments);
                running.pretend_to_be_the_peers(scene, both, rate)?;
            }
            By::Correspondent => running.name_a_third_party(scene, rate)?,
            By::Routers { are_default } => {
                running.advertise(scene, victim(attack, scene)?, are_default, rate)?;
            }
            By::Users => running.parts.push(host::connections(scene, rate)?),
        }
        Ok(running)
    }

    /// Starts to count answers in the routers of both ISPs.
    fn count(scene: &Scene) -> anyhow::Result<Self> {
        let answers = ISPS.iter().map(|isp| Answers::start(scene.lab.namespace(isp)?));
        let answers = answers.collect::<anyhow::Result<_>>()?;
        Ok(Self { streams: Vec::new(), parts: Vec::new(), answers })
    }

    /// Strangers come by the other ISP, so that the queue of a link does not affect the result.
    fn strangers(
        &mut self,
        attack: Attack,
        scene: &Scene,
        all: Vec<Frames>,
        rate: u64,
    ) -> anyhow::Result<()> {
        let (router, hop, victim) = victim(attack, scene)?;
        for frames in all {
            self.send(router, &hop, [STRANGER, victim], &frames, rate)?;
        }
        Ok(())
    }

    /// Sends a stream of packets of an attack of this rate by this hop. `ends` are source and destination.
    fn send(
        &mut self,
        router: &Namespace,
        hop: &Hop,
        ends: [Ipv6Addr; 2],
        frames: &Frames,
        rate: u64,
    ) -> anyhow::Result<()> {
        let frame = hop.frame(ends, frames.next_header, &frames.first);
        let octets = (frame.len() - ETHERNET_LEN) as u64;
        let rate = (rate / frames.divisor).max(1);
        let stream = Stream { frame, vary: frames.vary(), rate: Some(rate) };
        let generator = Generator::start(router, &hop.interface, vec![stream], LONGEST_FLOOD)?;
        self.streams.push((generator, octets));
        Ok(())
    }

    /// Sends packets to each host with the address of the other one as source: the first frames in the name of host A.
    /// The router of ISP 1 sends them, so that they arrive when the path between the hosts is dead.
    fn pretend_to_be_the_peers(
        &mut self,
        scene: &Scene,
        frames: [Vec<Frames>; 2],
        rate: u64,
    ) -> anyhow::Result<()> {
        let router = scene.lab.namespace(ISPS[0])?;
        let [a, b] = [0, 1].map(|end: usize| scene.ends[end].address);
        for (ends, frames) in [[a, b], [b, a]].into_iter().zip(&frames) {
            let (hop, _) = Hop::towards(router, ends[1])?;
            for frames in frames {
                self.send(router, &hop, ends, frames, rate)?;
            }
        }
        Ok(())
    }

    /// Sends Locator Updates of host B, with its nonce, that prefer the locator of a third party. The locators of host
    /// B follow. Host B acknowledges what it gets.
    fn name_a_third_party(&mut self, scene: &Scene, rate: u64) -> anyhow::Result<()> {
        let [a, b] = [0, 1].map(|end: usize| scene.ends[end].address);
        let session = scene.daemons[1].ilcc()?.correspondents.into_iter().next();
        let nonces = session.and_then(|session| session.nonces).context("a session with nonces")?;
        let nonce = octets(&nonces.sent).context("a nonce in hexadecimal digits")?;
        let named = [STRANGER, b, host_address(HOSTS[1], 2)];
        let locators = named.map(|address| Ilv::of(address).l64.octets());
        let router = scene.lab.namespace(ISPS[0])?;
        let (hop, _) = Hop::towards(router, a)?;
        self.send(router, &hop, [b, a], &frames::locator_updates(&nonce, &locators), rate)
    }

    /// Sends Router Advertisements on the link between host A and ISP 2. The kernel of host A follows routers there. It
    /// knows the router of ISP 2 first, which advertises its prefix each second.
    fn advertise(
        &mut self,
        scene: &Scene,
        (router, hop, victim): (&Namespace, Hop, Ipv6Addr),
        are_default: bool,
        rate: u64,
    ) -> anyhow::Result<()> {
        let host = scene.lab.namespace(HOSTS[0])?;
        host.sysctl(&format!("ipv6/conf/{}/accept_ra", ISPS[1]), "1")?;
        let own = link_local(router, &hop.interface)?;
        let hop = Hop { next: ALL_NODES_ETHERNET, ..hop };
        let honest = frames::advertisements_of(Ilv::of(victim).l64.octets());
        self.send(router, &hop, [own, ALL_NODES], &honest, 1)?;
        interrupt::wait_for("the router of ISP 2", ROUTER_LIMIT, || {
            let routes = host.ip(&["-6", "route", "show", "default", "via", &own.to_string()])?;
            Ok((!routes.is_empty()).then_some(()))
        })?;
        let frames = frames::router_advertisements(are_default);
        self.send(router, &hop, [STRANGER, ALL_NODES], &frames, rate)
    }

    /// Traffic of the attack so far.
    pub(super) fn traffic(&self) -> anyhow::Result<Traffic> {
        let mut traffic = Traffic::default();
        let streams = self.streams.iter().map(|(generator, octets)| {
            let packets = generator.sent();
            [packets, packets * octets]
        });
        for [packets, octets] in streams.chain(self.parts.iter().map(|part| part.sent.so_far())) {
            traffic.packets += packets;
            traffic.octets += octets;
        }
        for answers in &self.answers {
            let [packets, octets] = answers.count()?;
            traffic.answers += packets;
            traffic.octets_of_answers += octets;
        }
        Ok(traffic)
    }

    /// Ends the attack.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        for (generator, _) in self.streams {
            generator.finish()?;
        }
        self.parts.into_iter().try_for_each(|part| part.worker.finish())?;
        self.answers.into_iter().try_for_each(Answers::finish)
    }
}

/// A thread of the attack.
pub(super) struct Part {
    sent: Arc<Sent>,
    worker: Worker<()>,
}

impl Part {
    /// Starts a thread in a namespace.
    pub(super) fn start(
        namespace: &Namespace,
        what: &str,
        work: impl FnOnce(&AtomicBool, &Sent) -> anyhow::Result<()> + Send + 'static,
    ) -> anyhow::Result<Self> {
        let sent = Arc::<Sent>::default();
        let count = Arc::clone(&sent);
        Ok(Self { sent, worker: namespace.work(what, move |stop| work(stop, &count))? })
    }
}

/// Numbers of packets and of octets that a thread has sent, from the IPv6 header on.
#[derive(Default)]
pub(super) struct Sent([AtomicU64; 2]);

impl Sent {
    pub(super) fn note(&self, octets: usize) {
        for (count, more) in self.0.iter().zip([1, octets as u64]) {
            count.fetch_add(more, Ordering::Relaxed);
        }
    }

    fn so_far(&self) -> [u64; 2] {
        [0, 1].map(|at: usize| self.0[at].load(Ordering::Relaxed))
    }
}

/// Numbers of packets and octets, from the IPv6 header on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Traffic {
    pub(super) packets: u64,
    pub(super) octets: u64,
    /// Packets of the hosts to made-up addresses.
    pub(super) answers: u64,
    pub(super) octets_of_answers: u64,
}

/// The router of ISP 2, its hop to host A, and the address of host A there.
fn victim(attack: Attack, scene: &Scene) -> anyhow::Result<(&Namespace, Hop, Ipv6Addr)> {
    let router = scene.lab.namespace(ISPS[1])?;
    let victim = if attack.is_on_ilnp() {
        host_address(HOSTS[0], 2)
    } else {
        scene.daemons[0].verifiable_address(ISPS[1])?
    };
    Ok((router, Hop::towards(router, victim)?.0, victim))
}

/// Ports of the honest connection: of host A, which connects, and of host B.
fn ports(flow: Option<&Flow>) -> anyhow::Result<[u16; 2]> {
    match flow {
        Some(Flow::Tcp(transfer)) => Ok(transfer.ports()),
        Some(Flow::Udp(_)) | None => anyhow::bail!("no connection with ports"),
    }
}

/// The link-local address of an interface.
fn link_local(router: &Namespace, interface: &str) -> anyhow::Result<Ipv6Addr> {
    let shown = router.ip_json(&["-6", "addr", "show", "dev", interface, "scope", "link"])?;
    // `ip` prints an empty object for each address of another scope.
    let all = shown.iter().filter_map(|link| link["addr_info"].as_array()).flatten();
    let mut texts = all.filter_map(|address| address["local"].as_str());
    Ok(texts.next().context("a link-local address")?.parse()?)
}

/// Octets of hexadecimal digits.
fn octets(digits: &str) -> Option<Vec<u8>> {
    let octet = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
    (0..digits.len()).step_by(2).map(octet).collect()
}

/// Longest time until a host knows a router that advertises each second.
const ROUTER_LIMIT: Duration = Duration::from_secs(10);
/// All nodes on the link (RFC 4291 s2.7.1), and their link-layer address (RFC 2464 s7).
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
const ALL_NODES_ETHERNET: [u8; 6] = [0x33, 0x33, 0, 0, 0, 1];

#[cfg(test)]
mod tests {
    use super::octets;

    #[test]
    fn nonces_are_pairs_of_digits() {
        assert_eq!(octets("01ff2a"), Some(vec![1, 0xff, 0x2a]));
        assert_eq!((octets("01f"), octets("zz")), (None, None));
    }
}
