//! Two hosts on the same two links. Needs root, BPF and a built `moorlined`.

use std::net::Ipv6Addr;
use std::time::Duration;

use crate::common::{daemon_options, eventually, is_skipped, story};
use moorline_api::{EventKind, Pair};
use moorline_lab::daemon::{Daemon, DaemonOptions};
use moorline_lab::topology::{Impairment, Link, Node, Prefix, Route, Topology, prefix_of};
use moorline_lab::workload::{Endpoint, Sender, TcpOptions, TcpTransfer};
use moorline_lab::{Lab, preflight};
use rustix::process::{Pid, Signal, kill_process};

const LINKS: [&str; 2] = ["one", "two"];
const SETTINGS: &str = "fail-back = \"1h\"\n";
/// Base of the metrics of default routes. The number of the link is added.
const METRIC: u32 = 1024;
const ILNP: &str = "addresses = \"off\"\nilnp = \"on\"\n";

fn options(settings: &str) -> DaemonOptions {
    DaemonOptions { settings: settings.to_owned(), ..daemon_options() }
}

fn address(link: u16, host: u16) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, link, 0, 0, 0, 0, host)
}

/// Default routes of a host, by a router on each link. The routers do not exist.
fn defaults() -> Vec<Route> {
    let by = |(link, name): (u16, &str)| Route {
        metric: METRIC + u32::from(link),
        ..Route::by(Prefix::ALL, address(link, 0xff), name)
    };
    (1..).zip(LINKS).map(by).collect()
}

fn topology() -> Topology {
    let end =
        |node, host, link: u16| (node, LINKS[usize::from(link - 1)], vec![address(link, host)]);
    Topology {
        nodes: ["a", "b"].map(|name| Node::host(name, defaults())).into(),
        links: [1, 2].map(|link| Link::direct([end("a", 1, link), end("b", 2, link)])).into(),
    }
}

/// Both hosts, each with a daemon, and a transfer between them by the first link.
struct Neighbors {
    transfer: TcpTransfer,
    daemons: Vec<Daemon>,
    lab: Lab,
}

impl Neighbors {
    /// Starts the network with contexts. `None`, with a message, if a lab cannot run here.
    fn start(test: &str) -> Option<Self> {
        Self::start_with(test, SETTINGS, &EventKind::ContextEstablished)
    }

    /// Starts the network with these settings. `None`, with a message, if a lab cannot run here.
    fn start_with(test: &str, settings: &str, established: &EventKind) -> Option<Self> {
        let reasons = [preflight::check(&[]), preflight::check_bpf()].concat();
        if is_skipped(test, &reasons) {
            return None;
        }
        // With such cables, a host does not see that the other end of a link is down.
        let cables = Impairment::delay(Duration::from_millis(1));
        let lab = Lab::build(topology().with_cables_of("a", cables)).unwrap();
        let start = |host| Daemon::start(&lab, host, &options(settings)).unwrap();
        let mut daemons: Vec<_> = ["a", "b"].map(start).into();
        let end = |(daemon, (name, host)): (&Daemon, (&str, u16))| Endpoint {
            namespace: lab.namespace(name).unwrap().clone(),
            address: if *established == EventKind::SessionEstablished {
                address(1, host)
            } else {
                daemon.verifiable_address(LINKS[0]).unwrap()
            },
        };
        let ends: Vec<_> = daemons.iter().zip([("a", 1), ("b", 2)]).map(end).collect();
        let [client, server] = ends.try_into().unwrap();
        let (sender, bytes) = (Sender::Server, 1_000_000_000);
        let options = TcpOptions { client, server, sender, bytes, rate: 8_000_000 };
        let transfer = TcpTransfer::start(&options).unwrap();
        for daemon in &mut daemons {
            daemon.wait_for(established, Duration::from_secs(60)).unwrap();
        }
        Some(Self { transfer, daemons, lab })
    }

    /// Starts the network with ILNP sessions.
    fn start_session(test: &str) -> Option<Self> {
        Self::start_with(test, ILNP, &EventKind::SessionEstablished)
    }

    fn on_both(&self, arguments: &str) {
        let arguments: Vec<_> = arguments.split(' ').collect();
        for host in ["a", "b"] {
            self.lab.namespace(host).unwrap().ip(&arguments).unwrap();
        }
    }

    /// Makes the first link drop all packets silently.
    fn silence_the_first(&self) {
        let rules = "create table netdev cut\n\
             add chain netdev cut in { type filter hook ingress device \"one\" priority 0; policy drop; }\n";
        self.lab.namespace("a").unwrap().nft(rules).unwrap();
    }

    fn end_silence(&self) {
        self.lab.namespace("a").unwrap().nft("delete table netdev cut\n").unwrap();
    }

    fn move_to_the_second(&mut self) {
        self.silence_the_first();
        let second = prefix_of(address(2, 1));
        for at in 0..2 {
            let moved = self.daemons[at].wait_for(&EventKind::Moved, Duration::from_secs(60));
            let Ok(moved) = moved else { panic!("{}", story(&mut self.daemons)) };
            let Pair { local, peer } = moved.to.unwrap();
            assert_eq!([local, peer].map(prefix_of), [second; 2], "the link that both are on");
        }
        self.goes_on("after the move");
    }

    fn await_moves(&mut self) {
        for at in 0..2 {
            let moved = self.daemons[at].wait_for(&EventKind::Moved, Duration::from_secs(60));
            assert!(moved.is_ok(), "{}", story(&mut self.daemons));
        }
    }

    fn goes_on(&mut self, when: &str) {
        let arrivals = self.transfer.arrivals();
        let before = arrivals.total();
        let has_more = moorline_lab::interrupt::wait_for(when, Duration::from_secs(60), || {
            Ok((arrivals.total() > before + 2_000_000).then_some(()))
        });
        assert!(has_more.is_ok(), "{when}: {}", story(&mut self.daemons));
    }

    /// Waits until both hosts have this many uplinks.
    fn await_uplinks(&self, count: usize) {
        eventually("the uplinks", || {
            self.daemons.iter().all(|one| one.status().unwrap().uplinks.len() == count)
        });
    }
}

#[test]
fn a_connection_that_has_moved_outlives_the_last_default_route_of_its_neighbors() {
    let Some(mut neighbors) = Neighbors::start("neighbors") else { return };
    neighbors.move_to_the_second();
    neighbors.end_silence();
    for link in LINKS {
        neighbors.on_both(&format!("-6 route del default dev {link}"));
    }
    neighbors.await_uplinks(0);
    neighbors.goes_on("without default routes");
    for (number, link) in (1..).zip(LINKS) {
        let router = address(number, 0xff);
        let way = format!("via {router} dev {link} metric {}", METRIC + u32::from(number));
        neighbors.on_both(&format!("-6 route add default {way}"));
    }
    neighbors.await_uplinks(2);
    neighbors.goes_on("with default routes again");
}

#[test]
fn only_one_of_two_neighbors_loses_its_default_routes() {
    let Some(mut neighbors) = Neighbors::start("one neighbor") else { return };
    neighbors.move_to_the_second();
    neighbors.end_silence();
    let host = neighbors.lab.namespace("a").unwrap().clone();
    for link in LINKS {
        host.ip(&["-6", "route", "del", "default", "dev", link]).unwrap();
    }
    eventually("no uplink", || neighbors.daemons[0].status().unwrap().uplinks.is_empty());
    neighbors.goes_on("a host without default routes");
    // Each call takes two seconds of traffic, longer than the Send Timeout.
    neighbors.goes_on("once REAP has had its time");
    for state in ["down", "up"] {
        host.ip(&["link", "set", "two", state]).unwrap();
    }
    neighbors.goes_on("after a flap of the link");
    neighbors.daemons.remove(0).hand_over().unwrap();
    let again = Daemon::start(&neighbors.lab, "a", &options(SETTINGS)).unwrap();
    neighbors.daemons.insert(0, again);
    neighbors.goes_on("after a restart");
}

/// A link goes down and comes up, and then the default routes go. Sessions of ILNP have moved, too.
#[test]
fn a_session_that_has_moved_outlives_the_last_default_route_of_its_neighbors() {
    let Some(mut neighbors) = Neighbors::start_session("sessions") else { return };
    neighbors.on_both("link set one down");
    neighbors.await_moves();
    neighbors.goes_on("after the move");
    neighbors.on_both("link set one up");
    neighbors.on_both("-6 route del default dev two");
    neighbors.await_uplinks(0);
    neighbors.goes_on("without default routes");
}

/// One host has only one of its links for a while. The other host has both.
#[test]
fn a_session_outlives_flaps_of_either_link_of_one_neighbor() {
    let Some(mut neighbors) = Neighbors::start_session("flaps") else { return };
    for link in ["one", "two", "one"] {
        let host = neighbors.lab.namespace("a").unwrap().clone();
        host.ip(&["link", "set", link, "down"]).unwrap();
        neighbors.goes_on(&format!("with {link} down"));
        host.ip(&["link", "set", link, "up"]).unwrap();
        neighbors.lab.restore_routes("a").unwrap();
        neighbors.goes_on(&format!("with {link} up again"));
    }
}

/// All locators of one host become the least preferred. The locators of the other do not.
#[test]
fn a_session_outlives_the_default_routes_of_one_neighbor() {
    let Some(mut neighbors) = Neighbors::start_session("one session") else { return };
    let host = neighbors.lab.namespace("a").unwrap().clone();
    for link in LINKS {
        host.ip(&["-6", "route", "del", "default", "dev", link]).unwrap();
    }
    eventually("no uplink", || neighbors.daemons[0].status().unwrap().uplinks.is_empty());
    neighbors.goes_on("a host without default routes");
    for state in ["down", "up"] {
        host.ip(&["link", "set", "two", state]).unwrap();
        neighbors.goes_on(&format!("with the second link {state}"));
    }
}

/// The host withdraws no locator to which its correspondent still sends, and answers no packet there by a reset.
#[test]
fn a_session_outlives_the_default_routes_of_the_neighbor_of_a_slow_correspondent() {
    let Some(mut neighbors) = Neighbors::start_session("slow") else { return };
    let host = neighbors.lab.namespace("a").unwrap().clone();
    host.ip(&["-6", "route", "del", "default", "dev", LINKS[0]]).unwrap();
    let moved = neighbors.daemons[1].wait_for(&EventKind::Moved, Duration::from_secs(60)).unwrap();
    assert_eq!(prefix_of(moved.to.unwrap().peer), prefix_of(address(2, 1)));
    let slow = Pid::from_raw(neighbors.daemons[1].id().cast_signed()).unwrap();
    kill_process(slow, Signal::STOP).unwrap();
    host.ip(&["-6", "route", "del", "default", "dev", LINKS[1]]).unwrap();
    eventually("no uplink", || neighbors.daemons[0].status().unwrap().uplinks.is_empty());
    let arrivals = neighbors.transfer.arrivals();
    let before = arrivals.total();
    eventually("payload by the second link", || arrivals.total() > before + 2_000_000);
    kill_process(slow, Signal::CONT).unwrap();
    neighbors.goes_on("once the correspondent has read of it");
}
