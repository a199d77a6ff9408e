//! Hosts with many addresses, and therefore with thousands of contexts.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::ErrorKind;
use std::net::{Ipv6Addr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use moorline_api::{ContextState, Proof};
use moorline_lab::Lab;
use moorline_lab::daemon::{Daemon, DaemonOptions};
use moorline_lab::netns::Worker;
use moorline_lab::topology::{self, HOSTS, Prefix, Topology, host_address, prefix_of};

use super::{daemon_options, eventually};

/// Number of sites at each host. Each site has a prefix of both ISPs and an HBA set over the two.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sites(pub(crate) u16);

/// An address of a host in the prefix of a site at an ISP.
fn site_address(host: &str, isp: u16, site: u16) -> Ipv6Addr {
    let mut segments = host_address(host, isp).segments();
    segments[3] = site;
    segments.into()
}

impl Sites {
    /// Number of addresses of a host. The number of pairs is its square.
    pub(crate) const fn addresses(self) -> usize {
        2 * self.0 as usize
    }

    /// The network of the demo with the sites. Each ISP gives each host a /48.
    pub(crate) fn topology(self) -> Topology {
        let mut topology = topology::two_by_two(false);
        for end in topology.links.iter_mut().flat_map(|link| &mut link.ends) {
            let isp = (1..=2).find(|isp| end.interface == format!("isp{isp}"));
            if let (Some(isp), Some(host)) = (isp, HOSTS.iter().find(|host| end.node == **host)) {
                let more = (1..self.0).map(|site| site_address(host, isp, site));
                end.addresses.extend(more);
            }
        }
        for (isp, router) in [(1, "isp1"), (2, "isp2")] {
            let node = topology.nodes.iter_mut().find(|node| node.name == router).unwrap();
            for route in &mut node.routes {
                route.destination = Prefix::new(route.destination.address(), 48);
            }
            node.routes.extend(HOSTS.map(|host| topology::Route {
                destination: Prefix::new(host_address(host, isp), 48),
                via: Some(host_address(host, isp)),
                interface: host.into(),
                metric: 1024,
            }));
        }
        topology
    }

    pub(crate) fn options(self, host: &str) -> DaemonOptions {
        // B answers, and never initiates.
        let trigger = if host == "a" { "trigger-packets = 1" } else { "trigger-never = true" };
        let mut settings = format!("addresses = \"hba\"\nsec = 0\n{trigger}\n");
        for (site, isp) in (0..self.0).flat_map(|site| [(site, 1), (site, 2)]) {
            let prefix = prefix_of(site_address(host, isp, site));
            write!(settings, "[prefixes.\"{prefix}\"]\nset = \"s{site}\"\n").unwrap();
        }
        DaemonOptions { settings, send_timeout: Duration::from_secs(2), ..daemon_options() }
    }

    /// The addresses of a host that have a proof, once all are there.
    pub(crate) fn addresses_of(self, daemon: &Daemon) -> Vec<Ipv6Addr> {
        let mut found = Vec::new();
        eventually("addresses", || {
            let status = daemon.status().unwrap();
            let locators = status.uplinks.iter().flat_map(|uplink| &uplink.locators);
            let ours = locators.filter(|one| one.proof == Proof::Hba && one.announced);
            found = ours.map(|one| one.address).collect();
            found.len() == self.addresses()
        });
        found
    }
}

/// Small datagrams and their echoes between all pairs of addresses, a few a second.
pub(crate) struct Chatter {
    /// Number of echoes for each pair.
    answers: Arc<Vec<AtomicU32>>,
    stop: Arc<AtomicBool>,
    tasks: Vec<Worker<()>>,
}

impl Chatter {
    pub(crate) fn start(lab: &Lab, ours: &[Ipv6Addr], theirs: &[Ipv6Addr]) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let answers = (0..ours.len() * theirs.len()).map(|_| AtomicU32::new(0)).collect();
        let mut chatter = Self { answers: Arc::new(answers), stop, tasks: Vec::new() };
        for &address in theirs {
            let stop = Arc::clone(&chatter.stop);
            let echo = move |_: &AtomicBool| echo(address, &stop);
            chatter.tasks.push(lab.namespace("b").unwrap().work("echo", echo).unwrap());
        }
        for (index, &address) in ours.iter().enumerate() {
            let (stop, answers) = (Arc::clone(&chatter.stop), Arc::clone(&chatter.answers));
            let theirs = theirs.to_vec();
            let ask = move |_: &AtomicBool| {
                let answers = &answers[index * theirs.len()..][..theirs.len()];
                ask(address, index, &theirs, answers, &stop)
            };
            chatter.tasks.push(lab.namespace("a").unwrap().work("ask", ask).unwrap());
        }
        chatter
    }

    /// Waits until every pair has received two more echoes, because the first may have been on its way before.
    pub(crate) fn goes_on(&self, what: &str) {
        let before: Vec<_> = self.answers.iter().map(|one| one.load(Ordering::Relaxed)).collect();
        let mut silent = 0;
        let done = moorline_lab::interrupt::wait_for(what, Duration::from_secs(30), || {
            let now = self.answers.iter().map(|one| one.load(Ordering::Relaxed));
            silent = now.zip(&before).filter(|(now, before)| *now < **before + 2).count();
            Ok((silent == 0).then_some(()))
        });
        assert!(done.is_ok(), "{what}: {silent} pairs are silent");
    }

    pub(crate) fn finish(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.tasks.into_iter().for_each(|task| task.join().unwrap());
    }
}

fn echo(address: Ipv6Addr, stop: &AtomicBool) -> anyhow::Result<()> {
    let socket = UdpSocket::bind((address, PORT))?;
    socket.set_read_timeout(Some(TICK))?;
    let mut buffer = [0; 64];
    while !stop.load(Ordering::Relaxed) {
        if let Ok((len, from)) = socket.recv_from(&mut buffer) {
            // A datagram that cannot be sent counts as lost, like a datagram lost on its way.
            let _ = socket.send_to(&buffer[..len], from);
        }
    }
    Ok(())
}

fn ask(
    address: Ipv6Addr,
    index: usize,
    theirs: &[Ipv6Addr],
    answers: &[AtomicU32],
    stop: &AtomicBool,
) -> anyhow::Result<()> {
    let socket = UdpSocket::bind((address, 0))?;
    // Spread the first datagrams of the addresses over time.
    let mut next = Instant::now() + TICK * u32::try_from(index)? / 8;
    while !stop.load(Ordering::Relaxed) {
        let wait = next.saturating_duration_since(Instant::now());
        if wait.is_zero() {
            for their in theirs {
                let _ = socket.send_to(&[7; 32], (*their, PORT));
            }
            next = Instant::now() + TICK;
            continue;
        }
        socket.set_read_timeout(Some(wait))?;
        match socket.recv_from(&mut [0; 64]) {
            Ok((_, from)) => {
                let pair = theirs.iter().position(|their| from.ip() == *their);
                pair.map(|at| answers[at].fetch_add(1, Ordering::Relaxed));
            }
            // An ICMP error for an earlier datagram.
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == ErrorKind::TimedOut => {}
            Err(_) => {}
        }
    }
    Ok(())
}

const PORT: u16 = 7777;
const TICK: Duration = Duration::from_millis(400);

/// ULIDs of the established contexts of a daemon.
pub(crate) fn established(daemon: &Daemon) -> BTreeSet<(Ipv6Addr, Ipv6Addr)> {
    let contexts = daemon.contexts().unwrap().into_iter();
    let established = contexts.filter(|one| one.state == ContextState::Established);
    established.map(|one| (one.ulid_local, one.ulid_peer)).collect()
}
