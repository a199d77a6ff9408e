//! A hostile peer lists the locator of a third party, to flood the third party. The peer can prove such a locator: a CGA
//! needs a key and a prefix, and an HBA needs a list of prefixes. Only the answer to a probe shows who is there.

use super::*;

/// The third party is at B2. The peer sees all that goes to B1, sends probes in the name of either locator, and reports
/// all nonces that it has seen as if they had come by each pair.
#[test]
fn payload_goes_to_no_proved_locator_whose_probes_the_peer_does_not_see() {
    let third = locator(B, 2);
    let mut machine = machine();
    let (mut seen, mut to_third, mut came_in, mut nonce) = (Vec::new(), 0, 0, 1);
    for step in 0..600 {
        let now = at(15_000 + 500 * step);
        if step % 20 == 0 {
            machine.handle_send_expired(now - ms(10_000), now);
        }
        let mut sent: Vec<_> = drain(&mut machine).0;
        sent.extend(run(&mut machine, now).into_iter().map(|(_, transmit)| transmit));
        for Transmit { pair, message } in sent {
            let Message::Probe(probe) = message else { continue };
            match pair.peer == third {
                true => to_third += 1,
                false => seen.extend(probe.sent.first().copied()),
            }
        }
        for real in seen.iter().rev().take(4).copied().collect::<Vec<Report>>() {
            let by = |pair: LocatorPair| Report { src: pair.local, dst: pair.peer, ..real };
            let reports = [ab(1, 2), ab(2, 2), ab(1, 1), ab(2, 1)].map(by);
            for state in [State::Exploring, State::InboundOk, State::Operational] {
                for from in [ba(1, 1), ba(2, 1), ba(2, 2)] {
                    (nonce, came_in) = (nonce + 1, came_in + 1);
                    deliver(&mut machine, from, state, nonce, &reports, now).ok();
                    assert_ne!(machine.current_pair().peer, third, "step {step}");
                }
            }
        }
    }
    assert!(to_third > 0 && to_third < came_in, "{to_third} probes for {came_in}");
}
