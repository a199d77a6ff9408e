//! A host has lost its contexts, and packets of its peer that are shorter than an R1bis draw none (decision 225).

use std::time::Duration;

use moorline_contexts::{EventKind, Profile};

use super::adaptive::{plan, sound};
use super::seconds;
use crate::plan::{Change, Direction, Kind, Pace, Port, What};

/// Payload of two hosts has left the ULIDs, whose path is dead. Then the second host loses its contexts. Returns how long after
/// that the first host has the context again.
fn renewed(seed: u64, octets: usize, profile: Profile) -> Duration {
    let pace = Pace { octets, interval: INTERVAL };
    let mut plan = plan(Kind::Datagrams { pace, both_ways: true }, RTT);
    for host in &mut plan.hosts {
        (host.send_timeout, host.profile) = (SEND_TIMEOUT, profile);
    }
    let cut = What::Cut { uplink: Port { host: 0, uplink: 0 }, direction: Direction::Both };
    let loss = LOSS + Duration::from_millis(seed % 100 * 7);
    let changes = [(seconds(20), cut), (loss, What::Reboot { host: 1 })];
    plan.changes = changes.map(|(at, what)| Change { at, what }).into();
    (plan.duration, plan.is_full_length) = (LOSS + seconds(60), true);
    let outcome = sound(seed, &plan);
    let mut events = outcome.events.iter().filter(|told| told.host == 0 && told.at >= loss);
    let renewed = events.find(|told| matches!(told.event.kind, EventKind::Renewed));
    renewed.expect("the context comes back").at - loss
}

#[test]
fn payload_that_is_shorter_than_an_r1bis_waits_for_a_probe_of_its_sender() {
    // A check follows a doubt. With RFC 5534 alone probes follow the Send Timeout, and the fourth takes the pair of the payload.
    let probed = SEND_TIMEOUT + Duration::from_millis(500) * 3;
    let answered = INTERVAL + RTT * 2;
    for (profile, doubt) in [(Profile::default(), RTT * 5), (Profile::RFC, probed)] {
        for seed in SEED..SEED + 24 {
            let [short, long] = [8, 200].map(|octets| renewed(seed, octets, profile));
            assert!(long <= answered, "seed {seed}: {long:?}");
            assert!(long < short && short <= doubt + answered, "seed {seed}: {short:?}");
        }
    }
}

const SEED: u64 = 225_000;
const RTT: Duration = Duration::from_millis(40);
const INTERVAL: Duration = Duration::from_millis(50);
const SEND_TIMEOUT: Duration = seconds(5);
/// When the host loses its contexts.
const LOSS: Duration = seconds(60);
