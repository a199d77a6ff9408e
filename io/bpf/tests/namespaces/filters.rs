//! On classic tc, filters and qdiscs of others stay, and ours are removed.

use super::pins::Pins;
use super::*;
use moorline_bpf::ilnp::{IlnpDatapath, IlnpSettings};

/// Adds a qdisc for filters.
const ADD_QDISC: &str = "tc qdisc add dev up1 clsact";
/// Adds a foreign filter for IPv4, which lets packets pass.
const ADD_FILTER: &str =
    "tc filter add dev up1 egress protocol ip prio 99 bpf bytecode 1,6\\ 0\\ 0\\ 0,";

fn has_qdisc(host: &Namespace, name: &str) -> bool {
    host.sh(&format!("tc qdisc show dev {name}")).contains("clsact")
}

/// Numbers of filters on the interface: ours, and those of others.
fn filters(host: &Namespace, name: &str) -> (usize, usize) {
    let show = |way| host.sh(&format!("tc filter show dev {name} {way}"));
    let shown = ["ingress", "egress"].map(show).concat();
    let count = |what| shown.lines().filter(|line| line.contains(what)).count();
    (count("direct-action"), count("bytecode"))
}

fn open_ilnp(namespace: &Namespace, pins: &Pins, attach: AttachMode) -> IlnpDatapath {
    let pin_dir = pins.0.clone();
    let settings = IlnpSettings { max_sessions: 64, pin_dir, attach, ..IlnpSettings::default() };
    namespace.run(|| {
        let mut plane = IlnpDatapath::open(&settings).unwrap();
        plane.attach_uplink(namespace.ifindex("up1")).unwrap();
        plane
    })
}

#[test]
fn filters_of_others_stay_and_without_any_the_qdisc_goes() {
    if !can_run("filters_of_others_stay_and_without_any_the_qdisc_goes") {
        return;
    }
    let net = Net::new("fo");
    let pins = Pins::new("fo");
    for _ in 0..2 {
        let mut plane = open(&net.a, "a", &pins.settings(AttachMode::Tc));
        net.a.sh(ADD_FILTER);
        assert_eq!([filters(&net.a, "up1"), filters(&net.a, "up2")], [(2, 1), (2, 0)]);
        for up in ["up1", "up2"] {
            net.a.run(|| plane.detach_uplink(net.a.ifindex(up)));
        }
        assert_eq!(filters(&net.a, "up1"), (0, 1));
        assert!(!has_qdisc(&net.a, "up2"));

        net.a.run(|| plane.attach_uplink(net.a.ifindex("up1")).unwrap());
        net.a.sh("tc filter del dev up1 egress prio 99");
        net.a.run(|| plane.close().unwrap());
        for name in ["up1", "moor0", "moor1"] {
            assert!(!has_qdisc(&net.a, name), "{name}");
        }
    }
}

#[test]
fn a_qdisc_that_was_there_stays() {
    if !can_run("a_qdisc_that_was_there_stays") {
        return;
    }
    let net = Net::new("fq");
    let pins = Pins::new("fq");
    net.a.sh(ADD_QDISC);
    let plane = open(&net.a, "a", &pins.settings(AttachMode::Tc));
    net.a.run(|| plane.close().unwrap());
    assert!(has_qdisc(&net.a, "up1") && !has_qdisc(&net.a, "up2"));
    assert_eq!(filters(&net.a, "up1"), (0, 0));
}

#[test]
fn a_reset_takes_what_a_killed_process_left_and_no_more() {
    if !can_run("a_reset_takes_what_a_killed_process_left_and_no_more") {
        return;
    }
    let net = Net::new("fr");
    let pins = Pins::new("fr");
    drop(open(&net.a, "a", &pins.settings(AttachMode::Tc)));
    drop(open_ilnp(&net.a, &pins, AttachMode::Tc));
    net.a.sh(ADD_FILTER);
    assert_eq!([filters(&net.a, "up1"), filters(&net.a, "up2")], [(4, 1), (2, 0)]);
    net.a.run(|| Datapath::remove_pins(&pins.0).unwrap());
    assert_eq!(filters(&net.a, "up1"), (0, 1));
    assert!(!has_qdisc(&net.a, "up2"));
    assert!(!pins.0.exists());
}

#[test]
fn the_qdisc_goes_with_the_last_program_of_either_kind() {
    if !can_run("the_qdisc_goes_with_the_last_program_of_either_kind") {
        return;
    }
    let net = Net::new("fl");
    let pins = Pins::new("fl");
    for is_shim6_first in [true, false] {
        let up1 = net.a.ifindex("up1");
        let mut ilnp = open_ilnp(&net.a, &pins, AttachMode::Tc);
        let mut shim6 = open(&net.a, "a", &pins.settings(AttachMode::Tc));
        let mut detach = |is_shim6: bool| {
            net.a.run(|| if is_shim6 { shim6.detach_uplink(up1) } else { ilnp.detach_uplink(up1) });
        };
        detach(is_shim6_first);
        assert_eq!(filters(&net.a, "up1"), (2, 0));
        detach(!is_shim6_first);
        assert!(!has_qdisc(&net.a, "up1"));
        net.a.run(|| ilnp.close().unwrap());
        net.a.run(|| shim6.close().unwrap());
        assert!(!pins.0.exists());
    }
}

/// As after a change of `attach`: no packet passes two programs.
#[test]
fn filters_of_an_earlier_process_give_way_to_tcx_and_back() {
    if !can_run("filters_of_an_earlier_process_give_way_to_tcx_and_back") {
        return;
    }
    let net = Net::new("fk");
    let pins = Pins::new("fk");
    let links = || {
        let pinned = std::fs::read_dir(&pins.0)
            .unwrap()
            .flatten()
            .flat_map(|folder| std::fs::read_dir(folder.path()).into_iter().flatten().flatten());
        pinned.filter(|one| one.file_name().to_string_lossy().starts_with("link-")).count()
    };
    for (attach, filters_of_ours) in
        [(AttachMode::Tc, 4), (AttachMode::Tcx, 0), (AttachMode::Tc, 4)]
    {
        drop(open(&net.a, "a", &pins.settings(attach)));
        drop(open_ilnp(&net.a, &pins, attach));
        assert_eq!(filters(&net.a, "up1"), (filters_of_ours, 0), "{attach:?}");
        assert_eq!(has_qdisc(&net.a, "up1"), filters_of_ours > 0, "{attach:?}");
        assert_eq!(links() > 0, filters_of_ours == 0, "{attach:?}: {}", links());
    }
    net.a.run(|| Datapath::remove_pins(&pins.0).unwrap());
}

#[test]
fn what_cannot_be_marked_is_not_attached() {
    if !can_run("what_cannot_be_marked_is_not_attached") {
        return;
    }
    let net = Net::new("fm");
    let folder = tempfile::tempdir().unwrap();
    let pins = Pins(folder.path().join("bpf"));
    let mut plane = Datapath::open(&pins.settings(AttachMode::Tc)).unwrap();
    let remount = |how| net::sh(&format!("mount -o remount,bind,{how} {}", pins.0.display()));
    // This uplink has a qdisc already, so only the filters would be added.
    net.a.sh(ADD_QDISC);
    remount("ro");
    for up in ["up1", "up2"] {
        assert!(net.a.run(|| plane.attach_uplink(net.a.ifindex(up))).is_err());
        assert_eq!(filters(&net.a, up), (0, 0));
    }
    assert!(!has_qdisc(&net.a, "up2"));
    remount("rw");
    for up in ["up1", "up2"] {
        net.a.run(|| plane.attach_uplink(net.a.ifindex(up)).unwrap());
        assert_eq!(filters(&net.a, up), (2, 0));
    }
}
