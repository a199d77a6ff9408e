//! Daemons that are killed and restarted, or hand over, with ILNP sessions. Needs root, BPF and a built `moorlined`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use crate::common::{Protected, daemon_options, eventually, with_ilnp};
use moorline_api::{Correspondent, EventKind};
use moorline_lab::Failure;
use moorline_lab::daemon::{Daemon, DaemonOptions, state_directory};
use moorline_lab::interrupt::wait_for;
use moorline_lab::topology::{HOSTS, host_address, prefix_of};
use moorline_lab::workload::{Direction, Sender, TcpOptions, TcpTransfer, UdpFlow, UdpOptions};

/// Way in which a daemon ends.
#[derive(Clone, Copy, Debug)]
enum End {
    Killed,
    HandedOver,
}

/// The only session of a host.
fn session(hosts: &Protected, host: usize) -> Correspondent {
    let sessions = hosts.daemons[host].ilcc().unwrap().correspondents;
    let [session] = &sessions[..] else { panic!("{host}: {sessions:?}") };
    session.clone()
}

/// A connection and datagrams that go through the session.
struct Traffic {
    tcp: TcpTransfer,
    udp: UdpFlow,
}

impl Traffic {
    fn start(hosts: &Protected) -> Self {
        let ends = hosts.ends.clone();
        let [client, server] = ends.clone();
        let tcp =
            TcpOptions { client, server, sender: Sender::Server, bytes: u64::MAX, rate: 400_000 };
        let udp = UdpOptions { ends, direction: Direction::BothWays, per_second: 50, size: 200 };
        Self { tcp: TcpTransfer::start(&tcp).unwrap(), udp: UdpFlow::start(&udp).unwrap() }
    }

    fn goes_on(&self, what: &str) {
        let bytes = self.tcp.arrivals().total();
        let before: Vec<_> = self.udp.arrivals().iter().map(|way| way.total()).collect();
        eventually(&format!("bytes {what}"), || self.tcp.arrivals().total() > bytes + 200_000);
        eventually(&format!("datagrams {what}"), || {
            let ways = self.udp.arrivals();
            ways.iter().zip(&before).all(|(way, before)| way.total() > before + 2_000)
        });
    }
}

/// Restarts the daemon of a host. The session stays the same, and traffic goes on without the daemon and with it.
fn again(hosts: &mut Protected, traffic: &Traffic, host: usize, end: End) {
    let before = session(hosts, host);
    let daemon = hosts.daemons.remove(host);
    match end {
        End::Killed => daemon.kill().unwrap(),
        End::HandedOver => daemon.hand_over().unwrap(),
    }
    traffic.goes_on(&format!("while {} has no daemon, {end:?}", HOSTS[host]));
    starts(hosts, traffic, host, &before, &format!("{end:?}"));
}

/// Starts the daemon of a host again, with the session of the earlier run.
fn starts(
    hosts: &mut Protected,
    traffic: &Traffic,
    host: usize,
    before: &Correspondent,
    what: &str,
) {
    let settings = "addresses = \"off\"\nilnp = \"on\"\n".to_owned();
    let options = DaemonOptions { settings, ..daemon_options() };
    let daemon = Daemon::start(&hosts.lab, HOSTS[host], &options).unwrap();
    hosts.daemons.insert(host, daemon);
    let after = session(hosts, host);
    let same = |one: &Correspondent| {
        (one.addresses, one.via, one.moved, one.state.clone(), one.why.clone(), one.nonces.clone())
    };
    assert_eq!(same(before), same(&after), "{what}");
    hosts.daemons[host]
        .wait_for(&EventKind::LocatorsAcknowledged, Duration::from_secs(20))
        .unwrap();
    traffic.goes_on(&format!("with another daemon of {}, {what}", HOSTS[host]));
    assert_eq!(same(before), same(&session(hosts, host)), "{what}");
}

fn loses_isp1(hosts: &mut Protected, traffic: &Traffic, host: usize) {
    let node = HOSTS[host];
    let failure = Failure::CarrierDown { node: node.into(), interface: "isp1".into() };
    hosts.lab.fail(failure).unwrap();
    traffic.goes_on(&format!("after the cut at {node}"));
    let via = session(hosts, host).via.local;
    assert_eq!(prefix_of(via), prefix_of(host_address(node, 2)), "{}", hosts.story());
}

/// Ends and restarts both daemons after both hosts have moved. The first daemon finds a correspondent that does not
/// answer yet.
fn both_are_gone_for_a_while(hosts: &mut Protected, traffic: &Traffic) {
    let before = [0, 1].map(|host| session(hosts, host));
    for daemon in hosts.daemons.drain(..) {
        daemon.hand_over().unwrap();
    }
    traffic.goes_on("while there is no daemon");
    let settings = "addresses = \"off\"\nilnp = \"on\"\n".to_owned();
    let options = DaemonOptions { settings, ..daemon_options() };
    hosts.daemons.push(Daemon::start(&hosts.lab, "a", &options).unwrap());
    traffic.goes_on("while only a has a daemon");
    assert_eq!(session(hosts, 0).via, before[0].via);
    starts(hosts, traffic, 1, &before[1], "both were gone");
    assert_eq!(session(hosts, 0).via, before[0].via);
}

#[test]
fn sessions_outlive_their_daemons_moved_or_not_and_move_afterwards() {
    let none = [Some(""); 2];
    let Some(mut hosts) = with_ilnp("ILNP, restarts", &[], none) else { return };
    let traffic = Traffic::start(&hosts);
    hosts.await_session();
    traffic.goes_on("before");
    again(&mut hosts, &traffic, 0, End::Killed);
    again(&mut hosts, &traffic, 1, End::HandedOver);
    loses_isp1(&mut hosts, &traffic, 0);
    again(&mut hosts, &traffic, 0, End::HandedOver);
    again(&mut hosts, &traffic, 1, End::Killed);
    again(&mut hosts, &traffic, 0, End::Killed);
    // The new daemons protect the sessions that they found.
    loses_isp1(&mut hosts, &traffic, 1);
    both_are_gone_for_a_while(&mut hosts, &traffic);
    let kept = state_directory(&hosts.lab, "a").unwrap().join("sessions.json");
    assert_eq!(fs::metadata(kept).unwrap().permissions().mode() & 0o777, 0o600);
    // The transfer checks octets as they arrive.
    traffic.tcp.abandon().unwrap();
    assert!(traffic.udp.finish().unwrap().iter().all(|way| way.damaged == 0));
}

/// The daemon tells the correspondent. Once there is a daemon again, both agree on a new session.
#[test]
fn a_daemon_that_stops_leaves_classic_ipv6_behind() {
    let Some(mut hosts) = with_ilnp("ILNP, stopped", &["ethtool"], [Some(""); 2]) else { return };
    // Without offloads, sockets check checksums.
    for host in HOSTS {
        let namespace = hosts.lab.namespace(host).unwrap();
        namespace.switch_off("isp1", &["tx", "rx"]).unwrap();
    }
    let traffic = Traffic::start(&hosts);
    hosts.await_session();
    for host in [0, 1] {
        hosts.daemons.remove(host).stop().unwrap();
        traffic.goes_on(&format!("while {} has no daemon", HOSTS[host]));
        // The daemon of the other host.
        let daemon = &mut hosts.daemons[0];
        let event = daemon.wait_for(&EventKind::SessionForgotten, Duration::from_secs(20)).unwrap();
        assert_eq!(event.reason.as_deref(), Some("the correspondent does not know it"));
        assert_eq!(daemon.ilcc().unwrap().correspondents, []);
        let settings = "addresses = \"off\"\nilnp = \"on\"\n".to_owned();
        let options = DaemonOptions { settings, ..daemon_options() };
        let daemon = Daemon::start(&hosts.lab, HOSTS[host], &options).unwrap();
        hosts.daemons.insert(host, daemon);
        let both = wait_for("a session", Duration::from_secs(20), || {
            let has = |daemon: &Daemon| daemon.ilcc().unwrap().correspondents.len() == 1;
            Ok(hosts.daemons.iter().all(has).then_some(()))
        });
        assert!(both.is_ok(), "{}", hosts.story());
        traffic.goes_on(&format!("with another daemon of {}", HOSTS[host]));
    }
    traffic.tcp.abandon().unwrap();
    assert!(traffic.udp.finish().unwrap().iter().all(|way| way.damaged == 0));
}

/// A later run without ILNP removes all remains of ILNP. Connections on their first addresses are classic IPv6.
#[test]
fn a_daemon_without_ilnp_clears_what_one_with_it_has_left() {
    let Some(mut hosts) = with_ilnp("ILNP, switched off", &[], [Some(""); 2]) else { return };
    let traffic = Traffic::start(&hosts);
    hosts.await_session();
    let options =
        DaemonOptions { settings: "addresses = \"off\"\n".to_owned(), ..daemon_options() };
    for (host, end) in [(0, End::Killed), (1, End::HandedOver)] {
        let daemon = hosts.daemons.remove(host);
        match end {
            End::Killed => daemon.kill().unwrap(),
            End::HandedOver => daemon.hand_over().unwrap(),
        }
        let daemon = Daemon::start(&hosts.lab, HOSTS[host], &options).unwrap();
        hosts.daemons.insert(host, daemon);
        assert!(!state_directory(&hosts.lab, HOSTS[host]).unwrap().join("sessions.json").exists());
        let bpf = hosts.lab.directory(HOSTS[host]).unwrap().join("bpf/moorline/layout-ilnp");
        assert!(!bpf.exists());
    }
    traffic.goes_on("as classic IPv6");
    traffic.tcp.abandon().unwrap();
    traffic.udp.finish().unwrap();
}
