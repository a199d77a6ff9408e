use moorline_types::DropReason;

use super::harness::{Harness, PAIRS};
use crate::ilnp::IlnpSettings;
use crate::ilnp::plane::CONTROLS_AT_ONCE;
use crate::tests::can_run;

const PROPOSE: u8 = 200;
const LOCATOR_UPDATE: u8 = 156;

/// An ICMPv6 message of the correspondent without options.
fn message(kind: u8) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0, 0, 8, 58, 64];
    packet.extend(PAIRS[0].remote.address().octets());
    packet.extend(PAIRS[0].local.address().octets());
    packet.extend([kind, 0, 0, 0, 0, 0, 0, 0]);
    packet
}

#[test]
fn what_is_for_the_core_comes_in_batches_and_all_of_it_in_order() {
    if !can_run("what_is_for_the_core_comes_in_batches_and_all_of_it_in_order") {
        return;
    }
    let harness = Harness::new(&IlnpSettings { max_sessions: 4, ..IlnpSettings::default() });
    let batch = u8::try_from(CONTROLS_AT_ONCE).unwrap();
    let mut sent = Vec::new();
    for number in 0..batch + 5 {
        let mut packet = message(PROPOSE);
        packet[44] = number;
        harness.run("ilnp_ingress", &packet);
        sent.push(packet);
    }
    let mut taken = Vec::new();
    let mut drain = || {
        let more = harness.plane.drain_control(&mut |packet| taken.push(packet.to_vec())).unwrap();
        (more, taken.len())
    };
    assert_eq!(drain(), (true, batch.into()));
    assert_eq!(drain(), (false, usize::from(batch) + 5));
    assert_eq!(drain(), (false, usize::from(batch) + 5));
    assert_eq!(taken, sent);
}

#[test]
fn what_is_for_an_identifier_is_for_the_core_as_long_as_it_is_ours() {
    if !can_run("what_is_for_an_identifier_is_for_the_core_as_long_as_it_is_ours") {
        return;
    }
    let mut harness = Harness::new(&IlnpSettings { max_sessions: 4, ..IlnpSettings::default() });
    let propose = message(PROPOSE);
    let nid = PAIRS[0].local.nid;
    for is_ours in [true, false, true] {
        harness.plane.set_nids(&is_ours.then_some(nid).into_iter().collect()).unwrap();
        for _ in 0..2 {
            harness.run("ilnp_ingress", &propose);
            assert_eq!(harness.controls().len(), usize::from(is_ours));
        }
    }
}

#[test]
fn locator_updates_without_a_nonce_take_no_room_from_what_is_for_the_core() {
    if !can_run("locator_updates_without_a_nonce_take_no_room_from_what_is_for_the_core") {
        return;
    }
    let harness = Harness::new(&IlnpSettings { max_sessions: 4, ..IlnpSettings::default() });
    for _ in 0..1000 {
        harness.run("ilnp_ingress", &message(LOCATOR_UPDATE));
    }
    let propose = message(PROPOSE);
    harness.run("ilnp_ingress", &propose);
    assert_eq!(harness.controls(), [propose]);
    assert_eq!(harness.drops().get(&DropReason::MissingOption), Some(&1000));
    assert_eq!(harness.drops().get(&DropReason::ReportLost), None);
}
