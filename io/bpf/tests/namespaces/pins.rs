//! Tables and programs that are pinned, and so outlive the process.

use moorline_datapath::Plane as _;
use moorline_datapath::shim6::ContextPlane as _;
use std::net::{SocketAddrV6, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::time::Duration;

use moorline_bpf::{AttachMode, Datapath, LeftContexts, Settings};
use moorline_datapath::shim6::{ContextEntry, Report, TriggerPolicy, Update};

use super::net::{Net, address};
use super::{Host, ID, can_run, connect, now, open, settings, transfer};

/// A pin folder that is removed with the test.
pub(super) struct Pins(pub(super) PathBuf);

impl Pins {
    pub(super) fn new(name: &str) -> Self {
        Self(format!("/sys/fs/bpf/moorline-test-{}-{name}", std::process::id()).into())
    }

    pub(super) fn settings(&self, attach: AttachMode) -> Settings {
        Settings { pin_dir: self.0.clone(), ..settings(attach) }
    }
}

impl Drop for Pins {
    fn drop(&mut self) {
        let _ = Datapath::remove_pins(&self.0);
    }
}

/// Both hosts with a connection that has moved to the second uplinks, as the first ones are down.
fn moved(net: &Net, settings: &[Settings; 2]) -> ([Host; 2], [TcpStream; 2]) {
    let mut hosts = [0, 1].map(|at| Host::new(net, ["a", "b"][at], &settings[at]));
    let (mut client, mut server) = connect(net);
    for host in &mut hosts {
        Net::route_over_moor(&host.namespace, address(host.end, 1), address(host.peer, 1));
        let entry = host.entry(2);
        host.upsert(entry);
    }
    net.r.sh("ip link set a1 down; ip link set b1 down");
    transfer(&mut client, &mut server, 100_000);
    (hosts, [client, server])
}

fn moved_traffic_outlives_the_process(attach: AttachMode, tag: &str) {
    let net = Net::new(tag);
    let (pins_a, pins_b) = (Pins::new(&format!("{tag}a")), Pins::new(&format!("{tag}b")));
    let settings = [&pins_a, &pins_b].map(|pins| pins.settings(attach));
    let ([a, _b], [mut client, mut server]) = moved(&net, &settings);
    let entry = a.entry(2);
    let before = a.plane.counters(ID).unwrap();

    // Drop does not detach the pinned programs: this is the state after SIGKILL.
    drop(a);
    transfer(&mut client, &mut server, 100_000);
    let left = LeftContexts::open(&pins_a.0).expect("a pinned table");
    let [(id, found)] = left.pairs_in_use().collect::<Vec<_>>()[..] else { panic!("one context") };
    assert_eq!((id, found.ulids, found.pair), (ID, entry.ulids, entry.current.pair));
    assert_eq!((found.local_tag, found.peer_tag), (entry.local_tag, entry.peer_tag));
    let plane = open(&net.a, "a", &pins_a.settings(attach));
    assert_eq!(plane.contexts().unwrap(), std::slice::from_ref(&entry));
    assert!(plane.counters(ID).unwrap().tx_bytes >= before.tx_bytes + 100_000);
    transfer(&mut client, &mut server, 100_000);

    // The tables are in use, and not only present.
    let mut plane = plane;
    plane.apply(&Update::Remove { context: ID }, now()).unwrap();
    assert_eq!(plane.contexts().unwrap(), []);
    // Another context in the slot, also for packets.
    plane.apply(&Update::Upsert(entry), now()).unwrap();
    transfer(&mut client, &mut server, 100_000);
    plane.apply(&Update::Remove { context: ID }, now()).unwrap();
    net.a.run(|| plane.close().unwrap());
    assert!(!pins_a.0.exists());
    assert!(!net.a.sh("bpftool net; tc filter show dev up1 ingress").contains("uplink"));
}

/// As in a container that starts anew with the BPF file system of its host: each interface has the same index as
/// before.
#[test]
fn programs_in_another_namespace_are_not_taken_for_those_of_this_one() {
    if !can_run("programs_in_another_namespace_are_not_taken_for_those_of_this_one") {
        return;
    }
    let before = Net::new("wheref");
    let (pins_a, pins_b) = (Pins::new("wherea"), Pins::new("whereb"));
    let attach = AttachMode::Auto;
    drop(Host::new(&before, "a", &pins_a.settings(attach)));
    let net = Net::new("wheres");
    // Payload arrives.
    moved(&net, &[&pins_a, &pins_b].map(|pins| pins.settings(attach)));
}

/// Pins of another version, which ours replace.
fn moved_traffic_outlives_the_version(attach: AttachMode, tag: &str) {
    let net = Net::new(tag);
    let (pins_a, pins_b) = (Pins::new(&format!("{tag}a")), Pins::new(&format!("{tag}b")));
    let settings = [&pins_a, &pins_b].map(|pins| pins.settings(attach));
    let ([a, _b], [mut client, mut server]) = moved(&net, &settings);
    let entry = a.entry(2);
    drop(a);
    let mut left = std::fs::read_dir(&pins_a.0).unwrap().map(|entry| entry.unwrap().path());
    let ours = left.find(|path| !path.to_str().unwrap().contains("clsact")).unwrap();
    let older = ours.with_file_name("layout-0123456789abcdef");
    std::fs::rename(&ours, &older).unwrap();

    let mut plane = open(&net.a, "a", &pins_a.settings(attach));
    assert_eq!(plane.contexts().unwrap(), []);
    if attach != AttachMode::Tc {
        // The earlier programs stay at work beside the new ones, which have no context yet.
        transfer(&mut client, &mut server, 100_000);
    }
    plane.apply(&Update::Upsert(entry), now()).unwrap();
    transfer(&mut client, &mut server, 100_000);
    net.a.run(|| plane.remove_stale().unwrap());
    assert!(!older.exists() && ours.exists());
    let before = plane.counters(ID).unwrap().tx_bytes;
    transfer(&mut client, &mut server, 100_000);
    assert!(plane.counters(ID).unwrap().tx_bytes >= before + 100_000);
    net.a.run(|| plane.close().unwrap());
    assert!(!net.a.sh("bpftool net; tc filter show dev up1 ingress").contains("uplink"));
}

#[test]
fn moved_traffic_outlives_another_version_with_tcx() {
    if can_run("moved_traffic_outlives_another_version_with_tcx") {
        moved_traffic_outlives_the_version(AttachMode::Tcx, "vx");
    }
}

#[test]
fn moved_traffic_outlives_another_version_with_classic_tc() {
    if can_run("moved_traffic_outlives_another_version_with_classic_tc") {
        moved_traffic_outlives_the_version(AttachMode::Tc, "vt");
    }
}

#[test]
fn pins_of_another_shape_are_not_taken_over() {
    if !can_run("pins_of_another_shape_are_not_taken_over") {
        return;
    }
    let net = Net::new("ps");
    let pins = Pins::new("ps");
    let mut a = Host::new(&net, "a", &pins.settings(AttachMode::Auto));
    let entry = a.entry(2);
    a.upsert(entry.clone());
    drop(a);
    let mut attached = open(&net.a, "a", &pins.settings(AttachMode::Auto)).attached_before();
    attached.sort_unstable();
    let mut all = ["up1", "up2", "moor0", "moor1"].map(|name| net.a.ifindex(name));
    all.sort_unstable();
    assert_eq!(attached, all);

    // With another size, the tables are empty, and once the old programs may go, none is left on the interfaces.
    let larger = Settings { max_contexts: 128, ..pins.settings(AttachMode::Auto) };
    let plane = net.a.run(|| Datapath::open(&larger).unwrap());
    assert_eq!(plane.contexts().unwrap(), []);
    assert!(plane.attached_before().is_empty());
    let layouts = || {
        let paths = std::fs::read_dir(&pins.0).unwrap().map(|entry| entry.unwrap().path());
        paths.filter(|path| path.to_str().unwrap().contains("/layout-")).count()
    };
    assert_eq!(layouts(), 2);
    drop(plane);
    // With the first size again, its pinned tables are older than the later actions of the host.
    let mut plane = net.a.run(|| Datapath::open(&pins.settings(AttachMode::Auto)).unwrap());
    assert_eq!(plane.contexts().unwrap(), []);
    net.a.run(|| plane.remove_stale().unwrap());
    assert_eq!(layouts(), 1);
    drop(plane);

    // Another version.
    let folder = std::fs::read_dir(&pins.0).unwrap().next().unwrap().unwrap().path();
    let other = pins.0.join("layout-0123456789abcdef");
    std::fs::rename(&folder, &other).unwrap();
    let mut plane = net.a.run(|| Datapath::open(&larger).unwrap());
    assert_eq!(plane.contexts().unwrap(), []);
    net.a.run(|| plane.remove_stale().unwrap());
    assert!(!other.exists());
}

#[test]
fn a_bpffs_is_mounted_where_there_is_none_and_goes_with_the_pins() {
    if !can_run("a_bpffs_is_mounted_where_there_is_none_and_goes_with_the_pins") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let pins = Pins(folder.path().join("run/bpf"));
    let is_mounted = || {
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
        mounts.contains(&format!("{} bpf ", pins.0.display()))
    };
    for _ in 0..2 {
        drop(Datapath::open(&pins.settings(AttachMode::Auto)).unwrap());
        assert!(is_mounted());
    }
    Datapath::remove_pins(&pins.0).unwrap();
    assert!(!is_mounted() && !pins.0.exists());
    // If there is nothing, nothing is removed, and there is no error.
    Datapath::remove_pins(&pins.0).unwrap();
}

#[test]
fn moved_traffic_outlives_the_process_with_tcx() {
    if can_run("moved_traffic_outlives_the_process_with_tcx") {
        moved_traffic_outlives_the_process(AttachMode::Tcx, "px");
    }
}

#[test]
fn moved_traffic_outlives_the_process_with_classic_tc() {
    if can_run("moved_traffic_outlives_the_process_with_classic_tc") {
        moved_traffic_outlives_the_process(AttachMode::Tc, "pt");
    }
}

/// Otherwise a quiet context would stay for ever, and a path would be explored while payload comes in.
#[test]
fn what_one_process_was_told_the_next_is_told_again() {
    if !can_run("what_one_process_was_told_the_next_is_told_again") {
        return;
    }
    let net = Net::new("pg");
    let pins = Pins::new("pg");
    let b = Host::new(&net, "b", &settings(AttachMode::Auto));
    // `a` gives no answer, not even an ICMPv6 error, which would be payload.
    let sink = SocketAddrV6::new(address("a", 1), 9, 0, 0);
    let _sink = net.a.run(|| UdpSocket::bind(sink).unwrap());
    let until_idle = |a: &mut Host| {
        let mut reports = a.wait_for_reports();
        while !matches!(reports.last(), Some(Report::Idle { .. })) {
            reports.extend(a.wait_for_reports());
        }
        reports
    };
    let start = || {
        let mut a = Host::new(&net, "a", &pins.settings(AttachMode::Auto));
        let idle = Duration::from_millis(500);
        let entry = ContextEntry { idle, watch: 1, timers: None, ..a.entry(1) };
        a.upsert(entry.clone());
        (a, entry)
    };
    let (mut a, entry) = start();
    b.send_datagram(10);
    let at = a.plane.counters(ID).unwrap().last_rx;
    let idle = Report::Idle { context: ID, since: at };
    assert_eq!(until_idle(&mut a), [Report::Received { context: ID, at }, idle]);
    a.upsert(entry);
    assert_eq!(a.reports(), []);
    drop(a);

    let (mut a, _) = start();
    assert_eq!(until_idle(&mut a), [idle]);
    b.send_datagram(10);
    let at = a.plane.counters(ID).unwrap().last_rx;
    assert_eq!(a.wait_for_reports(), [Report::Received { context: ID, at }]);
}

/// Traffic counts by the new policy as soon as the new process has the tables, before it is on any interface.
#[test]
fn programs_of_a_process_before_go_by_the_policy_of_the_new_one_at_once() {
    if !can_run("programs_of_a_process_before_go_by_the_policy_of_the_new_one_at_once") {
        return;
    }
    let net = Net::new("pp");
    let pins = Pins::new("pp");
    drop(Host::new(&net, "a", &pins.settings(AttachMode::Auto)));
    let open = |policy: TriggerPolicy| {
        let settings = Settings { triggers: policy.into(), ..pins.settings(AttachMode::Auto) };
        let plane = net.a.run(|| Datapath::open(&settings).unwrap());
        Host { end: "a", peer: "b", namespace: net.a.clone(), plane }
    };
    let mut a = open(TriggerPolicy::NEVER);
    (0..3).for_each(|_| a.send_datagram(1000));
    assert_eq!(a.reports(), []);
    drop(a);
    let mut a = open(TriggerPolicy { packets: 1, ..TriggerPolicy::NEVER });
    a.send_datagram(10);
    assert_eq!(a.wait_for_reports(), [Report::Trigger { ulids: a.ulids() }]);
}

/// Otherwise an uplink that comes back would stay without programs for good.
#[test]
fn filters_are_attached_again_where_somebody_has_removed_the_pins() {
    if can_run("filters_are_attached_again_where_somebody_has_removed_the_pins") {
        check_attached_again("gc", AttachMode::Tc);
    }
}

#[test]
fn programs_of_tcx_are_attached_again_where_somebody_has_removed_the_pins() {
    if can_run("programs_of_tcx_are_attached_again_where_somebody_has_removed_the_pins") {
        check_attached_again("gx", AttachMode::Tcx);
    }
}

fn check_attached_again(tag: &str, attach: AttachMode) {
    let net = Net::new(tag);
    let pins = Pins::new(tag);
    let mut plane = open(&net.a, "a", &pins.settings(attach));
    assert!(plane.is_pinned());
    std::fs::remove_dir_all(&pins.0).unwrap();
    assert!(!plane.is_pinned());
    let up1 = net.a.ifindex("up1");
    net.a.run(|| {
        plane.detach_uplink(up1);
        plane.attach_uplink(up1).unwrap();
    });
    assert!(plane.attached_before().contains(&up1));
    assert!(!plane.is_pinned(), "the tables are not");
}
