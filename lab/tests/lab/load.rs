//! Traffic of ILNPv6 correspondents into the network of a lab. Needs root.

use crate::common;
use std::fs::File;
use std::net::Ipv6Addr;
use std::time::Duration;

use moorline_lab::experiment::Watch;
use moorline_lab::load::{Load, Rate, lab_namespace};
use moorline_lab::topology::host_address;
use moorline_lab::{Lab, Namespace, capture::Capture, preflight, topology};
use rustix::mount::{UnmountFlags, mount_bind, unmount};

struct Silent;

impl Watch for Silent {
    fn stage(&mut self, _what: &str) {}
    fn done(&mut self, _part: f64) {}
}

fn short(load: Load) -> Load {
    Load { length: Duration::from_millis(500), ..load }
}

#[test]
fn all_that_is_sent_comes_to_the_other_end_at_its_rate() {
    if common::is_skipped("load", &preflight::check(&[])) {
        return;
    }
    let load =
        Load { echo: Some(200), rate: Some(Rate::PerSecond(3000)), ..Load::of_rank(0, SECOND) };
    let sent = short(load).run(&mut Silent).unwrap();
    let total = sent.echo_requests + sent.made_up;
    assert!(sent.received.unwrap() >= total, "{sent:?}");
    // At least one packet, and at most as many as their time allows, even on a slow machine.
    assert!((1..=101).contains(&sent.echo_requests), "{sent:?}");
    assert!((1..=1501).contains(&sent.made_up), "{sent:?}");
    assert_eq!(sent.octets, total * 90);
}

#[test]
fn threads_at_line_rate_have_correspondents_of_their_own() {
    let Some(lab) = common::two_by_two("line rate", &["tcpdump"]) else { return };
    let a = lab.namespace("a").unwrap();
    let capture =
        Capture::start(lab.namespace("isp1").unwrap(), "a", &lab.directory("isp1").unwrap());
    let capture = capture.unwrap();
    let load = Load {
        from: Some(a.name().to_owned()),
        to: Some(host_address("b", 1)),
        echo: Some(0),
        rate: Some(Rate::Line),
        threads: 2,
        length: Duration::from_millis(20),
        ..Load::of_rank(0, SECOND)
    };
    let sent = load.run(&mut Silent).unwrap();
    assert_eq!((sent.echo_requests, sent.interface.as_str()), (0, "isp1"));
    assert!(sent.made_up >= 64, "{sent:?}");
    let frames = capture.finish().unwrap();
    let nonces = |packet: &&[u8]| packet[6] == 60 && packet[42] == 0x8b;
    let packets: Vec<_> = frames.iter().filter_map(|frame| frame.ipv6()).filter(nonces).collect();
    let sources: std::collections::BTreeSet<_> =
        packets.iter().map(|packet| &packet[8..24]).collect();
    assert!(!packets.is_empty());
    assert_eq!(sources.len(), packets.len(), "no identifier comes twice");
}

#[test]
fn load_goes_into_labs_alone() {
    if common::is_skipped("load into labs", &preflight::check(&[])) {
        return;
    }
    let to: Ipv6Addr = "2001:db8::1".parse().unwrap();
    let into = |from: &str| Load {
        from: Some(from.to_owned()),
        to: Some(to),
        ..short(Load::of_rank(1, SECOND))
    };
    for stranger in ["moor-1-a", "default", "../../proc/1/ns/net", ""] {
        let error = into(stranger).run(&mut Silent).unwrap_err().to_string();
        assert!(error.contains("no namespace of a lab that runs"), "{error}");
    }
    let lab = Lab::build(topology::shared_link(1)).unwrap();
    let name = lab.namespace("a").unwrap().name().to_owned();
    assert_eq!(lab_namespace(&name).unwrap(), Namespace::named(&name));
    // A name like those of the lab, for the machine's own network.
    let path = format!("/run/netns/{}-c", lab.name());
    File::create(&path).unwrap();
    mount_bind("/proc/self/ns/net", &path).unwrap();
    let error = lab_namespace(&format!("{}-c", lab.name())).map_err(|error| error.to_string());
    unmount(&path, UnmountFlags::DETACH).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(error.unwrap_err().contains("network of this machine"));
}

#[test]
fn nothing_is_sent_for_no_time_or_for_a_day() {
    for length in [Duration::ZERO, Duration::from_secs(86_400)] {
        let error = Load::of_rank(1, length).run(&mut Silent).unwrap_err();
        assert!(error.to_string().contains("between a moment and an hour"), "{error}");
    }
}

const SECOND: Duration = Duration::from_secs(1);
