//! Time that the programs take, printed and not asserted: `cargo test -p moorline-bpf -- --ignored --nocapture cost`.

use libbpf_rs::ProgramInput;
use moorline_datapath::Plane as _;
use moorline_datapath::shim6::ContextPlane as _;
use moorline_datapath::shim6::{
    ContextEntry, MAX_TRIGGER_RULES, TriggerPolicy, TriggerRule, Triggers, Update,
};
use moorline_types::{Instant, Path};

use super::can_run;
use super::harness::ETHERNET;
use super::tables::{LOCAL, PEER, entry, packet};
use crate::{Datapath, Settings, load};

const REPEAT: u32 = 2_000_000;

#[test]
#[ignore = "a measurement"]
fn cost() {
    if !can_run("cost") {
        return;
    }
    let settings = Settings { max_contexts: 64, max_flows: 64, ..Settings::default() };
    let mut plane = Datapath::open_unpinned(&settings, false).unwrap();
    let unmoved = entry(1, PEER);
    let current = Path::of(unmoved.ulids, unmoved.ulids.as_locators());
    plane.apply(&Update::Upsert(ContextEntry { current, ..unmoved }), Instant::ZERO).unwrap();
    let stranger = "2001:db8:ffff::1";
    for (what, program, packet) in [
        // The cost of the measurement itself, to subtract from all other figures.
        ("nothing", "moor_gathered", packet(LOCAL, PEER, 1400)),
        ("control message", "uplink_egress", packet_of(140)),
        ("no context", "uplink_egress", packet(LOCAL, stranger, 1400)),
        ("no context", "uplink_ingress", packet(stranger, LOCAL, 1400)),
        ("context not moved", "uplink_egress", packet(LOCAL, PEER, 1400)),
        ("context not moved", "uplink_ingress", packet(PEER, LOCAL, 1400)),
    ] {
        tell(&plane, what, program, &packet);
    }
    // The same segment each time counts as a retransmission, which costs no less than a new segment.
    let mut packets = [packet(LOCAL, PEER, 1400), packet(PEER, LOCAL, 1400)];
    for packet in &mut packets {
        packet[6] = 6;
        packet[40 + 12] = 5 << 4;
    }
    for suspects in [false, true] {
        let unmoved = entry(1, PEER);
        plane
            .apply(&Update::Upsert(ContextEntry { current, suspects, ..unmoved }), Instant::ZERO)
            .unwrap();
        let what = if suspects { "TCP, suspecting" } else { "TCP" };
        for (program, packet) in ["uplink_egress", "uplink_ingress"].into_iter().zip(&packets) {
            tell(&plane, what, program, packet);
        }
    }
    tell(&plane, "datagram, suspecting", "uplink_egress", &packet(LOCAL, PEER, 1400));
    let mut rule = TriggerRule::any(TriggerPolicy::NEVER);
    rule.peer_ports = Some(1..=2);
    for (what, cgroup) in [("64 rules, none fits", None), ("the same with cgroups", Some(1 << 40))]
    {
        let rules = vec![TriggerRule { cgroup, ..rule.clone() }; MAX_TRIGGER_RULES];
        let triggers = Triggers::new(TriggerPolicy::default(), rules).unwrap();
        plane.set_triggers(&triggers).unwrap();
        for program in ["uplink_egress", "uplink_ingress"] {
            let (from, to) =
                if program == "uplink_egress" { (LOCAL, stranger) } else { (stranger, LOCAL) };
            tell(&plane, what, program, &packet(from, to, 1400));
        }
    }
}

fn tell(plane: &Datapath, what: &str, program: &'static str, packet: &[u8]) {
    let frame = [&ETHERNET, packet].concat();
    let input = ProgramInput { data_in: Some(&frame), repeat: REPEAT, ..ProgramInput::default() };
    let output = load::run(&plane.object, program, input).unwrap();
    println!("{program:16} {what:22} {:4} ns", output.duration.as_nanos());
}

fn packet_of(next: u8) -> Vec<u8> {
    let mut packet = packet(LOCAL, PEER, 40);
    packet[6] = next;
    packet
}
