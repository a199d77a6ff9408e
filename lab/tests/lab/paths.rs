//! Paths chosen by people and rules. Needs root, BPF and a built `moorlined`.

use crate::common;
use std::fs;
use std::net::{Ipv6Addr, UdpSocket};
use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use crate::common::{Protected, await_standby, eventually, protected, protected_with};
use moorline_api::{
    BlockingClient, Client, Context, EventKind, Pair, PathResult, PathRule, PathState, Preference,
    Scope, SwitchRequest, UnpinRequest,
};
use moorline_lab::Failure;
use moorline_lab::capture::Capture;
use moorline_lab::workload::{Direction, Endpoint, Sender, TcpOptions, TcpTransfer, UdpFlow};
use rustix::process::{Pid, Signal, kill_process};

/// Two hosts with a context, kept in use by datagrams both ways.
struct Busy {
    flow: UdpFlow,
    hosts: Protected,
}

impl Busy {
    fn start(hosts: Protected) -> Self {
        let mut hosts = hosts;
        let flow = hosts.datagrams(Direction::BothWays);
        hosts.await_context();
        Self { flow, hosts }
    }

    fn client(&self, host: &str) -> BlockingClient {
        let socket = self.hosts.lab.directory(host).unwrap().join("moorlined.sock");
        BlockingClient::new(Client::new(socket)).unwrap()
    }

    fn context(&self) -> Context {
        self.hosts.daemons[0].contexts().unwrap().remove(0)
    }

    /// From our address by one ISP to the peer's by another.
    fn pair(&self, local: &str, peer: &str) -> Pair {
        let address = |host: usize, isp| self.hosts.daemons[host].verifiable_address(isp).unwrap();
        Pair::new(address(0, local), address(1, peer))
    }

    fn total(&self) -> u64 {
        self.flow.arrivals().iter().map(|way| way.total()).min().unwrap()
    }

    /// Datagrams go on both ways.
    fn goes_on(&self) {
        let then = self.total();
        eventually("datagrams", || self.total() > then + 50 * 600);
    }

    /// Whether a datagram of so many octets gets to the other end.
    fn arrives(&self, octets: usize) -> bool {
        let bind = |end: &Endpoint| {
            let at = (end.address, 0);
            end.namespace.enter(|| Ok(UdpSocket::bind(at)?)).unwrap()
        };
        let [from, to] = self.hosts.ends.each_ref().map(bind);
        to.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        let sent = vec![7; octets];
        let mut received = vec![0; octets + 1];
        (0..5).any(|_| {
            from.send_to(&sent, to.local_addr().unwrap()).unwrap();
            to.recv(&mut received).is_ok_and(|length| received[..length] == sent)
        })
    }

    fn finish(self) {
        for way in self.flow.finish().unwrap() {
            assert_eq!((way.damaged, way.duplicates), (0, 0), "{way:?}");
        }
    }
}

#[test]
fn a_switch_takes_the_pair_at_once_and_reap_guards_it_there() {
    let Some(hosts) = protected("switch", &["a", "b"], &[]) else { return };
    let mut busy = Busy::start(hosts);
    let client = busy.client("a");
    let to = busy.pair("isp2", "isp2");
    let answer = client.switch(&SwitchRequest { scope: Scope::All, pair: Some(to) }).unwrap();
    assert_eq!(answer.outcomes.len(), 1);
    assert_eq!(answer.outcomes[0].result, PathResult::Moved, "{answer:?}");
    let context = busy.context();
    assert_eq!((context.locators(), &*context.why), (to, "switched by uid 0"));
    let moved = busy.hosts.daemons[0].wait_for(&EventKind::Moved, LIMIT).unwrap();
    assert_eq!((moved.to, moved.reason.as_deref()), (Some(to), Some("switched by uid 0")));
    let asked = busy.hosts.daemons[0].wait_for(&EventKind::PathRequested, LIMIT).unwrap();
    assert!(asked.reason.is_some_and(|reason| reason.starts_with("uid 0 wants ")));
    busy.goes_on();
    let again = client.switch(&SwitchRequest { scope: Scope::All, pair: Some(to) }).unwrap();
    assert_eq!(again.outcomes[0].result, PathResult::Unchanged);
    let listed = client.paths().unwrap().contexts.remove(0);
    assert_eq!((listed.paths.len(), &listed.paths[0].state), (4, &PathState::Current));
    assert_eq!(listed.paths[0].pair(), to);
    busy.hosts.lab.fail(Failure::Silent { router: "isp2".into() }).unwrap();
    eventually("REAP to leave the dead pair", || busy.context().locators() != to);
    busy.goes_on();
    busy.hosts.logs_name_no_peer();
    busy.finish();
}

#[test]
fn a_switch_to_a_dead_or_impossible_pair_moves_nothing_and_says_why() {
    let Some(hosts) = protected("switch refused", &["a", "b"], &[]) else { return };
    let busy = Busy::start(hosts);
    let client = busy.client("a");
    let home = busy.context().locators();
    let switch =
        |pair| client.switch(&SwitchRequest { scope: Scope::Context(0), pair: Some(pair) });
    let stranger: Ipv6Addr = "2001:db8:99::9".parse().unwrap();
    for (pair, part) in [
        (Pair::new(stranger, home.peer), "no address of this host"),
        (Pair::new(home.local, stranger), "no verified locator of the peer"),
        (Pair::new(home.local, "fe80::1".parse().unwrap()), "global unicast"),
    ] {
        let refused = switch(pair).unwrap_err().to_string();
        assert!(refused.contains(part), "{refused}");
    }
    let nobody = client.switch(&SwitchRequest { scope: Scope::Context(99), pair: Some(home) });
    assert!(nobody.unwrap_err().to_string().contains("no established context 99"));
    busy.hosts.lab.fail(Failure::Silent { router: "isp2".into() }).unwrap();
    let dead = busy.pair("isp2", "isp2");
    let answer = switch(dead).unwrap();
    assert_eq!(answer.outcomes[0].result, PathResult::Unanswered, "{answer:?}");
    assert_eq!(busy.context().locators(), home);
    busy.goes_on();
    busy.finish();
}

#[test]
fn a_moved_pair_is_routed_to_its_uplink_and_nothing_leaves_there_by_its_ulid() {
    let Some(hosts) = protected("direct route", &["a", "b"], &[]) else { return };
    let busy = Busy::start(hosts);
    let client = busy.client("a");
    let host = busy.hosts.lab.namespace("a").unwrap().clone();
    let moved = || host.ip(&["-6", "route", "show", "table", "5530"]).unwrap();
    let (home, away) = (busy.pair("isp1", "isp1"), busy.pair("isp2", "isp2"));
    let capture = Capture::start(&host, "isp2", &busy.hosts.lab.directory("a").unwrap()).unwrap();
    let switch = |pair| {
        let answer = client.switch(&SwitchRequest { scope: Scope::All, pair: Some(pair) }).unwrap();
        assert_eq!(answer.outcomes[0].result, PathResult::Moved, "{answer:?}");
        busy.goes_on();
    };
    switch(away);
    eventually("a route to isp2", || moved().contains("via 2001:db8:a2::1 dev isp2"));
    busy.goes_on();
    // The pair that it has left is tried by the uplink of that one.
    switch(home);
    assert_eq!(moved(), "");
    switch(away);
    eventually("the route to isp2", || moved().contains("dev isp2"));
    let other = busy.pair("isp1", "isp2");
    switch(other);
    // And those to moor0 and of bound sockets.
    eventually("a route to isp1", || {
        moved().matches("via 2001:db8:a1::1 dev isp1").count() == 2 && moved().lines().count() == 3
    });
    let frames = capture.finish().unwrap();
    let sources: Vec<_> = frames.iter().filter_map(|frame| Some(&frame.ipv6()?[8..24])).collect();
    assert!(sources.contains(&&away.local.octets()[..]), "nothing seen");
    assert!(!sources.contains(&&home.local.octets()[..]));
    busy.finish();
}

/// The kernel takes routes away with an interface that goes down, if only for a moment that nobody sees.
#[test]
fn a_moved_pair_is_routed_to_its_uplink_again_after_that_was_down_for_a_moment() {
    let Some(hosts) = protected("short interruption", &["a", "b"], &[]) else { return };
    let busy = Busy::start(hosts);
    let host = busy.hosts.lab.namespace("a").unwrap().clone();
    let moved = || host.ip(&["-6", "route", "show", "table", "5530"]).unwrap();
    let away = busy.pair("isp2", "isp2");
    busy.client("a").switch(&SwitchRequest { scope: Scope::All, pair: Some(away) }).unwrap();
    eventually("a route to isp2", || moved().contains("dev isp2"));
    host.sysctl("ipv6/conf/isp2/keep_addr_on_down", "1").unwrap();
    let defaults = host.ip(&["-6", "route", "show", "default", "dev", "isp2"]).unwrap();
    let back = defaults.lines().map(|line| format!("route replace {line} dev isp2\n"));
    let back: String = back.collect();
    let daemon = Pid::from_raw(busy.hosts.daemons[0].id().cast_signed()).unwrap();
    kill_process(daemon, Signal::STOP).unwrap();
    let flap = host.ip_batch(&format!("link set isp2 down\nlink set isp2 up\n{back}"));
    let without = moved();
    kill_process(daemon, Signal::CONT).unwrap();
    flap.unwrap();
    assert!(!without.contains("dev isp2"), "{without}");
    eventually("the route to isp2 again", || moved().contains("dev isp2"));
    assert_eq!(busy.context().locators(), away);
    busy.goes_on();
    busy.finish();
}

#[test]
fn a_moved_pair_follows_the_mtu_of_its_uplink() {
    let Some(hosts) = protected("another MTU", &["a", "b"], &[]) else { return };
    let busy = Busy::start(hosts);
    let host = busy.hosts.lab.namespace("a").unwrap().clone();
    let moved = || host.ip(&["-6", "route", "show", "table", "5530"]).unwrap();
    let away = busy.pair("isp2", "isp2");
    busy.client("a").switch(&SwitchRequest { scope: Scope::All, pair: Some(away) }).unwrap();
    eventually("a route to isp2", || moved().contains("dev isp2"));
    for (mtu, route) in [("1400", " mtu 1392 "), ("1500", " mtu 1492 ")] {
        host.ip(&["link", "set", "isp2", "mtu", mtu]).unwrap();
        let is_followed = || moved().contains("dev isp2") && moved().matches(route).count() == 3;
        eventually("routes with room for the header", is_followed);
        // In one packet, in one that the header would make too long, in more than one.
        for octets in [1300, 1352, 2000] {
            assert!(busy.arrives(octets), "{octets} octets, MTU {mtu}: {}", moved());
        }
    }
    assert_eq!(busy.context().locators(), away);
    busy.finish();
}

#[test]
fn rules_move_contexts_and_pins_keep_them() {
    let rule = "[[paths]]\nlocal = \"isp2\"\npreference = \"prefer\"\n".to_owned();
    let Some(hosts) = protected_with("rules", [rule, String::new()]) else { return };
    let busy = Busy::start(hosts);
    let client = busy.client("a");
    let preferred = busy.pair("isp2", "isp1");
    eventually("the preferred uplink", || busy.context().locators().local == preferred.local);
    assert_eq!(busy.context().why, "preferred");
    let scope = Scope::Context(busy.context().id);
    client.pin(&SwitchRequest { scope, pair: None }).unwrap();
    let refused = client.switch(&SwitchRequest { scope, pair: Some(busy.pair("isp1", "isp1")) });
    assert!(refused.unwrap_err().to_string().contains("pinned"));
    let avoid = PathRule {
        scope: Scope::All,
        local: Some("isp2".into()),
        peer: None,
        preference: Preference::Avoid,
        tell_peer: true,
        origin: String::new(),
    };
    client.rule(&avoid).unwrap();
    let rules = client.paths().unwrap().rules;
    assert_eq!(
        rules.iter().map(|rule| &*rule.origin).collect::<Vec<_>>(),
        ["uid 0", "configuration"]
    );
    assert_eq!(busy.context().locators().local, preferred.local, "pinned");
    client.unpin(&UnpinRequest { scope }).unwrap();
    eventually("the other uplink", || busy.context().locators().local != preferred.local);
    busy.goes_on();
    busy.finish();
}

#[test]
fn a_pin_that_is_refused_leaves_the_one_before() {
    let Some(hosts) = protected("refused pin", &["a", "b"], &[]) else { return };
    let busy = Busy::start(hosts);
    let client = busy.client("a");
    let context = busy.context();
    let (home, only) = (context.locators(), Scope::Context(context.id));
    let pin = |scope, pair| client.pin(&SwitchRequest { scope, pair: Some(pair) });
    pin(only, home).unwrap();
    let elsewhere = Pair::new(home.local, "2001:db8:99::9".parse().unwrap());
    for scope in [only, Scope::All] {
        let refused = pin(scope, elsewhere).unwrap_err().to_string();
        assert!(refused.contains("no verified locator of the peer"), "{refused}");
        let switch =
            client.switch(&SwitchRequest { scope: only, pair: Some(busy.pair("isp2", "isp2")) });
        assert!(switch.unwrap_err().to_string().contains("pinned"), "{scope}");
    }
    let away = busy.pair("isp2", "isp2");
    let answer = pin(Scope::All, away).unwrap();
    assert_eq!(answer.outcomes[0].result, PathResult::Moved, "another pin of its own: {answer:?}");
    busy.finish();
}

#[test]
fn rules_for_a_context_end_with_it() {
    let idle = || "idle = \"2s\"\n".to_owned();
    let Some(hosts) = protected_with("rule for a context", [idle(), idle()]) else { return };
    let mut busy = Busy::start(hosts);
    let client = busy.client("a");
    let id = busy.context().id;
    let avoid = |id, local: &str| PathRule {
        scope: Scope::Context(id),
        local: Some(local.to_owned()),
        peer: None,
        preference: Preference::Avoid,
        tell_peer: false,
        origin: String::new(),
    };
    let refused = client.rule(&avoid(id + 1, "isp2")).unwrap_err().to_string();
    assert!(refused.contains(&format!("no established context {}", id + 1)), "{refused}");
    client.rule(&avoid(id, "isp2")).unwrap();
    let is_avoided = || {
        let paths = client.paths().unwrap().contexts.remove(0).paths;
        paths.iter().any(|path| path.preference == Preference::Avoid)
    };
    assert!(is_avoided());
    let Busy { flow, hosts } = busy;
    flow.finish().unwrap();
    busy = {
        let mut hosts = hosts;
        for daemon in &mut hosts.daemons {
            daemon.wait_for(&EventKind::ContextRemoved, 3 * LIMIT).unwrap();
        }
        Busy::start(hosts)
    };
    eventually("another context", || !client.paths().unwrap().contexts.is_empty());
    assert_eq!(busy.context().id, id, "with its number");
    assert_eq!(client.paths().unwrap().rules, []);
    assert!(!is_avoided());
    busy.finish();
}

/// Root and the group of the socket alone, by the mode of the socket and by who asks.
#[test]
fn the_control_socket_is_for_root_and_its_group() {
    let Some(hosts) = protected("control socket", &["a"], &[]) else { return };
    let socket = hosts.lab.directory("a").unwrap().join("moorlined.sock");
    assert_eq!(fs::metadata(&socket).unwrap().mode() & 0o777, 0o660);
    let client = BlockingClient::new(Client::new(&socket)).unwrap();
    assert!(
        client
            .unpin(&UnpinRequest { scope: Scope::Context(0) })
            .is_err_and(|error| { error.to_string().contains("no established context") })
    );
    // Somebody has opened it for all: they may look, and change nothing.
    fs::set_permissions(&socket, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
    let mut folder = socket.parent();
    while let Some(path) = folder.filter(|path| path.starts_with("/run/moorline-lab")) {
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        folder = path.parent();
    }
    let said = common::as_nobody(&socket, "POST /v1/paths/unpin", "{\"scope\": \"all\"}");
    assert!(said.starts_with("HTTP/1.1 403"), "{said}");
    assert!(said.contains("neither root nor in the group"), "{said}");
    let said = common::as_nobody(&socket, "GET /v1/paths", "");
    assert!(said.starts_with("HTTP/1.1 200"), "{said}");
}

#[test]
fn a_path_that_loses_packets_is_left() {
    let Some(mut hosts) = protected("loss", &["a", "b"], &[]) else { return };
    let [client, server] = hosts.ends.clone();
    let sender = Sender::Client;
    let options = TcpOptions { client, server, sender, bytes: 1 << 40, rate: 1_000_000 };
    let transfer = TcpTransfer::start(&options).unwrap();
    hosts.await_context();
    await_standby(&hosts.lab);
    hosts.lab.fail(Failure::Lossy { router: "isp1".into(), percent: 15 }).unwrap();
    let is_lossy = |event: &moorline_api::Event| {
        event.kind == EventKind::Moved && event.reason.as_deref() == Some("lossy")
    };
    moorline_lab::interrupt::wait_for("a move", Duration::from_secs(300), || {
        let daemons = &mut hosts.daemons;
        Ok(daemons.iter_mut().any(|one| one.events().iter().any(is_lossy)).then_some(()))
    })
    .unwrap();
    let [a, b] = [0, 1].map(|host: usize| hosts.daemons[host].verifiable_address("isp2").unwrap());
    for (daemon, to) in hosts.daemons.iter().zip([Pair::new(a, b), Pair::new(b, a)]) {
        eventually("both ends by ISP 2", || daemon.contexts().unwrap()[0].locators() == to);
    }
    let then = transfer.arrivals().total();
    eventually("bytes", || transfer.arrivals().total() > then + 1_000_000);
    transfer.abandon().unwrap();
}

/// A TCP transfer does not notice that it is put to and fro.
#[test]
fn tcp_is_put_to_and_fro_without_a_lost_byte() {
    let Some(mut hosts) = protected("TCP put", &["a", "b"], &[]) else { return };
    let [client, server] = hosts.ends.clone();
    let options =
        TcpOptions { client, server, sender: Sender::Client, bytes: 12_000_000, rate: 4_000_000 };
    let transfer = TcpTransfer::start(&options).unwrap();
    hosts.await_context();
    let socket = hosts.lab.directory("a").unwrap().join("moorlined.sock");
    let control = BlockingClient::new(Client::new(socket)).unwrap();
    let address = |host: usize, isp| hosts.daemons[host].verifiable_address(isp).unwrap();
    for isp in ["isp2", "isp1", "isp2"] {
        let pair = Some(Pair::new(address(0, isp), address(1, isp)));
        let answer = control.switch(&SwitchRequest { scope: Scope::All, pair }).unwrap();
        assert_eq!(answer.outcomes[0].result, PathResult::Moved, "{answer:?}");
        let then = transfer.arrivals().total();
        eventually("bytes", || transfer.arrivals().total() > then + 1_000_000);
    }
    eventually("the end of the transfer", || transfer.is_finished());
    assert!(transfer.finish().unwrap().complete, "{}", hosts.story());
}

const LIMIT: Duration = Duration::from_secs(10);
