//! New connections to a host without Moorline while an ISP is dead. Needs root, BPF and a built `moorlined`.

use std::net::{Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crate::common::{
    await_standby, daemon_options, end_silence, eventually, is_skipped, protect_in,
    restore_carrier, two_by_two_open,
};
use moorline_api::{BlockingClient, Client, EventKind, PathInfo};
use moorline_lab::daemon::{Daemon, DaemonOptions};
use moorline_lab::netns::Namespace;
use moorline_lab::topology::{HOSTS, THREE_HOSTS, host_address, prefix_of};
use moorline_lab::workload::{Direction, Endpoint, UdpFlow, UdpOptions};
use moorline_lab::{Failure, Lab, preflight, topology};

const PORT: u16 = 7000;

/// The interface by which a new connection leaves.
fn way(host: &Namespace, to: Ipv6Addr) -> String {
    let route = host.ip(&["-6", "route", "get", &to.to_string()]).unwrap();
    let mut words = route.split_whitespace().skip_while(|word| *word != "dev");
    words.nth(1).unwrap_or_default().to_owned()
}

fn our_routes(host: &Namespace) -> String {
    host.ip(&["-6", "route", "show", "table", "main", "proto", "139"]).unwrap()
}

#[test]
fn new_connections_leave_a_dead_isp_and_come_back_to_it() {
    let Some(lab) = two_by_two_open("new connections", &[]) else { return };
    let a = lab.namespace("a").unwrap().clone();
    // Behind both ISPs: the router of the second one, where it meets the first.
    let server = Ipv6Addr::new(0x2001, 0xdb8, 0xff, 0, 0, 0, 0, 2);
    let settings = format!("uplink-probes = [\"{server}\"]\n");
    let options = DaemonOptions { settings, ..daemon_options() };
    let mut daemon = Daemon::start(&lab, "a", &options).unwrap();
    assert_eq!((way(&a, server).as_str(), our_routes(&a).as_str()), ("isp1", ""));
    lab.fail(Failure::Silent { router: "isp1".to_owned() }).unwrap();
    eventually("the other ISP", || way(&a, server) == "isp2");
    daemon.wait_for(&EventKind::UplinkFailing, Duration::from_secs(60)).unwrap();
    let status = daemon.status().unwrap();
    let failing: Vec<bool> = status.uplinks.iter().map(|uplink| uplink.failing).collect();
    assert_eq!(failing, [true, false]);
    let is_told = |warning: &String| warning.starts_with("isp1 carries nothing");
    assert!(status.warnings.iter().any(is_told), "{:?}", status.warnings);
    let listener = lab.namespace("isp2").unwrap().enter(|| Ok(TcpListener::bind((server, PORT))?));
    let connect =
        || Ok(TcpStream::connect_timeout(&(server, PORT).into(), Duration::from_secs(60))?);
    let connection = a.enter(connect).unwrap();
    let SocketAddr::V6(own) = connection.local_addr().unwrap() else { panic!("IPv4") };
    assert_eq!(prefix_of(*own.ip()), prefix_of(host_address("a", 2)));
    drop((listener, connection));
    // The next run takes up what this one knows.
    daemon.hand_over().unwrap();
    assert_eq!(way(&a, server), "isp2");
    let mut daemon = Daemon::start(&lab, "a", &options).unwrap();
    assert_eq!(way(&a, server), "isp2");
    daemon.wait_for(&EventKind::UplinkFailing, Duration::from_secs(60)).unwrap();
    assert_eq!(way(&a, server), "isp2");
    end_silence(&lab, "isp1");
    eventually("ISP 1 again", || way(&a, server) == "isp1" && our_routes(&a).is_empty());
    lab.fail(Failure::Silent { router: "isp1".to_owned() }).unwrap();
    eventually("the other ISP for the second time", || way(&a, server) == "isp2");
    let mute = "table ip6 mute {\n chain in {\n type filter hook input priority 0\n icmpv6 type echo-request drop\n }\n}\n";
    lab.namespace("isp2").unwrap().nft(mute).unwrap();
    let is_told =
        |warning: &String| warning.starts_with("none of uplink-probes answers by isp1 or isp2");
    eventually("silence of both", || {
        let status = daemon.status().unwrap();
        let is_silent = status.uplinks.iter().all(|uplink| uplink.silent && !uplink.failing);
        is_silent && status.warnings.iter().any(is_told)
    });
    daemon.down().unwrap();
    assert_eq!((way(&a, server).as_str(), our_routes(&a).as_str()), ("isp1", ""));
}

/// Without `uplink-probes`: host A has contexts with two peers, and both say that they hear it by the second ISP alone.
#[test]
fn new_connections_leave_a_dead_isp_that_peers_do_not_answer_by() {
    let reasons = [preflight::check(&[]), preflight::check_bpf()].concat();
    if is_skipped("new connections, peers", &reasons) {
        return;
    }
    let lab = Lab::build(topology::two_by_three(false)).unwrap();
    let a = lab.namespace("a").unwrap().clone();
    let server = Ipv6Addr::new(0x2001, 0xdb8, 0xff, 0, 0, 0, 0, 2);
    let start = |host: &&str| Daemon::start(&lab, host, &daemon_options()).unwrap();
    let mut daemons: Vec<_> = THREE_HOSTS.iter().map(start).collect();
    let end = |index: usize| Endpoint {
        namespace: lab.namespace(THREE_HOSTS[index]).unwrap().clone(),
        address: daemons[index].verifiable_address("isp1").unwrap(),
    };
    let flow = |peer| {
        let (ends, direction) = ([end(0), end(peer)], Direction::BothWays);
        UdpFlow::start(&UdpOptions { ends, direction, per_second: 200, size: 600 }).unwrap()
    };
    let flows = [1, 2].map(flow);
    let socket = lab.directory("a").unwrap().join("moorlined.sock");
    let client = BlockingClient::new(Client::new(socket)).unwrap();
    eventually("standby paths of two contexts", || {
        let contexts = client.paths().unwrap().contexts;
        let is_standby = |path: &PathInfo| {
            path.uplink.as_deref() == Some("isp2") && path.answered_ms_ago.is_some()
        };
        contexts.iter().filter(|context| context.paths.iter().any(is_standby)).count() == 2
    });
    assert_eq!((way(&a, server).as_str(), our_routes(&a).as_str()), ("isp1", ""));
    lab.fail(Failure::Silent { router: "isp1".to_owned() }).unwrap();
    eventually("the other ISP", || way(&a, server) == "isp2");
    let told = daemons[0].wait_for(&EventKind::UplinkFailing, Duration::from_secs(60)).unwrap();
    let reason = told.reason.unwrap_or_default();
    assert!(reason.contains("no peer of a context answers by it"), "{reason}");
    assert!(reason.ends_with("new connections take isp2"), "{reason}");
    let listener = lab.namespace("isp2").unwrap().enter(|| Ok(TcpListener::bind((server, PORT))?));
    let connect =
        || Ok(TcpStream::connect_timeout(&(server, PORT).into(), Duration::from_secs(60))?);
    let connection = a.enter(connect).unwrap();
    drop((listener, connection));
    daemons.remove(0).kill().unwrap();
    let mut daemon = Daemon::start(&lab, "a", &daemon_options()).unwrap();
    assert_eq!(way(&a, server), "isp2");
    daemon.wait_for(&EventKind::UplinkFailing, Duration::from_secs(60)).unwrap();
    assert_eq!(way(&a, server), "isp2");
    end_silence(&lab, "isp1");
    eventually("ISP 1 again", || way(&a, server) == "isp1" && our_routes(&a).is_empty());
    drop(flows);
    daemon.down().unwrap();
    assert_eq!(our_routes(&a), "");
}

/// The kernel waits for the router on such a link, and asks for it anew with each packet of an old connection.
#[test]
fn new_connections_leave_a_link_without_a_carrier_at_once() {
    let Some(lab) = two_by_two_open("new connections, carrier", &[]) else { return };
    let a = lab.namespace("a").unwrap().clone();
    let server = Ipv6Addr::new(0x2001, 0xdb8, 0xff, 0, 0, 0, 0, 2);
    let daemon = Daemon::start(&lab, "a", &daemon_options()).unwrap();
    let lost = || Failure::CarrierDown { node: "a".to_owned(), interface: "isp1".to_owned() };
    for _ in 0..2 {
        assert_eq!((way(&a, server).as_str(), our_routes(&a).as_str()), ("isp1", ""));
        lab.fail(lost()).unwrap();
        eventually("a route of ours", || our_routes(&a).contains("dev isp2"));
        assert_eq!(way(&a, server), "isp2");
        restore_carrier(&lab, "a", "isp1");
        eventually("the link again", || way(&a, server) == "isp1" && our_routes(&a).is_empty());
    }
    lab.fail(lost()).unwrap();
    eventually("a route of ours", || our_routes(&a).contains("dev isp2"));
    daemon.down().unwrap();
    assert_eq!(our_routes(&a), "");
}

/// A carrier that comes back counts at once after its first loss. After later losses it has to stay first: 5 s, then 10 s.
#[test]
fn new_connections_keep_away_from_a_carrier_that_comes_and_goes() {
    let Some(lab) = two_by_two_open("new connections, flapping carrier", &[]) else { return };
    let settings = "fail-back = \"never\"\n".to_owned();
    let options = DaemonOptions { settings, ..daemon_options() };
    let mut hosts = protect_in(lab, &HOSTS, &[options.clone(), options]);
    let flow = hosts.datagrams(Direction::BothWays);
    hosts.await_context();
    await_standby(&hosts.lab);
    let a = hosts.lab.namespace("a").unwrap().clone();
    let server = Ipv6Addr::new(0x2001, 0xdb8, 0xff, 0, 0, 0, 0, 2);
    let moves = |daemon: &mut Daemon| {
        let events = daemon.events();
        events.iter().filter(|event| event.kind == EventKind::Moved).count()
    };
    let socket = hosts.lab.directory("a").unwrap().join("moorlined.sock");
    let client = BlockingClient::new(Client::new(socket)).unwrap();
    let mut moved = None;
    for promised in [0, 5, 10].map(Duration::from_secs) {
        assert_eq!(way(&a, server), "isp1");
        let lost = Failure::CarrierDown { node: "a".to_owned(), interface: "isp1".to_owned() };
        hosts.lab.fail(lost).unwrap();
        eventually("the other link", || way(&a, server) == "isp2");
        eventually("payload by the other link", || hosts.has_moved_to_isp2());
        let since = Instant::now();
        restore_carrier(&hosts.lab, "a", "isp1");
        let is_avoided = !promised.is_zero();
        if is_avoided {
            eventually("a status that says so", || {
                let uplinks = client.status().unwrap().uplinks;
                let first = uplinks.iter().find(|uplink| uplink.name == "isp1");
                first
                    .is_some_and(|one| one.carrier && one.avoided_secs.is_some_and(|secs| secs > 0))
            });
        }
        eventually("the link again", || way(&a, server) == "isp1" && our_routes(&a).is_empty());
        let stayed = since.elapsed();
        assert_eq!(client.status().unwrap().uplinks[0].avoided_secs, None);
        let taken = if is_avoided { "isp2" } else { "isp1" };
        let back = hosts.daemons[0].events().iter().filter_map(|event| event.reason.clone());
        let back: Vec<_> = back.filter(|reason| reason.contains("isp1: carrier back")).collect();
        let told = format!("isp1: carrier back: new connections take {taken}");
        assert_eq!(back.last(), Some(&told), "{back:?}");
        assert!(stayed >= promised, "after {stayed:?}, not {promised:?}\n{}", hosts.story());
        // The connection that is there goes on by the other link, and moves no more.
        for direction in flow.arrivals() {
            let before = direction.total();
            eventually("payload", || direction.total() > before);
        }
        let now = hosts.daemons.iter_mut().map(moves).collect::<Vec<_>>();
        assert_eq!(*moved.get_or_insert_with(|| now.clone()), now, "{}", hosts.story());
    }
    drop(flow);
}
