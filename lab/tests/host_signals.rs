//! What the host knows by itself, and tells the daemon: neighbours, sockets. Needs root, BPF and a
//! built `moorlined`.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod common;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use common::{
    Protected, daemon_options, endpoint, eventually, is_skipped, protected_with, two_by_two,
};
use moorline_api::EventKind;
use moorline_lab::daemon::{Daemon, DaemonOptions};
use moorline_lab::workload::{Endpoint, Sender, TcpOptions, TcpTransfer};
use moorline_lab::{preflight, topology};

/// Two hosts that would wait a minute for payload that does not come back, and suspect nothing; the first one's kernel asks
/// for neighbours again within seconds.
fn patient(test: &str) -> Option<Protected> {
    let lab = two_by_two(test, &["nft"])?;
    if is_skipped(test, &preflight::check_bpf()) {
        return None;
    }
    // Before the daemon: it makes an entry for the router, and an entry keeps the time that it began with.
    let first = lab.namespace(topology::HOSTS[0]).unwrap();
    for (setting, value) in [
        ("base_reachable_time_ms", "1000"),
        ("delay_first_probe_time", "1"),
        ("retrans_time_ms", "100"),
    ] {
        first.sysctl(&format!("ipv6/neigh/isp1/{setting}"), value).unwrap();
    }
    let options = DaemonOptions {
        send_timeout: Duration::from_secs(60),
        settings: "profile = \"rfc\"\n".to_owned(),
        ..daemon_options()
    };
    let daemons: Vec<_> =
        topology::HOSTS.iter().map(|host| Daemon::start(&lab, host, &options).unwrap()).collect();
    let ends = [0, 1].map(|side| {
        let address = daemons[side].verifiable_address("isp1").unwrap();
        Endpoint { address, ..endpoint(&lab, topology::HOSTS[side], 1) }
    });
    Some(Protected { daemons, ends, lab })
}

/// The router is there, its link is up, and it does nothing any more.
const DEAD_ROUTER: &str = "table ip6 dead {
    chain in { type filter hook input priority -500; drop; }
    chain through { type filter hook forward priority -500; drop; }
}";

//= rfc5534#3.2-1 (test)
#[test]
fn a_router_that_is_dead_on_a_live_link_is_noticed_by_neighbour_unreachability_detection() {
    let Some(mut hosts) = patient("dead router") else { return };
    let [client, server] = hosts.ends.clone();
    let options =
        TcpOptions { client, server, sender: Sender::Client, bytes: 12_000_000, rate: 4_000_000 };
    let transfer = TcpTransfer::start(&options).unwrap();
    hosts.await_context();
    eventually("bytes", || transfer.arrivals().total() > 1_000_000);
    hosts.lab.namespace("isp1").unwrap().nft(DEAD_ROUTER).unwrap();
    // Within less than half a Send Timeout.
    let noticed = hosts.daemons[0].wait_for(&EventKind::Exploring, Duration::from_secs(25));
    assert_eq!(noticed.unwrap().reason.as_deref(), Some("local_failure"), "{}", hosts.story());
    let ended = moorline_lab::interrupt::wait_for("the end", Duration::from_secs(25), || {
        Ok(transfer.is_finished().then_some(()))
    });
    assert!(ended.is_ok(), "{}", hosts.story());
    assert!(transfer.finish().unwrap().complete);
    assert!(hosts.has_moved_to_isp2());
}

/// Both ends of a connection that has carried enough for a context.
fn connection(client: &Endpoint, server: &Endpoint) -> (TcpStream, TcpStream) {
    let to = SocketAddr::from((server.address, 0));
    let listener = server.namespace.enter(|| Ok(TcpListener::bind(to)?)).unwrap();
    let to = listener.local_addr().unwrap();
    let mut near = client.namespace.enter(|| Ok(TcpStream::connect(to)?)).unwrap();
    let (mut far, _) = listener.accept().unwrap();
    near.write_all(&[7; 8192]).unwrap();
    far.read_exact(&mut [0; 8192]).unwrap();
    (near, far)
}

/// How many contexts were removed.
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
    // A later one that nobody needs any more goes, twice, and the first one is as quiet all the while.
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
