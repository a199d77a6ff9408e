//! A host whose daemon is stopped or gone, and a peer that has moved. Needs root, BPF and a built `moorlined`.

use std::time::Duration;

use crate::common::{
    Protected, daemon_options, endpoint, eventually, is_skipped, restore_carrier, two_by_two,
};
use moorline_api::{ContextState, EventKind};
use moorline_lab::daemon::{Daemon, DaemonOptions};
use moorline_lab::topology::HOSTS;
use moorline_lab::workload::{
    Direction, Endpoint, Sender, TcpOptions, TcpTransfer, UdpFlow, UdpOptions,
};
use moorline_lab::{Failure, preflight};

/// Starts both hosts. A can move. B has only static addresses, which stay when its daemon is gone.
fn hosts(test: &str) -> Option<Protected> {
    let lab = two_by_two(test, &[])?;
    if is_skipped(test, &preflight::check_bpf()) {
        return None;
    }
    let start = |(host, settings): (_, &str)| {
        let options = DaemonOptions { settings: settings.to_owned(), ..daemon_options() };
        Daemon::start(&lab, host, &options).unwrap()
    };
    let daemons: Vec<_> = HOSTS.into_iter().zip(["", STATIC]).map(start).collect();
    let address = daemons[0].verifiable_address("isp1").unwrap();
    let a = Endpoint { namespace: lab.namespace("a").unwrap().clone(), address };
    Some(Protected { ends: [a, endpoint(&lab, "b", 1)], daemons, lab })
}

/// Way in which B's daemon ends.
#[derive(Clone, Copy, Debug)]
enum End {
    Stopped,
    /// Killed and reset, without a message to the peer.
    Reset,
}

fn go(hosts: &mut Protected, end: End) {
    let daemon = hosts.daemons.remove(1);
    match end {
        End::Stopped => daemon.stop().unwrap(),
        End::Reset => {
            daemon.kill().unwrap();
            Daemon::reset(&hosts.lab, "b", &daemon_options()).unwrap();
        }
    }
}

/// Traffic between the addresses of the context, which triggers the context and keeps it in use.
fn datagrams(hosts: &Protected) -> UdpFlow {
    let ends = hosts.ends.clone();
    let direction = Direction::OneWay;
    UdpFlow::start(&UdpOptions { ends, direction, per_second: 50, size: 200 }).unwrap()
}

#[test]
fn a_peer_without_shim6_gets_plain_ipv6_from_who_has_moved() {
    for end in [End::Stopped, End::Reset] {
        let Some(mut hosts) = hosts(&format!("moved, then {end:?}")) else { return };
        let flow = datagrams(&hosts);
        hosts.await_context();
        let failure = Failure::CarrierDown { node: "a".into(), interface: "isp1".into() };
        hosts.lab.fail(failure).unwrap();
        for daemon in &mut hosts.daemons {
            daemon.wait_for(&EventKind::Moved, Duration::from_secs(10)).unwrap();
        }
        let total = || flow.arrivals()[0].total();
        let before = total();
        eventually("datagrams after the move", || total() > before + 5_000);
        let mut flow = Some(flow);
        if matches!(end, End::Stopped) {
            // Only the message of the stopped daemon can tell A, because no packet of A gets an answer.
            drop(flow.take().map(|flow| flow.finish().unwrap()));
        }
        go(&mut hosts, end);
        let removed = hosts.daemons[0]
            .wait_for(&EventKind::ContextRemoved, Duration::from_secs(20))
            .unwrap_or_else(|error| panic!("{end:?}: {error:#}\n{}", hosts.story()));
        assert_eq!(removed.reason.as_deref(), Some("the peer has no Shim6 any more"));
        drop(flow.map(|flow| flow.finish().unwrap()));
        restore_carrier(&hosts.lab, "a", "isp1");
        let [client, server] = hosts.ends.clone();
        let options =
            TcpOptions { client, server, sender: Sender::Client, bytes: 100_000, rate: 1_000_000 };
        let transfer = TcpTransfer::start(&options).unwrap();
        eventually("a connection as plain IPv6", || transfer.is_finished());
        assert!(transfer.finish().unwrap().complete, "{end:?}\n{}", hosts.story());
        let left = hosts.daemons[0].contexts().unwrap();
        assert!(left.iter().all(|left| left.state == ContextState::NoSupport), "{left:?}");
    }
}

const STATIC: &str = "addresses = \"off\"\n";
