//! Addresses that prove themselves, made from real Router Advertisements on real hosts. Needs root, BPF, radvd and a
//! built `moorlined`.

use crate::common;
use std::fs;
use std::net::Ipv6Addr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::common::{
    advertise, await_standby, eventually, for_long, listen_to_routers, protected_with, story,
    two_by_two_open,
};
use moorline_api::{AddressInfo, AddressState, EventKind, Proof};
use moorline_lab::daemon::{Daemon, DaemonOptions, configuration, state_directory};
use moorline_lab::process::Process;
use moorline_lab::router::Advertised;
use moorline_lab::topology::{Prefix, host_address, prefix_of};
use moorline_lab::workload::{Endpoint, Sender, TcpOptions, TcpTransfer};
use moorline_lab::{Failure, Lab};
use rustix::mount::MountFlags;

/// Prefixes of host A by number: of ISP 1, of ISP 2, and a second one of ISP 2.
fn prefix(number: u16) -> Prefix {
    prefix_of(host_address("a", number))
}

fn is_in(address: Ipv6Addr, number: u16) -> bool {
    prefix_of(address) == prefix(number)
}

/// A network in which host A gets its addresses from the routers of its ISPs.
struct Site {
    routers: Vec<Process>,
    lab: Lab,
}

impl Site {
    fn build(test: &str) -> Option<Self> {
        let lab = two_by_two_open(test, &["radvd"])?;
        let mut routers = Vec::new();
        for (isp, number) in [("isp1", 1), ("isp2", 2)] {
            listen_to_routers(&lab, "a", isp);
            let prefixes = [for_long(prefix(number))];
            routers.push(advertise(&lab, isp, "a", &prefixes));
        }
        Some(Self { routers, lab })
    }

    /// Makes a router advertise other prefixes from now on.
    fn change(&mut self, isp: usize, prefixes: &[Advertised]) {
        self.routers.remove(isp).kill().unwrap();
        let name = ["isp1", "isp2"][isp];
        self.routers.insert(isp, advertise(&self.lab, name, "a", prefixes));
    }

    /// Waits for a usable address of the daemon on an uplink of A. Gives the daemon's addresses there.
    fn ours(&self, daemon: &Daemon, isp: &str) -> Vec<AddressInfo> {
        let found = moorline_lab::interrupt::wait_for("an address of ours", LIMIT, || {
            let mut found = addresses(daemon, isp);
            found.retain(|own| own.proof != Proof::None);
            let is_used = |own: &AddressInfo| own.state == AddressState::Preferred && own.announced;
            Ok(found.iter().any(is_used).then_some(found))
        });
        found.unwrap_or_else(|error| {
            let host = self.lab.namespace("a").unwrap();
            let shown = ["addr", "route"].map(|what| host.ip(&["-6", what, "show"]).unwrap());
            panic!("{error:#}\n{}\n{}\n{}", daemon.log(), shown[0], shown[1])
        })
    }

    /// Waits for a usable address of the kernel on an uplink of A. The daemon's addresses are usable sooner.
    fn of_kernel(&self, daemon: &Daemon, isp: &str) -> Ipv6Addr {
        let found = moorline_lab::interrupt::wait_for("an address of the kernel's", LIMIT, || {
            let is_used = |own: &AddressInfo| {
                own.proof == Proof::None && own.state == AddressState::Preferred
            };
            Ok(addresses(daemon, isp).into_iter().find(is_used))
        });
        found.unwrap().address
    }

    fn controls(&self) -> Vec<String> {
        let names = ["isp1", "isp2"].into_iter().flat_map(|isp| {
            ["autoconf", "use_tempaddr", "accept_ra"].map(|name| format!("{isp}/{name}"))
        });
        let read = |name| fs::read_to_string(format!("/proc/sys/net/ipv6/conf/{name}")).unwrap();
        self.lab.namespace("a").unwrap().enter(|| Ok(names.map(read).collect())).unwrap()
    }
}

fn addresses(daemon: &Daemon, isp: &str) -> Vec<AddressInfo> {
    let interfaces = daemon.addresses().unwrap();
    let of = interfaces.into_iter().filter(|one| one.interface == isp);
    of.flat_map(|one| one.addresses).collect()
}

fn options() -> DaemonOptions {
    common::daemon_options()
}

#[test]
fn the_first_start_makes_a_key_and_addresses_of_both_isps_and_the_next_has_the_same() {
    let Some(site) = Site::build("first start") else { return };
    let before = site.controls();
    let daemon = Daemon::start(&site.lab, "a", &options()).unwrap();
    let (first, second) = (site.ours(&daemon, "isp1"), site.ours(&daemon, "isp2"));
    for (own, number) in [(&first, 1), (&second, 2)] {
        let [own] = &own[..] else { panic!("{own:?}") };
        assert!(is_in(own.address, number), "{own:?}");
        assert_eq!(own.proof, Proof::HbaCompatible, "both are in one set");
        assert_eq!((own.sec, own.collision_count), (Some(1), Some(0)));
        assert_eq!(own.key.as_deref(), Some("default"));
        let left = own.valid_s.unwrap();
        assert!((1..=3600).contains(&left), "{own:?}");
    }
    let key = state_directory(&site.lab, "a").unwrap().join("keys/default.pem");
    assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o7777, 0o600);
    let pem = fs::read_to_string(&key).unwrap();
    let secret = pem.lines().nth(1).unwrap();
    assert!(!daemon.log().contains(secret) && !format!("{:?}", daemon.status()).contains(secret));
    assert_eq!(site.controls(), before, "the kernel goes on making addresses");
    let kept = |list: &[AddressInfo]| list.iter().map(|own| own.address).collect::<Vec<_>>();

    daemon.kill().unwrap();
    // The configuration may have been the cause of a crash.
    fs::write(configuration(&site.lab, "a").unwrap(), "no configuration").unwrap();
    Daemon::reset(&site.lab, "a", &options()).unwrap();
    assert_eq!(site.controls(), before, "after a crash and a reset");
    assert!(!site.has_address(first[0].address));

    let daemon = Daemon::start(&site.lab, "a", &options()).unwrap();
    assert_eq!(kept(&site.ours(&daemon, "isp1")), kept(&first));
    assert_eq!(kept(&site.ours(&daemon, "isp2")), kept(&second));
    daemon.stop().unwrap();
    assert_eq!(site.controls(), before, "after an end in order");
    assert!(!site.has_address(first[0].address));
}

/// Programs of classic tc on the egress of an interface of A.
fn programs(lab: &Lab, interface: &str) -> String {
    let mut command = lab.namespace("a").unwrap().command("tc");
    let output = command.args(["filter", "show", "dev", interface, "egress"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The daemon keeps the addresses of the uplink that a context needs. The other addresses are still there, too.
#[test]
fn an_uplink_that_the_next_run_leaves_out_is_as_without_a_daemon() {
    let Some(site) = Site::build("left out") else { return };
    let before = site.controls();
    // With classic tc, the test can list the programs without tools that the base image lacks.
    let settings =
        |more: &str| DaemonOptions { settings: format!("attach = \"tc\"\n{more}"), ..options() };
    let mut a = Daemon::start(&site.lab, "a", &settings("")).unwrap();
    let b = Daemon::start(&site.lab, "b", &options()).unwrap();
    let address = site.ours(&a, "isp2")[0].address;
    site.ours(&a, "isp1");
    let of_kernel = site.of_kernel(&a, "isp2");
    let client = Endpoint { namespace: site.lab.namespace("a").unwrap().clone(), address };
    let namespace = site.lab.namespace("b").unwrap().clone();
    let server = Endpoint { namespace, address: b.verifiable_address("isp1").unwrap() };
    let connect = |client: &Endpoint| {
        let (client, server, sender) = (client.clone(), server.clone(), Sender::Client);
        let options = TcpOptions { client, server, sender, bytes: u64::MAX, rate: 400_000 };
        TcpTransfer::start(&options).unwrap()
    };
    let of_context = connect(&client);
    a.wait_for(&EventKind::ContextEstablished, LIMIT).unwrap();

    a.hand_over().unwrap();
    a = Daemon::start(&site.lab, "a", &settings("uplinks = [\"isp1\"]")).unwrap();
    let plain = connect(&Endpoint { address: of_kernel, ..client });
    for transfer in [&plain, &of_context] {
        let now = transfer.arrivals().total();
        eventually("more of it", || transfer.arrivals().total() > now + 200_000);
    }
    eventually("a move of the context", || {
        a.contexts().unwrap().iter().any(|one| one.ulid_local == address && one.moved)
    });
    let [used, left] = ["isp1", "isp2"].map(|isp| programs(&site.lab, isp));
    assert!(used.contains("uplink_") && !left.contains("uplink_"), "{used}\n{left}");
    let rules = site.lab.namespace("a").unwrap().ip(&["-6", "rule", "show"]).unwrap();
    let has_rule = |number| rules.contains(&format!("from {} ", prefix(number)));
    assert!(has_rule(1) && !has_rule(2), "{rules}");
    let labels = site.lab.namespace("a").unwrap().ip(&["addrlabel", "list"]).unwrap();
    assert!(labels.contains("dev isp1") && !labels.contains("dev isp2"), "{labels}");
    a.stop().unwrap();
    assert_eq!(site.controls(), before);
}

impl Site {
    fn has_address(&self, address: Ipv6Addr) -> bool {
        let shown = self.lab.namespace("a").unwrap().ip(&["-6", "addr", "show"]).unwrap();
        shown.contains(&format!("{address}/"))
    }
}

/// ISP 2 renumbers during a connection over ISP 1, and then ISP 1 fails. The connection is left with an address that
/// the peer did not know at its start.
#[test]
fn a_prefix_announced_in_mid_connection_is_used_for_the_next_move() {
    let Some(mut site) = Site::build("renumbering") else { return };
    let host = site.lab.namespace("a").unwrap().clone();
    host.sysctl("ipv6/conf/isp2/ra_honor_pio_life", "1").unwrap();
    let mut a = Daemon::start(&site.lab, "a", &options()).unwrap();
    let mut b = Daemon::start(&site.lab, "b", &options()).unwrap();
    let old = site.ours(&a, "isp2")[0].address;
    let client = Endpoint { namespace: host, address: site.ours(&a, "isp1")[0].address };
    let namespace = site.lab.namespace("b").unwrap().clone();
    let server = Endpoint { namespace, address: b.verifiable_address("isp1").unwrap() };
    let sender = Sender::Server;
    let options = TcpOptions { client, server, sender, bytes: 40_000_000, rate: 4_000_000 };
    let transfer = TcpTransfer::start(&options).unwrap();
    for daemon in [&mut a, &mut b] {
        daemon.wait_for(&EventKind::ContextEstablished, Duration::from_secs(10)).unwrap();
    }
    let run = |node: &str, arguments: &str| {
        let arguments: Vec<_> = arguments.split_whitespace().collect();
        site.lab.namespace(node).unwrap().ip(&arguments).unwrap();
    };
    run("isp2", "-6 addr add 2001:db8:a3::1/64 dev a nodad");
    run("isp1", "-6 route add 2001:db8:a3::/64 via 2001:db8:ff::2 dev core");
    site.change(1, &[Advertised::withdrawn(prefix(2)), for_long(prefix(3))]);
    let mut known = Vec::new();
    eventually("the peer to hear of the new prefix", || {
        known = b.contexts().unwrap().into_iter().flat_map(|one| one.peer_locators).collect();
        known.iter().any(|locator| is_in(*locator, 3)) && !known.contains(&old)
    });
    let signed = site.ours(&a, "isp2");
    assert!(signed.iter().any(|own| own.proof == Proof::Cga), "{signed:?}");
    assert!(!site.has_address(old), "withdrawn");
    site.lab.fail(Failure::Silent { router: "isp1".into() }).unwrap();
    let ended = moorline_lab::interrupt::wait_for("the end", Duration::from_secs(40), || {
        Ok(transfer.is_finished().then_some(()))
    });
    assert!(ended.is_ok(), "{}", story(&mut [a, b]));
    assert!(transfer.finish().unwrap().complete);
    let moved = a.events().iter().any(|event| {
        event.kind == EventKind::Moved && event.to.is_some_and(|to| is_in(to.local, 3))
    });
    assert!(moved, "{}", story(&mut [a, b]));
}

/// Router lifetime 0 (RFC 4861 s6.3.4): addresses, link and router are still there. Traffic leaves by the other ISP as
/// soon as the advertisement comes, as after a loss of carrier.
#[test]
fn a_router_that_says_it_is_none_any_more_has_contexts_leave_at_once() {
    let Some(mut site) = Site::build("router lifetime") else { return };
    let mut a = Daemon::start(&site.lab, "a", &options()).unwrap();
    let mut b = Daemon::start(&site.lab, "b", &options()).unwrap();
    site.ours(&a, "isp2");
    let address = site.ours(&a, "isp1")[0].address;
    let client = Endpoint { namespace: site.lab.namespace("a").unwrap().clone(), address };
    let namespace = site.lab.namespace("b").unwrap().clone();
    let server = Endpoint { namespace, address: b.verifiable_address("isp1").unwrap() };
    let sender = Sender::Client;
    let options = TcpOptions { client, server, sender, bytes: 20_000_000, rate: 4_000_000 };
    let transfer = TcpTransfer::start(&options).unwrap();
    for daemon in [&mut a, &mut b] {
        daemon.wait_for(&EventKind::ContextEstablished, Duration::from_secs(10)).unwrap();
    }
    await_standby(&site.lab);
    // The router sends its last advertisement. The path by this router still works.
    drop(site.routers.remove(0));
    a.wait_for(&EventKind::UplinkDown, LIMIT).unwrap();
    a.wait_for(&EventKind::Moved, LIMIT).unwrap();
    let moved = a.events().iter().find(|event| event.kind == EventKind::Moved).cloned().unwrap();
    assert!(moved.to.is_some_and(|to| is_in(to.local, 2)), "{moved:?}");
    // The contexts moved at once, without a timeout or a probe.
    let reason = moved.reason.as_deref().unwrap();
    assert!(["locator_gone", "local_failure"].contains(&reason), "{}", story(&mut [a, b]));
    assert!(site.has_address(address), "sockets have it");
    assert!(transfer.finish().unwrap().complete);
}

#[test]
fn a_duplicate_address_is_replaced_and_told() {
    let Some(site) = Site::build("duplicate") else { return };
    let daemon = Daemon::start(&site.lab, "a", &options()).unwrap();
    let taken = site.ours(&daemon, "isp1")[0].address;
    daemon.stop().unwrap();
    let taken_text = format!("{taken}/64");
    let isp = site.lab.namespace("isp1").unwrap();
    isp.ip(&["-6", "addr", "add", &taken_text, "dev", "a", "nodad"]).unwrap();
    let mut daemon = Daemon::start(&site.lab, "a", &options()).unwrap();
    let told = daemon.wait_for(&EventKind::Warning, Duration::from_secs(10)).unwrap();
    let reason = told.reason.unwrap();
    assert!(reason.starts_with("isp1: another host has our address"), "{reason}");
    assert!(reason.contains(&taken.to_string()), "{reason}");
    let own = site.ours(&daemon, "isp1");
    assert_eq!(own.iter().map(|own| own.collision_count).collect::<Vec<_>>(), [Some(1)]);
    assert_ne!(own[0].address, taken);
    assert!(!site.has_address(taken));
}

#[test]
fn an_address_that_a_person_removes_is_named_stays_away_and_comes_back_by_the_command_that_is_told()
{
    let Some(site) = Site::build("removed address") else { return };
    let daemon = Daemon::start(&site.lab, "a", &options()).unwrap();
    let (removed, other) =
        (site.ours(&daemon, "isp1")[0].address, site.ours(&daemon, "isp2")[0].address);
    let host = site.lab.namespace("a").unwrap();
    let warning = || {
        let warnings = daemon.status().unwrap().warnings;
        warnings.into_iter().find(|one| one.starts_with(&format!("isp1: {removed}, an address of")))
    };
    assert_eq!(warning(), None);
    host.ip(&["-6", "addr", "del", &format!("{removed}/64"), "dev", "isp1"]).unwrap();
    eventually("a warning", || warning().is_some());
    host.ip(&["link", "set", "isp2", "down"]).unwrap();
    eventually("the other uplink to go", || daemon.status().unwrap().uplinks.len() == 1);
    host.ip(&["link", "set", "isp2", "up"]).unwrap();
    assert_eq!(site.ours(&daemon, "isp2")[0].address, other);
    let said = warning().unwrap();
    assert!(!site.has_address(removed), "{said}");
    let command = said.split("To have it back: `ip ").nth(1).unwrap().split('`').next().unwrap();
    host.ip(&command.split(' ').collect::<Vec<_>>()).unwrap();
    eventually("the address to be ours again", || {
        let own = addresses(&daemon, "isp1").into_iter().find(|own| own.address == removed);
        own.is_some_and(|own| own.announced && own.valid_s.is_some_and(|left| left <= 3600))
    });
    assert_eq!(warning(), None);
    daemon.stop().unwrap();
    assert!(!site.has_address(removed), "an end in order removes it");
}

/// Runs one transfer over a cut, between hosts with addresses of these kinds. False if the test is skipped.
fn survives(kinds: [&str; 2]) -> bool {
    let name = format!("{} and {}", kinds[0], kinds[1]);
    let settings = kinds.map(|kind| format!("addresses = \"{kind}\""));
    let Some(mut hosts) = protected_with(&name, settings) else { return false };
    for (daemon, kind) in hosts.daemons.iter().zip(kinds) {
        let of = addresses(daemon, "isp1");
        assert!(of.iter().any(|own| own.proof.as_str() == kind && own.announced), "{of:?}");
    }
    let [client, server] = hosts.ends.clone();
    let sender = Sender::Server;
    let options = TcpOptions { client, server, sender, bytes: 4_000_000, rate: 2_000_000 };
    let transfer = TcpTransfer::start(&options).unwrap();
    hosts.await_context();
    eventually("bytes", || transfer.arrivals().total() > 500_000);
    hosts.lab.fail(Failure::Silent { router: "isp1".into() }).unwrap();
    let ended = moorline_lab::interrupt::wait_for("the end", Duration::from_secs(20), || {
        Ok(transfer.is_finished().then_some(()))
    });
    assert!(ended.is_ok(), "{name}\n{}", hosts.story());
    assert!(transfer.finish().unwrap().complete, "{name}\n{}", hosts.story());
    assert!(hosts.has_moved_to_isp2(), "{name}: nothing moved\n{}", hosts.story());
    true
}

fn survives_with_all(kind: &str) {
    for other in ["cga", "hba", "hba-compatible"] {
        if !survives([kind, other]) {
            return;
        }
    }
}

#[test]
fn a_host_with_cgas_survives_a_cut_whatever_its_peer_has() {
    survives_with_all("cga");
}

#[test]
fn a_host_with_hbas_survives_a_cut_whatever_its_peer_has() {
    survives_with_all("hba");
}

#[test]
fn a_host_with_hbas_and_a_key_survives_a_cut_whatever_its_peer_has() {
    survives_with_all("hba-compatible");
}

#[test]
fn an_address_that_proves_nothing_announces_no_other_and_says_why() {
    let Some(lab) = two_by_two_open("no proof", &[]) else { return };
    let mut daemons = ["a", "b"].map(|host| Daemon::start(&lab, host, &options()).unwrap());
    let better = daemons[0].verifiable_address("isp1").unwrap();
    let ends = ["a", "b"].map(|host| {
        let namespace = lab.namespace(host).unwrap().clone();
        Endpoint { namespace, address: host_address(host, 1) }
    });
    let [client, server] = ends;
    let ulid = client.address;
    let sender = Sender::Server;
    let options = TcpOptions { client, server, sender, bytes: 2_000_000, rate: 2_000_000 };
    let transfer = TcpTransfer::start(&options).unwrap();
    for daemon in &mut daemons {
        daemon.wait_for(&EventKind::ContextEstablished, Duration::from_secs(10)).unwrap();
    }
    let [a, b] = &daemons;
    let own = a.contexts().unwrap();
    assert_eq!(own.iter().map(|one| &one.local_locators[..]).collect::<Vec<_>>(), [[ulid]]);
    let peer = b.contexts().unwrap();
    assert_eq!(peer.iter().map(|one| &one.peer_locators[..]).collect::<Vec<_>>(), [[ulid]]);
    let warnings = a.status().unwrap().warnings;
    let why = format!("1 context uses {ulid}, and peers are told of no other address");
    let fix = format!("Give out {better} instead");
    assert!(warnings.iter().any(|one| one.starts_with(&why) && one.contains(&fix)), "{warnings:?}");
    assert!(transfer.finish().unwrap().complete);
}

#[test]
fn a_full_disk_is_told_in_a_sentence_and_nothing_is_left_half_written() {
    let Some(lab) = two_by_two_open("full disk", &[]) else { return };
    let state = state_directory(&lab, "a").unwrap();
    fs::create_dir(&state).unwrap();
    let size = Some(c"size=64k,mode=700");
    rustix::mount::mount("tmpfs", &state, "tmpfs", MountFlags::empty(), size).unwrap();
    let filler = state.join("filler");
    let error = fs::write(&filler, [0; 128 * 1024]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    let told = Daemon::start(&lab, "a", &options()).err().map(|error| format!("{error:#}"));
    let mut found = walk(&state);
    found.sort();
    let expected = format!(
        "key \"default\": cannot write {}: No space left on device",
        state.join("keys/default.pem").display()
    );
    fs::remove_file(&filler).unwrap();
    let mended = Daemon::start(&lab, "a", &options()).map(Daemon::stop);
    rustix::mount::unmount(&state, rustix::mount::UnmountFlags::DETACH).unwrap();
    let told = told.expect("it cannot start");
    assert!(told.contains(&expected), "{told}");
    assert_eq!(found, [filler, state.join("moorlined.lock")]);
    mended.unwrap().unwrap();
}

/// All files below a folder.
fn walk(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(walk(&path)) } else { found.push(path) }
    }
    found
}

/// A generous limit, because the machine may be busy. A failed test should still say why it failed.
const LIMIT: Duration = Duration::from_secs(20);
