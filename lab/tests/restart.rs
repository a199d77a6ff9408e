//! Daemons that are killed and restarted, or hand over as for an upgrade, with a thousand contexts. Needs root,
//! BPF and a built `moorlined`.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod common;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::ErrorKind;
use std::net::{Ipv6Addr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use common::{daemon_options, eventually, is_skipped, story};
use moorline_api::{ContextState, Proof};
use moorline_lab::daemon::{Daemon, DaemonOptions};
use moorline_lab::netns::Task;
use moorline_lab::topology::{self, HOSTS, Prefix, Topology, host_address};
use moorline_lab::workload::{Endpoint, Sender, TcpOptions, TcpTransfer};
use moorline_lab::{Failure, Lab, preflight};

/// Sites at each host, each with a prefix of both ISPs and an HBA set over the two. So a host has 32 addresses,
/// and two hosts have 1,024 pairs of them.
const SITES: u16 = 16;
const ADDRESSES: usize = 2 * SITES as usize;
const PORT: u16 = 7777;

/// An address of a host in the prefix of a site at an ISP.
fn site_address(host: &str, isp: u16, site: u16) -> Ipv6Addr {
    let mut segments = host_address(host, isp).segments();
    segments[3] = site;
    segments.into()
}

/// The network of the demo, with so many sites at each host; an ISP gives each host a /48.
fn sites() -> Topology {
    let mut topology = topology::two_by_two(false);
    for end in topology.links.iter_mut().flat_map(|link| &mut link.ends) {
        let isp = (1..=2).find(|isp| end.interface == format!("isp{isp}"));
        if let (Some(isp), Some(host)) = (isp, HOSTS.iter().find(|host| end.node == **host)) {
            let more = (1..SITES).map(|site| Prefix::host(site_address(host, isp, site)));
            end.addresses.extend(more);
        }
    }
    for (isp, router) in [(1, "isp1"), (2, "isp2")] {
        let node = topology.nodes.iter_mut().find(|node| node.name == router).unwrap();
        for route in &mut node.routes {
            route.destination.length = 48;
        }
        node.routes.extend(HOSTS.map(|host| topology::Route {
            destination: Prefix { length: 48, ..Prefix::of(host_address(host, isp)) },
            via: host_address(host, isp),
            interface: host.into(),
            metric: 1024,
        }));
    }
    topology
}

fn options(host: &str) -> DaemonOptions {
    // B answers and does not begin.
    let trigger = if host == "a" { "trigger-packets = 1" } else { "trigger-never = true" };
    let mut settings = format!("addresses = \"hba\"\nsec = 0\n{trigger}\n");
    for (site, isp) in (0..SITES).flat_map(|site| [(site, 1), (site, 2)]) {
        let prefix = Prefix::of(site_address(host, isp, site));
        write!(settings, "[prefixes.\"{prefix}\"]\nset = \"s{site}\"\n").unwrap();
    }
    DaemonOptions { settings, send_timeout: Duration::from_secs(2), ..daemon_options() }
}

/// The addresses of a host that prove something, once all are there.
fn addresses(daemon: &Daemon) -> Vec<Ipv6Addr> {
    let mut found = Vec::new();
    eventually("addresses", || {
        let status = daemon.status().unwrap();
        let locators = status.uplinks.iter().flat_map(|uplink| &uplink.locators);
        let ours = locators.filter(|one| one.proof == Proof::Hba && one.announced);
        found = ours.map(|one| one.address).collect();
        found.len() == ADDRESSES
    });
    found
}

/// Small datagrams between all pairs of addresses and back, a few a second.
struct Chatter {
    /// Of each pair, how many came back.
    answers: Arc<Vec<AtomicU32>>,
    stop: Arc<AtomicBool>,
    tasks: Vec<Task<()>>,
}

impl Chatter {
    fn start(lab: &Lab, ours: &[Ipv6Addr], theirs: &[Ipv6Addr]) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let answers = (0..ours.len() * theirs.len()).map(|_| AtomicU32::new(0)).collect();
        let mut chatter = Self { answers: Arc::new(answers), stop, tasks: Vec::new() };
        for &address in theirs {
            let stop = Arc::clone(&chatter.stop);
            let echo = move || echo(address, &stop);
            chatter.tasks.push(lab.namespace("b").unwrap().spawn("echo", echo).unwrap());
        }
        for (index, &address) in ours.iter().enumerate() {
            let (stop, answers) = (Arc::clone(&chatter.stop), Arc::clone(&chatter.answers));
            let theirs = theirs.to_vec();
            let ask = move || {
                let answers = &answers[index * theirs.len()..][..theirs.len()];
                ask(address, index, &theirs, answers, &stop)
            };
            chatter.tasks.push(lab.namespace("a").unwrap().spawn("ask", ask).unwrap());
        }
        chatter
    }

    /// Waits until every pair has had two answers from now on: the first may have been on its way.
    fn goes_on(&self, what: &str) {
        let before: Vec<_> = self.answers.iter().map(|one| one.load(Ordering::Relaxed)).collect();
        let mut silent = 0;
        let done = moorline_lab::interrupt::wait_for(what, Duration::from_secs(30), || {
            let now = self.answers.iter().map(|one| one.load(Ordering::Relaxed));
            silent = now.zip(&before).filter(|(now, before)| *now < **before + 2).count();
            Ok((silent == 0).then_some(()))
        });
        assert!(done.is_ok(), "{what}: {silent} pairs are silent");
    }

    fn finish(self) {
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
            // What cannot be sent just now is lost, as on the way.
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
    // Not all at once.
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
            // An ICMP error that was meant for a datagram before.
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == ErrorKind::TimedOut => {}
            Err(_) => {}
        }
    }
    Ok(())
}

const TICK: Duration = Duration::from_millis(400);

/// ULIDs of the contexts of a daemon that are established.
fn established(daemon: &Daemon) -> BTreeSet<(Ipv6Addr, Ipv6Addr)> {
    let contexts = daemon.contexts().unwrap().into_iter();
    let established = contexts.filter(|one| one.state == ContextState::Established);
    established.map(|one| (one.ulid_local, one.ulid_peer)).collect()
}

/// Some connections among the chatter.
fn transfers(lab: &Lab, ours: &[Ipv6Addr], theirs: &[Ipv6Addr]) -> Vec<TcpTransfer> {
    let end =
        |host: &str, address| Endpoint { namespace: lab.namespace(host).unwrap().clone(), address };
    // Of every kind: both ends at ISP 1, one, none.
    let last = ADDRESSES - 1;
    let pairs = [(0, 0), (last, 0), (0, last), (last, last)];
    let start = |(our, their): (usize, usize)| {
        let (client, server) = (end("a", ours[our]), end("b", theirs[their]));
        let sender = if our == 0 { Sender::Server } else { Sender::Client };
        let options = TcpOptions { client, server, sender, bytes: u64::MAX, rate: 200_000 };
        TcpTransfer::start(&options).unwrap()
    };
    pairs.map(start).into()
}

fn bytes_go_on(transfers: &[TcpTransfer], what: &str) {
    for transfer in transfers {
        let now = transfer.arrivals().total();
        eventually(what, || transfer.arrivals().total() > now + 200_000);
    }
}

/// How a daemon goes.
#[derive(Clone, Copy, Debug)]
enum End {
    Killed,
    HandedOver,
}

/// Another run of the daemon of a host; it must have every context at once.
fn again(lab: &Lab, daemons: &mut Vec<Daemon>, host: usize, end: End) {
    let before = established(&daemons[host]);
    let daemon = daemons.remove(host);
    match end {
        End::Killed => daemon.kill().unwrap(),
        End::HandedOver => daemon.hand_over().unwrap(),
    }
    let daemon = Daemon::start(lab, HOSTS[host], &options(HOSTS[host])).unwrap();
    let after = established(&daemon);
    daemons.insert(host, daemon);
    let lost = before.difference(&after).count();
    assert_eq!(lost, 0, "{end:?}: {lost} of {} contexts\n{}", before.len(), story(daemons));
}

#[test]
fn a_thousand_contexts_outlive_their_daemons_and_move_afterwards() {
    let mut reasons = preflight::check(&[]);
    reasons.extend(preflight::check_bpf());
    if is_skipped("a thousand contexts", &reasons) {
        return;
    }
    let lab = Lab::build(sites()).unwrap();
    let mut daemons: Vec<_> =
        HOSTS.iter().map(|host| Daemon::start(&lab, host, &options(host)).unwrap()).collect();
    let [ours, theirs] = [addresses(&daemons[0]), addresses(&daemons[1])];
    let transfers = transfers(&lab, &ours, &theirs);
    let chatter = Chatter::start(&lab, &ours, &theirs);
    for daemon in &daemons {
        eventually("contexts", || established(daemon).len() == ADDRESSES * ADDRESSES);
    }
    chatter.goes_on("before");

    again(&lab, &mut daemons, 0, End::Killed);
    again(&lab, &mut daemons, 1, End::HandedOver);
    chatter.goes_on("after the restarts");
    bytes_go_on(&transfers, "after the restarts");

    // The new ones protect what they found.
    let _fault = lab.fail(Failure::Silent { router: "isp1".into() }).unwrap();
    chatter.goes_on("after the cut");
    bytes_go_on(&transfers, "after the cut");
    let moved = daemons[0].status().unwrap().contexts.moved;
    assert!(moved >= 700, "three of four pairs have an end at ISP 1: {moved} have moved");

    again(&lab, &mut daemons, 0, End::HandedOver);
    again(&lab, &mut daemons, 1, End::Killed);
    chatter.goes_on("moved, after the restarts");
    bytes_go_on(&transfers, "moved, after the restarts");
    chatter.finish();
    // Octets are checked as they arrive.
    for transfer in transfers {
        transfer.abandon().unwrap();
    }
}
