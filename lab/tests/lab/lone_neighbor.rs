//! Two hosts on one link, and a router that the first host reaches by another link, too. Needs root, BPF and a built
//! `moorlined`.
//!
//! ```text
//!   a one --+-- br1 r two -- two a
//!   b one --+
//! ```

use std::net::Ipv6Addr;
use std::time::Duration;

use crate::common::{daemon_options, is_skipped, story};
use moorline_api::{EventKind, Pair};
use moorline_lab::daemon::{Daemon, DaemonOptions};
use moorline_lab::topology::{Link, Node, Prefix, Route, Topology, prefix_of};
use moorline_lab::workload::{Endpoint, Sender, TcpOptions, TcpTransfer};
use moorline_lab::{Lab, preflight};

const SETTINGS: &str = "fail-back = \"1s\"\n";
const ILNP: &str = "addresses = \"off\"\nilnp = \"on\"\n";
const ROUTER: u16 = 0xff;

fn address(link: u16, node: u16) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, link, 0, 0, 0, 0, node)
}

fn topology() -> Topology {
    let default = |link, name: &str| Route {
        metric: 1024 + u32::from(link),
        ..Route::by(Prefix::ALL, address(link, ROUTER), name)
    };
    let nodes = [
        Node::host("a", vec![default(1, "one"), default(2, "two")]),
        Node::host("b", vec![default(1, "one")]),
        Node::router("r", Vec::new()),
    ];
    let links = [
        Link::direct([("a", "one", vec![address(1, 1)]), ("r", "a1", Vec::new())]),
        Link::direct([("b", "one", vec![address(1, 2)]), ("r", "b1", Vec::new())]),
        Link::direct([("a", "two", vec![address(2, 1)]), ("r", "two", vec![address(2, ROUTER)])]),
    ];
    Topology { nodes: nodes.into(), links: links.into() }
}

/// Both hosts, each with a daemon, and a transfer between them by the link that they share.
struct Lone {
    transfer: TcpTransfer,
    daemons: Vec<Daemon>,
    lab: Lab,
}

impl Lone {
    /// Starts the network. `None`, with a message, if a lab cannot run here.
    fn start(test: &str, settings: &str, established: &EventKind) -> Option<Self> {
        let reasons = [preflight::check(&[]), preflight::check_bpf()].concat();
        if is_skipped(test, &reasons) {
            return None;
        }
        let lab = Lab::build(topology()).unwrap();
        let on_link = format!("{}/64", address(1, ROUTER));
        for line in [
            "link add br1 type bridge forward_delay 0 mcast_snooping 0",
            "link set a1 master br1",
            "link set b1 master br1",
            "link set br1 up",
            &format!("addr add {on_link} dev br1 nodad"),
        ] {
            lab.namespace("r").unwrap().ip(&line.split(' ').collect::<Vec<_>>()).unwrap();
        }
        let options = DaemonOptions { settings: settings.to_owned(), ..daemon_options() };
        let start = |host| Daemon::start(&lab, host, &options).unwrap();
        let mut daemons: Vec<_> = ["a", "b"].map(start).into();
        let end = |(daemon, (name, node)): (&Daemon, (&str, u16))| Endpoint {
            namespace: lab.namespace(name).unwrap().clone(),
            address: if settings == ILNP {
                address(1, node)
            } else {
                daemon.verifiable_address("one").unwrap()
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

    fn ip(&self, node: &str, line: &str) {
        self.lab.namespace(node).unwrap().ip(&line.split(' ').collect::<Vec<_>>()).unwrap();
    }

    fn goes_on(&mut self, when: &str) {
        let arrivals = self.transfer.arrivals();
        let before = arrivals.total();
        let has_more = moorline_lab::interrupt::wait_for(when, Duration::from_secs(60), || {
            Ok((arrivals.total() > before + 2_000_000).then_some(()))
        });
        assert!(has_more.is_ok(), "{when}: {}", story(&mut self.daemons));
        // If the kernel resolves the peer as a neighbor on the second link, packets wait there, and TCP does not send
        // them again.
        let neighbors = self.lab.namespace("a").unwrap().ip(&["-6", "neigh", "show", "dev", "two"]);
        let neighbors = neighbors.unwrap();
        let is_peer = |line: &&str| line.starts_with("2001:db8:1:");
        assert_eq!(neighbors.lines().find(is_peer), None, "{when}");
    }

    /// Waits until the last move of the first host was to this one of its two links.
    fn await_link(&mut self, link: u16) {
        let is_there = moorline_lab::interrupt::wait_for("a move", Duration::from_secs(60), || {
            let mut moves =
                self.daemons[0].events().iter().filter(|one| one.kind == EventKind::Moved);
            let to = moves.next_back().and_then(|moved| moved.to);
            let is_to = |to: Pair| prefix_of(to.local) == prefix_of(address(link, 1));
            Ok(to.is_some_and(is_to).then_some(()))
        });
        assert!(is_there.is_ok(), "link {link}: {}", story(&mut self.daemons));
    }

    /// Makes the shared link fail as the first host sees it, and work again, several times. Checks that the transfer
    /// goes on.
    fn outlives_failures(mut self) {
        self.ip("r", "link set a1 down");
        self.await_link(2);
        self.goes_on("without a carrier");
        self.ip("r", "link set a1 up");
        self.await_link(1);
        self.goes_on("with the carrier again");
        self.ip("a", "link set one down");
        self.await_link(2);
        self.goes_on("without an address");
        self.ip("a", "link set one up");
        self.lab.restore_routes("a").unwrap();
        self.goes_on("with the address again");
        self.goes_on("in the end");
    }
}

#[test]
fn a_connection_to_a_peer_on_the_link_outlives_that_link() {
    let established = EventKind::ContextEstablished;
    let Some(lone) = Lone::start("a lone neighbor", SETTINGS, &established) else { return };
    lone.outlives_failures();
}

#[test]
fn a_session_with_a_correspondent_on_the_link_outlives_that_link() {
    let established = EventKind::SessionEstablished;
    let Some(lone) = Lone::start("a lone correspondent", ILNP, &established) else { return };
    lone.outlives_failures();
}
