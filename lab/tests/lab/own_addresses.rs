//! A host's own addresses with Moorline, compared with those of a twin without. Needs root, BPF, radvd and a built
//! `moorlined`.

use std::fs;

use crate::common::twins::{Own, TWINS, Twins, WAN, prefix};
use crate::common::{daemon_options, eventually};
use moorline_api::{AddressState, Proof};
use moorline_lab::daemon::Daemon;

/// All settings by which the kernel of a host makes and selects addresses.
fn configuration(twins: &Twins) -> Vec<String> {
    let names = ["autoconf", "use_tempaddr", "accept_ra", "keep_addr_on_down", "addr_gen_mode"];
    let read = |name| fs::read_to_string(format!("/proc/sys/net/ipv6/conf/{WAN}/{name}"));
    let mut all: Vec<_> =
        twins.host("m").enter(|| Ok(names.map(|name| read(name).unwrap()))).unwrap().to_vec();
    all.push(twins.ip("m", "addrlabel list"));
    all
}

fn has(all: &[Own], number: u16, flag: &str) -> bool {
    all.iter().any(|own| own.prefix == prefix(number) && own.flags.contains(&flag))
}

/// An address from a router, a temporary one, a manual one, and a single one with a lifetime, as from DHCPv6.
#[test]
fn addresses_of_the_host_go_on_as_on_its_twin_without_moorline() {
    let Some(mut twins) = Twins::build("own addresses") else { return };
    for (host, last) in TWINS.into_iter().zip([0xa, 0xb]) {
        twins.ip(host, &format!("-6 addr add 2001:db8:5::{last:x}/64 dev {WAN}"));
        let lease = "valid_lft 3000 preferred_lft 2000";
        twins.ip(host, &format!("-6 addr add 2001:db8:a1::d{last:x}/128 dev {WAN} {lease}"));
    }
    twins.advertise(&[(0xa1, 10, 12)]);
    twins.await_equal("before", |own| own.len() == 3);
    let before = configuration(&twins);
    let daemon = Daemon::start(&twins.lab, "m", &daemon_options()).unwrap();
    let ours = twins.ours(&daemon, 0xa1);

    // Longer than the lifetimes of the first advertisement.
    twins.await_refreshes(0xa1, 5);
    twins.await_equal("routers go on", |own| has(own, 0xa1, "mngtmpaddr"));
    assert_eq!(configuration(&twins)[..5], before[..5]);

    twins.set("use_tempaddr", "2");
    twins.advertise(&[(0xa1, 300, 600)]);
    twins.await_equal("temporary addresses", |own| {
        has(own, 0xa1, "temporary") && own.iter().any(|own| own.valid > 500)
    });
    eventually("ours to last as long", || {
        let all = daemon.addresses().unwrap();
        let mut all = all.iter().flat_map(|one| &one.addresses);
        all.any(|own| own.address == ours && own.valid_s.is_some_and(|left| left > 500))
    });

    // Renumbering.
    twins.advertise(&[(0xa1, 0, 600), (0xa2, 300, 600)]);
    twins.await_equal("renumbering", |own| {
        has(own, 0xa1, "deprecated") && has(own, 0xa2, "temporary")
    });
    twins.ours(&daemon, 0xa2);
    eventually("ours to be deprecated as theirs are", || {
        let all = daemon.addresses().unwrap();
        let in_old =
            |own: &&moorline_api::AddressInfo| own.proof != Proof::None && own.address == ours;
        let own = all.iter().flat_map(|one| &one.addresses).find(in_old).cloned();
        own.is_some_and(|own| own.state == AddressState::Deprecated && own.preferred_s == Some(0))
    });

    // On any host, a link that goes down takes manual addresses with it.
    twins.both(&format!("link set {WAN} down"));
    twins.both(&format!("link set {WAN} up"));
    twins.await_equal("after a flap of the link", |own| has(own, 0xa2, "temporary"));
    twins.ours(&daemon, 0xa2);
    twins.await_refreshes(0xa2, 1);
    twins.await_equal("going on after the flap", |own| has(own, 0xa2, "mngtmpaddr"));

    daemon.stop().unwrap();
    twins.await_equal("without a daemon", |own| has(own, 0xa2, "mngtmpaddr"));
    assert!(!twins.ip("m", "-6 addr").contains(&ours.to_string()));
    let mut expected = before;
    "2\n".clone_into(&mut expected[1]);
    assert_eq!(configuration(&twins), expected);
}

#[test]
fn new_connections_take_our_address_whatever_younger_ones_come() {
    let Some(mut twins) = Twins::build("source of new connections") else { return };
    twins.advertise(&[(0xa1, 300, 600)]);
    twins.await_equal("before", |own| own.len() == 1);
    let mut daemon = Daemon::start(&twins.lab, "m", &daemon_options()).unwrap();
    let ours = twins.ours(&daemon, 0xa1);
    twins.await_source_of_ours(&daemon, "at the start");

    twins.ip("m", &format!("-6 addr add 2001:db8:a1::77/64 dev {WAN} nodad"));
    twins.await_source_of_ours(&daemon, "beside a younger address set by hand");
    twins.ip(
        "m",
        &format!("-6 addr add 2001:db8:a1::d/128 dev {WAN} nodad valid_lft 900 preferred_lft 600"),
    );
    twins.await_source_of_ours(&daemon, "beside one of DHCPv6");
    twins.set("use_tempaddr", "2");
    let is_there = || has(&twins.addresses("m"), 0xa1, "temporary");
    eventually("a temporary address", is_there);
    twins.await_source_of_ours(&daemon, "although the host prefers temporary addresses");
    twins.await_refreshes(0xa1, 2);
    assert_eq!(twins.source(), ours, "a router that repeats itself");

    twins.ip("m", &format!("link set {WAN} down"));
    twins.ip("m", &format!("link set {WAN} up"));
    eventually("the kernel's addresses after a flap", is_there);
    assert_eq!(twins.ours(&daemon, 0xa1), ours);
    twins.await_source_of_ours(&daemon, "after a flap of the link");

    daemon.kill().unwrap();
    assert_eq!(twins.source(), ours, "after a crash");
    daemon = Daemon::start(&twins.lab, "m", &daemon_options()).unwrap();
    assert_eq!(twins.ours(&daemon, 0xa1), ours);
    twins.await_source_of_ours(&daemon, "after a restart");

    // If the router deprecates a prefix, new traffic uses the daemon's address as little as the kernel's.
    twins.advertise(&[(0xa1, 0, 600), (0xa2, 300, 600)]);
    twins.ours(&daemon, 0xa2);
    eventually("the old prefix to be deprecated", || {
        has(&twins.addresses("m"), 0xa1, "deprecated")
    });
    eventually("new connections to leave the old prefix", || twins.source() != ours);

    daemon.stop().unwrap();
    let labels = twins.ip("m", "addrlabel list");
    assert!(!labels.contains("/128 dev"), "{labels}");
}
