//! Temporary addresses of Moorline (RFC 8981), with short lifetimes. Needs root, BPF, radvd and a built `moorlined`.

use crate::common;
use std::collections::BTreeSet;
use std::net::Ipv6Addr;
use std::time::Duration;

use crate::common::{advertise, eventually, for_long, listen_to_routers, two_by_two_open};
use moorline_api::{AddressInfo, AddressState, EventKind, Proof};
use moorline_lab::daemon::{Daemon, DaemonOptions};
use moorline_lab::topology::{host_address, prefix_of};
use moorline_lab::workload::{Endpoint, Sender, TcpOptions, TcpTransfer};

/// The addresses of Moorline on an uplink.
fn ours(daemon: &Daemon, isp: &str) -> Vec<AddressInfo> {
    let interfaces = daemon.addresses().unwrap();
    let of = interfaces.into_iter().filter(|one| one.interface == isp);
    of.flat_map(|one| one.addresses).filter(|own| own.proof != Proof::None).collect()
}

fn state_of(daemon: &Daemon, address: Ipv6Addr) -> Option<AddressState> {
    ours(daemon, "isp1").into_iter().find(|own| own.address == address).map(|own| own.state)
}

/// An address for new traffic that is none of these.
fn await_new(daemon: &Daemon, but: &BTreeSet<Ipv6Addr>) -> AddressInfo {
    let found = moorline_lab::interrupt::wait_for("a new temporary address", LIMIT, || {
        let is_new = |own: &AddressInfo| {
            own.state == AddressState::Preferred && own.announced && !but.contains(&own.address)
        };
        Ok(ours(daemon, "isp1").into_iter().find(is_new))
    });
    found.unwrap()
}

#[test]
fn new_connections_get_new_addresses_and_one_that_a_connection_uses_stays() {
    let Some(lab) = two_by_two_open("temporary", &["radvd"]) else { return };
    let mut routers = Vec::new();
    for (isp, number) in [("isp1", 1), ("isp2", 2)] {
        listen_to_routers(&lab, "a", isp);
        let prefix = prefix_of(host_address("a", number));
        routers.push(advertise(&lab, isp, "a", &[for_long(prefix)]));
    }
    let settings = "temporary = true\ntemporary-preferred-lifetime = \"20s\"\n\
                    temporary-valid-lifetime = \"40s\"\n";
    let options = DaemonOptions { settings: settings.to_owned(), ..common::daemon_options() };
    let mut a = Daemon::start(&lab, "a", &options).unwrap();
    let b = Daemon::start(&lab, "b", &common::daemon_options()).unwrap();
    let first = await_new(&a, &BTreeSet::new());
    assert!(first.temporary && first.proof == Proof::Hba && first.key.is_none(), "{first:?}");
    assert!((1..=20).contains(&first.preferred_s.unwrap()), "{first:?}");

    let [from, to] = ["a", "b"].map(|name| lab.namespace(name).unwrap().clone());
    let client = Endpoint { namespace: from, address: first.address };
    let server = Endpoint { namespace: to, address: b.verifiable_address("isp1").unwrap() };
    let sender = Sender::Client;
    let transfer = TcpOptions { client, server, sender, bytes: u64::MAX, rate: 400_000 };
    let transfer = TcpTransfer::start(&transfer).unwrap();
    a.wait_for(&EventKind::ContextEstablished, LIMIT).unwrap();

    let mut known = BTreeSet::from([first.address]);
    let second = await_new(&a, &known).address;
    known.insert(second);
    eventually("the end of the first for new traffic", || {
        state_of(&a, first.address) == Some(AddressState::Deprecated)
    });
    eventually("the end of the second, which nothing uses", || state_of(&a, second).is_none());
    assert_eq!(state_of(&a, first.address), Some(AddressState::Deprecated), "{}", a.log());

    a.hand_over().unwrap();
    a = Daemon::start(&lab, "a", &options).unwrap();
    await_new(&a, &known);
    let now = transfer.arrivals().total();
    eventually("more of the transfer", || transfer.arrivals().total() > now + 200_000);
    assert_eq!(state_of(&a, first.address), Some(AddressState::Deprecated), "{}", a.log());

    let all: Vec<_> = ["isp1", "isp2"].iter().flat_map(|isp| ours(&a, isp)).collect();
    a.stop().unwrap();
    let shown = lab.namespace("a").unwrap().ip(&["-6", "addr", "show"]).unwrap();
    assert!(all.iter().all(|own| !shown.contains(&format!("{}/", own.address))), "{shown}");
}

const LIMIT: Duration = Duration::from_secs(60);
