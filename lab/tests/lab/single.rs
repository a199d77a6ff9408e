//! Networks that give a host one address and no prefix. Needs root, BPF and a built `moorlined`.

use std::time::Duration;

use crate::common::{await_standby, daemon_options, eventually, two_by_two_open};
use moorline_api::EventKind;
use moorline_lab::Failure;
use moorline_lab::daemon::Daemon;
use moorline_lab::topology::{gateway_address, host_address};
use moorline_lab::workload::{Endpoint, Sender, TcpOptions, TcpTransfer};

/// A DHCPv6 server of the second ISP gives an address of 128 bits, and its router advertises no prefix for hosts.
#[test]
fn a_connection_moves_to_an_uplink_with_a_single_address() {
    let Some(lab) = two_by_two_open("single address", &[]) else { return };
    let host = lab.namespace("a").unwrap();
    let (single, router) = (host_address("a", 2), gateway_address("a", 2));
    let [own, via, by] = [format!("{single}/128"), format!("{router}/128"), router.to_string()];
    host.ip(&["-6", "addr", "flush", "dev", "isp2", "scope", "global"]).unwrap();
    host.ip(&["-6", "addr", "add", &own, "dev", "isp2"]).unwrap();
    host.ip(&["-6", "route", "replace", &via, "dev", "isp2"]).unwrap();
    let default =
        ["-6", "route", "replace", "default", "via", &by, "dev", "isp2", "metric", "2048"];
    host.ip(&default).unwrap();
    let mut a = Daemon::start(&lab, "a", &daemon_options()).unwrap();
    let b = Daemon::start(&lab, "b", &daemon_options()).unwrap();
    let client =
        Endpoint { namespace: host.clone(), address: a.verifiable_address("isp1").unwrap() };
    let namespace = lab.namespace("b").unwrap().clone();
    let server = Endpoint { namespace, address: b.verifiable_address("isp1").unwrap() };
    let sender = Sender::Client;
    let options = TcpOptions { client, server, sender, bytes: u64::MAX, rate: 400_000 };
    let transfer = TcpTransfer::start(&options).unwrap();
    a.wait_for(&EventKind::ContextEstablished, LIMIT).unwrap();
    let warnings = a.status().unwrap().warnings;
    let told = warnings.iter().find(|one| one.starts_with("isp2: there is no prefix of 64 bits"));
    let told = told.unwrap_or_else(|| panic!("{warnings:?}"));
    assert!(told.contains("those of other uplinks can move to it"), "{told}");

    await_standby(&lab);
    lab.fail(Failure::Silent { router: "isp1".into() }).unwrap();
    eventually("a move to the single address", || {
        let contexts = a.contexts().unwrap();
        contexts.iter().any(|one| one.moved && one.locators().local == single)
    });
    let now = transfer.arrivals().total();
    eventually("more of the transfer", || transfer.arrivals().total() > now + 200_000);
}

const LIMIT: Duration = Duration::from_secs(60);
