//! The pairs of addresses that get an ILNP session, and the time when they get it. Needs root, BPF and a built
//! `moorlined`.

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::common::script::Script;
use crate::common::{Protected, daemon_options, eventually, protected_with, with_ilnp};
use moorline_api::{ContextState, EventKind};
use moorline_lab::Failure;
use moorline_lab::daemon::{Daemon, DaemonOptions};
use moorline_lab::netns::Worker;
use moorline_lab::topology::{HOSTS, host_address};
use moorline_lab::workload::{Direction, Endpoint, UdpFlow, UdpOptions};

/// Restarts the daemon of a host with ILNP. The new daemon takes over the contexts of the earlier run.
fn with_ilnp_from_now_on(hosts: &mut Protected, index: usize) {
    hosts.daemons.remove(index).hand_over().unwrap();
    let settings = "trigger-packets = 1\nilnp = \"on\"\n".to_owned();
    let options = DaemonOptions { settings, ..daemon_options() };
    let daemon = Daemon::start(&hosts.lab, HOSTS[index], &options).unwrap();
    hosts.daemons.insert(index, daemon);
}

/// Both hosts have a context, and daemons without ILNP. Another run with ILNP can follow.
fn with_context(test: &str) -> Option<(Protected, UdpFlow)> {
    let trigger = || "trigger-packets = 1\n".to_owned();
    let mut hosts = protected_with(test, [trigger(), trigger()])?;
    let flow = hosts.datagrams(Direction::BothWays);
    hosts.await_context();
    Some((hosts, flow))
}

fn is_undamaged(flow: UdpFlow) {
    assert!(flow.finish().unwrap().iter().all(|way| way.damaged == 0));
}

/// The context has not moved, so no packet is damaged or lost.
#[test]
fn a_shim6_context_gives_way_to_the_session_that_both_ends_want() {
    let Some((mut hosts, flow)) = with_context("Shim6 context, not moved") else { return };
    (0..HOSTS.len()).for_each(|index| with_ilnp_from_now_on(&mut hosts, index));
    hosts.await_session();
    eventually("the end of the contexts", || {
        hosts.daemons.iter().all(|daemon| daemon.contexts().unwrap().is_empty())
    });
    for daemon in &hosts.daemons {
        assert_eq!(daemon.ilcc().unwrap().correspondents.len(), 1);
    }
    is_undamaged(flow);
}

#[test]
fn a_pair_that_shim6_has_moved_gets_no_session_and_another_pair_does() {
    let Some((mut hosts, first)) = with_context("Shim6 context, moved") else { return };
    let cut = Failure::CarrierDown { node: "a".into(), interface: "isp1".into() };
    hosts.lab.fail(cut).unwrap();
    eventually("both have moved", || {
        let has_moved = |daemon: &Daemon| {
            let contexts = daemon.contexts().unwrap();
            contexts
                .iter()
                .all(|one| [one.locator_local, one.locator_peer] != [one.ulid_local, one.ulid_peer])
        };
        hosts.daemons.iter().all(has_moved)
    });
    (0..HOSTS.len()).for_each(|index| with_ilnp_from_now_on(&mut hosts, index));
    // Programs of ILNP see packets of the moved pair. The programs would ask for a session, as for another pair.
    let ends = [0, 1].map(|index: usize| Endpoint {
        address: hosts.daemons[index].verifiable_address("isp2").unwrap(),
        ..hosts.ends[index].clone()
    });
    let more = UdpOptions { ends, direction: Direction::BothWays, per_second: 100, size: 200 };
    let second = UdpFlow::start(&more).unwrap();
    hosts.await_session();
    for (daemon, [own, other]) in hosts.daemons.iter().zip([[0, 1], [1, 0]]) {
        let sessions = daemon.ilcc().unwrap().correspondents;
        let [session] = &sessions[..] else { panic!("{sessions:?}") };
        let ends = [session.addresses.local, session.addresses.peer];
        assert_eq!(ends, [own, other].map(|index| more.ends[index].address));
        let contexts = daemon.contexts().unwrap();
        let [context] = &contexts[..] else { panic!("{contexts:?}") };
        let ulids = [context.ulid_local, context.ulid_peer];
        assert_eq!(ulids, [own, other].map(|index| hosts.ends[index].address));
        assert_eq!(context.state, ContextState::Established);
    }
    [first, second].into_iter().for_each(is_undamaged);
}

/// A name server for a host. Every name has the identifier and a locator of B, and no other record.
struct Dns {
    folder: PathBuf,
    stop: Arc<AtomicBool>,
    task: Option<Worker<()>>,
}

impl Dns {
    fn start(hosts: &Protected) -> Self {
        let namespace = hosts.lab.namespace("a").unwrap();
        let folder = PathBuf::from("/etc/netns").join(namespace.name());
        fs::create_dir_all(&folder).unwrap();
        // A program in the namespace sees this file as /etc/resolv.conf.
        fs::write(folder.join("resolv.conf"), "nameserver ::1\n").unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let task = namespace.work("dns", move |_| answer(&stopped)).unwrap();
        Self { folder, stop, task: Some(task) }
    }
}

impl Drop for Dns {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = fs::remove_dir_all(&self.folder);
        if let Some(task) = self.task.take() {
            let _ = task.join();
        }
    }
}

fn answer(stop: &AtomicBool) -> anyhow::Result<()> {
    let socket = UdpSocket::bind("[::1]:53")?;
    socket.set_read_timeout(Some(Duration::from_millis(100)))?;
    let mut octets = [0; 1024];
    while !stop.load(Ordering::Relaxed) {
        let Ok((len, from)) = socket.recv_from(&mut octets) else { continue };
        // The question: a name that ends with a zero octet, type, class.
        let name = octets[HEADER..len].iter().position(|octet| *octet == 0).unwrap_or(0);
        let question = &octets[HEADER..(HEADER + name + 5).min(len)];
        let address = host_address("b", 1).octets();
        let (l64, nid) = address.split_at(8);
        let halves = [(NID, nid), (L64, l64)];
        let asked = halves.into_iter().find(|(kind, _)| question[name + 1..].starts_with(kind));
        let mut reply = octets[..2].to_vec();
        reply.extend([0x81, 0x80, 0, 1, 0, asked.is_some().into(), 0, 0, 0, 0]);
        reply.extend(question);
        if let Some(([high, low], half)) = asked {
            reply.extend([0xc0, 12, high, low, 0, 1, 0, 0, 0, 60, 0, 10, 0, 10]);
            reply.extend(half);
        }
        socket.send_to(&reply, from)?;
    }
    Ok(())
}

/// Sends a datagram now and then from a connected socket of A to an unconnected socket of B.
fn trickle(hosts: &Protected, stop: Arc<AtomicBool>) -> [Worker<()>; 2] {
    let [from, to] = hosts.ends.clone().map(|end| end.address);
    let until = Arc::clone(&stop);
    let taken = move |_: &AtomicBool| {
        let socket = UdpSocket::bind((to, PORT))?;
        socket.set_read_timeout(Some(TICK))?;
        while !until.load(Ordering::Relaxed) {
            let _ = socket.recv(&mut [0; 64]);
        }
        Ok(())
    };
    let sent = move |_: &AtomicBool| {
        let socket = UdpSocket::bind((from, 0))?;
        socket.connect(SocketAddr::from((to, PORT)))?;
        while !stop.load(Ordering::Relaxed) {
            let _ = socket.send(&[7; 32]);
            std::thread::sleep(TICK);
        }
        Ok(())
    };
    [
        hosts.ends[1].namespace.work("take", taken).unwrap(),
        hosts.ends[0].namespace.work("send", sent).unwrap(),
    ]
}

/// Without the record, the next question would come after ten minutes.
//= rfc6742#2.1 (test)
#[test]
fn a_silent_peer_that_the_dns_names_is_asked_again_soon() {
    let Some(mut hosts) = with_ilnp("ilnp-peers", &[], [None, None]) else { return };
    let _dns = Dns::start(&hosts);
    let options = |more: &str| {
        let settings = format!("addresses = \"off\"\ntrigger-never = true\nilnp = \"on\"\n{more}");
        DaemonOptions { settings, ..daemon_options() }
    };
    let named = options("ilnp-peers = [\"b.example.\"]\n");
    let named = DaemonOptions { log: Some("debug"), ..named };
    hosts.daemons.push(Daemon::start(&hosts.lab, "a", &named).unwrap());
    eventually("an answer of the DNS", || hosts.daemons[0].log().contains("in the DNS"));
    let stop = Arc::new(AtomicBool::new(false));
    let tasks = trickle(&hosts, Arc::clone(&stop));
    let told = hosts.daemons[0].wait_for(&EventKind::NoSession, SOON).unwrap();
    assert_eq!(told.reason.as_deref(), Some("no answer"));
    hosts.daemons.push(Daemon::start(&hosts.lab, "b", &options("")).unwrap());
    hosts.daemons[0].wait_for(&EventKind::SessionEstablished, SOON).unwrap();
    stop.store(true, Ordering::Relaxed);
    tasks.into_iter().for_each(|task| task.join().unwrap());
}

/// The peer is a script that writes octets, and the kernel of its host reports no unknown options.
//= rfc6744#6-7 (test)
#[test]
fn a_peer_without_the_handshake_that_the_dns_names_has_a_session_and_is_followed() {
    let programs = ["nft", "python3"];
    let Some(mut hosts) = with_ilnp("ilnp-initiate", &programs, [None, None]) else { return };
    let quiet = "table ip6 plain {\nchain out {\ntype filter hook output priority 0;\n\
                 icmpv6 type parameter-problem drop\n}\n}\n";
    hosts.lab.namespace("b").unwrap().nft(quiet).unwrap();
    let [here, there] = [1, 2].map(|isp| host_address("b", isp).to_string());
    let mut peer = Script::start(&hosts.lab, "b", "plain_peer.py", &[&there]);
    assert_eq!(peer.line(), "ready");
    let _dns = Dns::start(&hosts);
    let settings = format!(
        "addresses = \"off\"\ntrigger-never = true\nilnp = \"on\"\nilnp-peers = [\"b.example.\"]\n\
         ilnp-initiate = \"dns\"\nilnp-older-locator-updates = [\"{here}\"]\n"
    );
    let options = DaemonOptions { settings, log: Some("debug"), ..daemon_options() };
    hosts.daemons.push(Daemon::start(&hosts.lab, "a", &options).unwrap());
    eventually("an answer of the DNS", || hosts.daemons[0].log().contains("in the DNS"));
    let stop = Arc::new(AtomicBool::new(false));
    let tasks = trickle(&hosts, Arc::clone(&stop));
    hosts.daemons[0].wait_for(&EventKind::SessionEstablished, SOON).unwrap();
    assert_eq!(peer.line(), "answered");
    assert_eq!(peer.step(), "acknowledged");
    // The payload follows once the peer has answered from the new locator.
    eventually("one session, whose payload goes to the new locator", || {
        let correspondents = hosts.daemons[0].ilcc().unwrap().correspondents;
        let ends = correspondents.iter().map(|one| [one.addresses.peer, one.via.peer]);
        ends.eq([[1, 2].map(|isp| host_address("b", isp))])
    });
    stop.store(true, Ordering::Relaxed);
    tasks.into_iter().for_each(|task| task.join().unwrap());
}

/// Octets of a DNS message before the question.
const HEADER: usize = 12;
/// Type of the NID record (RFC 6742 s2.1).
const NID: [u8; 2] = [0, 104];
/// Type of the L64 record (RFC 6742 s2.3).
const L64: [u8; 2] = [0, 106];
const PORT: u16 = 7778;
const TICK: Duration = Duration::from_millis(200);
/// Ten seconds, the intervals of reports, and an allowance for a busy machine.
const SOON: Duration = Duration::from_secs(60);
