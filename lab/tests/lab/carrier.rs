//! A host that loses a carrier moves to its standby path without a question to another host. Needs root, BPF and a
//! built `moorlined`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::common::{await_standby, eventually, protected_afar};
use moorline_api::EventKind;
use moorline_lab::Failure;
use moorline_lab::capture::{Capture, Frame};
use moorline_lab::workload::Direction;

/// Whether the packet has protocol 140 and a payload header (RFC 5533 s5.1).
fn is_payload(frame: &Frame) -> bool {
    frame.ipv6().is_some_and(|packet| packet[6] == 140 && packet[42] & 0x80 != 0)
}

#[test]
fn the_first_packet_after_losing_a_carrier_waits_for_no_answer() {
    let Some(mut hosts) = protected_afar("carrier loss, warm standby path", DELAY) else { return };
    let flow = hosts.datagrams(Direction::BothWays);
    hosts.await_context();
    await_standby(&hosts.lab);
    let host = hosts.lab.namespace("a").unwrap().clone();
    let hardware = hardware_address(&host);
    let capture = Capture::start(&host, "isp2", &hosts.lab.directory("a").unwrap()).unwrap();
    let before = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let failure = Failure::CarrierDown { node: "a".into(), interface: "isp1".into() };
    hosts.lab.fail(failure).unwrap();
    for daemon in &mut hosts.daemons {
        daemon.wait_for(&EventKind::Moved, Duration::from_secs(10)).unwrap();
    }
    let totals = || flow.arrivals().iter().map(|way| way.total()).collect::<Vec<_>>();
    let then = totals();
    hosts.daemons[0].wait_for(&EventKind::Operational, Duration::from_secs(10)).unwrap();
    eventually("datagrams both ways", || {
        totals().iter().zip(&then).all(|(now, then)| *now > then + 100 * 600)
    });
    let frames = capture.finish().unwrap();
    let is_first =
        |frame: &&Frame| frame.at >= before && is_payload(frame) && frame.octets[6..12] == hardware;
    let first = frames.iter().find(is_first).expect("a moved packet").at;
    let events = hosts.daemons[0].events();
    let moved = events.iter().position(|event| event.kind == EventKind::Moved).unwrap();
    let (moved, later) = (&events[moved], &events[moved..]);
    let answered = later.iter().find(|event| event.kind == EventKind::Operational);
    let answered = Duration::from_millis(answered.unwrap().at_unix_ms);
    assert!(first < answered, "first packet at {first:?}, the answer at {answered:?}: {events:?}");
    let known_here = ["locator_gone", "local_failure"];
    assert!(known_here.contains(&moved.reason.as_deref().unwrap()), "{events:?}");
    assert_eq!(flow.finish().unwrap().iter().map(|way| way.damaged).sum::<u64>(), 0);
}

/// Delay in one direction. An answer would take twice as long, and meanwhile many datagrams leave.
const DELAY: Duration = Duration::from_millis(400);

fn hardware_address(host: &moorline_lab::netns::Namespace) -> [u8; 6] {
    let shown = host.ip(&["-br", "link", "show", "isp2"]).unwrap();
    let text = shown.split_whitespace().nth(2).unwrap();
    let octets: Vec<_> =
        text.split(':').map(|octet| u8::from_str_radix(octet, 16).unwrap()).collect();
    octets.try_into().unwrap()
}
