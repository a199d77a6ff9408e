//! Daemons that are killed and restarted, or hand over as for an upgrade, with a thousand contexts. Needs root,
//! BPF and a built `moorlined`.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod common;

use std::net::Ipv6Addr;

use common::sites::{Chatter, Sites, established};
use common::{eventually, is_skipped, story};
use moorline_lab::daemon::Daemon;
use moorline_lab::topology::HOSTS;
use moorline_lab::workload::{Endpoint, Sender, TcpOptions, TcpTransfer};
use moorline_lab::{Failure, Lab, preflight};

/// So a host has 32 addresses, and two hosts have 1,024 pairs of them.
const SITES: Sites = Sites(16);

/// Some connections among the chatter.
fn transfers(lab: &Lab, ours: &[Ipv6Addr], theirs: &[Ipv6Addr]) -> Vec<TcpTransfer> {
    let end =
        |host: &str, address| Endpoint { namespace: lab.namespace(host).unwrap().clone(), address };
    // Of every kind: both ends at ISP 1, one, none.
    let last = SITES.addresses() - 1;
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
    let daemon = Daemon::start(lab, HOSTS[host], &SITES.options(HOSTS[host])).unwrap();
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
    let lab = Lab::build(SITES.topology()).unwrap();
    let mut daemons: Vec<_> =
        HOSTS.iter().map(|host| Daemon::start(&lab, host, &SITES.options(host)).unwrap()).collect();
    let [ours, theirs] = [0, 1].map(|host: usize| SITES.addresses_of(&daemons[host]));
    let transfers = transfers(&lab, &ours, &theirs);
    let chatter = Chatter::start(&lab, &ours, &theirs);
    for daemon in &daemons {
        eventually("contexts", || established(daemon).len() == SITES.addresses().pow(2));
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
