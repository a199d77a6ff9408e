//! Signals of the host to the daemon: neighbor states and sockets. Needs root, BPF and a built `moorlined`.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use crate::common::{
    Protected, daemon_options, endpoint, eventually, is_skipped, prefer, protected_with, two_by_two,
};
use moorline_api::EventKind;
use moorline_lab::daemon::{Daemon, DaemonOptions};
use moorline_lab::workload::{Direction, Endpoint, Sender, TcpOptions, TcpTransfer};
use moorline_lab::{preflight, topology};

/// Two hosts. The kernel of the first one probes its router at the first ISP within seconds.
fn asking(
    test: &str,
    neighbours: &[(&str, &str)],
    options: impl FnOnce(DaemonOptions) -> DaemonOptions,
) -> Option<Protected> {
    let lab = two_by_two(test, &["nft"])?;
    if is_skipped(test, &preflight::check_bpf()) {
        return None;
    }
    // Set before the start of the daemon: the daemon makes a neighbor entry for the router, and an entry keeps the
    // times of its creation.
    let first = lab.namespace(topology::HOSTS[0]).unwrap();
    let soon = [("base_reachable_time_ms", "1000"), ("delay_first_probe_time", "1")];
    for (setting, value) in soon.iter().chain(neighbours) {
        first.sysctl(&format!("ipv6/neigh/isp1/{setting}"), value).unwrap();
    }
    let options = options(daemon_options());
    let daemons: Vec<_> =
        topology::HOSTS.iter().map(|host| Daemon::start(&lab, host, &options).unwrap()).collect();
    let ends = [0, 1].map(|side| {
        let address = daemons[side].verifiable_address("isp1").unwrap();
        Endpoint { address, ..endpoint(&lab, topology::HOSTS[side], 1) }
    });
    Some(Protected { daemons, ends, lab })
}

/// A router that drops all packets while its link is up.
const DEAD_ROUTER: &str = "table ip6 dead {
    chain in { type filter hook input priority -500; drop; }
    chain through { type filter hook forward priority -500; drop; }
}";

//= rfc5534#3.2-1 (test)
#[test]
fn a_router_that_is_dead_on_a_live_link_is_noticed_by_neighbour_unreachability_detection() {
    // With these settings, the hosts wait a minute for an answer to payload, and see no failure hints.
    let patient = |options| DaemonOptions {
        send_timeout: Duration::from_secs(60),
        settings: "profile = \"rfc\"\n".to_owned(),
        ..options
    };
    let hosts = asking("dead router", &[("retrans_time_ms", "100")], patient);
    let Some(mut hosts) = hosts else { return };
    let [client, server] = hosts.ends.clone();
    let options =
        TcpOptions { client, server, sender: Sender::Client, bytes: 12_000_000, rate: 4_000_000 };
    let transfer = TcpTransfer::start(&options).unwrap();
    hosts.await_context();
    eventually("bytes", || transfer.arrivals().total() > 1_000_000);
    hosts.lab.namespace("isp1").unwrap().nft(DEAD_ROUTER).unwrap();
    // The limit is less than half a Send Timeout.
    let noticed = hosts.daemons[0].wait_for(&EventKind::Exploring, Duration::from_secs(25));
    assert_eq!(noticed.unwrap().reason.as_deref(), Some("local_failure"), "{}", hosts.story());
    let ended = moorline_lab::interrupt::wait_for("the end", Duration::from_secs(25), || {
        Ok(transfer.is_finished().then_some(()))
    });
    assert!(ended.is_ok(), "{}", hosts.story());
    assert!(transfer.finish().unwrap().complete);
    assert!(hosts.has_moved_to_isp2());
}

/// Both ends of a new connection.
fn new_connection(client: &Endpoint, server: &Endpoint) -> (TcpStream, TcpStream) {
    let to = SocketAddr::from((server.address, 0));
    let listener = server.namespace.enter(|| Ok(TcpListener::bind(to)?)).unwrap();
    let to = listener.local_addr().unwrap();
    let near = client.namespace.enter(|| Ok(TcpStream::connect(to)?)).unwrap();
    (near, listener.accept().unwrap().0)
}

/// Both ends of a new connection that has carried enough octets for a context.
fn connection(client: &Endpoint, server: &Endpoint) -> (TcpStream, TcpStream) {
    let (mut near, mut far) = new_connection(client, server);
    near.write_all(&[7; 8192]).unwrap();
    far.read_exact(&mut [0; 8192]).unwrap();
    (near, far)
}

/// If a socket has no source address when it looks up its route, it keeps the route by the uplink that its context has
/// left.
#[test]
fn a_connection_that_has_moved_does_not_wait_for_the_router_that_it_has_left() {
    // The kernel solicits the router for a minute.
    let hosts = asking("router left behind", &[("mcast_solicit", "60")], |options| options);
    let Some(mut hosts) = hosts else { return };
    let flow = hosts.datagrams(Direction::BothWays);
    hosts.await_context();
    drop(flow.finish());
    hosts.daemons[0].rule(&prefer("isp2")).unwrap();
    hosts.daemons[0].wait_for(&EventKind::Moved, Duration::from_secs(20)).unwrap();
    let [client, server] = hosts.ends.clone();
    // After packets of full size, the daemon would tell sockets of a route with room for a header.
    let (mut near, mut far) = new_connection(&client, &server);
    assert_eq!(near.local_addr().unwrap().ip(), client.address, "not of the context");
    near.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let answers = thread::spawn(move || io::copy(&mut far.try_clone().unwrap(), &mut far));
    let mut ask = || {
        near.write_all(&[7; 100]).unwrap();
        near.read_exact(&mut [0; 100])
    };
    hosts.lab.namespace("isp1").unwrap().nft(DEAD_ROUTER).unwrap();
    ask().unwrap();
    // An answer on the connection confirms the router to the kernel. So the test makes the kernel probe the router
    // while no answer comes.
    let neighbour = |words: &[&str]| client.namespace.ip(&[&["-6", "neigh"], words].concat());
    let routes = client.namespace.ip(&["-6", "route", "show", "default", "dev", "isp1"]).unwrap();
    let router = routes.split_whitespace().skip_while(|word| *word != "via").nth(1);
    let router = router.unwrap_or_else(|| panic!("no gateway: {routes}"));
    eventually("the loss of the router", || {
        let known = neighbour(&["show", "to", router, "dev", "isp1"]).unwrap().contains("lladdr");
        if known {
            let _ = neighbour(&["change", router, "dev", "isp1", "nud", "probe"]);
        }
        !known
    });
    for _ in 0..20 {
        ask().unwrap();
    }
    near.shutdown(Shutdown::Both).unwrap();
    answers.join().unwrap().unwrap();
}

/// Number of contexts that the daemon has removed.
fn removed(daemon: &mut Daemon) -> usize {
    daemon.events().iter().filter(|event| event.kind == EventKind::ContextRemoved).count()
}

//= rfc5533#9-1 (test)
#[test]
fn a_context_stays_as_long_as_a_quiet_connection_and_goes_with_it() {
    let settings = "idle = \"1s\"\n".to_owned();
    let Some(mut hosts) = protected_with("quiet connection", [settings.clone(), settings]) else {
        return;
    };
    let [client, server] = hosts.ends.clone();
    let (near, far) = connection(&client, &server);
    hosts.await_context();
    let ids = |daemon: &Daemon| {
        daemon.contexts().unwrap().iter().map(|context| context.id).collect::<Vec<_>>()
    };
    let first = [0, 1].map(|side| ids(&hosts.daemons[side]));
    // A later context that no socket needs is removed, twice. The first context is as quiet, and stays.
    let address = hosts.daemons[1].verifiable_address("isp2").unwrap();
    let by_isp2 = Endpoint { address, ..server };
    for times in 1..=2 {
        let other = connection(&client, &by_isp2);
        for daemon in &mut hosts.daemons {
            eventually("the other context", || ids(daemon).len() == 2);
        }
        drop(other);
        for (daemon, first) in hosts.daemons.iter_mut().zip(&first) {
            eventually("its end", || removed(daemon) == times);
            assert_eq!(&ids(daemon), first);
        }
    }
    drop((near, far));
    for daemon in &mut hosts.daemons {
        eventually("the end of the first", || daemon.contexts().unwrap().is_empty());
    }
}
