//! Time that the programs take, printed and not asserted:
//! `cargo test -p moorline-bpf --lib -- --ignored --nocapture ilnp_cost`.

use moorline_datapath::Plane as _;
use std::time::Duration;

use libbpf_rs::ProgramInput;
use moorline_datapath::ilnp::{ChecksumMode, SessionEntry, Update};
use moorline_types::{IlvPair, Instant, L64, Nid, Nonce, SessionId};

use super::harness::{AWAY, ELSEWHERE, HOME, Harness, PAIRS, THEIR_PORT, UNCONNECTED, our_port};
use crate::ilnp::IlnpSettings;
use crate::load;
use crate::tests::can_run;
use crate::tests::harness::ETHERNET;

/// Number of runs. Each is one call, as most programs change their packet.
const RUNS: usize = 20_000;
const TCP: u8 = 6;
const UDP: u8 = 17;
const NONCE: Nonce = Nonce::Short(*b"them");

#[test]
#[ignore = "a measurement"]
fn ilnp_cost() {
    if !can_run("ilnp_cost") {
        return;
    }
    let settings = IlnpSettings { max_sessions: 64, ..IlnpSettings::default() };
    let mut harness = Harness::new(&settings);
    // The clock stands still, so of the packets of all strangers only the first causes a look for a socket.
    harness.set_now(1_000_000_000);
    // The cost of the measurement itself, to subtract from all other figures.
    let mut other = packet(PAIRS[0], TCP, None);
    other[0] = 0;
    tell(&harness, "nothing", "ilnp_egress", &other);
    strangers(&harness, "no session at all");
    for (unmoved, what) in [(true, "session"), (false, "session that has moved")] {
        harness.plane.apply(&Update::Upsert(session(unmoved)), Instant::ZERO).unwrap();
        let wire = wire(unmoved);
        let nonce = (!unmoved).then_some(NONCE);
        tell(&harness, &format!("{what}, TCP"), "ilnp_egress", &packet(PAIRS[0], TCP, None));
        tell(
            &harness,
            &format!("{what}, TCP"),
            "ilnp_ingress",
            &packet(wire.reversed(), TCP, None),
        );
        tell(&harness, &format!("{what}, UDP"), "ilnp_egress", &packet(PAIRS[0], UDP, None));
        tell(
            &harness,
            &format!("{what}, UDP"),
            "ilnp_ingress",
            &packet(wire.reversed(), UDP, nonce),
        );
    }
    strangers(&harness, "sessions with others");
}

/// Measures packets that belong to no session.
fn strangers(harness: &Harness, what: &str) {
    let mut made_up = PAIRS[3];
    made_up.remote.nid = Nid(0x0600_1234_5678_9abc);
    let from = |nonce| {
        let mut packet = packet(made_up.reversed(), UDP, nonce);
        let at = packet.len() - UPPER_LEN;
        packet[at + 2..at + 4].copy_from_slice(&9_u16.to_be_bytes());
        packet
    };
    tell(harness, &format!("{what}, made-up nonce"), "ilnp_ingress", &from(Some(NONCE)));
    tell(harness, &format!("{what}, no socket"), "ilnp_ingress", &from(None));
    let mut unconnected = from(None);
    unconnected[40 + 2..40 + 4].copy_from_slice(&UNCONNECTED.to_be_bytes());
    tell(harness, &format!("{what}, anybody's socket"), "ilnp_ingress", &unconnected);
    for protocol in [TCP, UDP] {
        let (there, back) =
            (packet(PAIRS[3], protocol, None), packet(PAIRS[3].reversed(), protocol, None));
        tell(harness, &format!("{what}, socket of {protocol}"), "ilnp_egress", &there);
        tell(harness, &format!("{what}, socket of {protocol}"), "ilnp_ingress", &back);
    }
}

fn wire(unmoved: bool) -> IlvPair {
    let pair = PAIRS[0];
    if unmoved { pair } else { IlvPair::new(pair.local.at(AWAY), pair.remote.at(ELSEWHERE)) }
}

/// A session between the addresses of `PAIRS[0]`.
fn session(unmoved: bool) -> SessionEntry {
    let wire = wire(unmoved);
    SessionEntry {
        id: SessionId(1),
        pair: PAIRS[0],
        wire: (wire.local.l64, wire.remote.l64),
        send_nonce: Nonce::Short(*b"ours"),
        attach: false,
        always: false,
        maps_tcp: true,
        settled: true,
        receive_nonce: Some(NONCE),
        remote: [PAIRS[0].remote.l64, ELSEWHERE].into(),
        checksum: ChecksumMode::NidOnly,
        confirming: false,
        watch: false,
    }
}

/// A packet from the first address to the second, with the ports of the sockets of `PAIRS[0]` or `PAIRS[3]`.
pub(super) fn packet(pair: IlvPair, protocol: u8, nonce: Option<Nonce>) -> Vec<u8> {
    let is_ours = |l64: L64| [HOME, AWAY].contains(&l64);
    let index = usize::from([pair.local.nid, pair.remote.nid].contains(&PAIRS[3].remote.nid)) * 3;
    let (ours, theirs) = (our_port(index), our_port(index) + THEIR_PORT);
    let ports = if is_ours(pair.local.l64) { [ours, theirs] } else { [theirs, ours] };
    let mut upper = vec![0x5a; UPPER_LEN];
    upper[..2].copy_from_slice(&ports[0].to_be_bytes());
    upper[2..4].copy_from_slice(&ports[1].to_be_bytes());
    // An acknowledgement without TCP options.
    upper[12..14].copy_from_slice(&[5 << 4, 0x10]);
    let mut rest = Vec::new();
    if let Some(nonce) = nonce {
        rest.extend([protocol, 0, 0x8b, 4]);
        rest.extend_from_slice(nonce.octets());
    }
    rest.extend(upper);
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend(u16::try_from(rest.len()).unwrap().to_be_bytes());
    packet.extend([if nonce.is_some() { 60 } else { protocol }, 64]);
    packet.extend(pair.local.address().octets());
    packet.extend(pair.remote.address().octets());
    packet.extend(rest);
    packet
}

/// Measures runs in a row, and runs after other data have filled the caches.
fn tell(harness: &Harness, what: &str, program: &'static str, packet: &[u8]) {
    let frame = [&ETHERNET, packet].concat();
    let mut others = vec![1_u64; OTHERS / 8];
    let mut median = |runs: usize, is_cold: bool| {
        let mut times: Vec<Duration> = (0..runs)
            .map(|_| {
                if is_cold {
                    others.iter_mut().for_each(|word| *word = word.wrapping_add(1));
                }
                let input = ProgramInput { data_in: Some(&frame), ..ProgramInput::default() };
                load::run(&harness.plane.object, program, input).unwrap().duration
            })
            .collect();
        times.sort_unstable();
        times[runs / 2].as_nanos()
    };
    let (warm, cold) = (median(RUNS, false), median(COLD_RUNS, true));
    println!("{program:13} {what:40} {warm:4} ns, cold {cold:4} ns");
}

const COLD_RUNS: usize = 300;
/// Octets, more than the second-level cache of a processor.
const OTHERS: usize = 8 << 20;
const UPPER_LEN: usize = 200;
